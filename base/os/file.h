// Files and folders: durable writes, reads with a limit, removal. `label` names a file in messages.
#ifndef MUSTER_BASE_OS_FILE_H
#define MUSTER_BASE_OS_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

// Replaces the file as a whole or not at all: writes PATH.tmp.PID, calls fsync, renames it, and
// calls fsync for the folder.
int file_write_durable(const char *path, const void *data, size_t len, unsigned mode,
                       struct error *e);
int file_write_all(int fd, const void *data, size_t len); // the whole buffer; ERR_IO
// Reads the whole file into a heap string and adds a NUL. ERR_NOT_FOUND, ERR_TOO_LARGE, ERR_IO.
int file_read(const char *path, size_t limit, char **out, size_t *len, struct error *e);
int file_sync_dir(const char *dir, struct error *e);

// Opens the regular file `name` (one path component) in the folder of descriptor `dir`. Safe in a
// folder that others may write to: it follows no link and does not block on a pipe or a device.
// ERR_NOT_FOUND, ERR_INVALID (not a regular file), ERR_IO. The caller closes *fd.
int file_open_regular(int dir, const char *name, const char *label, int *fd, struct error *e);
// Reads all of an open file, as file_read() does.
int file_read_fd(int fd, const char *label, size_t limit, char **out, size_t *len, struct error *e);

int dir_make(const char *path, unsigned mode, struct error *e); // with parents; it may exist
// Opens the folder `name` of folder `parent` for reading, but no link. A folder of the caller whose
// mode lacks one of `rights` (0700: of its owner) gets it, since its programs may have taken them
// away. -1: errno is set.
int dir_open_owned(int parent, const char *name, unsigned rights);
int dir_remove_tree(const char *path, struct error *e); // follows no links; it may be absent
int dir_remove_tree_at(int parent, const char *name, struct error *e); // `name`: one component

// Opens a folder by a trusted path, whose links are followed. The caller closes *fd.
// ERR_NOT_FOUND, ERR_INVALID (not a folder).
int dir_open(const char *path, int *fd, struct error *e);
// Opens the folder `relative` (see path_is_inside(); "" is the folder itself) below the folder of
// descriptor `root`. Safe in a folder that others may write to: it follows no links.
// ERR_NOT_FOUND, ERR_INVALID (a component is a link or not a folder).
int dir_open_below(int root, const char *relative, const char *label, int *fd, struct error *e);

bool path_exists(const char *path);
char *path_join(const char *a, const char *b); // "A/B" with one slash; heap string

// Returns whether a relative path from an untrusted source stays inside its folder: no "..", no
// "/" at its start, no empty component, at most 1,024 bytes.
bool path_is_inside(const char *relative);
// Whether `path` is `folder` or below it. Both are absolute, without "..", links and double
// slashes.
bool path_is_within(const char *path, const char *folder);

#endif
