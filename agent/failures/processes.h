// Describes the calls in which the processes of a task wait, as /proc shows them. Any thread.
#ifndef MUSTER_AGENT_FAILURES_PROCESSES_H
#define MUSTER_AGENT_FAILURES_PROCESSES_H

#include <stddef.h>
#include <sys/types.h>

// Describes what the processes of a group do, by the one that works and does not only wait for a
// child: "waits for a socket (recvfrom)", "sleeps (clock_nanosleep)", "is stopped".
void processes_describe(pid_t group, char *out, size_t cap);

#endif
