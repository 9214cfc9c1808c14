// Single experiments and their archives.

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/clock.h"
#include "base/hash.h"
#include "base/log.h"
#include "master/common/failure_summary.h"
#include "master/common/missing_metric.h"
#include "master/common/task_id.h"
#include "master/views/lists/list.h"
#include "master/views/live_state/live_state.h"
#include "master/views/views.h"

enum {
    SUMMARY_TRIALS = 2000, // that a summary of failures looks at
    NAMES_MAX = 1000,      // metrics of a group; with more there is no warning
};

// Absent without allocations, and for large searches: sooner in lists than for one experiment.
static void write_ran_and_waited(struct json_writer *w, struct db_rows *rows)
{
    if (DB_IS_NULL(rows, EXPERIMENT_VIEW, present_us))
        return;
    bool ran_once = !DB_IS_NULL(rows, EXPERIMENT_VIEW, ran_us);
    double ran = ran_once ? DB_GET(rows, EXPERIMENT_VIEW, ran_us) : 0;
    double waited = DB_GET(rows, EXPERIMENT_VIEW, present_us) - ran;
    jw_kv_double(w, "ranSeconds", ran / 1e6);
    jw_kv_double(w, "waitedSeconds", waited > 0 ? waited / 1e6 : 0);
}

void write_experiment_members(struct json_writer *w, struct db_rows *rows)
{
    jw_kv_int(w, "id", DB_GET(rows, EXPERIMENT_VIEW, id));
    jw_kv_string(w, "state",
                 wire_name(WIRE_EXPERIMENT_STATE, DB_GET(rows, EXPERIMENT_VIEW, state)));
    jw_kv_string(w, "name", DB_GET(rows, EXPERIMENT_VIEW, name));
    if (!DB_IS_NULL(rows, EXPERIMENT_VIEW,
                    description)) { // short lists leave out the texts and the configuration
        jw_kv_string(w, "description", DB_GET(rows, EXPERIMENT_VIEW, description));
        jw_kv_string(w, "notes", DB_GET(rows, EXPERIMENT_VIEW, notes));
    }
    jw_kv_raw(w, "labels", DB_GET(rows, EXPERIMENT_VIEW, labels));
    jw_kv_int(w, "userId", DB_GET(rows, EXPERIMENT_VIEW, user_id));
    jw_kv_string(w, "username", DB_GET(rows, EXPERIMENT_VIEW, username));
    jw_kv_string(w, "displayName", DB_GET(rows, EXPERIMENT_VIEW, display_name));
    jw_kv_int(w, "projectId", DB_GET(rows, EXPERIMENT_VIEW, project_id));
    jw_kv_string(w, "projectName", DB_GET(rows, EXPERIMENT_VIEW, project_name));
    jw_kv_int(w, "projectOwnerId", DB_GET(rows, EXPERIMENT_VIEW, project_owner_id));
    jw_kv_int(w, "workspaceId", DB_GET(rows, EXPERIMENT_VIEW, workspace_id));
    jw_kv_string(w, "workspaceName", DB_GET(rows, EXPERIMENT_VIEW, workspace_name));
    jw_kv_bool(w, "parentArchived", DB_GET(rows, EXPERIMENT_VIEW, parent_archived));
    jw_kv_string(w, "jobId", DB_GET(rows, EXPERIMENT_VIEW, job_id));
    if (!DB_IS_NULL(rows, EXPERIMENT_VIEW, parent_id))
        jw_kv_int(w, "forkedFrom", DB_GET(rows, EXPERIMENT_VIEW, parent_id));
    if (!DB_IS_NULL(rows, EXPERIMENT_VIEW, config))
        jw_kv_raw(w, "config", DB_GET(rows, EXPERIMENT_VIEW, config));
    jw_kv_string(w, "searcherType", DB_GET(rows, EXPERIMENT_VIEW, searcher_type));
    jw_kv_double(w, "progress", DB_GET(rows, EXPERIMENT_VIEW, progress));
    if (DB_IS_NULL(rows, EXPERIMENT_VIEW, best_metric))
        jw_kv_raw(w, "bestTrialSearcherMetric", NULL);
    else
        jw_kv_double(w, "bestTrialSearcherMetric", DB_GET(rows, EXPERIMENT_VIEW, best_metric));
    jw_kv_bool(w, "archived", DB_GET(rows, EXPERIMENT_VIEW, archived));
    jw_kv_bool(w, "unmanaged", DB_GET(rows, EXPERIMENT_VIEW, unmanaged));
    write_time(w, "startTime", DB_GET(rows, EXPERIMENT_VIEW, submitted_at));
    write_time(w, "endTime", DB_GET(rows, EXPERIMENT_VIEW, ended_at));
    jw_kv_int(w, "numTrials", DB_GET(rows, EXPERIMENT_VIEW, trials));
    write_pool_name(
        w, DB_IS_NULL(rows, EXPERIMENT_VIEW, pool) ? NULL : DB_GET(rows, EXPERIMENT_VIEW, pool));
    jw_kv_int(w, "liveAllocations", DB_GET(rows, EXPERIMENT_VIEW, live_allocations));
    if (!DB_IS_NULL(rows, EXPERIMENT_VIEW, failure))
        jw_kv_string(w, "failure", DB_GET(rows, EXPERIMENT_VIEW, failure));
    jw_kv_string(w, "externalExperimentId", DB_GET(rows, EXPERIMENT_VIEW, external_id));
    jw_kv_int(w, "checkpointCount", DB_GET(rows, EXPERIMENT_VIEW, checkpoints));
    write_bytes(w, "checkpointSize", DB_GET(rows, EXPERIMENT_VIEW, checkpoint_bytes));
    write_ran_and_waited(w, rows);
}

