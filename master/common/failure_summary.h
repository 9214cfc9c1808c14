// Summarizes why trials of a search failed: equal reasons are counted, and hyperparameters that set
// the failed trials apart from the others are named. Pure; any thread.
#ifndef MUSTER_MASTER_COMMON_FAILURE_SUMMARY_H
#define MUSTER_MASTER_COMMON_FAILURE_SUMMARY_H

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

struct trial_outcome {
    int64_t id;
    const char *reason; // NULL: the trial has not failed
    json_t *hparams;    // an object; NULL: unknown
};

// "3 of 8 trials failed: 2 x CUDA out of memory in trials 4, 7 (batch_size 512 to 1024); 1 x
// KeyError: 'lr' (train.py:31) in trial 2". `total`: trials of the search, of which `trials` may be
// a part, failed ones first. Heap; NULL: none failed.
char *failure_summary(const struct trial_outcome *trials, size_t count, size_t total);

#endif
