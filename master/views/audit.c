// Who did what, for administrators. Ours; the rows are written by master/common/audit.c.

#include "master/common/audit.h"

#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "master/views/list.h"
#include "master/views/views.h"

static void write_row(struct json_writer *w, struct db_rows *rows)
{
    jw_object(w);
    jw_kv_int(w, "id", db_int(rows, 0));
    write_time(w, "time", db_int(rows, 1));
    if (!db_is_null(rows, 2))
        jw_kv_int(w, "userId", db_int(rows, 2));
    jw_kv_string(w, "username", db_text(rows, 3));
    jw_kv_string(w, "address", db_text(rows, 4));
    jw_kv_string(w, "method", db_text(rows, 5));
    jw_kv_string(w, "path", db_text(rows, 6));
    jw_kv_int(w, "status", db_int(rows, 7));
    jw_kv_string(w, "detail", db_text(rows, 8));
    jw_object_end(w);
}

// A bound of the time: RFC 3339.
static void filter_time(struct list *l, const char *name, const char *condition)
{
    const char *text = query_get(l->v->query, name);
    int64_t at;
    if (!text || !*text)
        return;
    if (clock_parse(text, &at)) {
        error_set(&l->error, ERR_INVALID,
                  "query parameter %s: not a time like 2026-11-21T09:00:00Z", name);
        return;
    }
    list_and(l, condition);
    list_bind_int(l, at);
}

int audit_list(struct view *v, struct error *e)
{
    static const struct list_sort sorts[] = {{"SORT_BY_ID", "a.id"}, {NULL, NULL}};
    struct list l;
    list_init(&l, v);
    list_filter_texts(&l, "user", "a.username");
    list_filter_ints(&l, "userIds", "a.user_id");
    list_filter_texts(&l, "method", "a.method");
    list_filter_ints(&l, "status", "a.status");
    list_filter_part(&l, "path", "a.path");
    filter_time(&l, "since", "a.time >= ?");
    filter_time(&l, "until", "a.time < ?");
    const char *way = query_get(v->query, "orderBy");
    list_cursor(&l, "a.id", way && !strcmp(way, "ORDER_BY_ASC"));
    list_sort(&l, "sortBy", sorts, "a.id DESC", "a.id");
    list_page(&l);
    static const struct list_source source = {
        "audit",
        "SELECT a.id, a.time, a.user_id, a.username, a.address, a.method, a.path, a.status, "
        "a.detail",
        "FROM audit a", NULL, write_row};
    return list_answer(&l, &source, e);
}
