// The module of the folder lifecycle, and its request handlers: the agents' poll, the calls of
// running tasks and of unmanaged trials.
#ifndef MUSTER_MASTER_LIFECYCLE_MODULE_H
#define MUSTER_MASTER_LIFECYCLE_MODULE_H

#include "master/kernel/module.h"

extern const struct core_module lifecycle_module;

core_handler core_agent_poll; // params[0] is the agent id

// Calls of running tasks: params[0] is the allocation id, which must be the caller's own.
core_handler core_allocation_preemption, core_allocation_ack_preemption, core_allocation_all_gather,
    core_allocation_rendezvous, core_allocation_accelerator_data, core_allocation_container_running,
    core_allocation_pending_preemption, core_allocation_proxy_address, core_allocation_daemon;

// Unmanaged trials (unmanaged.h): POST and PUT /trials (rq->id: the trial), /trials/{t}/start,
// PATCH /trials/{t}.
core_handler core_trial_create, core_trial_put, core_trial_start, core_trial_patch;

// The functions of the module, in load.c, allocations.c, agent_poll.c and experiments.c.
int lifecycle_load(struct core *c, struct error *e); // after the workspaces
void lifecycle_resume(struct core *c);
void lifecycle_free(struct core *c);
void allocations_schedule(struct core *c);
void agents_answer_due(struct core *c);
void experiments_free_ended(struct core *c);

#endif
