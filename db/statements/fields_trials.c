// SQL of the fields in the list of an experiment's trials. An experiment has few trials compared
// with the whole table, so each is tested on its own.

#include "db/lists/filter_sql.h"
#include "db/statements/fragments.h"

#define COLUMN(name_, sql_) .name = name_, .open = sql_, .close = "", .sort = sql_
#define METRIC(name_, pick_)                                                                       \
    {                                                                                              \
        COLUMN(name_, "json_extract(t.summary_metrics, ?)"), .pick = pick_, .key = SQL_KEY_METRIC, \
                                                             .nullable = true                      \
    }
#define BEST "json_extract(t.best_validation, '$.metrics.avgMetrics.' || " SQL_METRIC_LABEL ")"

#define OF_STARTS "FROM allocations a WHERE a.trial_id = t.id AND a.started_at IS NOT NULL)"

static const struct sql_field fields[] = {
    {COLUMN("id", "t.id")},
    {COLUMN("state", "t.state")},
    {COLUMN("steps", "t.steps_completed")},
    {COLUMN("checkpoints", "t.checkpoints")},
    {COLUMN("checkpoint_size", "t.checkpoint_bytes")},
    {COLUMN("restarts", "t.restarts")},
    {COLUMN("reason", "t.exit_reason")},
    {COLUMN("progress", "t.progress")},
    {COLUMN("metric", BEST), .nullable = true},
    {COLUMN("started", "t.started_at")},
    {COLUMN("ended", "t.ended_at"), .nullable = true},
    {.name = "duration",
     .open = "(coalesce(t.ended_at, ?) - t.started_at) / 1e6",
     .close = "",
     .sort = "(t.ended_at - t.started_at) / 1e6",
     .nullable = true},
    {.name = "ran",
     .open = "(SELECT ifnull(sum(ifnull(a.ended_at, ?) - a.started_at), 0) / 1e6 " OF_STARTS,
     .close = "",
     .sort = "(SELECT ifnull(sum(a.ended_at - a.started_at), 0) / 1e6 " OF_STARTS},
    {COLUMN("log_days", SQL_TRIAL_LOG_DAYS), .nullable = true},
    {COLUMN("hparams", "json_extract(t.hparams, ?)"), .key = SQL_KEY_HPARAM, .nullable = true},
    METRIC("training", FILTER_LAST),
    METRIC("training", FILTER_MIN),
    METRIC("training", FILTER_MAX),
    METRIC("validation", FILTER_LAST),
    METRIC("validation", FILTER_MIN),
    METRIC("validation", FILTER_MAX),
    {0},
};

const struct sql_table sql_trials = {
    .list = FILTER_TRIALS,
    .fields = fields,
    .id = "t.id",
    .active_open =
        "SELECT a.trial_id FROM allocations a WHERE a.state <> 'TERMINATED' AND a.state IN "
        "('RUNNING', 'TERMINATING', 'STARTING', 'PULLING') GROUP BY a.trial_id HAVING "
        "max(CASE a.state WHEN 'STARTING' THEN 2 WHEN 'PULLING' THEN 1 ELSE 3 END) IN (",
    .active_close = ")",
};
