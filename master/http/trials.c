// Trials as the wire has them: lists, descriptions, workloads.

#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "master/http/list.h"
#include "master/http/views.h"

enum { // columns of SQL_TRIAL_COLUMNS, then of STMT_TRIAL_VIEW
    T_ID,
    T_EXPERIMENT_ID,
    T_STATE,
    T_HPARAMS,
    T_RESTARTS,
    T_STEPS,
    T_STARTED_AT,
    T_ENDED_AT,
    T_TASK_ID,
    T_RUNNER_STATE,
    T_SUMMARY,
    T_LATEST_TRAINING,
    T_LATEST_VALIDATION,
    T_BEST_VALIDATION,
    T_LATEST_CHECKPOINT,
    T_PROGRESS,
    T_EXIT_REASON,
    T_RUN_ID,
    T_SEED,
    T_CHECKPOINTS,
    T_SEARCHER_METRIC,
    T_WALL_CLOCK,
};

static void write_trial(struct json_writer *w, struct db_rows *rows)
{
    const char *task = db_text(rows, T_TASK_ID);
    jw_kv_int(w, "id", db_int(rows, T_ID));
    jw_kv_int(w, "experimentId", db_int(rows, T_EXPERIMENT_ID));
    jw_kv_string(w, "state", wire_name(WIRE_TRIAL_STATE, db_text(rows, T_STATE)));
    jw_kv_raw(w, "hparams", db_text(rows, T_HPARAMS));
    jw_kv_int(w, "restarts", db_int(rows, T_RESTARTS));
    jw_kv_int(w, "totalBatchesProcessed", db_int(rows, T_STEPS));
    write_time(w, "startTime", db_int(rows, T_STARTED_AT));
    write_time(w, "endTime", db_int(rows, T_ENDED_AT));
    jw_kv_string(w, "taskId", task);
    jw_key(w, "taskIds");
    jw_array(w);
    jw_string(w, task);
    jw_array_end(w);
    jw_kv_string(w, "runnerState", db_text(rows, T_RUNNER_STATE));
    jw_kv_raw(w, "summaryMetrics", db_text(rows, T_SUMMARY));
    jw_kv_raw(w, "latestTraining", db_text(rows, T_LATEST_TRAINING));
    jw_kv_raw(w, "latestValidation", db_text(rows, T_LATEST_VALIDATION));
    jw_kv_raw(w, "bestValidation", db_text(rows, T_BEST_VALIDATION));
    jw_kv_string(w, "latestCheckpoint", db_text(rows, T_LATEST_CHECKPOINT));
    jw_kv_double(w, "progress", db_double(rows, T_PROGRESS));
    jw_kv_string(w, "exitReason", db_text(rows, T_EXIT_REASON));
    jw_kv_int(w, "runId", db_int(rows, T_RUN_ID));
    jw_kv_int(w, "seed", db_int(rows, T_SEED));
    jw_kv_int(w, "checkpointCount", db_int(rows, T_CHECKPOINTS));
    if (!db_is_null(rows, T_SEARCHER_METRIC))
        jw_kv_double(w, "searcherMetricValue", db_double(rows, T_SEARCHER_METRIC));
}

_Static_assert(T_SEARCHER_METRIC + 1 == TRIAL_LIST_COLUMNS, "what the list selects");

void write_trial_row(struct json_writer *w, struct db_rows *rows)
{
    jw_object(w);
    write_trial(w, rows);
    jw_object_end(w);
}

static void write_best_checkpoint(struct view *v, int64_t trial)
{
    struct json_writer *w = &v->w;
    struct db_rows *rows = db_query(v->db, STMT_TRIAL_BEST_CHECKPOINT, "i", trial);
    jw_key(w, "bestCheckpoint");
    if (db_next(rows) == 1)
        write_checkpoint_workload(w, rows, 0);
    else
        jw_null(w);
    db_rows_close(rows);
}

int render_trial(struct view *v, struct error *e)
{
    int64_t id = v->rq->id;
    struct json_writer *w = &v->w;
    struct db_rows *rows = db_query(v->db, STMT_TRIAL_VIEW, "ii", clock_wall_us(), id);
    int found = db_next(rows);
    if (found == 1) {
        jw_object(w);
        jw_key(w, "trial");
        jw_object(w);
        write_trial(w, rows);
        jw_kv_double(w, "wallClockTime", (double)db_int(rows, T_WALL_CLOCK) / 1e6);
        write_best_checkpoint(v, id);
        jw_object_end(w);
        jw_object_end(w);
    }
    db_rows_close(rows);
    return found < 0 ? store_failed(e) : found == 0 ? no_trial(id, e) : 0;
}

