// What changed, for those who follow: a handler says so with core_event() when it changes
// something; followers hear of it after the commit of the turn. Core thread alone.
//
// A note says what changed, not how: many changes of one thing are one note, and who hears it reads
// the committed store. Only what no table holds, the use of an agent's slots and the length of a
// queue, goes along as text.
#ifndef MUSTER_MASTER_KERNEL_CHANGE_EVENTS_H
#define MUSTER_MASTER_KERNEL_CHANGE_EVENTS_H

#include "master/kernel/changes.h"

struct core;
struct experiment;

// `experiment_id`, `trial_id` 0: of none. `name`: the agent, task, pool, group of metrics, uuid of
// the checkpoint, id of the model; NULL: none. A trial's experiment may be left out.
void core_event(struct core *c, enum event_topic topic, int64_t experiment_id, int64_t trial_id,
                const char *name);

// That an experiment is about to be moved out of its workspace: those who see that one are told,
// and of where it goes nothing.
void core_event_left(struct core *c, const struct experiment *x);

// That a workspace, its projects or its members did.
void core_event_workspace(struct core *c, int64_t workspace_id);

#endif
