// The control group (cgroup version 2) of a task: it limits the task's processes and memory, shares
// processor time by slots, counts processes that the kernel kills for lack of memory, and ends all
// processes at once. The agent prepares the folder of groups at its start; the supervisor, which
// stays outside, creates and removes the group of its task. Functions work on the kernel's files;
// any thread. Where the kernel lacks a controller, its limit has no effect and the others have.
#ifndef MUSTER_AGENT_SUPERVISOR_CGROUP_H
#define MUSTER_AGENT_SUPERVISOR_CGROUP_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"

enum cgroup_controller { // bits
    CGROUP_PIDS = 1,
    CGROUP_MEMORY = 2,
    CGROUP_CPU = 4,
    CGROUP_ALL = 7,
};

struct cgroup_limits {
    int64_t processes; // and threads; 0: no limit
    int64_t memory;    // bytes; 0: no limit. Beyond it the kernel kills the task as a whole
    int64_t slots;     // its share of processor time, by weight; 0 counts as 1
};

struct cgroup; // opaque

// --- agent ---------------------------------------------------------------------------------------

// Prepares the folder `name` for this agent's groups. `delegated`: the path of a cgroup for it, as
// /proc/self/cgroup writes paths; NULL: the root of the hierarchy if this process is root,
// otherwise its own cgroup, in which it must be alone. There it moves to a child, because a group
// with limited children may have no processes. *folder: heap string, an absolute path.
// *controllers: those that work there. ERR_FORBIDDEN: there is none; the text says why.
int cgroup_prepare(const char *delegated, const char *name, char **folder, unsigned *controllers,
                   struct error *e);

// Kills the processes of the group `task_id` in `folder`, and removes it if they have ended. For
// tasks whose supervisor was lost. Does nothing if there is no group.
void cgroup_clear(const char *folder, const char *task_id);

// --- supervisor ----------------------------------------------------------------------------------

// Creates the group of a task. Removes an old, empty one of this name. ERR_IO, ERR_FORBIDDEN: the
// task can run without it.
int cgroup_create(const char *folder, const char *task_id, const struct cgroup_limits *limits,
                  struct cgroup **out, struct error *e);

// The descriptor through which a child joins; close-on-exec, of the group, valid until
// cgroup_close(). It may be used after the child has changed its account and mounts.
int cgroup_fd(const struct cgroup *g);
// Moves the calling process, which has one thread, to the group of a descriptor of cgroup_fd().
// Between fork and exec: calls write(2) only. False: errno is set.
bool cgroup_enter(int fd);

// The controllers whose limits are in force.
unsigned cgroup_controllers(const struct cgroup *g);
// How often the kernel has killed a process of the group for lack of memory; -1: it does not count.
int64_t cgroup_memory_kills(const struct cgroup *g);
// Whether a process of the group could not be started because of the limit of processes.
bool cgroup_refused_process(const struct cgroup *g);
bool cgroup_populated(const struct cgroup *g); // whether it has live processes

// Sends SIGKILL to all processes of the group, also to those that start meanwhile. NULL: none.
void cgroup_kill(struct cgroup *g);
// Removes the group if it has no process, and frees it. NULL: none.
void cgroup_close(struct cgroup *g);

// --- texts of the kernel: pure -------------------------------------------------------------------

unsigned cgroup_parse_controllers(const char *text); // of a file such as cgroup.controllers
// The mount point of version 2 in the text of /proc/self/mountinfo, and the path of the caller's
// group in that of /proc/self/cgroup. Heap strings; NULL: there is none.
char *cgroup_parse_mount(const char *mountinfo);
char *cgroup_parse_own(const char *text);
int64_t cgroup_weight(int64_t slots); // cpu.weight

#endif
