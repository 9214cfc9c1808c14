// Checkpoints, their lists, and the preview of a retention policy.

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "db/statements/compose.h"
#include "master/retention/gc.h"
#include "master/views/lists/list.h"
#include "master/views/views.h"

// {path: bytes}; as in Determined, 64-bit numbers are JSON strings.
static void write_resources(struct json_writer *w, const char *text)
{
    const char *path;
    json_t *size, *resources = json_loads(text ? text : "{}", 0, NULL);
    jw_key(w, "resources");
    jw_object(w);
    json_object_foreach(resources, path, size)
    {
        char digits[32];
        jw_key(w, path);
        if (json_is_string(size)) {
            jw_string(w, json_string_value(size));
            continue;
        }
        snprintf(digits, sizeof digits, "%lld", (long long)json_integer_value(size));
        jw_string(w, digits);
    }
    jw_object_end(w);
    json_decref(resources);
}

void write_checkpoint_workload(struct json_writer *w, struct db_rows *rows)
{
    jw_object(w);
    jw_kv_string(w, "uuid", DB_GET(rows, WORKLOAD_CHECKPOINT, uuid));
    jw_kv_string(w, "state",
                 wire_name(WIRE_CHECKPOINT_STATE, DB_GET(rows, WORKLOAD_CHECKPOINT, state)));
    jw_kv_int(w, "totalBatches", DB_GET(rows, WORKLOAD_CHECKPOINT, steps));
    write_time(w, "endTime", DB_GET(rows, WORKLOAD_CHECKPOINT, reported_at));
    write_resources(w, DB_GET(rows, WORKLOAD_CHECKPOINT, resources));
    jw_kv_raw(w, "metadata", DB_GET(rows, WORKLOAD_CHECKPOINT, metadata));
    jw_object_end(w);
}

static void write_training(struct json_writer *w, struct db_rows *rows)
{
    jw_key(w, "training");
    jw_object(w);
    if (!DB_IS_NULL(rows, CHECKPOINT_VIEW, trial_id))
        jw_kv_int(w, "trialId", DB_GET(rows, CHECKPOINT_VIEW, trial_id));
    if (!DB_IS_NULL(rows, CHECKPOINT_VIEW, experiment_id))
        jw_kv_int(w, "experimentId", DB_GET(rows, CHECKPOINT_VIEW, experiment_id));
    jw_kv_raw(w, "experimentConfig", DB_GET(rows, CHECKPOINT_VIEW, config));
    jw_kv_raw(w, "hparams", DB_GET(rows, CHECKPOINT_VIEW, hparams));
    jw_kv_raw(w, "validationMetrics", DB_GET(rows, CHECKPOINT_VIEW, validation));
    if (!DB_IS_NULL(rows, CHECKPOINT_VIEW, searcher_metric))
        jw_kv_double(w, "searcherMetric", DB_GET(rows, CHECKPOINT_VIEW, searcher_metric));
    jw_object_end(w);
}

// The storage in which the checkpoints of a trial are (core_run_start()).
int render_run_start(struct view *v, struct error *e)
{
    struct db_rows *rows = DB_QUERY(v->db, STORAGE_ID, (const char *)v->rq->result);
    int found = db_next(rows);
    jw_object(&v->w);
    if (found == 1)
        jw_kv_int(&v->w, "storageId", DB_GET(rows, STORAGE_ID, id));
    jw_object_end(&v->w);
    db_rows_close(rows);
    return found < 0 ? store_failed(e) : 0;
}

