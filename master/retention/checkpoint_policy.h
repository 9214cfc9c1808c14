// Which checkpoints of an experiment are kept: a pure function of their rows and the policy.
//
// Kept are the best of the experiment and of each trial by the searcher's metric, the latest of
// each trial, and what somebody needs, whatever the policy says. Best: the metric, then more steps,
// then reported later, then by uuid; a checkpoint without a number for it is no best one. Any
// thread.
#ifndef MUSTER_MASTER_RETENTION_CHECKPOINT_POLICY_H
#define MUSTER_MASTER_RETENTION_CHECKPOINT_POLICY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/rng.h"

struct keep_policy { // of checkpoint_storage and searcher
    int64_t experiment_best, trial_best, trial_latest;
    bool smaller_is_better;
};

enum keep { // why it is kept; bits
    KEEP_EXPERIMENT_BEST = 1,
    KEEP_TRIAL_BEST = 2,
    KEEP_TRIAL_LATEST = 4,
    KEEP_NEEDED = 8,       // a trial that lives, another experiment or a model version names it
    KEEP_OUT_OF_REACH = 16 // its files lie where the master cannot remove them
};

struct keep_row {
    char uuid[UUID_TEXT];
    int64_t trial_id, steps, reported_at;
    bool leads; // its trial is the best of the experiment
    bool has_metric;
    double metric; // finite
    unsigned keep; // given: NEEDED, OUT_OF_REACH; found: the rest. 0: it goes
};

// Sets `keep` of each row; their order changes.
void keep_choose(struct keep_row *rows, size_t count, const struct keep_policy *policy);

#endif
