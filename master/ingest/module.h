// The ingest module and its request handlers: reports of running tasks and of unmanaged trials.
// params[0] is the trial id, and the caller's allocation must be the live one of that trial (else
// ERR_FORBIDDEN "allocation has ended").
//
// Columns that views send as they are: latest_training, latest_validation and best_validation of a
// trial hold a MetricsWorkload ({"endTime", "metrics": {"avgMetrics": {..}}, "numInputs": 0,
// "totalBatches"}), the validation of a checkpoint a Metrics ({"avgMetrics": {..}}),
// summary_metrics {"avg_metrics": {name: {"count", "last", "max", "min", "sum", "type"}},
// "validation_metrics": {..}}.
#ifndef MUSTER_MASTER_INGEST_MODULE_H
#define MUSTER_MASTER_INGEST_MODULE_H

#include "master/kernel/module.h"

extern const struct core_module ingest_module;

core_handler core_trial_metrics, core_trial_metric_columns, core_trial_progress,
    core_trial_runner_metadata;
core_handler core_trial_media;       // POST /trials/{t}/media
core_handler core_checkpoint_report; // POST /checkpoints
core_handler core_task_logs;         // POST /task/logs; rq->input: log_parse.h

// A run starts from the checkpoint after `from` steps; -1: from the beginning.
void media_restart(struct core *c, struct trial *t, int64_t from);

#endif
