// Tasks and allocations of every kind, active or ended. A trial is one task; each of its starts is
// one allocation.

#include <string.h>

#include "base/log.h"
#include "master/common/kinds.h"
#include "master/common/task_id.h"
#include "master/views/views.h"

static void write_allocation(struct json_writer *w, struct db_rows *rows)
{
    const char *state = wire_name(WIRE_ALLOCATION_STATE, DB_GET(rows, ALLOCATION_VIEW, state));
    jw_object(w);
    jw_kv_string(w, "allocationId", DB_GET(rows, ALLOCATION_VIEW, id));
    jw_kv_string(w, "taskId", DB_GET(rows, ALLOCATION_VIEW, task_id));
    jw_kv_string(w, "state", state);
    jw_kv_int(w, "slots", DB_GET(rows, ALLOCATION_VIEW, slots));
    jw_kv_bool(w, "isReady", !strcmp(state, "STATE_RUNNING"));
    write_time(w, "startTime", DB_GET(rows, ALLOCATION_VIEW, started_at));
    write_time(w, "endTime", DB_GET(rows, ALLOCATION_VIEW, ended_at));
    jw_kv_string(w, "exitReason", DB_GET(rows, ALLOCATION_VIEW, exit_reason));
    if (!DB_IS_NULL(rows, ALLOCATION_VIEW, exit_code))
        jw_kv_int(w, "statusCode", DB_GET(rows, ALLOCATION_VIEW, exit_code));
    jw_object_end(w);
}

static int no_allocation(const char *id, struct error *e)
{
    return error_not_found(e, "allocation", "%.128s", id);
}

int view_allocation(struct view *v, struct error *e)
{
    const char *id = allocation_id_resolve(v->db, &v->rq->arena, v->rq->params[0]);
    struct db_rows *rows = DB_QUERY(v->db, ALLOCATION_VIEW_BY_ID, id);
    int found = db_next(rows), rc = found < 0 ? store_failed(e) : 0;
    if (found == 1) {
        char trial[24];
        snprintf(trial, sizeof trial, "%lld", (long long)DB_GET(rows, ALLOCATION_VIEW, trial_id));
        found = !view_authorize(v, AUTHZ_TRIAL, trial, e);
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

// The API has no state for a task that is being killed; such a task shows as being canceled.
static const char *generic_task_state(const char *state)
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

void write_generic_task_members(struct json_writer *w, const char *state, const char *ancestors,
                                const char *forked_from, bool no_pause)
{
    const char *parent = strrchr(ancestors, '/');
    jw_kv_string(w, "taskState", generic_task_state(state));
    if (parent)
        jw_kv_string(w, "parentId", parent + 1);
    if (forked_from)
        jw_kv_string(w, "forkedFrom", forked_from);
    jw_kv_bool(w, "noPause", no_pause);
}

static int write_allocations(struct view *v, const char *task)
{
    char first[TASK_ID];
    struct db_rows *rows =
        DB_QUERY(v->db, ALLOCATION_VIEWS_OF_TASK, task_id_first(task, first), task);
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
    struct json_writer *w = &v->w;
    char first[TASK_ID];
    struct db_rows *rows =
        DB_QUERY(v->db, TASK_OF_TRIAL, task_id_first(id, first), task_id_number(id));
    int found = db_next(rows), failed = found < 0;
    if (found == 1) {
        jw_object(w);
        jw_key(w, "task");
        jw_object(w);
        jw_kv_string(w, "taskId", id);
        jw_kv_string(
            w, "taskType",
            arena_printf(&v->rq->arena, "TASK_TYPE_%s",
                         kind_words[kind_of_word(DB_GET(rows, TASK_OF_TRIAL, kind))].task));
        write_generic_task_members(
            w, DB_GET(rows, TASK_OF_TRIAL, state), DB_GET(rows, TASK_OF_TRIAL, ancestors),
            DB_GET(rows, TASK_OF_TRIAL, forked_from), DB_GET(rows, TASK_OF_TRIAL, no_pause));
        write_time(w, "startTime", DB_GET(rows, TASK_OF_TRIAL, started_at));
        write_time(w, "endTime", DB_GET(rows, TASK_OF_TRIAL, ended_at));
        jw_kv_string(w, "config", DB_GET(rows, TASK_OF_TRIAL, original_config));
        failed = write_allocations(v, id) < 0;
        jw_object_end(w);
        jw_object_end(w);
    }
    db_rows_close(rows);
    return failed ? store_failed(e) : found == 0 ? error_not_found(e, "task", "%.128s", id) : 0;
}
