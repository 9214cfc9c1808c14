// Writes the JSON of an event from the committed values of the changed object. Runs on the hub's
// thread, once for all followers.

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/wire.h"
#include "base/clock.h"
#include "base/text/json.h"
#include "master/notify/hub.h"

enum { METRICS_TEXT_MAX = 16 * 1024 }; // bytes; followers fetch a longer report themselves

static void write_time(struct json_writer *w, const char *key, int64_t wall_us)
{
    char text[CLOCK_RFC3339_MAX];
    jw_kv_string(w, key, wall_us ? clock_format(wall_us, text) : NULL);
}

// An object that no longer exists.
static void write_deleted(struct json_writer *w, const char *key, int64_t id)
{
    if (id)
        jw_kv_int(w, key, id);
    jw_kv_bool(w, "deleted", true);
}

static void write_experiment(struct json_writer *w, struct db_rows *rows, struct change *n)
{
    n->workspace_id = DB_GET(rows, CHANGED_EXPERIMENT, workspace_id);
    jw_kv_int(w, "id", n->experiment_id);
    jw_kv_string(w, "state",
                 wire_name(WIRE_EXPERIMENT_STATE, DB_GET(rows, CHANGED_EXPERIMENT, state)));
    jw_kv_string(w, "name", DB_GET(rows, CHANGED_EXPERIMENT, name));
    jw_kv_int(w, "projectId", DB_GET(rows, CHANGED_EXPERIMENT, project_id));
    jw_kv_int(w, "workspaceId", n->workspace_id);
    jw_kv_int(w, "userId", DB_GET(rows, CHANGED_EXPERIMENT, user_id));
    jw_kv_double(w, "progress", DB_GET(rows, CHANGED_EXPERIMENT, progress));
    if (!DB_IS_NULL(rows, CHANGED_EXPERIMENT, best_metric))
        jw_kv_double(w, "bestMetric", DB_GET(rows, CHANGED_EXPERIMENT, best_metric));
    jw_kv_int(w, "liveAllocations", DB_GET(rows, CHANGED_EXPERIMENT, live_allocations));
    jw_kv_bool(w, "archived", DB_GET(rows, CHANGED_EXPERIMENT, archived));
    jw_kv_string(w, "kind", DB_GET(rows, CHANGED_EXPERIMENT, kind));
    write_time(w, "startTime", DB_GET(rows, CHANGED_EXPERIMENT, submitted_at));
    write_time(w, "endTime", DB_GET(rows, CHANGED_EXPERIMENT, ended_at));
}

static void write_trial(struct json_writer *w, struct db_rows *rows, struct change *n)
{
    n->workspace_id = DB_GET(rows, CHANGED_TRIAL, workspace_id);
    n->experiment_id = DB_GET(rows, CHANGED_TRIAL, experiment_id);
    jw_kv_int(w, "id", n->trial_id);
    jw_kv_int(w, "experimentId", n->experiment_id);
    jw_kv_string(w, "state", wire_name(WIRE_TRIAL_STATE, DB_GET(rows, CHANGED_TRIAL, state)));
    jw_kv_int(w, "restarts", DB_GET(rows, CHANGED_TRIAL, restarts));
    jw_kv_double(w, "progress", DB_GET(rows, CHANGED_TRIAL, progress));
    jw_kv_int(w, "steps", DB_GET(rows, CHANGED_TRIAL, steps_completed));
    jw_kv_int(w, "runId", DB_GET(rows, CHANGED_TRIAL, run_id));
    jw_kv_string(w, "exitReason", DB_GET(rows, CHANGED_TRIAL, exit_reason));
    jw_kv_int(w, "liveAllocations", DB_GET(rows, CHANGED_TRIAL, live_allocations));
    jw_kv_string(w, "latestCheckpoint", DB_GET(rows, CHANGED_TRIAL, latest_checkpoint));
    write_time(w, "endTime", DB_GET(rows, CHANGED_TRIAL, ended_at));
    jw_kv_double(w, "wallClockTime", (double)DB_GET(rows, CHANGED_TRIAL, ran_us) / 1e6);
}

static void write_metrics(struct json_writer *w, struct db_rows *rows, struct change *n)
{
    const char *values = DB_GET(rows, CHANGED_METRICS, metrics);
    n->workspace_id = DB_GET(rows, CHANGED_METRICS, workspace_id);
    n->experiment_id = DB_GET(rows, CHANGED_METRICS, experiment_id);
    jw_kv_int(w, "trialId", n->trial_id);
    jw_kv_int(w, "experimentId", n->experiment_id);
    jw_kv_string(w, "group", n->name);
    if (!DB_IS_NULL(rows, CHANGED_METRICS, steps))
        jw_kv_int(w, "steps", DB_GET(rows, CHANGED_METRICS, steps));
    if (values && strlen(values) <= METRICS_TEXT_MAX)
        jw_kv_raw(w, "metrics", values);
}

static int64_t newest_line(struct db_reader *db, const char *task_id)
{
    struct db_rows *rows = DB_QUERY(db, LOGS_NEWEST, task_id);
    int64_t id = db_next(rows) == 1 ? DB_GET(rows, LOGS_NEWEST, last_id) : 0;
    db_rows_close(rows);
    return id;
}

static void write_logs(struct json_writer *w, struct db_rows *rows, struct change *n)
{
    n->workspace_id = DB_GET(rows, CHANGED_LOGS, workspace_id);
    n->experiment_id = DB_GET(rows, CHANGED_LOGS, experiment_id);
    n->trial_id = DB_GET(rows, CHANGED_LOGS, trial_id);
    jw_kv_string(w, "taskId", n->name);
    jw_kv_int(w, "trialId", n->trial_id);
    jw_kv_int(w, "experimentId", n->experiment_id);
}

