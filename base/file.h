// Files: durable writes, limited reads, folders. Paths are absolute or relative to the process.
#ifndef MUSTER_BASE_FILE_H
#define MUSTER_BASE_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

// Writes aside (PATH.tmp.PID), fsync, rename, fsync of the folder. All or nothing.
int file_write_durable(const char *path, const void *data, size_t len, unsigned mode,
                       struct error *e);
int file_write_all(int fd, const void *data, size_t len); // whole buffer; ERR_IO
// The whole file as a heap string with a NUL after it. ERR_NOT_FOUND, ERR_TOO_LARGE, ERR_IO.
int file_read(const char *path, size_t limit, char **out, size_t *len, struct error *e);
int file_sync_dir(const char *dir, struct error *e);

int dir_make(const char *path, unsigned mode, struct error *e); // with parents; existing is fine
int dir_remove_tree(const char *path, struct error *e); // never follows links; absent is fine
bool path_exists(const char *path);
char *path_join(const char *a, const char *b); // heap string, one slash between

// A relative path that stays inside its folder: no "..", no leading "/", no empty part, no NUL,
// at most 1,024 bytes. For names that come from outside.
bool path_is_inside(const char *relative);

#endif
