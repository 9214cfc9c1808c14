// Files: durable writes, limited reads, folders. Paths are absolute or relative to the process.
#ifndef MUSTER_BASE_OS_FILE_H
#define MUSTER_BASE_OS_FILE_H

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

// A regular file called `name` (one part) in the folder of descriptor `dir`, which others may write
// to: no link is followed and nothing waits for a pipe or a device. ERR_NOT_FOUND, ERR_INVALID: it
// is no regular file; ERR_IO. *fd is the caller's. `shown` stands in messages.
int file_open_plain(int dir, const char *name, const char *shown, int *fd, struct error *e);
// Reads all of an open file, like file_read().
int file_read_fd(int fd, const char *shown, size_t limit, char **out, size_t *len, struct error *e);

int dir_make(const char *path, unsigned mode, struct error *e); // with parents; existing is fine
int dir_remove_tree(const char *path, struct error *e); // never follows links; absent is fine
int dir_remove_tree_at(int parent, const char *name, struct error *e); // `name`: one part

// Opens a folder whose path is trusted; its links are followed. *fd is the caller's. ERR_NOT_FOUND,
// ERR_INVALID: it is no folder.
int dir_open(const char *path, int *fd, struct error *e);
// Opens the folder `relative` (by path_is_inside(), or "": itself) below the folder of descriptor
// `root`, to whose contents others may write: each part of the way is a folder, none is a link.
// ERR_NOT_FOUND, ERR_INVALID: a part is a link or no folder. `shown` stands in messages.
int dir_open_below(int root, const char *relative, const char *shown, int *fd, struct error *e);

bool path_exists(const char *path);
char *path_join(const char *a, const char *b); // heap string, one slash between

// A relative path that stays inside its folder: no "..", no leading "/", no empty part, no NUL,
// at most 1,024 bytes. For names that come from outside.
bool path_is_inside(const char *relative);

#endif
