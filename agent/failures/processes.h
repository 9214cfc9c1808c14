// Describes the calls in which the processes of a task wait, as /proc shows them. Any thread.
#ifndef MUSTER_AGENT_FAILURES_PROCESSES_H
#define MUSTER_AGENT_FAILURES_PROCESSES_H

#include <stddef.h>
#include <sys/types.h>

// Describes what a rank does, by the process that has worked most and does not only wait for a
// child: "waits for a socket (recvfrom)", "sleeps (clock_nanosleep)", "is stopped". `rank`: the
// process that leads the rank's group; its descendants count, too, because launchers such as
// torchrun start their workers in sessions of their own.
void processes_describe(pid_t rank, char *out, size_t cap);

#endif
