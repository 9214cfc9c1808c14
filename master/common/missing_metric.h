// Says that no trial has reported the metric by which the searcher compares trials, and which
// metrics they have reported instead. Pure; any thread.
#ifndef MUSTER_MASTER_COMMON_MISSING_METRIC_H
#define MUSTER_MASTER_COMMON_MISSING_METRIC_H

#include <stdbool.h>

struct reported_metrics {
    const char *subject;                             // "the trials", "this trial"
    const char *const *validation, *const *training; // names; each list ends with NULL
    bool completed; // the experiment is COMPLETED, so no further reports come
    bool single;    // it has one trial, which is compared with no other
};

// "the trials reported accuracy, validation_loss; the searcher waits for val_loss: report it as a
// validation metric, or set searcher.metric to validation_loss". Heap. NULL: the metric was
// reported, or reports of it may still come, or nobody waits for it (`metric` is NULL, "" or
// "none", which is Determined's word; a single trial that reports no metric at all).
char *missing_metric_warning(const char *metric, const struct reported_metrics *reported);

#endif
