// Starts the supervisors of the agent's tasks: `muster-agent --supervise FOLDER`, one small process
// beside the agent, which forks for each task. So a start costs a fork of a process that has done
// nothing yet, and not the loading of a program and all its libraries (7 ms), and the agent, which
// has threads, need not be forked. Supervisors are in sessions of their own and outlive both.
//
// The spawner ends with its agent. One that was killed is started anew when the next task comes.
// Belongs to the event loop's thread.
#ifndef MUSTER_AGENT_SPAWNER_H
#define MUSTER_AGENT_SPAWNER_H

#include "base/error.h"

struct spawner; // opaque

// `program`: this one; `folder`: where the folders of the tasks are. Both are copied.
struct spawner *spawner_new(const char *program, const char *folder);
void spawner_free(struct spawner *s); // NULL is allowed

// Starts a supervisor for the task FOLDER/ID, whose spec.json is written.
int spawner_supervise(struct spawner *s, const char *id, struct error *e);

// The process itself: until the agent goes, and in each supervisor until its task has ended.
int spawner_run(const char *folder, struct error *e);

#endif
