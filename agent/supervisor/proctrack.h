// Finds the processes of a task that is to end and signals them, also those that left their process
// group or lost their parent. Reads /proc; any thread.
#ifndef MUSTER_AGENT_SUPERVISOR_PROCTRACK_H
#define MUSTER_AGENT_SUPERVISOR_PROCTRACK_H

#include <stddef.h>
#include <sys/types.h>

// A process that matches any of these is the task's; the caller itself never is.
struct sweep {
    const char *marker; // "NAME=VALUE" in its environment
    pid_t session;      // its session, 0: any is not enough
    pid_t parent;       // its parent, 0: likewise
    // The task's by an earlier look. A process that is dying has no environment any more, but may
    // hold its memory, ports and devices for seconds.
    const pid_t *known;
    size_t known_count;
};

// Sends `signal` (0: none) to each, once; gives how many live. Zombies do not count. No process
// that took over a pid meanwhile can be hit.
size_t sweep_processes(const struct sweep *s, int signal);

// Kills each process that carries the marker of a task in `folder` (absolute), if the task's own
// folder is missing both where the process looks and where the caller looks: no supervisor watches
// over it. Gives how many.
size_t sweep_strays(const char *folder);

#endif
