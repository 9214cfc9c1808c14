// What the views of master/http select, with what they show of other tables. Each list of columns
// is counted by an enum beside the writer of its JSON (experiments.c, trials.c, checkpoints.c).
// Parts of queries only: reads.h and the lists of master/http/list.h put them together. Constant
// text.
#ifndef MUSTER_DB_STATEMENTS_VIEWS_H
#define MUSTER_DB_STATEMENTS_VIEWS_H

// The searcher's metric as a quoted label of a JSON path.
#define SQL_METRIC_LABEL                                                                           \
    "'\"' || replace(json_extract(e.config, '$.searcher.metric'), '\"', '') || '\"'"

// What a live allocation makes of an active experiment or trial on the wire.
#define SQL_LIVE_STATE(live_allocations)                                                           \
    "CASE (SELECT max(CASE a.state WHEN 'RUNNING' THEN 3 WHEN 'TERMINATING' THEN 3 "               \
    "WHEN 'STARTING' THEN 2 WHEN 'PULLING' THEN 1 ELSE 0 END) FROM " live_allocations              \
    " AND a.state <> 'TERMINATED') "                                                               \
    "WHEN 3 THEN 'RUNNING' WHEN 2 THEN 'STARTING' WHEN 1 THEN 'PULLING' ELSE 'QUEUED' END"

#define SQL_EXPERIMENT_RUNS                                                                        \
    "trials t JOIN allocations a ON a.trial_id = t.id WHERE t.experiment_id = e.id"
#define SQL_EXPERIMENT_STATE                                                                       \
    "CASE e.state WHEN 'ACTIVE' THEN " SQL_LIVE_STATE(SQL_EXPERIMENT_RUNS) " ELSE e.state END"

#define SQL_EXPERIMENT_COLUMNS                                                                     \
    "SELECT e.id, " SQL_EXPERIMENT_STATE ", e.name, e.description, e.notes, e.labels, e.user_id, " \
    "u.username, u.display_name, e.project_id, p.name, p.user_id, w.id, w.name, "                  \
    "p.archived OR w.archived, e.job_id, e.parent_id, e.config, e.searcher_type, e.progress, "     \
    "e.best_metric, e.archived, e.unmanaged, e.submitted_at, e.ended_at, "                         \
    "(SELECT count(*) FROM trials t WHERE t.experiment_id = e.id), "                               \
    "json_extract(e.config, '$.resources.resource_pool')"
#define SQL_EXPERIMENT_FROM "FROM experiments e"
#define SQL_EXPERIMENT_JOINED                                                                      \
    "JOIN users u ON u.id = e.user_id JOIN projects p ON p.id = e.project_id "                     \
    "JOIN workspaces w ON w.id = p.workspace_id"
#define SQL_EXPERIMENT_TABLES SQL_EXPERIMENT_FROM " " SQL_EXPERIMENT_JOINED

#define SQL_TRIAL_STATE                                                                            \
    "CASE t.state WHEN 'ACTIVE' THEN " SQL_LIVE_STATE(                                             \
        "allocations a WHERE a.trial_id = t.id") " ELSE t.state END"

#define SQL_TRIAL_COLUMNS                                                                          \
    "SELECT t.id, t.experiment_id, " SQL_TRIAL_STATE ", t.hparams, t.restarts, "                   \
    "t.steps_completed, t.started_at, t.ended_at, t.task_id, t.runner_state, t.summary_metrics, "  \
    "t.latest_training, t.latest_validation, t.best_validation, t.latest_checkpoint, "             \
    "t.progress, t.exit_reason, t.run_id, t.seed, "                                                \
    "(SELECT count(*) FROM checkpoints c WHERE c.trial_id = t.id), "                               \
    "json_extract(t.best_validation, '$.metrics.avgMetrics.' || " SQL_METRIC_LABEL ")"
#define SQL_TRIAL_FROM   "FROM trials t"
#define SQL_TRIAL_JOINED "JOIN experiments e ON e.id = t.experiment_id"
#define SQL_TRIAL_TABLES SQL_TRIAL_FROM " " SQL_TRIAL_JOINED

#define SQL_CHECKPOINT_METRIC "json_extract(c.validation, '$.avgMetrics.' || " SQL_METRIC_LABEL ")"
#define SQL_CHECKPOINT_COLUMNS                                                                     \
    "SELECT c.uuid, c.task_id, c.allocation_id, c.trial_id, c.experiment_id, c.state, c.steps, "   \
    "c.metadata, c.resources, c.storage, c.validation, c.reported_at, e.config, "                  \
    "t.hparams, " SQL_CHECKPOINT_METRIC
#define SQL_CHECKPOINT_FROM "FROM checkpoints c"
#define SQL_CHECKPOINT_JOINED                                                                      \
    "LEFT JOIN trials t ON t.id = c.trial_id LEFT JOIN experiments e ON e.id = c.experiment_id"
#define SQL_CHECKPOINT_TABLES SQL_CHECKPOINT_FROM " " SQL_CHECKPOINT_JOINED

#endif