void write_checkpoint_object(struct json_writer *w, struct db_rows *rows)
{
    jw_object(w);
    jw_kv_string(w, "uuid", DB_GET(rows, CHECKPOINT_VIEW, uuid));
    jw_kv_string(w, "taskId", DB_GET(rows, CHECKPOINT_VIEW, task_id));
    jw_kv_string(w, "allocationId", DB_GET(rows, CHECKPOINT_VIEW, allocation_id));
    jw_kv_string(w, "state",
                 wire_name(WIRE_CHECKPOINT_STATE, DB_GET(rows, CHECKPOINT_VIEW, state)));
    jw_kv_int(w, "stepsCompleted", DB_GET(rows, CHECKPOINT_VIEW, steps));
    write_time(w, "reportTime", DB_GET(rows, CHECKPOINT_VIEW, reported_at));
    jw_kv_raw(w, "metadata", DB_GET(rows, CHECKPOINT_VIEW, metadata));
    write_resources(w, DB_GET(rows, CHECKPOINT_VIEW, resources));
    jw_kv_raw(w, "storage", DB_GET(rows, CHECKPOINT_VIEW, storage));
    if (!DB_IS_NULL(rows, CHECKPOINT_VIEW, storage_id))
        jw_kv_int(w, "storageId", DB_GET(rows, CHECKPOINT_VIEW, storage_id));
    if (!DB_IS_NULL(rows, CHECKPOINT_VIEW, removal_error))
        jw_kv_string(w, "removalError", DB_GET(rows, CHECKPOINT_VIEW, removal_error));
    write_training(w, rows);
    jw_object_end(w);
}

int no_checkpoint(const char *uuid, struct error *e)
{
    return error_not_found(e, "checkpoint", "%.64s", uuid);
}

int view_checkpoint(struct view *v, struct error *e)
{
    struct db_rows *rows = DB_QUERY(v->db, CHECKPOINT_VIEW_BY_UUID, v->rq->params[0]);
    int found = db_next(rows);
    if (found == 1) {
        jw_object(&v->w);
        jw_key(&v->w, "checkpoint");
        write_checkpoint_object(&v->w, rows);
        jw_object_end(&v->w);
    }
    db_rows_close(rows);
    return found < 0 ? store_failed(e) : found == 0 ? no_checkpoint(v->rq->params[0], e) : 0;
}

// Sorts by any validation metric. The name is bound once; the condition and the order refer to it
// by its number.
static void sort_by_metric(struct list *l, const char *metric)
{
    char text[64];
    const char *way = query_get(l->v->query, "orderBy");
    int number = (int)l->value_count + 1;
    snprintf(text, sizeof text, "?%d IS NOT NULL", number);
    list_and(l, text);
    list_bind_text(l, metric);
    buf_printf(&l->order, SQL_ORDER_BY_CHECKPOINT_METRIC, number);
    buf_printf(&l->order, "%s, c.uuid", way && !strcmp(way, "ORDER_BY_DESC") ? " DESC" : "");
}

static void sort_checkpoints(struct list *l)
{
    static const struct list_sort sorts[] = {{"SORT_BY_UUID", "c.uuid"},
                                             {"SORT_BY_TRIAL_ID", "c.trial_id"},
                                             {"SORT_BY_BATCH_NUMBER", "c.steps"},
                                             {"SORT_BY_START_TIME", "c.reported_at"},
                                             {"SORT_BY_END_TIME", "c.reported_at"},
                                             {"SORT_BY_STATE", SQL_CHECKPOINT_STATE},
                                             {"SORT_BY_SEARCHER_METRIC", SQL_CHECKPOINT_METRIC},
                                             {NULL, NULL}};
    const char *name = query_get(l->v->query, "sortByAttr") ? "sortByAttr" : "sortBy";
    const char *by = query_get(l->v->query, name);
    const char *metric = query_get(l->v->query, "sortByMetric");
    if (metric)
        sort_by_metric(l, metric);
    else if (by && !strcmp(by, "SORT_BY_SEARCHER_METRIC") && !query_get(l->v->query, "orderBy"))
        buf_puts(&l->order, SQL_ORDER_BY SQL_CHECKPOINT_BEST_FIRST); // the caller gives no order
    else
        list_sort(l, name, sorts, "c.steps DESC, c.reported_at DESC, c.uuid", "c.uuid");
}

static int list_checkpoints(struct view *v, const char *condition, int64_t id, struct error *e)
{
    struct list l;
    list_init(&l, v);
    list_and(&l, condition);
    list_bind_int(&l, id);
    list_filter_enum(&l, "states", SQL_CHECKPOINT_STATE, WIRE_CHECKPOINT_STATE);
    sort_checkpoints(&l);
    list_page(&l);
    static const struct list_source source = {"checkpoints", SQL_SELECT(CHECKPOINT_VIEW_ROW),
                                              SQL_CHECKPOINT_FROM, SQL_CHECKPOINT_JOINED,
                                              write_checkpoint_object};
    return list_answer(&l, &source, e);
}