static void write_checkpoint(struct json_writer *w, struct db_rows *rows, struct change *n)
{
    n->workspace_id = DB_GET(rows, CHANGED_CHECKPOINT, workspace_id);
    n->experiment_id = DB_GET(rows, CHANGED_CHECKPOINT, experiment_id);
    n->trial_id = DB_GET(rows, CHANGED_CHECKPOINT, trial_id);
    jw_kv_string(w, "uuid", n->name);
    jw_kv_int(w, "trialId", n->trial_id);
    jw_kv_int(w, "experimentId", n->experiment_id);
    jw_kv_string(w, "state",
                 wire_name(WIRE_CHECKPOINT_STATE, DB_GET(rows, CHANGED_CHECKPOINT, state)));
    jw_kv_int(w, "steps", DB_GET(rows, CHANGED_CHECKPOINT, steps));
}

static void write_workspace(struct json_writer *w, struct db_rows *rows, struct change *n)
{
    n->workspace_id = DB_GET(rows, CHANGED_WORKSPACE, id);
    jw_kv_int(w, "id", n->workspace_id);
    jw_kv_string(w, "name", DB_GET(rows, CHANGED_WORKSPACE, name));
    jw_kv_bool(w, "archived", DB_GET(rows, CHANGED_WORKSPACE, archived));
}

static void write_model(struct json_writer *w, struct db_rows *rows, struct change *n)
{
    n->workspace_id = DB_GET(rows, CHANGED_MODEL, workspace_id);
    jw_kv_int(w, "id", DB_GET(rows, CHANGED_MODEL, id));
    jw_kv_string(w, "name", DB_GET(rows, CHANGED_MODEL, name));
    jw_kv_int(w, "workspaceId", n->workspace_id);
    jw_kv_int(w, "lastVersion", DB_GET(rows, CHANGED_MODEL, last_version));
    jw_kv_bool(w, "archived", DB_GET(rows, CHANGED_MODEL, archived));
}

static int64_t id_of_name(const struct change *n)
{
    return strtoll(n->name, NULL, 10);
}

static struct db_rows *query_change(struct db_reader *db, const struct change *n)
{
    switch (n->topic) {
    case EVENT_EXPERIMENT:
        return DB_QUERY(db, CHANGED_EXPERIMENT, n->experiment_id);
    case EVENT_TRIAL:
        return DB_QUERY(db, CHANGED_TRIAL, n->trial_id);
    case EVENT_METRICS:
        return DB_QUERY(db, CHANGED_METRICS, n->trial_id, n->name);
    case EVENT_LOGS:
        return DB_QUERY(db, CHANGED_LOGS, n->name);
    case EVENT_CHECKPOINT:
        return DB_QUERY(db, CHANGED_CHECKPOINT, n->name);
    case EVENT_WORKSPACE:
        return DB_QUERY(db, CHANGED_WORKSPACE, id_of_name(n));
    default:
        return DB_QUERY(db, CHANGED_MODEL, id_of_name(n));
    }
}

// Writes a deleted object. False: the change does not say in which workspace it was, so nobody may
// see it.
static bool write_removed(struct json_writer *w, struct change *n)
{
    switch (n->topic) {
    case EVENT_EXPERIMENT:
        write_deleted(w, "id", n->experiment_id);
        return n->workspace_id;
    case EVENT_TRIAL:
        write_deleted(w, "id", n->trial_id);
        return n->workspace_id;
    case EVENT_CHECKPOINT:
        jw_kv_string(w, "uuid", n->name);
        write_deleted(w, "experimentId", n->experiment_id);
        return n->workspace_id;
    case EVENT_WORKSPACE:
        n->workspace_id = id_of_name(n);
        write_deleted(w, "id", n->workspace_id);
        return true;
    case EVENT_MODEL:
        write_deleted(w, "id", id_of_name(n));
        return n->workspace_id;
    default:
        return false;
    }
}

// Tells the kind of the new rows only: the rows themselves are for administrators.
static bool write_audit(struct json_writer *w, const struct change *n)
{
    jw_object(w);
    jw_kv_string(w, "of", n->name);
    jw_object_end(w);
    return true;
}

bool event_write_json(struct db_reader *db, struct change *n, struct buf *out)
{
    static void (*const writers[EVENT_TOPICS])(struct json_writer *, struct db_rows *,
                                               struct change *) = {
        [EVENT_EXPERIMENT] = write_experiment,
        [EVENT_TRIAL] = write_trial,
        [EVENT_METRICS] = write_metrics,
        [EVENT_LOGS] = write_logs,
        [EVENT_CHECKPOINT] = write_checkpoint,
        [EVENT_WORKSPACE] = write_workspace,
        [EVENT_MODEL] = write_model};
    struct json_writer w;
    if (n->data)
        return !buf_puts(out, n->data);
    jw_init(&w, out);
    if (n->topic == EVENT_AUDIT)
        return write_audit(&w, n);
    if (!writers[n->topic])
        return false;
    jw_object(&w);
    struct db_rows *rows = query_change(db, n);
    int found = db_next(rows);
    if (found == 1)
        writers[n->topic](&w, rows, n);
    db_rows_close(rows);
    if (found == 1 && n->topic == EVENT_LOGS)
        jw_kv_int(&w, "lastId", newest_line(db, n->name));
    if (found == 0 && !write_removed(&w, n))
        found = -1;
    jw_object_end(&w);
    return found >= 0;
}
