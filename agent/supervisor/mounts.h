// Folders of the machine that a task sees under other names: checkpoint storage of type shared_fs
// at /determined_shared_fs, and bind_mounts of the configuration. The mounts exist in the task's
// own mount namespace and disappear with its last process. They give no access that the task's user
// does not have: the kernel checks the permissions of files as before.
#ifndef MUSTER_AGENT_SUPERVISOR_MOUNTS_H
#define MUSTER_AGENT_SUPERVISOR_MOUNTS_H

#include <jansson.h>
#include <stdbool.h>

#include "base/error.h"

struct mount_places {       // of the agent; a mount never covers them
    const char *dir;        // of the task, WORK-DIR/tasks/ID
    const char *token_file; // NULL: unknown
};

// Makes the mounts [{source, target, readOnly, propagation, required}] of a task's specification,
// after sandbox_enter() and sandbox_hide_others(). A relative target is below the working folder. A
// target that does not exist is created if the agent's user may do so. The error names the paths.
int mounts_make(const json_t *mounts, const struct mount_places *places, struct error *e);

// Whether the task cannot do without one of them.
bool mounts_required(const json_t *mounts);

// Whether `target`, an absolute path without links, may be covered. ERR_FORBIDDEN names the reason.
int mounts_check_target(const char *target, const struct mount_places *places, struct error *e);

// Whether tasks of this agent can have a mount at /determined_shared_fs: looks in a child process,
// before the agent has threads. ERR_FORBIDDEN: they cannot; the text says why, and what to do.
int mounts_probe(struct error *e);

#endif
