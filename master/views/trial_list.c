// The list of an experiment's trials: what its fields are in SQL. An experiment has few trials
// beside all there are, so they are tested one by one.

#include <string.h>

#include "base/text/json.h"
#include "master/views/pager.h"
#include "master/views/views.h"

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
    {COLUMN("hparams", "json_extract(t.hparams, ?)"), .key = SQL_KEY_HPARAM, .nullable = true},
    METRIC("training", FILTER_LAST),
    METRIC("training", FILTER_MIN),
    METRIC("training", FILTER_MAX),
    METRIC("validation", FILTER_LAST),
    METRIC("validation", FILTER_MIN),
    METRIC("validation", FILTER_MAX),
    {0},
};

static const struct sql_table table = {
    .list = FILTER_TRIALS,
    .fields = fields,
    .id = "t.id",
    .live_open =
        "SELECT a.trial_id FROM allocations a WHERE a.state <> 'TERMINATED' AND a.state IN "
        "('RUNNING', 'TERMINATING', 'STARTING', 'PULLING') GROUP BY a.trial_id HAVING "
        "max(CASE a.state WHEN 'STARTING' THEN 2 WHEN 'PULLING' THEN 1 ELSE 3 END) IN (",
    .live_close = ")",
};

static const struct pager_source source = {
    .key = "trials",
    .base = "trials t CROSS JOIN experiments e ON e.id = t.experiment_id",
    .columns = "SELECT " SQL_LIST(TRIAL_VIEW_ROW),
    .column_count = DB_COLUMNS(TRIAL_VIEW),
    .joined =
        "CROSS JOIN trials t ON t.id = k.id CROSS JOIN experiments e ON e.id = t.experiment_id",
    .order = "id",
    .write = write_trial_row,
};

// The searcher's metric, as a name of the language; "metric" when it has one that cannot be quoted.
static const char *latest_metric(struct view *v, int64_t experiment)
{
    struct db_rows *rows = DB_QUERY(v->db, EXPERIMENT_METRIC, experiment);
    const char *name = db_next(rows) == 1 ? DB_GET(rows, EXPERIMENT_METRIC, metric) : NULL;
    const char *field = "metric";
    if (name && *name && !strpbrk(name, "\"\\"))
        field = arena_printf(&v->rq->arena, "validation.\"%s\"", name);
    db_rows_close(rows);
    return field;
}

int view_experiment_trials(struct view *v, struct error *e)
{
    int64_t id;
    int rc = request_param_int(v->rq, 0, &id, e);
    if (rc)
        return rc;
    const struct pager_sort sorts[] = {{"SORT_BY_ID", "id"},
                                       {"SORT_BY_START_TIME", "started"},
                                       {"SORT_BY_END_TIME", "ended"},
                                       {"SORT_BY_STATE", "state"},
                                       {"SORT_BY_BATCHES_PROCESSED", "steps"},
                                       {"SORT_BY_RESTARTS", "restarts"},
                                       {"SORT_BY_BEST_VALIDATION_METRIC", "metric"},
                                       {"SORT_BY_LATEST_VALIDATION_METRIC", latest_metric(v, id)},
                                       {"SORT_BY_DURATION", "duration"},
                                       {NULL, NULL}};
    struct pager g;
    pager_init(&g, v, &table, &source);
    pager_fixed_int(&g, "t.experiment_id = ?", false, id);
    pager_any_of(&g, "states", "state");
    pager_sort(&g, "sortBy", sorts);
    return pager_answer(&g, e);
}
