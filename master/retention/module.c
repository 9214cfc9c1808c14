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

// The store may still have a checkpoint that an earlier turn deleted.
static void reopen_trial(struct core *c, struct trial *t)
{
    if (gc_find_deletion(c, t->checkpoint))
        gc_use_older_checkpoint(c, t, INT64_MAX);
}

// Its newest checkpoint may have been deleted since it ended.
static void continue_trial(struct core *c, struct trial *t)
{
    gc_use_older_checkpoint(c, t, INT64_MAX);
}

// The same if it has ended; the newest checkpoint of a live trial is never deleted unseen.
static void clone_trial(struct core *c, struct trial *t)
{
    if (trial_is_terminal(t->state) && t->checkpoint[0] && gc_is_deleted(c, t->checkpoint))
        gc_use_older_checkpoint(c, t, INT64_MAX);
}

// Collects the checkpoints of a search while its trials end, less often the more have ended, so
// that the total work stays proportional to the number of trials. The end of the search collects
// once more.
static void collect_ended_trials(struct core *c, struct active_experiment *active)
{
    if (!active->active_trials ||
        active->ended_trials - active->collected_trials <= active->ended_trials / 16)
        return;
    active->collected_trials = active->ended_trials;
    gc_request_experiment(c, active->experiment);
}

const struct core_module retention_module = {
    .name = "retention",
    .init = retention_init,
    .free = retention_free,
    .after_turn = gc_start_sweep,
    .experiment_ended = gc_collect_experiment,
    .trial_reopened = reopen_trial,
    .trial_continued = continue_trial,
    .trial_cloned = clone_trial,
    .trial_failed = missing_checkpoints_check,
    .search_continued = collect_ended_trials,
};
