// Starts the supervisors of the agent's tasks. The spawner is a separate process,
// `muster-supervisor FOLDER`, which forks a supervisor for each task. It has few libraries loaded,
// so a start costs 0.2 ms; loading a program with the agent's libraries would take 7 ms. Each
// supervisor has a session of its own and outlives both the spawner and the agent.
//
// The spawner ends with its agent. If it is killed, the agent starts another with the next task.
// Belongs to the event loop's thread.
#ifndef MUSTER_AGENT_SUPERVISOR_SPAWNER_H
#define MUSTER_AGENT_SUPERVISOR_SPAWNER_H

#include "base/error.h"

struct spawner; // opaque

// `program`: muster-supervisor; `folder`: the folder of the tasks. Both are copied.
int spawner_open(const char *program, const char *folder, struct spawner **out, struct error *e);
void spawner_close(struct spawner *s); // NULL is allowed

// Starts a supervisor for the task FOLDER/ID, whose specification is written.
int spawner_supervise(struct spawner *s, const char *id, struct error *e);

// The main function of the spawner; returns when the agent has ended. It also returns in each
// forked supervisor, when its task has ended.
int spawner_run(const char *folder, struct error *e);

#endif
