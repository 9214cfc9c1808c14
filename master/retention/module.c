#include "master/retention/module.h"

#include "master/retention/gc.h"

static void retention_init(struct core *c)
{
    gc_init(c);
    log_expiry_init(c);
}

static void retention_free(struct core *c)
{
    gc_free(c);
    log_expiry_free(c);
}

// The store still has a checkpoint that a turn before this one has taken away.
static void reopen_trial(struct core *c, struct trial *t)
{
    if (gc_taken(c, t->checkpoint))
        gc_step_back(c, t, INT64_MAX);
}

// Collects the checkpoints of a search as its trials end, the more rarely the more have ended: the
// number of checkpoints that all collections look at stays in proportion to their number. The end
// of the search collects once more.
static void collect(struct core *c, struct active_experiment *l)
{
    if (!l->active_trials || l->ended_trials - l->collected <= l->ended_trials / 16)
        return;
    l->collected = l->ended_trials;
    gc_ended_trials(c, l->experiment);
}

const struct core_module retention_module = {
    .name = "retention",
    .init = retention_init,
    .free = retention_free,
    .after_turn = gc_pass,
    .experiment_ended = gc_experiment,
    .trial_reopened = reopen_trial,
    .trial_failed = gc_look_for_vanished,
    .search_continued = collect,
};
