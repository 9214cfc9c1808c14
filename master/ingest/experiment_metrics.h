// The metrics that lists of experiments show: the last, smallest and largest value of each metric
// over all trials of an experiment (table experiment_metrics). Core thread.
//
// These rows have indexes and cost more than the reports themselves, and lists need not show every
// report at once. So a trial with new values waits in a queue, which is written at
// EXPERIMENT_METRICS_RATE values a second; a trial is written once for all reports that came while
// it waited, and at once when it ends. A start of the master queues all live trials, so a crash
// loses nothing.
#ifndef MUSTER_MASTER_INGEST_EXPERIMENT_METRICS_H
#define MUSTER_MASTER_INGEST_EXPERIMENT_METRICS_H

#include <stdint.h>

#include "master/kernel/objects.h"
#include "master/kernel/timers.h"

enum {
    EXPERIMENT_METRICS_RATE = 2000, // values a second
    EXPERIMENT_METRICS_BURST = 500, // values at once
};

struct experiment_metrics_queue {
    struct list_node due; // trials that wait
    double credit;        // values that may be written now
    int64_t at;           // the time of the credit
    struct timer again;
};

struct core;
struct trial;

void experiment_metrics_report(struct core *c, struct trial *t); // the trial's summary has changed
// Writes the trial now if it waits.
void experiment_metrics_end_trial(struct core *c, struct trial *t);
void experiment_metrics_forget_trial(struct trial *t); // before the trial is freed
void experiment_metrics_flush(struct core *c);         // at the end of a turn

#endif
