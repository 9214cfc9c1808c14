// The starts of a trial, or of all trials of an experiment: each allocation, where it ran and why
// it ended.
#include <string.h>

#include "api/wire.h"
#include "base/text/json.h"
#include "db/statements/lists.h"
#include "master/views/lists/list.h"
#include "master/views/views.h"

// Writes the names of the agents, and the slots and ranks on each of them as they are stored.
static void write_placement(struct json_writer *w, const char *placement)
{
    json_t *parts = NULL, *part;
    size_t i;
    jw_key(w, "agents");
    jw_array(w);
    if (json_parse(placement, strlen(placement), "placement", &parts, NULL) == 0) {
        json_array_foreach(parts, i, part)
        {
            jw_string(w, jget_string(part, "agent", ""));
        }
    }
    jw_array_end(w);
    json_decref(parts);
    jw_kv_raw(w, "parts", placement);
}

static void write_start(struct json_writer *w, struct db_rows *rows)
{
    jw_object(w);
    jw_kv_string(w, "allocationId", DB_GET(rows, START, id));
    jw_kv_int(w, "trialId", DB_GET(rows, START, trial_id));
    jw_kv_int(w, "epoch", DB_GET(rows, START, epoch));
    jw_kv_string(w, "state", wire_name(WIRE_ALLOCATION_STATE, DB_GET(rows, START, state)));
    jw_kv_int(w, "slots", DB_GET(rows, START, slots));
    write_placement(w, DB_GET(rows, START, placement));
    write_time(w, "queuedTime", DB_GET(rows, START, queued_at));
    write_time(w, "startTime", DB_GET(rows, START, started_at));
    write_time(w, "endTime", DB_GET(rows, START, ended_at));
    jw_kv_string(w, "reason", DB_GET(rows, START, exit_reason));
    jw_kv_string(w, "cause", DB_GET(rows, START, cause));
    jw_key(w, "preemptedForTrialId");
    if (DB_IS_NULL(rows, START, preempted_for))
        jw_null(w);
    else
        jw_int(w, DB_GET(rows, START, preempted_for));
    jw_object_end(w);
}

int view_trial_starts(struct view *v, struct error *e)
{
    int64_t id;
    int err = request_param_int(v->rq, 0, &id, e);
    if (err)
        return err;
    struct db_rows *rows = DB_QUERY(v->db, ALLOCATIONS_OF_TRIAL, id);
    jw_object(&v->w);
    jw_key(&v->w, "starts");
    jw_array(&v->w);
    int more;
    while ((more = db_next(rows)) == 1)
        write_start(&v->w, rows);
    jw_array_end(&v->w);
    jw_object_end(&v->w);
    db_rows_close(rows);
    return more < 0 ? store_failed(e) : 0;
}

int view_experiment_starts(struct view *v, struct error *e)
{
    static const struct list_source source = {"starts", SQL_SELECT(START_ROW), SQL_ALLOCATION_FROM,
                                              "", write_start};
    int64_t id;
    struct list l;
    int err = request_param_int(v->rq, 0, &id, e);
    if (err)
        return err;
    list_init(&l, v);
    list_and(&l, SQL_STARTS_OF_EXPERIMENT);
    list_bind_int(&l, id);
    buf_puts(&l.order, SQL_STARTS_NEWEST_FIRST);
    list_page(&l);
    return list_answer(&l, &source, e);
}
