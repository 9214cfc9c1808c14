// What is kept beside experiments and trials: labels in use, the best validations, metadata of
// runs.
#include <string.h>

#include "base/log.h"
#include "db/statements/lists.h"
#include "master/views/views.h"

enum { SQL_MAX = 4096 };

// The labels of what the caller sees, those of most experiments first.
int view_labels(struct view *v, struct error *e)
{
    struct list l;
    struct buf sql;
    int more;
    list_init(&l, v);
    buf_init(&sql, SQL_MAX);
    list_filter_seen(&l, SQL_COUNTED_WORKSPACE);
    list_filter_ints(&l, "projectId", "c.project_id");
    buf_printf(&sql, SQL_LABELS_IN_USE, buf_str(&l.where));
    struct db_rows *rows =
        l.error.code ? NULL : db_query_sql(v->db, buf_str(&sql), l.values, l.value_count);
    jw_object(&v->w);
    jw_key(&v->w, "labels");
    jw_array(&v->w);
    while (rows && (more = db_next(rows)) == 1)
        jw_string(&v->w, DB_GET(rows, LABEL, label));
    jw_array_end(&v->w);
    jw_object_end(&v->w);
    db_rows_close(rows);
    buf_free(&sql);
    buf_free(&l.where);
    buf_free(&l.order);
    if (l.error.code)
        *e = l.error;
    return l.error.code;
}

int view_validation_history(struct view *v, struct error *e)
{
    int64_t id;
    int more, rc = request_param_int(v->rq, 0, &id, e);
    if (rc)
        return rc;
    struct json_writer *w = &v->w;
    struct db_rows *rows = DB_QUERY(v->db, VALIDATION_HISTORY, id);
    jw_object(w);
    jw_key(w, "validationHistory");
    jw_array(w);
    while ((more = db_next(rows)) == 1) {
        jw_object(w);
        jw_kv_int(w, "trialId", DB_GET(rows, VALIDATION_HISTORY, trial_id));
        write_time(w, "endTime", DB_GET(rows, VALIDATION_HISTORY, time));
        jw_kv_double(w, "searcherMetric", DB_GET(rows, VALIDATION_HISTORY, value));
        jw_object_end(w);
    }
    jw_array_end(w);
    jw_object_end(w);
    db_rows_close(rows);
    return more < 0 ? store_failed(e) : 0;
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
