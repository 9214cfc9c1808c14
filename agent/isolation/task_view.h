// A task's view of the machine's files. Mounts hide the agent's folder with the folders of other
// tasks, the agent's token, sessions of signed-in users, the devices of the machine and its other
// processes, and give the task folders of its own for temporary files. Checkpoint storage and
// Muster's programs stay visible at their paths, and so do all other files, as far as their
// permissions allow. The task's first process builds the view (isolation/task_init.h), in a mount
// namespace of its own.
#ifndef MUSTER_AGENT_ISOLATION_TASK_VIEW_H
#define MUSTER_AGENT_ISOLATION_TASK_VIEW_H

#include <jansson.h>

#include "agent/isolation/account.h"
#include "agent/supervisor/protections.h"
#include "base/error.h"

struct task_view {
    const char *dir;    // of the task, WORK-DIR/tasks/ID, absolute
    const json_t *spec; // tasks/task_spec.h
    const struct task_account *account;
    unsigned protections; // 1 << enum protection_id
    int patience_s;       // for file systems that do not answer
};

// What the building of a view reports.
struct view_report {
    enum protection_id failed;    // with an error: the protection; PROTECTION_COUNT: none
    char warning[ERROR_TEXT_MAX]; // the task can run without this; "": nothing
};

int task_view_build(const struct task_view *v, struct view_report *report, struct error *e);

// The paths in the environment of a task that stay visible, [PATH]: the certificate of the master
// and checkpoint storage. Users can name others there. The caller owns the list. Pure.
json_t *task_view_named_paths(const json_t *spec);

static inline bool task_view_has(const struct task_view *v, enum protection_id id)
{
    return v->protections & 1u << id;
}

#endif
