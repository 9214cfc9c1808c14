// The list of an experiment's trials: what its fields are in SQL. An experiment has few trials
// beside all there are, so they are tested one by one.

#include <string.h>

#include "base/text/json.h"
#include "db/statements/lists.h"
#include "master/views/lists/filtered_list.h"
#include "master/views/views.h"

static const struct filtered_list_source source = {
    .key = "trials",
    .base = SQL_TRIALS,
    .columns = SQL_SELECT(TRIAL_VIEW_ROW),
    .column_count = DB_COLUMNS(TRIAL_VIEW),
    .joined = SQL_TRIALS_JOINED,
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
    const struct filtered_list_sort sorts[] = {
        {"SORT_BY_ID", "id"},
        {"SORT_BY_START_TIME", "started"},
        {"SORT_BY_END_TIME", "ended"},
        {"SORT_BY_STATE", "state"},
        {"SORT_BY_BATCHES_PROCESSED", "steps"},
        {"SORT_BY_RESTARTS", "restarts"},
        {"SORT_BY_BEST_VALIDATION_METRIC", "metric"},
        {"SORT_BY_LATEST_VALIDATION_METRIC", latest_metric(v, id)},
        {"SORT_BY_DURATION", "duration"},
        {NULL, NULL}};
    struct filtered_list g;
    filtered_list_init(&g, v, &sql_trials, &source);
    filtered_list_require_int(&g, "t.experiment_id = ?", false, id);
    filtered_list_any_of(&g, "states", "state");
    filtered_list_sort(&g, "sortBy", sorts);
    return filtered_list_answer(&g, e);
}
