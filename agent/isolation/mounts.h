// Folders of the machine that a task sees under other names: checkpoint storage of type shared_fs
// at /determined_shared_fs, and bind_mounts of the configuration. The mounts exist in the task's
// own mount namespace and disappear with its last process. They give no access that the task's user
// does not have: they are opened with the rights of the task's account.
#ifndef MUSTER_AGENT_ISOLATION_MOUNTS_H
#define MUSTER_AGENT_ISOLATION_MOUNTS_H

#include <jansson.h>
#include <stdbool.h>

#include "agent/isolation/account.h"
#include "base/error.h"

struct mount_places {                   // of the agent; a mount never covers them
    const char *dir;                    // of the task, WORK-DIR/tasks/ID
    const char *token_file;             // NULL: unknown
    const struct task_account *account; // of the task
};

// Descriptors of the sources (isolation/attach.h), one for each mount, of those in /tmp and
// /var/tmp: to be called before a task gets folders of its own there. -1: to be opened later, in
// the task's view, where the folders of other tasks are hidden. The caller frees the list.
int *mounts_open_sources(const json_t *mounts, const struct mount_places *places);

// Makes the mounts [{source, target, readOnly, propagation, required}] of a task's specification,
// after everything is hidden that the task may not see. A relative target is below the working
// folder. A target that does not exist is created if the task's account may do so. Closes
// `sources`. The error names the paths.
int mounts_make(const json_t *mounts, const int *sources, const struct mount_places *places,
                struct error *e);

// Makes the control groups read-only in this view: those of an agent that is not root belong to the
// account of its tasks, which could leave their limits, and kill other tasks and the agent.
int mounts_protect_cgroups(struct error *e);

// Whether the task cannot do without one of them.
bool mounts_required(const json_t *mounts);

// Whether `target`, an absolute path without links, may be covered. ERR_FORBIDDEN names the reason.
int mounts_check_target(const char *target, const struct mount_places *places, struct error *e);

// Whether tasks of this agent can have a mount at /determined_shared_fs. ERR_FORBIDDEN: they
// cannot; the text says why, and what to do.
int mounts_probe(struct error *e);

// Whether `path` lies where each task has a folder of its own: in /tmp or /var/tmp.
bool mounts_is_temporary(const char *path);

#endif
