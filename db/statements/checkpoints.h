// The columns that queries of checkpoints select, and the order of the best; a part of columns.h.
#ifndef MUSTER_DB_STATEMENTS_CHECKPOINTS_H
#define MUSTER_DB_STATEMENTS_CHECKPOINTS_H

// The searcher's metric of checkpoint c, of trial t and experiment e. Null if it is not a number:
// JSON holds NaN and infinities as strings.
#define SQL_CHECKPOINT_METRIC                                                                      \
    "iif(json_type(c.validation, '$.avgMetrics.' || " SQL_METRIC_LABEL                             \
    ") IN ('integer', 'real'), json_extract(c.validation, '$.avgMetrics.' || " SQL_METRIC_LABEL    \
    "), NULL)"
// Whether the checkpoint's trial is the best of the experiment: the first with the best value.
#define SQL_CHECKPOINT_LEADS                                                                       \
    "c.trial_id IS (SELECT h.trial_id FROM validation_history h WHERE h.experiment_id = "          \
    "c.experiment_id ORDER BY h.id DESC LIMIT 1)"
// "Best" of checkpoints, here and in master/retention/checkpoint_policy.c: by the searcher's
// metric; on a tie that of the best trial, then the first one reached. Behind them those without
// the metric, the newest first.
#define SQL_CHECKPOINT_BEST_FIRST                                                                  \
    SQL_CHECKPOINT_METRIC                                                                          \
    " IS NULL, " SQL_CHECKPOINT_METRIC " * iif(coalesce(json_extract(e.config, "                   \
    "'$.searcher.smaller_is_better'), 1), 1, -1), " SQL_CHECKPOINT_LEADS                           \
    " DESC, iif(" SQL_CHECKPOINT_METRIC " IS NULL, -c.steps, c.reported_at), c.steps, c.uuid"
// Things that keep the checkpoint whatever a policy says: column 0 a version of a model, 1 an
// experiment that starts from it, 2 a trial that would continue from it; each null if absent.
#define SQL_CHECKPOINT_NEEDS                                                                       \
    "(SELECT m.name || ' version ' || v.version FROM model_versions v JOIN models m"               \
    " ON m.id = v.model_id WHERE v.checkpoint_uuid = c.uuid LIMIT 1),"                             \
    " (SELECT s.experiment_id FROM experiment_sources s WHERE s.checkpoint_uuid = c.uuid LIMIT "   \
    "1),"                                                                                          \
    " (SELECT l.id FROM trials l WHERE l.id = c.trial_id AND l.latest_checkpoint = c.uuid"         \
    " AND l.state NOT IN ('COMPLETED', 'CANCELED', 'ERROR'))"
#define SQL_CHECKPOINT_COLUMNS                                                                     \
    "SELECT c.uuid, c.task_id, c.allocation_id, c.trial_id, c.experiment_id, c.state, c.steps, "   \
    "c.metadata, c.resources, c.storage, c.validation, c.reported_at, e.config, "                  \
    "t.hparams, " SQL_CHECKPOINT_METRIC
#define SQL_CHECKPOINT_FROM "FROM checkpoints c"
#define SQL_CHECKPOINT_JOINED                                                                      \
    "LEFT JOIN trials t ON t.id = c.trial_id LEFT JOIN experiments e ON e.id = c.experiment_id"
#define SQL_CHECKPOINT_TABLES SQL_CHECKPOINT_FROM " " SQL_CHECKPOINT_JOINED

#endif
