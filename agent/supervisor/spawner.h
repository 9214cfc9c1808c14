// Starts the supervisors of the agent's tasks: `muster-supervisor FOLDER`, one process beside the
// agent, forks for each task. It has loaded little and done nothing yet, so a start costs 0.2 ms;
// loading a program with all the libraries of the agent would take 7. Supervisors are in sessions
// of their own and outlive both.
//
// The spawner ends with its agent. One that was killed is started anew when the next task comes.
// Belongs to the event loop's thread.
#ifndef MUSTER_AGENT_SUPERVISOR_SPAWNER_H
#define MUSTER_AGENT_SUPERVISOR_SPAWNER_H

#include "base/error.h"

struct spawner; // opaque

// `program`: muster-supervisor; `folder`: where the folders of the tasks are. Both are copied.
int spawner_open(const char *program, const char *folder, struct spawner **out, struct error *e);
void spawner_close(struct spawner *s); // NULL is allowed

// Starts a supervisor for the task FOLDER/ID, whose specification is written.
int spawner_supervise(struct spawner *s, const char *id, struct error *e);

// The process itself: until the agent goes, and in each supervisor until its task has ended.
int spawner_run(const char *folder, struct error *e);

#endif
