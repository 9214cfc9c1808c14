// The starts of a trial, or of all trials of an experiment: each allocation, where it ran and why
// it ended.
#include <string.h>

#include "api/wire.h"
#include "base/text/json.h"
#include "master/views/list.h"
#include "master/views/views.h"

#define START_COLUMNS "SELECT " DB_ALLOCATION_COLUMNS ", cause, preempted_for"

// Columns of DB_ALLOCATION_COLUMNS.
enum {
    S_ID,
    S_TRIAL,
    S_EPOCH,
    S_STATE,
    S_SLOTS,
    S_POOL,
    S_PLACEMENT,
    S_REASON,
    S_QUEUED,
    S_STARTED,
    S_ENDED,
    S_CAUSE,
    S_FAVOURED
};

// Which agents; and of each its slots and ranks, as they were stored.
static void write_places(struct json_writer *w, const char *placement)
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
    jw_kv_string(w, "allocationId", db_text(rows, S_ID));
    jw_kv_int(w, "trialId", db_int(rows, S_TRIAL));
    jw_kv_int(w, "epoch", db_int(rows, S_EPOCH));
    jw_kv_string(w, "state", wire_name(WIRE_ALLOCATION_STATE, db_text(rows, S_STATE)));
    jw_kv_int(w, "slots", db_int(rows, S_SLOTS));
    write_places(w, db_text(rows, S_PLACEMENT));
    write_time(w, "queuedTime", db_int(rows, S_QUEUED));
    write_time(w, "startTime", db_int(rows, S_STARTED));
    write_time(w, "endTime", db_int(rows, S_ENDED));
    jw_kv_string(w, "reason", db_text(rows, S_REASON));
    jw_kv_string(w, "cause", db_text(rows, S_CAUSE));
    jw_key(w, "preemptedForTrialId");
    if (db_is_null(rows, S_FAVOURED))
        jw_null(w);
    else
        jw_int(w, db_int(rows, S_FAVOURED));
    jw_object_end(w);
}

int view_trial_starts(struct view *v, struct error *e)
{
    int64_t id;
    int err = request_param_int(v->rq, 0, &id, e);
    if (err)
        return err;
    struct db_rows *rows = db_query(v->db, STMT_ALLOCATIONS_OF_TRIAL, "i", id);
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
    static const struct list_source source = {"starts", START_COLUMNS, "FROM allocations", "",
                                              write_start};
    int64_t id;
    struct list l;
    int err = request_param_int(v->rq, 0, &id, e);
    if (err)
        return err;
    list_init(&l, v);
    list_and(&l, "trial_id IN (SELECT t.id FROM trials t WHERE t.experiment_id = ?)");
    list_bind_int(&l, id);
    buf_puts(&l.order, " ORDER BY queued_at DESC, id");
    list_page(&l);
    return list_answer(&l, &source, e);
}
