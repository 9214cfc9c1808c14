// SQL of the fields of runs: trials with fields of their experiments, as Determined's web client
// filters them for one verb on many runs. Table t is the trials, e the experiments, r the briefs.

#include "db/lists/filter_sql.h"
#include "db/statements/fragments.h"

#define COLUMN(name_, sql_) .name = name_, .open = sql_, .close = "", .sort = sql_
#define METRIC(name_, pick_)                                                                       \
    {                                                                                              \
        COLUMN(name_, "json_extract(t.summary_metrics, ?)"), .pick = pick_, .key = SQL_KEY_METRIC  \
    }

static const struct sql_field fields[] = {
    {COLUMN("id", "t.id")},
    {COLUMN("experiment", "t.experiment_id")},
    {COLUMN("state", "t.state")},
    {COLUMN("restarts", "t.restarts")},
    {COLUMN("metric",
            "json_extract(t.best_validation, '$.metrics.avgMetrics.' || " SQL_METRIC_LABEL ")")},
    {COLUMN("started", "t.started_at")},
    {COLUMN("ended", "t.ended_at")},
    {COLUMN("duration", "(coalesce(t.ended_at, ?) - t.started_at) / 1e6")},
    {COLUMN("hparams", "json_extract(t.hparams, ?)"), .key = SQL_KEY_HPARAM},
    METRIC("training", FILTER_LAST),
    METRIC("training", FILTER_MIN),
    METRIC("training", FILTER_MAX),
    METRIC("validation", FILTER_LAST),
    METRIC("validation", FILTER_MIN),
    METRIC("validation", FILTER_MAX),
    {COLUMN("name", "r.name")},
    {COLUMN("description", "e.description")},
    {.name = "label",
     .open = "EXISTS (SELECT 1 FROM experiment_labels l WHERE l.experiment_id = r.id AND l.label",
     .close = ")"},
    {COLUMN("archived", "r.archived")},
    {COLUMN("unmanaged", "r.unmanaged")},
    {.name = "owner", .open = "r.user_id IN (SELECT id FROM users WHERE username", .close = ")"},
    {COLUMN("user_id", "r.user_id")},
    {COLUMN("project_id", "r.project_id")},
    {COLUMN("forked_from", "r.parent_id")},
    {COLUMN("searcher", "r.searcher")},
    {COLUMN("resource_pool", "r.pool")},
    {COLUMN("trials", "r.trials")},
    {COLUMN("progress", "r.progress")},
    {COLUMN("checkpoints", "t.checkpoints")},
    {COLUMN("checkpoint_size", "t.checkpoint_bytes")},
    {COLUMN("external_id", "r.external_id")},
    {0},
};

const struct sql_table sql_runs = {
    .list = FILTER_RUNS,
    .fields = fields,
    .id = "t.id",
    .active_open =
        "SELECT a.trial_id FROM allocations a WHERE a.state <> 'TERMINATED' AND a.state IN "
        "('RUNNING', 'TERMINATING', 'STARTING', 'PULLING') GROUP BY a.trial_id HAVING "
        "max(CASE a.state WHEN 'STARTING' THEN 2 WHEN 'PULLING' THEN 1 ELSE 3 END) IN (",
    .active_close = ")",
};
