// The supervisor: a small process for each task, which outlives the agent. It owns the pipes of the
// ranks, their exit codes and the log spool, and writes the status after every change, so that the
// next agent knows the state whichever process dies.
//
// It starts with these descriptors: 0 is the task's lock, held; 1 its listening socket; 2 the
// agent's log. To an agent that connects to the socket it sends the status, and again after every
// change: one JSON object on each line. It reads lines {"kill": SECONDS}: end all processes, by
// SIGKILL after so many seconds; and {"end": SECONDS, "reason": TEXT}: the same, but the task has
// failed for this reason.
//
// The ranks die with it (PR_SET_PDEATHSIG), and so does the first process of the task
// (agent/isolation/task_init.h), with which the kernel ends all others. Where the machine permits
// no pid namespace, the supervisor adopts orphaned descendants of the ranks
// (PR_SET_CHILD_SUBREAPER). It ends them before it reports EXITED.
#ifndef MUSTER_AGENT_SUPERVISOR_SUPERVISOR_H
#define MUSTER_AGENT_SUPERVISOR_SUPERVISOR_H

#include "base/error.h"

enum {
    SUPERVISOR_PEER_GRACE_S = 5, // from SIGTERM to SIGKILL after another rank has failed
};

// The reason of a task whose supervisor ended before it.
#define SUPERVISOR_LOST "supervisor lost"

// Runs the task in DIR to its end. On an error nothing was started, and the status says so if it
// can be written.
int supervisor_run(const char *dir, struct error *e);

#endif
