// What an event says: the committed values of what was noted, as a small object of JSON. Runs on
// the hub's thread, once for all followers.

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/wire.h"
#include "base/clock.h"
#include "base/text/json.h"
#include "master/notify/hub.h"

enum { METRICS_TEXT_MAX = 16 * 1024 }; // bytes; a longer report is left to be asked for

static void write_time(struct json_writer *w, const char *key, int64_t wall_us)
{
    char text[CLOCK_RFC3339_MAX];
    jw_kv_string(w, key, wall_us ? clock_format(wall_us, text) : NULL);
}

static void write_number(struct json_writer *w, const char *key, struct db_rows *rows, int column)
{
    if (!db_is_null(rows, column))
        jw_kv_double(w, key, db_double(rows, column));
}

// Whatever is not there any more.
static void write_deleted(struct json_writer *w, const char *key, int64_t id)
{
    if (id)
        jw_kv_int(w, key, id);
    jw_kv_bool(w, "deleted", true);
}

static void write_experiment(struct json_writer *w, struct db_rows *rows, struct note *n)
{
    enum {
        WORKSPACE,
        STATE,
        NAME,
        PROJECT,
        USER,
        PROGRESS,
        BEST,
        ARCHIVED,
        KIND,
        STARTED,
        ENDED,
        LIVE
    };
    n->workspace_id = db_int(rows, WORKSPACE);
    jw_kv_int(w, "id", n->experiment_id);
    jw_kv_string(w, "state", wire_name(WIRE_EXPERIMENT_STATE, db_text(rows, STATE)));
    jw_kv_string(w, "name", db_text(rows, NAME));
    jw_kv_int(w, "projectId", db_int(rows, PROJECT));
    jw_kv_int(w, "workspaceId", n->workspace_id);
    jw_kv_int(w, "userId", db_int(rows, USER));
    jw_kv_double(w, "progress", db_double(rows, PROGRESS));
    write_number(w, "bestMetric", rows, BEST);
    jw_kv_int(w, "liveAllocations", db_int(rows, LIVE));
    jw_kv_bool(w, "archived", db_int(rows, ARCHIVED));
    jw_kv_string(w, "kind", db_text(rows, KIND));
    write_time(w, "startTime", db_int(rows, STARTED));
    write_time(w, "endTime", db_int(rows, ENDED));
}

static void write_trial(struct json_writer *w, struct db_rows *rows, struct note *n)
{
    enum {
        WORKSPACE,
        EXPERIMENT,
        STATE,
        RESTARTS,
        PROGRESS,
        STEPS,
        RUN,
        WHY,
        SAVED,
        ENDED,
        RAN,
        LIVE
    };
    n->workspace_id = db_int(rows, WORKSPACE);
    n->experiment_id = db_int(rows, EXPERIMENT);
    jw_kv_int(w, "id", n->trial_id);
    jw_kv_int(w, "experimentId", n->experiment_id);
    jw_kv_string(w, "state", wire_name(WIRE_TRIAL_STATE, db_text(rows, STATE)));
    jw_kv_int(w, "restarts", db_int(rows, RESTARTS));
    jw_kv_double(w, "progress", db_double(rows, PROGRESS));
    jw_kv_int(w, "steps", db_int(rows, STEPS));
    jw_kv_int(w, "runId", db_int(rows, RUN));
    jw_kv_string(w, "exitReason", db_text(rows, WHY));
    jw_kv_int(w, "liveAllocations", db_int(rows, LIVE));
    jw_kv_string(w, "latestCheckpoint", db_text(rows, SAVED));
    write_time(w, "endTime", db_int(rows, ENDED));
    jw_kv_double(w, "wallClockTime", (double)db_int(rows, RAN) / 1e6);
}

static void write_metrics(struct json_writer *w, struct db_rows *rows, struct note *n)
{
    enum { WORKSPACE, EXPERIMENT, STEPS, VALUES };
    const char *values = db_text(rows, VALUES);
    n->workspace_id = db_int(rows, WORKSPACE);
    n->experiment_id = db_int(rows, EXPERIMENT);
    jw_kv_int(w, "trialId", n->trial_id);
    jw_kv_int(w, "experimentId", n->experiment_id);
    jw_kv_string(w, "group", n->name);
    if (!db_is_null(rows, STEPS))
        jw_kv_int(w, "steps", db_int(rows, STEPS));
    if (values && strlen(values) <= METRICS_TEXT_MAX)
        jw_kv_raw(w, "metrics", values);
}

