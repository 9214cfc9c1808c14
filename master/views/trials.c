// Trials as the wire has them: lists, descriptions.

#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "master/views/list.h"
#include "master/views/views.h"

enum { // columns of SQL_TRIAL_COLUMNS
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
    T_LOG_DAYS,
    T_WALL_CLOCK,
    T_LAST_WORDS,
    T_RESTART_AT,
    T_FAILED_ALIKE,
    T_HELD,
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
    jw_kv_string(w, "lastWords", db_text(rows, T_LAST_WORDS));
    if (db_int(rows, T_RESTART_AT))
        write_time(w, "restartTime", db_int(rows, T_RESTART_AT));
    jw_kv_int(w, "failedAlike", db_int(rows, T_FAILED_ALIKE));
    jw_kv_int(w, "liveAllocations", db_int(rows, T_HELD));
    jw_kv_int(w, "runId", db_int(rows, T_RUN_ID));
    jw_kv_int(w, "seed", db_int(rows, T_SEED));
    jw_kv_int(w, "checkpointCount", db_int(rows, T_CHECKPOINTS));
    if (!db_is_null(rows, T_SEARCHER_METRIC))
        jw_kv_double(w, "searcherMetricValue", db_double(rows, T_SEARCHER_METRIC));
    if (!db_is_null(rows, T_LOG_DAYS))
        jw_kv_int(w, "logRetentionDays", db_int(rows, T_LOG_DAYS));
    jw_kv_double(w, "wallClockTime", (double)db_int(rows, T_WALL_CLOCK) / 1e6);
}

_Static_assert(T_HELD + 1 == TRIAL_LIST_COLUMNS, "what the list selects");

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
    struct db_rows *rows = db_query(v->db, STMT_TRIAL_VIEW, "i", id);
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

// By the names that the programs of an unmanaged experiment gave to it and to the trial.
int view_trial_by_external_id(struct view *v, struct error *e)
{
    const char *const *names = v->rq->params;
    struct db_rows *rows = db_query(v->db, STMT_TRIAL_OF_EXTERNAL, "ss", names[0], names[1]);
    size_t count = sight_count(v->db, &v->rq->principal, THING_TRIAL, rows, &v->rq->id);
    if (count > 1)
        return error_set(e, ERR_CONFLICT,
                         "%zu experiments of several workspaces are named %.128s and have a trial "
                         "of the name %.128s: ask for the trial by its id (one of them is %lld)",
                         count, names[0], names[1], (long long)v->rq->id);
    if (!count)
        return error_set(e, ERR_NOT_FOUND, "experiment %.128s has no trial of the name %.128s",
                         names[0], names[1]);
    return render_trial(v, e);
}

int no_trial(int64_t id, struct error *e)
{
    return error_set(e, ERR_NOT_FOUND, "there is no trial %lld", (long long)id);
}
