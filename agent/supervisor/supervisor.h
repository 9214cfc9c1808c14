// The supervisor: one small process per task (spawner.h), which outlives the agent. It keeps the
// ranks' pipes, their exit codes and the log spool, and writes the status at every change, so that
// whatever dies, the agent that comes next knows what happened.
//
// It begins with descriptor 0 the task's lock, held; 1 its listening socket; 2 the agent's log.
// On the socket it writes its status, one JSON object a line: the present one
// to whoever connects, then each change. It reads {"kill": SECONDS} lines: end everything, at last
// by SIGKILL after so many seconds.
//
// Ranks die with it (PR_SET_PDEATHSIG); their children, grandchildren and whatever they left behind
// come to it (PR_SET_CHILD_SUBREAPER) and are ended before it says EXITED.
#ifndef MUSTER_AGENT_SUPERVISOR_SUPERVISOR_H
#define MUSTER_AGENT_SUPERVISOR_SUPERVISOR_H

#include "base/error.h"

enum {
    SUPERVISOR_PEER_GRACE_S = 5, // SIGTERM to SIGKILL when another rank failed
};

// Why a task ended whose supervisor did not see the end.
#define SUPERVISOR_LOST "supervisor lost"

// Runs the task in DIR to its end. An error: nothing was started; its status says so if it can.
int supervisor_run(const char *dir, struct error *e);

#endif