static void write_trial_ids(struct view *v, int64_t id)
{
    struct db_rows *rows = DB_QUERY(v->db, EXPERIMENT_TRIAL_IDS, id);
    jw_key(&v->w, "trialIds");
    jw_array(&v->w);
    while (db_next(rows) == 1)
        jw_int(&v->w, DB_GET(rows, EXPERIMENT_TRIAL_IDS, id));
    jw_array_end(&v->w);
    db_rows_close(rows);
}

static void write_best_trial(struct view *v, int64_t id)
{
    struct db_rows *rows = DB_QUERY(v->db, EXPERIMENT_BEST_TRIAL, id);
    if (db_next(rows) == 1)
        jw_kv_int(&v->w, "bestTrialId", DB_GET(rows, EXPERIMENT_BEST_TRIAL, trial_id));
    db_rows_close(rows);
}

// Returns the number of trials that it has read, failed ones first; 0: none has failed.
static size_t read_outcomes(struct view *v, int64_t id, struct trial_outcome *out)
{
    size_t count = 0;
    struct db_rows *rows = DB_QUERY(v->db, EXPERIMENT_OUTCOMES, id, SUMMARY_TRIALS);
    while (count < SUMMARY_TRIALS && db_next(rows) == 1) {
        bool failed = !DB_IS_NULL(rows, EXPERIMENT_OUTCOMES, reason);
        const char *hparams = DB_GET(rows, EXPERIMENT_OUTCOMES, hparams);
        out[count++] = (struct trial_outcome){
            .id = DB_GET(rows, EXPERIMENT_OUTCOMES, id),
            .reason = failed ? xstrdup(DB_GET(rows, EXPERIMENT_OUTCOMES, reason)) : NULL,
            .hparams = json_loads(hparams ? hparams : "", 0, NULL),
        };
    }
    db_rows_close(rows);
    return count;
}

static void write_failure_summary(struct view *v, int64_t id, int64_t trials)
{
    struct trial_outcome *list = xcalloc(SUMMARY_TRIALS, sizeof *list);
    size_t count = trials > 1 ? read_outcomes(v, id, list) : 0;
    char *summary = failure_summary(list, count, (size_t)trials);
    if (summary)
        jw_kv_string(&v->w, "failureSummary", summary);
    free(summary);
    while (count-- > 0) {
        free((char *)list[count].reason);
        json_decref(list[count].hparams);
    }
    free(list);
}

// Reads the names of the metrics of a group, in the arena of the request; the list ends with NULL.
// False: there are more than NAMES_MAX.
static bool read_metric_names(struct view *v, int64_t id, const char *group,
                              const char *const **out)
{
    char ids[32];
    const char **names = arena_alloc(&v->rq->arena, (NAMES_MAX + 1) * sizeof *names);
    size_t count = 0;
    snprintf(ids, sizeof ids, "[%lld]", (long long)id);
    struct db_rows *rows = DB_QUERY(v->db, METRIC_NAMES, ids, group);
    while (count <= NAMES_MAX && db_next(rows) == 1) {
        if (count < NAMES_MAX)
            names[count] = arena_strdup(&v->rq->arena, DB_GET(rows, METRIC_NAMES, name));
        count++;
    }
    db_rows_close(rows);
    names[count < NAMES_MAX ? count : NAMES_MAX] = NULL;
    *out = names;
    return count <= NAMES_MAX;
}

