// The folders of a machine that a task sees under other names: bind_mounts of its configuration,
// and the host_path of checkpoint storage of type shared_fs. Pure functions; any thread.
#ifndef MUSTER_API_CONFIG_MOUNTS_H
#define MUSTER_API_CONFIG_MOUNTS_H

#include <jansson.h>
#include <stdbool.h>

#include "base/error.h"

// Determined's client writes checkpoints of type shared_fs to this path and below.
#define SHARED_FS_MOUNT "/determined_shared_fs"

// Checks bind_mounts: absolute paths of the machine, and places that may be covered. ERR_INVALID
// names the entry.
int bind_mounts_check(const json_t *bind_mounts, struct error *e);

// Whether the configuration has a bind mount that must be made; one that shows a folder under its
// own name need not, except in /tmp and /var/tmp, of which each task has its own.
bool bind_mounts_present(const json_t *config);

// Whether a trial with this configuration needs its storage at SHARED_FS_MOUNT. The native trainer
// writes to the path on the machine.
bool shared_fs_needed(const json_t *config);

// The mounts of a task, as its agent makes them: [{source, target, readOnly, propagation,
// required}]. `trial`: it is a trial, which has checkpoint storage. The caller owns the list.
json_t *mounts_of_config(const json_t *config, bool trial);

#endif
