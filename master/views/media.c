// Images, histograms, tables and texts of a trial: lists. downloads.c sends their content.
#include "api/media.h"
#include "db/statements/compose.h"
#include "master/views/lists/list.h"
#include "master/views/views.h"

static void write_item(struct json_writer *w, struct db_rows *rows)
{
    const struct media_type *type = media_type_find(DB_GET(rows, MEDIA_VIEW, type));
    jw_object(w);
    jw_kv_int(w, "step", DB_GET(rows, MEDIA_VIEW, step));
    jw_kv_string(w, "name", DB_GET(rows, MEDIA_VIEW, name));
    jw_kv_string(w, "type", DB_GET(rows, MEDIA_VIEW, type));
    jw_kv_string(w, "format", type ? type->format : "");
    jw_kv_string(w, "digest", DB_GET(rows, MEDIA_VIEW, digest));
    jw_kv_int(w, "size", DB_GET(rows, MEDIA_VIEW, size));
    write_time(w, "time", DB_GET(rows, MEDIA_VIEW, reported_at));
    jw_kv_int(w, "trialRunId", DB_GET(rows, MEDIA_VIEW, run_id));
    jw_object_end(w);
}

static int check_types(struct view *v, struct error *e)
{
    const char *types[QUERY_PAIRS_MAX];
    size_t count = query_all(v->query, "type", types, QUERY_PAIRS_MAX);
    for (size_t i = 0; i < count; i++)
        if (media_type_check(types[i], e))
            return error_prefix(e, "query parameter type");
    return 0;
}

int view_trial_media(struct view *v, struct error *e)
{
    static const struct list_sort sorts[] = {{NULL, NULL}};
    static const struct list_source source = {"media", SQL_SELECT(MEDIA_VIEW_ROW), SQL_MEDIA_FROM,
                                              "", write_item};
    struct list l;
    int64_t id, from = 0, to = 0;
    int rc = request_param_int(v->rq, 0, &id, e);
    if (!rc)
        rc = request_query_int(v->rq, "from", 0, &from, e);
    if (!rc)
        rc = request_query_int(v->rq, "to", INT64_MAX, &to, e);
    if (!rc)
        rc = check_types(v, e);
    if (rc)
        return rc;
    list_init(&l, v);
    list_and(&l, "m.trial_id = ?");
    list_bind_int(&l, id);
    list_and(&l, "m.step >= ?");
    list_bind_int(&l, from);
    list_and(&l, "m.step <= ?");
    list_bind_int(&l, to);
    list_filter_texts(&l, "name", "m.name");
    list_filter_texts(&l, "type", "m.type");
    list_filter_ints(&l, "step", "m.step");
    list_sort(&l, "sortBy", sorts, "m.name, m.step", "m.name, m.step");
    list_page(&l);
    return list_answer(&l, &source, e);
}

int view_trial_media_names(struct view *v, struct error *e)
{
    struct json_writer *w = &v->w;
    int64_t id;
    int more, rc = request_param_int(v->rq, 0, &id, e);
    if (rc)
        return rc;
    struct db_rows *rows = DB_QUERY(v->db, MEDIA_NAMES, id);
    jw_object(w);
    jw_key(w, "names");
    jw_array(w);
    while ((more = db_next(rows)) == 1) {
        jw_object(w);
        jw_kv_string(w, "name", DB_GET(rows, MEDIA_NAMES, name));
        jw_kv_string(w, "type", DB_GET(rows, MEDIA_NAMES, type));
        jw_kv_int(w, "count", DB_GET(rows, MEDIA_NAMES, count));
        jw_kv_int(w, "firstStep", DB_GET(rows, MEDIA_NAMES, first_step));
        jw_kv_int(w, "lastStep", DB_GET(rows, MEDIA_NAMES, last_step));
        jw_object_end(w);
    }
    jw_array_end(w);
    jw_object_end(w);
    db_rows_close(rows);
    return more < 0 ? store_failed(e) : 0;
}
