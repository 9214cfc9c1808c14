// The first process of a task: it builds the task's view of the files and, as the first process of
// the task's pid namespace, inherits processes that lose their parent. When it ends, the kernel
// kills all others of the namespace, so no program can outlive its task, however it forks. The
// ranks are children of the supervisor, which sees their ends and the pids of the machine.
//
// The first process ends with its supervisor. It has no capabilities and is closed to the programs
// of the task. Belongs to the supervisor's thread.
#ifndef MUSTER_AGENT_ISOLATION_TASK_INIT_H
#define MUSTER_AGENT_ISOLATION_TASK_INIT_H

#include <stdbool.h>
#include <sys/types.h>

#include "agent/isolation/task_view.h"

// For task_view.patience_s: long enough for a file server that starts. The supervisor takes no
// commands meanwhile.
enum { TASK_INIT_PATIENCE_S = 120 };

struct task_init {
    pid_t pid;           // of the machine; 0: there is none, or it has been waited for
    int control;         // -1: closed
    int mount_namespace; // for confinement.mount_namespace
    ino_t pid_namespace; // 0: the processes of the task share the machine's
};

// Starts it. Children that this process forks later are in the task's pid namespace. An error names
// the step, and report->failed the protection that this machine cannot give. ERR_TIMEOUT: a file
// system does not answer.
int task_init_start(const struct task_view *view, struct task_init *out, struct view_report *report,
                    struct error *e);

// Lets it end as soon as no process of the namespace is left but children of this process.
void task_init_finish(struct task_init *t);

// Kills it, and with it all processes of the namespace.
void task_init_kill(const struct task_init *t);

// Whether the namespace has processes besides it and children of this process, as far as the kernel
// can tell without a look at all processes. True: maybe.
bool task_init_has_children(const struct task_init *t);

void task_init_close(struct task_init *t); // closes the descriptors

#endif
