#include "master/lifecycle/module.h"

#include "master/lifecycle/lifecycle.h"

static void decide(struct core *c)
{
    if (c->sched_due)
        allocations_schedule(c);
    agents_answer_due(c);
}

const struct core_module lifecycle_module = {
    .name = "lifecycle",
    .load = lifecycle_load,
    .resume = lifecycle_resume,
    .free = lifecycle_free,
    .decide = decide,
    .reap = experiments_free_ended,
    .experiment_moved = active_experiment_changed,
};
