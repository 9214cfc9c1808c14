// The checkpoint policy of an experiment: a pure function of its checkpoints. Any thread.
//
// It keeps the best checkpoints of the experiment and of each trial by the searcher's metric, the
// latest of each trial, and any that somebody needs. The best has the best metric; between equal
// metrics, the leading trial comes first, then the earlier report, then fewer steps, then the uuid.
// A checkpoint whose metric is not a number is never a best one.
#ifndef MUSTER_MASTER_RETENTION_CHECKPOINT_POLICY_H
#define MUSTER_MASTER_RETENTION_CHECKPOINT_POLICY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/rng.h"

struct checkpoint_policy { // from checkpoint_storage and searcher of the configuration
    int64_t experiment_best, trial_best, trial_latest;
    bool smaller_is_better;
};

enum keep_reason { // why a checkpoint is kept; bits
    KEEP_EXPERIMENT_BEST = 1,
    KEEP_TRIAL_BEST = 2,
    KEEP_TRIAL_LATEST = 4,
    KEEP_NEEDED = 8,       // a live trial, another experiment or a model version names it
    KEEP_OUT_OF_REACH = 16 // the master cannot remove its files
};

struct checkpoint_candidate {
    char uuid[UUID_TEXT];
    int64_t trial_id, steps, reported_at;
    bool leads; // its trial is the best of the experiment
    bool has_metric;
    double metric;    // finite
    unsigned reasons; // input: NEEDED, OUT_OF_REACH; output: all. 0: to be deleted
};

// Sets `reasons` of each row and changes their order.
void checkpoint_policy_apply(struct checkpoint_candidate *rows, size_t count,
                             const struct checkpoint_policy *policy);

#endif