int view_trial_checkpoints(struct view *v, struct error *e)
{
    int64_t id;
    int rc = request_param_int(v->rq, 0, &id, e);
    return rc ? rc : list_checkpoints(v, "c.trial_id = ?", id, e);
}

int view_experiment_checkpoints(struct view *v, struct error *e)
{
    int64_t id;
    int rc = request_param_int(v->rq, 0, &id, e);
    return rc ? rc : list_checkpoints(v, "c.experiment_id = ?", id, e);
}

// --- preview of a retention policy
// ------------------------------------------------------------------

// This call of Determined has keys unlike those of the other calls.
static void write_gc_checkpoint(struct json_writer *w, struct db_rows *rows)
{
    json_t *validation = NULL;
    const char *text = DB_GET(rows, CHECKPOINT_VIEW, validation);
    if (text)
        json_parse(text, strlen(text), "validation", &validation, NULL);
    jw_object(w);
    jw_kv_string(w, "UUID", DB_GET(rows, CHECKPOINT_VIEW, uuid));
    jw_kv_int(w, "TrialID", DB_GET(rows, CHECKPOINT_VIEW, trial_id));
    jw_kv_int(w, "StepsCompleted", DB_GET(rows, CHECKPOINT_VIEW, steps));
    jw_kv_string(w, "State", DB_GET(rows, CHECKPOINT_VIEW, state));
    write_time(w, "ReportTime", DB_GET(rows, CHECKPOINT_VIEW, reported_at));
    jw_kv_raw(w, "Resources", DB_GET(rows, CHECKPOINT_VIEW, resources));
    jw_key(w, "ValidationMetrics");
    jw_json(w, jget(validation, "avgMetrics"));
    jw_key(w, "step");
    jw_object(w);
    jw_kv_raw(w, "validation", text);
    jw_object_end(w);
    jw_object_end(w);
    json_decref(validation);
}

static void write_gc_checkpoints(struct view *v, const struct checkpoint_candidate *rows,
                                 size_t count)
{
    jw_key(&v->w, "checkpoints");
    jw_array(&v->w);
    for (size_t i = 0; i < count; i++) {
        if (rows[i].reasons)
            continue;
        struct db_rows *found = DB_QUERY(v->db, CHECKPOINT_VIEW_BY_UUID, rows[i].uuid);
        if (db_next(found) == 1)
            write_gc_checkpoint(&v->w, found);
        db_rows_close(found);
    }
    jw_array_end(&v->w);
}

static void write_metric_name(struct view *v, int64_t experiment)
{
    json_t *config = NULL;
    struct db_rows *rows = DB_QUERY(v->db, EXPERIMENT_BY_ID, experiment);
    if (db_next(rows) == 1)
        json_parse(DB_GET(rows, EXPERIMENT_BY_ID, config),
                   strlen(DB_GET(rows, EXPERIMENT_BY_ID, config)), "config", &config, NULL);
    db_rows_close(rows);
    jw_kv_string(&v->w, "metric_name", jget_string(jget(config, "searcher"), "metric", ""));
    json_decref(config);
}

static int read_policy(struct view *v, struct checkpoint_policy *out, struct error *e)
{
    int rc = request_query_int(v->rq, "saveExperimentBest", -1, &out->experiment_best, e);
    if (!rc)
        rc = request_query_int(v->rq, "saveTrialBest", -1, &out->trial_best, e);
    if (!rc)
        rc = request_query_int(v->rq, "saveTrialLatest", -1, &out->trial_latest, e);
    return rc;
}

int view_preview_gc(struct view *v, struct error *e)
{
    struct checkpoint_policy policy;
    struct checkpoint_candidate *rows = NULL;
    size_t count = 0;
    int64_t id;
    int rc = request_param_int(v->rq, 0, &id, e);
    if (!rc)
        rc = read_policy(v, &policy, e);
    if (!rc)
        rc = gc_choose(v->db, v->service->storage, id, &policy, &rows, &count, e);
    if (!rc) {
        jw_object(&v->w);
        write_gc_checkpoints(v, rows, count);
        write_metric_name(v, id);
        jw_object_end(&v->w);
    }
    free(rows);
    return rc;
}
