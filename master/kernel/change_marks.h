// change_mark() marks an object that a handler has changed; followers receive the change after the
// commit of the turn. Core thread alone.
//
// A change says which object was modified, not how: many modifications of one object are one
// change, and the hub reads the committed values. Only values that no table holds (the use of an
// agent's slots, the length of a queue) travel with the change as text.
#ifndef MUSTER_MASTER_KERNEL_CHANGE_MARKS_H
#define MUSTER_MASTER_KERNEL_CHANGE_MARKS_H

#include "master/kernel/changes.h"

struct core;
struct experiment;

// `experiment_id`, `trial_id`: 0 if there is none. `name`: the agent, task, pool, metric group,
// checkpoint's uuid or model's id; NULL if there is none. The experiment of a trial may be left
// out.
void change_mark(struct core *c, enum event_topic topic, int64_t experiment_id, int64_t trial_id,
                 const char *name);

// Marks that an experiment is about to leave its workspace. The members of that workspace learn
// that it left, but not its new workspace.
void change_mark_left(struct core *c, const struct experiment *x);

// Marks that a workspace, its projects or its members changed.
void change_mark_workspace(struct core *c, int64_t workspace_id);

#endif
