// Tasks and their allocations as the wire has them, living or not. A trial is one task, and each of
// its starts one allocation.

#include <string.h>

#include "base/log.h"
#include "master/common/kinds.h"
#include "master/views/views.h"

#define ALLOCATION_COLUMNS                                                                         \
    "SELECT a.id, t.task_id, a.state, a.slots, a.started_at, a.ended_at, "                         \
    "a.exit_reason, a.trial_id, a.exit_code FROM allocations a "                                   \
    "JOIN trials t ON t.id = a.trial_id "

enum { A_ID, A_TASK, A_STATE, A_SLOTS, A_STARTED, A_ENDED, A_REASON, A_TRIAL, A_EXIT_CODE };

static void write_allocation(struct json_writer *w, struct db_rows *rows)
{
    const char *state = wire_name(WIRE_ALLOCATION_STATE, db_text(rows, A_STATE));
    jw_object(w);
    jw_kv_string(w, "allocationId", db_text(rows, A_ID));
    jw_kv_string(w, "taskId", db_text(rows, A_TASK));
    jw_kv_string(w, "state", state);
    jw_kv_int(w, "slots", db_int(rows, A_SLOTS));
    jw_kv_bool(w, "isReady", !strcmp(state, "STATE_RUNNING"));
    write_time(w, "startTime", db_int(rows, A_STARTED));
    write_time(w, "endTime", db_int(rows, A_ENDED));
    jw_kv_string(w, "exitReason", db_text(rows, A_REASON));
    if (!db_is_null(rows, A_EXIT_CODE))
        jw_kv_int(w, "statusCode", db_int(rows, A_EXIT_CODE));
    jw_object_end(w);
}

static int no_allocation(const char *id, struct error *e)
{
    return error_set(e, ERR_NOT_FOUND, "there is no allocation %.128s", id);
}

int view_allocation(struct view *v, struct error *e)
{
    const char *id = v->rq->params[0];
    const struct db_value value = {.type = 's', .p = id, .len = strlen(id)};
    struct db_rows *rows = db_query_sql(v->db, ALLOCATION_COLUMNS "WHERE a.id = ?", &value, 1);
    int found = db_next(rows), rc = found < 0 ? store_failed(e) : 0;
    if (found == 1) {
        char trial[24];
        snprintf(trial, sizeof trial, "%lld", (long long)db_int(rows, A_TRIAL));
        found = !view_check_sight(v, THING_TRIAL, trial, e);
    }
    if (found == 1) {
        jw_object(&v->w);
        jw_key(&v->w, "allocation");
        write_allocation(&v->w, rows);
        jw_object_end(&v->w);
    } else if (!rc) {
        rc = no_allocation(id, e);
    }
    db_rows_close(rows);
    return rc;
}

// Of a generic task; a task is not both stopping and killed.
static const char *task_state(const char *state)
{
    static const char *const states[][2] = {
        {"PAUSED", "GENERIC_TASK_STATE_PAUSED"},
        {"STOPPING_COMPLETED", "GENERIC_TASK_STATE_STOPPING_COMPLETED"},
        {"STOPPING_CANCELED", "GENERIC_TASK_STATE_STOPPING_CANCELED"},
        {"STOPPING_KILLED", "GENERIC_TASK_STATE_STOPPING_CANCELED"},
        {"STOPPING_ERROR", "GENERIC_TASK_STATE_STOPPING_ERROR"},
        {"COMPLETED", "GENERIC_TASK_STATE_COMPLETED"},
        {"CANCELED", "GENERIC_TASK_STATE_CANCELED"},
        {"ERROR", "GENERIC_TASK_STATE_ERROR"}};
    for (size_t i = 0; i < sizeof states / sizeof *states; i++)
        if (!strcmp(states[i][0], state))
            return states[i][1];
    return "GENERIC_TASK_STATE_ACTIVE";
}

void write_generic_members(struct json_writer *w, const char *state, const char *ancestors,
                           const char *forked_from, bool no_pause)
{
    const char *parent = strrchr(ancestors, '/');
    jw_kv_string(w, "taskState", task_state(state));
    if (parent)
        jw_kv_string(w, "parentId", parent + 1);
    if (forked_from)
        jw_kv_string(w, "forkedFrom", forked_from);
    jw_kv_bool(w, "noPause", no_pause);
}

static int write_allocations(struct view *v, const struct db_value *task)
{
    struct db_rows *rows =
        db_query_sql(v->db, ALLOCATION_COLUMNS "WHERE t.task_id = ? ORDER BY a.epoch", task, 1);
    int more;
    jw_key(&v->w, "allocations");
    jw_array(&v->w);
    while ((more = db_next(rows)) == 1)
        write_allocation(&v->w, rows);
    jw_array_end(&v->w);
    db_rows_close(rows);
    return more;
}

int view_task(struct view *v, struct error *e)
{
    const char *id = v->rq->params[0];
    const struct db_value value = {.type = 's', .p = id, .len = strlen(id)};
    struct json_writer *w = &v->w;
    struct db_rows *rows =
        db_query_sql(v->db,
                     "SELECT e.kind, t.state, t.started_at, t.ended_at, e.original_config, "
                     "e.ancestors, (SELECT task_id FROM trials WHERE experiment_id = e.parent_id "
                     "AND e.kind = 'GENERIC'), e.no_pause "
                     "FROM trials t JOIN experiments e ON e.id = t.experiment_id "
                     "WHERE t.task_id = ?",
                     &value, 1);
    int found = db_next(rows), failed = found < 0;
    if (found == 1) {
        jw_object(w);
        jw_key(w, "task");
        jw_object(w);
        jw_kv_string(w, "taskId", id);
        jw_kv_string(w, "taskType",
                     arena_printf(&v->rq->arena, "TASK_TYPE_%s",
                                  kind_words[kind_of_word(db_text(rows, 0))].task));
        write_generic_members(w, db_text(rows, 1), db_text(rows, 5), db_text(rows, 6),
                              db_int(rows, 7));
        write_time(w, "startTime", db_int(rows, 2));
        write_time(w, "endTime", db_int(rows, 3));
        jw_kv_string(w, "config", db_text(rows, 4));
        failed = write_allocations(v, &value) < 0;
        jw_object_end(w);
        jw_object_end(w);
    }
    db_rows_close(rows);
    return failed       ? store_failed(e)
           : found == 0 ? error_set(e, ERR_NOT_FOUND, "there is no task %.128s", id)
                        : 0;
}
