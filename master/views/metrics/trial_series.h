// The metrics of one trial as series for charts. Any thread that has a reader of the store.
#ifndef MUSTER_MASTER_VIEWS_METRICS_TRIAL_SERIES_H
#define MUSTER_MASTER_VIEWS_METRICS_TRIAL_SERIES_H

#include "db/metrics/reports.h"
#include "master/views/metrics/downsample.h"

// Adds the reports of each metric of q->only to the downsampler of the same index. The caller
// initializes and frees the downsamplers.
int series_downsample(struct db_reader *db, const struct reports_query *q,
                      struct downsampler *samplers, struct error *e);

#endif
