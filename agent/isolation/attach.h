// Folders and files that one process takes out of the machine's view of the files and puts at a
// path of another view, with mounts. Belongs to the thread that owns the mount namespace.
#ifndef MUSTER_AGENT_ISOLATION_ATTACH_H
#define MUSTER_AGENT_ISOLATION_ATTACH_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>

#include "agent/isolation/account.h"
#include "base/error.h"

// A descriptor of the folder or file with all that is mounted below it now; later mounts over the
// path do not change it. The caller closes it. -1: errno is set.
int attach_clone(const char *path);

// Writes where the open file or folder is, once all links are resolved. False: errno is set.
bool attach_path(int fd, char real[PATH_MAX]);

// Opens a path that a user has named, with the rights of the task's account: root could open what
// lies in a folder that the account may not enter. Writes where it is once all links are resolved.
// The caller closes the descriptor. -1: errno is set.
int attach_open(const char *path, const struct task_account *account, char real[PATH_MAX]);

// A clone as of attach_clone of what attach_open has opened. Closes `fd`.
int attach_clone_open(int fd);

// Mounts a clone at `path`, which is created, with its parents, where it is missing. `attributes`:
// MOUNT_ATTR_* to set for all of it. The clone cannot be used again.
int attach_at(int clone, const char *path, uint64_t attributes, struct error *e);

// Creates the folder or empty file `path` with its parents, for a mount.
int attach_make_point(const char *path, bool folder, struct error *e);

#endif
