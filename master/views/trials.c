// Single trials.

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "master/views/lists/list.h"
#include "master/views/views.h"

static void write_trial(struct json_writer *w, struct db_rows *rows)
{
    jw_kv_int(w, "id", DB_GET(rows, TRIAL_VIEW, id));
    jw_kv_int(w, "experimentId", DB_GET(rows, TRIAL_VIEW, experiment_id));
    jw_kv_string(w, "state", wire_name(WIRE_TRIAL_STATE, DB_GET(rows, TRIAL_VIEW, state)));
    jw_kv_raw(w, "hparams", DB_GET(rows, TRIAL_VIEW, hparams));
    jw_kv_int(w, "restarts", DB_GET(rows, TRIAL_VIEW, restarts));
    jw_kv_int(w, "totalBatchesProcessed", DB_GET(rows, TRIAL_VIEW, steps_completed));
    write_time(w, "startTime", DB_GET(rows, TRIAL_VIEW, started_at));
    write_time(w, "endTime", DB_GET(rows, TRIAL_VIEW, ended_at));
    jw_kv_string(w, "taskId", DB_GET(rows, TRIAL_VIEW, task_id));
    jw_kv_raw(w, "taskIds", DB_GET(rows, TRIAL_VIEW, task_ids));
    jw_kv_string(w, "runnerState", DB_GET(rows, TRIAL_VIEW, runner_state));
    jw_kv_raw(w, "summaryMetrics", DB_GET(rows, TRIAL_VIEW, summary_metrics));
    jw_kv_raw(w, "latestTraining", DB_GET(rows, TRIAL_VIEW, latest_training));
    jw_kv_raw(w, "latestValidation", DB_GET(rows, TRIAL_VIEW, latest_validation));
    jw_kv_raw(w, "bestValidation", DB_GET(rows, TRIAL_VIEW, best_validation));
    jw_kv_string(w, "latestCheckpoint", DB_GET(rows, TRIAL_VIEW, latest_checkpoint));
    jw_kv_double(w, "progress", DB_GET(rows, TRIAL_VIEW, progress));
    jw_kv_string(w, "exitReason", DB_GET(rows, TRIAL_VIEW, exit_reason));
    jw_kv_string(w, "lastWords", DB_GET(rows, TRIAL_VIEW, last_words));
    if (DB_GET(rows, TRIAL_VIEW, restart_at))
        write_time(w, "restartTime", DB_GET(rows, TRIAL_VIEW, restart_at));
    jw_kv_int(w, "failedAlike", DB_GET(rows, TRIAL_VIEW, failed_alike));
    jw_kv_int(w, "liveAllocations", DB_GET(rows, TRIAL_VIEW, live_allocations));
    jw_kv_int(w, "runId", DB_GET(rows, TRIAL_VIEW, run_id));
    jw_kv_int(w, "seed", DB_GET(rows, TRIAL_VIEW, seed));
    jw_kv_int(w, "checkpointCount", DB_GET(rows, TRIAL_VIEW, checkpoints));
    write_bytes(w, "totalCheckpointSize", DB_GET(rows, TRIAL_VIEW, checkpoint_bytes));
    jw_kv_string(w, "warmStartCheckpointUuid", DB_GET(rows, TRIAL_VIEW, warm_start));
    if (DB_GET(rows, TRIAL_VIEW, source_trial))
        jw_kv_int(w, "sourceTrialId", DB_GET(rows, TRIAL_VIEW, source_trial));
    if (DB_IS_NULL(rows, TRIAL_VIEW, searcher_metric))
        jw_kv_raw(w, "searcherMetricValue", NULL);
    else
        jw_kv_double(w, "searcherMetricValue", DB_GET(rows, TRIAL_VIEW, searcher_metric));
    if (!DB_IS_NULL(rows, TRIAL_VIEW, log_retention_days))
        jw_kv_int(w, "logRetentionDays", DB_GET(rows, TRIAL_VIEW, log_retention_days));
    jw_kv_double(w, "wallClockTime", (double)DB_GET(rows, TRIAL_VIEW, ran_us) / 1e6);
    if (!DB_IS_NULL(rows, TRIAL_VIEW, waited_us))
        jw_kv_double(w, "waitedSeconds", DB_GET(rows, TRIAL_VIEW, waited_us) / 1e6);
}