int view_trial(struct view *v, struct error *e)
{
    int rc = request_param_int(v->rq, 0, &v->rq->id, e);
    return rc ? rc : render_trial(v, e);
}

int no_trial(int64_t id, struct error *e)
{
    return error_set(e, ERR_NOT_FOUND, "there is no trial %lld", (long long)id);
}

// Training, validation and checkpoint workloads in one list, by steps.
#define WORKLOADS                                                                                  \
    "FROM (SELECT 0 AS kind, steps, id AS place, trial_id, end_time, metrics, batch_metrics, "     \
    "NULL AS uuid, '' AS state, '{}' AS resources, '{}' AS metadata FROM metrics "                 \
    "WHERE grp = 'training' AND NOT archived "                                                     \
    "UNION ALL SELECT 1, steps, id, trial_id, end_time, metrics, batch_metrics, "                  \
    "NULL, '', '{}', '{}' FROM metrics WHERE grp = 'validation' AND NOT archived "                 \
    "UNION ALL SELECT 2, steps, reported_at, trial_id, reported_at, '{}', NULL, "                  \
    "uuid, state, resources, metadata FROM checkpoints) "

enum { W_KIND, W_STEPS, W_TIME, W_METRICS, W_BATCH_METRICS, W_CHECKPOINT };

#define WORKLOAD_COLUMNS(batch_metrics)                                                            \
    "SELECT kind, steps, end_time, metrics, " batch_metrics ", uuid, state, steps, end_time, "     \
    "resources, metadata"

static void write_metrics_workload(struct json_writer *w, struct db_rows *rows)
{
    jw_object(w);
    write_time(w, "endTime", db_int(rows, W_TIME));
    jw_kv_int(w, "totalBatches", db_int(rows, W_STEPS));
    jw_kv_int(w, "numInputs", 0);
    jw_key(w, "metrics");
    jw_object(w);
    jw_kv_raw(w, "avgMetrics", db_text(rows, W_METRICS));
    if (!db_is_null(rows, W_BATCH_METRICS))
        jw_kv_raw(w, "batchMetrics", db_text(rows, W_BATCH_METRICS));
    jw_object_end(w);
    jw_object_end(w);
}

static void write_workload(struct json_writer *w, struct db_rows *rows)
{
    static const char *const kinds[] = {"training", "validation", "checkpoint"};
    int64_t kind = db_int(rows, W_KIND);
    jw_object(w);
    jw_key(w, kinds[kind]);
    if (kind == 2)
        write_checkpoint_workload(w, rows, W_CHECKPOINT);
    else
        write_metrics_workload(w, rows);
    jw_object_end(w);
}

static void filter_workloads(struct list *l)
{
    static const struct {
        const char *name, *condition;
    } filters[] = {{"FILTER_OPTION_CHECKPOINT", "kind = 2"},
                   {"FILTER_OPTION_VALIDATION", "kind = 1"},
                   {"FILTER_OPTION_CHECKPOINT_OR_VALIDATION", "kind > 0"}};
    const char *asked = query_get(l->v->query, "filter");
    const char *group = query_get(l->v->query, "group");
    for (size_t i = 0; asked && i < sizeof filters / sizeof *filters; i++)
        if (!strcmp(asked, filters[i].name))
            list_and(l, filters[i].condition);
    if (group && *group) {
        list_and(l, "kind = 2 OR CASE kind WHEN 0 THEN 'training' ELSE 'validation' END = ?");
        list_bind_text(l, group);
    }
    if (query_flag(l->v->query, "removeDeletedCheckpoints"))
        list_and(l, "state NOT IN ('DELETED', 'PARTIALLY_DELETED')");
}

int view_trial_workloads(struct view *v, struct error *e)
{
    static const struct list_sort sorts[] = {
        {"batches", "steps"}, {"totalBatches", "steps"}, {"endTime", "end_time"}, {NULL, NULL}};
    int64_t id;
    int rc = request_param_int(v->rq, 0, &id, e);
    if (rc)
        return rc;
    struct list l;
    list_init(&l, v);
    list_and(&l, "trial_id = ?");
    list_bind_int(&l, id);
    filter_workloads(&l);
    list_sort(&l, "sortKey", sorts, "steps, kind", "steps * 4 + kind");
    list_page(&l);
    // The batches of a training report are only sent to those who ask.
    const char *columns = query_flag(v->query, "includeBatchMetrics")
                              ? WORKLOAD_COLUMNS("batch_metrics")
                              : WORKLOAD_COLUMNS("NULL");
    const struct list_source source = {"workloads", columns, WORKLOADS, NULL, write_workload};
    return list_answer(&l, &source, e);
}
