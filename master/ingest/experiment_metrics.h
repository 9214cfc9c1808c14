// The metrics that lists of experiments show: the last, smallest and largest value of each metric
// over all trials of an experiment (table experiment_metrics). Core thread.
//
// These rows have indexes and cost more than the reports themselves, and lists need not follow
// every report. So they are written when a trial has something new, at most EXPERIMENT_METRICS_RATE
// values a second; a trial that waits for its turn is written once for all it reported meanwhile,
// and one that ends at once. What a crash keeps from being written is made up for when the master
// starts again.
#ifndef MUSTER_MASTER_INGEST_EXPERIMENT_METRICS_H
#define MUSTER_MASTER_INGEST_EXPERIMENT_METRICS_H

#include <stdint.h>

#include "master/kernel/objects.h"
#include "master/kernel/timers.h"

enum { EXPERIMENT_METRICS_RATE = 2000, EXPERIMENT_METRICS_BURST = 500 }; // values a second, at once

struct experiment_metrics_queue {
    struct list_node due; // of trials
    double credit;        // values that may be written now
    int64_t at;           // the time of the credit
    struct timer again;
};

struct core;
struct trial;

void experiment_metrics_report(struct core *c, struct trial *t);    // its summary has changed
void experiment_metrics_end_trial(struct core *c, struct trial *t); // it ends: now or never
void experiment_metrics_forget_trial(struct trial *t);              // it is given back
void experiment_metrics_flush(struct core *c);                      // at the end of a turn

#endif
