// The list of an experiment's trials. An experiment has few trials, so each of them is tested.

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

// Returns the searcher's metric as a field of the filter language; "metric" if the name cannot be
// quoted.
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
        {"SORT_BY_CHECKPOINT_SIZE", "checkpoint_size"},
        {"SORT_BY_LOG_RETENTION_DAYS", "log_days"},
        {NULL, NULL}};
    struct filtered_list l;
    filtered_list_init(&l, v, &sql_trials, &source);
    filtered_list_require_int(&l, "t.experiment_id = ?", false, id);
    filtered_list_any_of(&l, "states", "state");
    filtered_list_sort(&l, "sortBy", sorts);
    return filtered_list_answer(&l, e);
}