static int64_t newest_line(struct db_reader *db, const char *task_id)
{
    struct db_rows *rows = db_query(db, STMT_LOGS_NEWEST, "s", task_id);
    int64_t id = db_next(rows) == 1 ? db_int(rows, 0) : 0;
    db_rows_close(rows);
    return id;
}

static void write_logs(struct json_writer *w, struct db_rows *rows, struct note *n)
{
    enum { WORKSPACE, EXPERIMENT, TRIAL };
    n->workspace_id = db_int(rows, WORKSPACE);
    n->experiment_id = db_int(rows, EXPERIMENT);
    n->trial_id = db_int(rows, TRIAL);
    jw_kv_string(w, "taskId", n->name);
    jw_kv_int(w, "trialId", n->trial_id);
    jw_kv_int(w, "experimentId", n->experiment_id);
}

static void write_checkpoint(struct json_writer *w, struct db_rows *rows, struct note *n)
{
    enum { WORKSPACE, EXPERIMENT, TRIAL, STATE, STEPS };
    n->workspace_id = db_int(rows, WORKSPACE);
    n->experiment_id = db_int(rows, EXPERIMENT);
    n->trial_id = db_int(rows, TRIAL);
    jw_kv_string(w, "uuid", n->name);
    jw_kv_int(w, "trialId", n->trial_id);
    jw_kv_int(w, "experimentId", n->experiment_id);
    jw_kv_string(w, "state", wire_name(WIRE_CHECKPOINT_STATE, db_text(rows, STATE)));
    jw_kv_int(w, "steps", db_int(rows, STEPS));
}

static void write_workspace(struct json_writer *w, struct db_rows *rows, struct note *n)
{
    enum { WORKSPACE, NAME, ARCHIVED };
    n->workspace_id = db_int(rows, WORKSPACE);
    jw_kv_int(w, "id", n->workspace_id);
    jw_kv_string(w, "name", db_text(rows, NAME));
    jw_kv_bool(w, "archived", db_int(rows, ARCHIVED));
}

static void write_model(struct json_writer *w, struct db_rows *rows, struct note *n)
{
    enum { WORKSPACE, ID, NAME, VERSION, ARCHIVED };
    n->workspace_id = db_int(rows, WORKSPACE);
    jw_kv_int(w, "id", db_int(rows, ID));
    jw_kv_string(w, "name", db_text(rows, NAME));
    jw_kv_int(w, "workspaceId", n->workspace_id);
    jw_kv_int(w, "lastVersion", db_int(rows, VERSION));
    jw_kv_bool(w, "archived", db_int(rows, ARCHIVED));
}

static int64_t id_of_name(const struct note *n)
{
    return strtoll(n->name, NULL, 10);
}

static struct db_rows *ask(struct db_reader *db, const struct note *n)
{
    switch (n->topic) {
    case EVENT_EXPERIMENT:
        return db_query(db, STMT_CHANGED_EXPERIMENT, "i", n->experiment_id);
    case EVENT_TRIAL:
        return db_query(db, STMT_CHANGED_TRIAL, "i", n->trial_id);
    case EVENT_METRICS:
        return db_query(db, STMT_CHANGED_METRICS, "is", n->trial_id, n->name);
    case EVENT_LOGS:
        return db_query(db, STMT_CHANGED_LOGS, "s", n->name);
    case EVENT_CHECKPOINT:
        return db_query(db, STMT_CHANGED_CHECKPOINT, "s", n->name);
    case EVENT_WORKSPACE:
        return db_query(db, STMT_CHANGED_WORKSPACE, "i", id_of_name(n));
    default:
        return db_query(db, STMT_CHANGED_MODEL, "i", id_of_name(n));
    }
}

// What is gone, for those who could see it, as far as the note says whose it was.
static bool write_gone(struct json_writer *w, struct note *n)
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

// That there are new rows, and of what: the rows themselves are for administrators.
static bool write_audit(struct json_writer *w, const struct note *n)
{
    jw_object(w);
    jw_kv_string(w, "of", n->name);
    jw_object_end(w);
    return true;
}

bool event_text(struct db_reader *db, struct note *n, struct buf *out)
{
    static void (*const writers[EVENT_TOPICS])(struct json_writer *, struct db_rows *,
                                               struct note *) = {
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
    struct db_rows *rows = ask(db, n);
    int found = db_next(rows);
    if (found == 1)
        writers[n->topic](&w, rows, n);
    db_rows_close(rows);
    if (found == 1 && n->topic == EVENT_LOGS)
        jw_kv_int(&w, "lastId", newest_line(db, n->name));
    if (found == 0 && !write_gone(&w, n))
        found = -1;
    jw_object_end(&w);
    return found >= 0;
}