void write_trial_row(struct json_writer *w, struct db_rows *rows)
{
    jw_object(w);
    write_trial(w, rows);
    jw_object_end(w);
}

static void write_best_checkpoint(struct view *v, int64_t trial)
{
    struct json_writer *w = &v->w;
    struct db_rows *rows = DB_QUERY(v->db, TRIAL_BEST_CHECKPOINT, trial);
    jw_key(w, "bestCheckpoint");
    if (db_next(rows) == 1)
        write_checkpoint_workload(w, rows);
    else
        jw_null(w);
    db_rows_close(rows);
}

int render_trial(struct view *v, struct error *e)
{
    int64_t id = v->rq->id;
    struct json_writer *w = &v->w;
    struct db_rows *rows = DB_QUERY(v->db, TRIAL_VIEW_BY_ID, id);
    int found = db_next(rows);
    if (found == 1) {
        jw_object(w);
        jw_key(w, "trial");
        jw_object(w);
        write_trial(w, rows);
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

// Finds a trial by the external ids of its experiment and itself.
int view_trial_by_external_id(struct view *v, struct error *e)
{
    const char *const *names = v->rq->params;
    struct db_rows *rows = DB_QUERY(v->db, TRIAL_OF_EXTERNAL, names[0], names[1]);
    size_t count = authz_count_visible(v->db, &v->rq->principal, AUTHZ_TRIAL, rows, &v->rq->id);
    if (count > 1)
        return error_set(
            e, ERR_CONFLICT,
            "%zu experiments in different workspaces are named %.128s and have a trial "
            "named %.128s: use the id of the trial (one of them is %lld)",
            count, names[0], names[1], (long long)v->rq->id);
    if (!count)
        return error_set(e, ERR_NOT_FOUND, "trial '%.128s' not found in experiment '%.128s'",
                         names[1], names[0]);
    return render_trial(v, e);
}

int view_run_metadata(struct view *v, struct error *e)
{
    int64_t id;
    int rc = request_param_int(v->rq, 0, &id, e);
    if (rc)
        return rc;
    struct db_rows *rows = DB_QUERY(v->db, TRIAL_METADATA, id);
    int found = db_next(rows);
    jw_object(&v->w);
    jw_kv_raw(&v->w, "metadata", found == 1 ? DB_GET(rows, TRIAL_METADATA, metadata) : "{}");
    jw_object_end(&v->w);
    db_rows_close(rows);
    return found < 0 ? store_failed(e) : found == 0 ? no_trial(id, e) : 0;
}

int find_task_of_trial(struct view *v, int64_t *trial, const char **task, struct error *e)
{
    int rc = request_param_int(v->rq, 0, trial, e);
    if (rc)
        return rc;
    struct db_rows *rows = DB_QUERY(v->db, TRIAL_TASK, *trial);
    int found = db_next(rows);
    *task = found == 1 ? arena_strdup(&v->rq->arena, DB_GET(rows, TRIAL_TASK, task_id)) : NULL;
    db_rows_close(rows);
    return found < 0 ? store_failed(e) : found == 0 ? no_trial(*trial, e) : 0;
}

// The days from the end of the trial, or from now if it has not ended; -1: for ever.
int view_trial_log_days(struct view *v, struct error *e)
{
    static const int64_t day = 24LL * 3600 * 1000 * 1000;
    int64_t id, days, left = 0;
    const char *task;
    int rc = find_task_of_trial(v, &id, &task, e);
    if (rc)
        return rc;
    struct db_rows *rows = DB_QUERY(v->db, LOG_RETENTION, task, v->service->log_days);
    int found = db_next(rows);
    days = found == 1 ? DB_GET(rows, LOG_RETENTION, days) : -1;
    if (found == 1 && !DB_IS_NULL(rows, LOG_RETENTION, ended_at))
        left = DB_GET(rows, LOG_RETENTION, ended_at) + days * day - clock_wall_us();
    else
        left = days * day;
    db_rows_close(rows);
    if (found < 0)
        return store_failed(e);
    jw_object(&v->w);
    jw_kv_int(&v->w, "remainingDays", days < 0 ? -1 : left > 0 ? left / day : 0);
    jw_object_end(&v->w);
    return 0;
}

int no_trial(int64_t id, struct error *e)
{
    return error_not_found(e, "trial", "%lld", (long long)id);
}
