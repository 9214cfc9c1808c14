// Experiments as the wire has them, read from the committed store.

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/hash.h"
#include "base/log.h"
#include "master/views/list.h"
#include "master/views/live_state/live_state.h"
#include "master/views/views.h"

enum { // columns of SQL_EXPERIMENT_COLUMNS, then of STMT_EXPERIMENT_VIEW
    E_ID,
    E_STATE,
    E_NAME,
    E_DESCRIPTION,
    E_NOTES,
    E_LABELS,
    E_USER_ID,
    E_USERNAME,
    E_DISPLAY_NAME,
    E_PROJECT_ID,
    E_PROJECT_NAME,
    E_PROJECT_OWNER,
    E_WORKSPACE_ID,
    E_WORKSPACE_NAME,
    E_PARENT_ARCHIVED,
    E_JOB_ID,
    E_PARENT_ID,
    E_CONFIG,
    E_SEARCHER_TYPE,
    E_PROGRESS,
    E_BEST_METRIC,
    E_ARCHIVED,
    E_UNMANAGED,
    E_SUBMITTED_AT,
    E_ENDED_AT,
    E_TRIALS,
    E_POOL,
    E_LIVE_ALLOCATIONS,
    E_FAILURE,
    E_ORIGINAL_CONFIG,
    E_SEED,
    E_CHECKPOINTS,
    E_SEARCHER_METRIC,
    E_PRIORITY,
    E_RUN_TIME,
};

static void write_number_or_null(struct json_writer *w, const char *key, struct db_rows *rows,
                                 int column)
{
    if (db_is_null(rows, column))
        jw_kv_raw(w, key, NULL);
    else
        jw_kv_double(w, key, db_double(rows, column));
}

// The members that lists and descriptions share.
void write_experiment_members(struct json_writer *w, struct db_rows *rows)
{
    jw_kv_int(w, "id", db_int(rows, E_ID));
    jw_kv_string(w, "state", wire_name(WIRE_EXPERIMENT_STATE, db_text(rows, E_STATE)));
    jw_kv_string(w, "name", db_text(rows, E_NAME));
    if (!db_is_null(rows, E_DESCRIPTION)) { // a light list goes without, and without the config
        jw_kv_string(w, "description", db_text(rows, E_DESCRIPTION));
        jw_kv_string(w, "notes", db_text(rows, E_NOTES));
    }
    jw_kv_raw(w, "labels", db_text(rows, E_LABELS));
    jw_kv_int(w, "userId", db_int(rows, E_USER_ID));
    jw_kv_string(w, "username", db_text(rows, E_USERNAME));
    jw_kv_string(w, "displayName", db_text(rows, E_DISPLAY_NAME));
    jw_kv_int(w, "projectId", db_int(rows, E_PROJECT_ID));
    jw_kv_string(w, "projectName", db_text(rows, E_PROJECT_NAME));
    jw_kv_int(w, "projectOwnerId", db_int(rows, E_PROJECT_OWNER));
    jw_kv_int(w, "workspaceId", db_int(rows, E_WORKSPACE_ID));
    jw_kv_string(w, "workspaceName", db_text(rows, E_WORKSPACE_NAME));
    jw_kv_bool(w, "parentArchived", db_int(rows, E_PARENT_ARCHIVED));
    jw_kv_string(w, "jobId", db_text(rows, E_JOB_ID));
    if (!db_is_null(rows, E_PARENT_ID))
        jw_kv_int(w, "forkedFrom", db_int(rows, E_PARENT_ID));
    if (!db_is_null(rows, E_CONFIG))
        jw_kv_raw(w, "config", db_text(rows, E_CONFIG));
    jw_kv_string(w, "searcherType", db_text(rows, E_SEARCHER_TYPE));
    jw_kv_double(w, "progress", db_double(rows, E_PROGRESS));
    write_number_or_null(w, "bestTrialSearcherMetric", rows, E_BEST_METRIC);
    jw_kv_bool(w, "archived", db_int(rows, E_ARCHIVED));
    jw_kv_bool(w, "unmanaged", db_int(rows, E_UNMANAGED));
    write_time(w, "startTime", db_int(rows, E_SUBMITTED_AT));
    write_time(w, "endTime", db_int(rows, E_ENDED_AT));
    jw_kv_int(w, "numTrials", db_int(rows, E_TRIALS));
    jw_kv_string(w, "resourcePool", db_is_null(rows, E_POOL) ? "" : db_text(rows, E_POOL));
    jw_kv_int(w, "liveAllocations", db_int(rows, E_LIVE_ALLOCATIONS));
    if (!db_is_null(rows, E_FAILURE))
        jw_kv_string(w, "failure", db_text(rows, E_FAILURE));
}

