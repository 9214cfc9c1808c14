// The module of the room ingest, and its request handlers: the reports of running tasks and of
// unmanaged trials. params[0] is the trial id, and the caller's allocation must be the live one of
// that trial (else ERR_FORBIDDEN "allocation has ended").
//
// What the views send as it stands in the store: a trial's latest_training, latest_validation and
// best_validation hold the wire's MetricsWorkload ({"endTime", "metrics": {"avgMetrics": {..}},
// "numInputs": 0, "totalBatches"}), a checkpoint's validation the wire's Metrics ({"avgMetrics":
// {..}}), summary_metrics {"avg_metrics": {name: {"count", "last", "max", "min", "sum", "type"}},
// "validation_metrics": {..}}. A token that is not in the store is, as an allocation's, answered
// with 403 "allocation has ended".
#ifndef MUSTER_MASTER_INGEST_MODULE_H
#define MUSTER_MASTER_INGEST_MODULE_H

#include "master/kernel/module.h"

extern const struct core_module ingest_module;

core_handler core_trial_metrics, core_trial_metric_columns, core_trial_progress,
    core_trial_runner_metadata;
core_handler core_checkpoint_report; // POST /checkpoints
core_handler core_task_logs;         // POST /task/logs; rq->input: log_parse.h

#endif