static void write_metric_warning(struct view *v, struct db_rows *rows)
{
    struct reported_metrics reported = {0};
    int64_t id = DB_GET(rows, EXPERIMENT_VIEW, id);
    if (!DB_IS_NULL(rows, EXPERIMENT_VIEW, best_metric) || DB_GET(rows, EXPERIMENT_VIEW, unmanaged))
        return;
    reported.completed = !strcmp(DB_GET(rows, EXPERIMENT_VIEW, state), "COMPLETED");
    reported.single = !strcmp(DB_GET(rows, EXPERIMENT_VIEW, searcher_type), "single");
    reported.subject = reported.single ? "the trial" : "the trials";
    if (!read_metric_names(v, id, "validation", &reported.validation) ||
        !read_metric_names(v, id, "training", &reported.training))
        return;
    char *text =
        missing_metric_warning(DB_GET(rows, EXPERIMENT_VIEW_BY_ID, searcher_metric), &reported);
    if (text)
        jw_kv_string(&v->w, "metricWarning", text);
    free(text);
}

// Writes the key "experiment" with all members; `config`: and the key "config" beside it.
static int write_experiment_view(struct view *v, int64_t id, bool config, struct error *e)
{
    struct json_writer *w = &v->w;
    struct db_rows *rows = DB_QUERY(v->db, EXPERIMENT_VIEW_BY_ID, clock_wall_us(), id);
    int found = db_next(rows);
    if (found == 1) {
        jw_key(w, "experiment");
        jw_object(w);
        write_experiment_members(w, rows);
        jw_kv_string(w, "originalConfig", DB_GET(rows, EXPERIMENT_VIEW_BY_ID, original_config));
        jw_kv_int(w, "seed", DB_GET(rows, EXPERIMENT_VIEW_BY_ID, seed));
        jw_kv_string(w, "searcherMetric", DB_GET(rows, EXPERIMENT_VIEW_BY_ID, searcher_metric));
        jw_kv_int(w, "priority", DB_GET(rows, EXPERIMENT_VIEW_BY_ID, priority));
        jw_kv_double(w, "runSeconds",
                     (double)DB_GET(rows, EXPERIMENT_VIEW_BY_ID, all_ran_us) /
                         1e6); // of all starts
        write_best_trial(v, id);
        write_trial_ids(v, id);
        write_failure_summary(v, id, DB_GET(rows, EXPERIMENT_VIEW, trials));
        write_metric_warning(v, rows);
        jw_object_end(w);
        if (config)
            jw_kv_raw(w, "config", DB_GET(rows, EXPERIMENT_VIEW_BY_ID, config));
    }
    db_rows_close(rows);
    return found < 0    ? store_failed(e)
           : found == 0 ? error_not_found(e, "experiment", "%lld", (long long)id)
                        : 0;
}

int render_experiment(struct view *v, struct error *e)
{
    jw_object(&v->w);
    int rc = write_experiment_view(v, v->rq->id, false, e);
    if (v->rq->warning) // of a change of its resources
        request_write_warning(v->rq, &v->w);
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

// Writes {"b64Tgz": ..}. A submission without files has an empty archive. The pieces can be encoded
// one by one because the length of each, except the last, is a multiple of 3.
static int answer_archive(struct view *v, struct db_rows *rows, const char *what, struct error *e)
{
    int pieces = 0, more;
    buf_puts(&v->rq->answer, "{\"b64Tgz\":\""); // base64 needs no escapes
    for (; (more = db_next(rows)) > 0; pieces++) {
        struct db_blob piece =
            DB_GET(rows, EXPERIMENT_ARCHIVE, piece); // the column of TASK_ARCHIVE, too
        char *text = base64_encode(piece.data ? piece.data : "", piece.len);
        buf_puts(&v->rq->answer, text);
        free(text);
    }
    buf_puts(&v->rq->answer, "\"}");
    db_rows_close(rows);
    return more < 0  ? store_failed(e)
           : !pieces ? error_not_found(e, what, "%.128s", v->rq->params[0])
                     : 0;
}

int view_model_definition(struct view *v, struct error *e)
{
    int64_t id;
    int rc = request_param_int(v->rq, 0, &id, e);
    return rc ? rc : answer_archive(v, DB_QUERY(v->db, EXPERIMENT_ARCHIVE, id), "experiment", e);
}

int view_context_directory(struct view *v, struct error *e)
{
    char first[TASK_ID];
    const char *task = task_id_first(v->rq->params[0], first);
    return answer_archive(v, DB_QUERY(v->db, TASK_ARCHIVE, task), "task", e);
}