static void write_trial_ids(struct view *v, int64_t id)
{
    struct db_rows *rows = db_query(v->db, STMT_EXPERIMENT_TRIAL_IDS, "i", id);
    jw_key(&v->w, "trialIds");
    jw_array(&v->w);
    while (db_next(rows) == 1)
        jw_int(&v->w, db_int(rows, 0));
    jw_array_end(&v->w);
    db_rows_close(rows);
}

static void write_best_trial(struct view *v, int64_t id)
{
    struct db_rows *rows = db_query(v->db, STMT_EXPERIMENT_BEST_TRIAL, "i", id);
    if (db_next(rows) == 1)
        jw_kv_int(&v->w, "bestTrialId", db_int(rows, 0));
    db_rows_close(rows);
}

// Key "experiment" with everything there is about it; `config`: and that key beside it.
static int write_experiment_view(struct view *v, int64_t id, bool config, struct error *e)
{
    struct json_writer *w = &v->w;
    struct db_rows *rows = db_query(v->db, STMT_EXPERIMENT_VIEW, "ii", clock_wall_us(), id);
    int found = db_next(rows);
    if (found == 1) {
        jw_key(w, "experiment");
        jw_object(w);
        write_experiment_members(w, rows);
        jw_kv_string(w, "originalConfig", db_text(rows, E_ORIGINAL_CONFIG));
        jw_kv_int(w, "seed", db_int(rows, E_SEED));
        jw_kv_int(w, "checkpointCount", db_int(rows, E_CHECKPOINTS));
        jw_kv_string(w, "searcherMetric", db_text(rows, E_SEARCHER_METRIC));
        jw_kv_int(w, "priority", db_int(rows, E_PRIORITY));
        jw_kv_double(w, "runSeconds", (double)db_int(rows, E_RUN_TIME) / 1e6); // of all starts
        write_best_trial(v, id);
        write_trial_ids(v, id);
        jw_object_end(w);
        if (config)
            jw_kv_raw(w, "config", db_text(rows, E_CONFIG));
    }
    db_rows_close(rows);
    return found < 0    ? store_failed(e)
           : found == 0 ? error_set(e, ERR_NOT_FOUND, "there is no experiment %lld", (long long)id)
                        : 0;
}

int render_experiment(struct view *v, struct error *e)
{
    jw_object(&v->w);
    int rc = write_experiment_view(v, v->rq->id, false, e);
    jw_object_end(&v->w);
    return rc;
}

int view_experiment(struct view *v, struct error *e)
{
    int rc = request_param_int(v->rq, 0, &v->rq->id, e);
    return rc ? rc : render_experiment(v, e);
}

int render_experiment_created(struct view *v, struct error *e)
{
    if (v->rq->result)
        return render_preview(v, e);
    jw_object(&v->w);
    int rc = write_experiment_view(v, v->rq->id, true, e);
    request_write_warning(v->rq, &v->w);
    jw_object_end(&v->w);
    return rc;
}

// {"b64Tgz": ..} of the archive's pieces. A submission without files has an empty archive. Each
// piece but the last has a length that is a multiple of 3 (core/files.c).
static int answer_archive(struct view *v, struct db_rows *rows, const char *what, struct error *e)
{
    int pieces = 0, more;
    buf_puts(&v->rq->answer, "{\"b64Tgz\":\""); // base64 needs no escapes
    for (; (more = db_next(rows)) > 0; pieces++) {
        size_t len = 0;
        const void *piece = db_blob(rows, 0, &len);
        char *text = base64_encode(piece ? piece : "", len);
        buf_puts(&v->rq->answer, text);
        free(text);
    }
    buf_puts(&v->rq->answer, "\"}");
    db_rows_close(rows);
    return more < 0  ? store_failed(e)
           : !pieces ? error_set(e, ERR_NOT_FOUND, "there is no %s %.128s", what, v->rq->params[0])
                     : 0;
}

int view_model_definition(struct view *v, struct error *e)
{
    int64_t id;
    int rc = request_param_int(v->rq, 0, &id, e);
    return rc ? rc
              : answer_archive(v, db_query(v->db, STMT_EXPERIMENT_ARCHIVE, "i", id), "experiment",
                               e);
}

int view_context_directory(struct view *v, struct error *e)
{
    return answer_archive(v, db_query(v->db, STMT_TASK_ARCHIVE, "s", v->rq->params[0]), "task", e);
}
