// Finds and signals the processes of a task, also those that have left their process group or lost
// their parent. Reads /proc; any thread.
#ifndef MUSTER_AGENT_SUPERVISOR_PROCTRACK_H
#define MUSTER_AGENT_SUPERVISOR_PROCTRACK_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

// A process belongs to the task if it matches any of these; the calling process never does.
struct process_filter {
    // "NAME=VALUE" in its environment. A task with a pid namespace has no other processes in those
    // of other tasks, whose environments are not read.
    const char *marker;
    pid_t session;       // its session; 0: not used
    pid_t parent;        // its parent; 0: not used
    ino_t pid_namespace; // the inode of its pid namespace; 0: not used
    pid_t init; // the first process of the namespace, which never matches; 0: there is none
    // Processes that are known to be the task's. A dying process no longer has an environment, but
    // may hold memory, ports and devices for seconds.
    const pid_t *known;
    size_t known_count;
};

// Sends `signal` (0: none) to each process, once, and returns the number of live processes. Zombies
// do not count. Never signals a process that has reused a pid.
size_t proctrack_signal(const struct process_filter *filter, int signal);

// Counts the live processes of the pid namespace whose first process `init` is ending, which the
// kernel has killed; 0 if it is not ending. `init` and zombies do not count: the kernel keeps
// `init` until the parents of all the others have waited for them (wait(2)), which can take
// seconds. Where the caller may not look at the namespace, `init` counts until it is gone.
size_t proctrack_count_ending(pid_t init);

// Returns the processor time of these processes, in microseconds.
int64_t proctrack_cpu(const struct process_filter *filter);

// Kills the processes of tasks in `folder` (absolute) that have no supervisor any more: they carry
// the marker of a task whose own folder exists neither in their view of the file system nor in the
// caller's. Processes in other pid namespaces have ended with their supervisors. Returns their
// number.
size_t proctrack_kill_orphans(const char *folder);

#endif
