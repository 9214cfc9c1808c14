// The audit trail, for administrators. master/common/audit.c writes the rows. Determined has no
// such call.

#include "master/common/audit.h"

#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "db/statements/lists.h"
#include "master/views/lists/list.h"
#include "master/views/views.h"

static void write_row(struct json_writer *w, struct db_rows *rows)
{
    jw_object(w);
    jw_kv_int(w, "id", DB_GET(rows, AUDIT, id));
    write_time(w, "time", DB_GET(rows, AUDIT, time));
    if (!DB_IS_NULL(rows, AUDIT, user_id))
        jw_kv_int(w, "userId", DB_GET(rows, AUDIT, user_id));
    jw_kv_string(w, "username", DB_GET(rows, AUDIT, username));
    jw_kv_string(w, "address", DB_GET(rows, AUDIT, address));
    jw_kv_string(w, "method", DB_GET(rows, AUDIT, method));
    jw_kv_string(w, "path", DB_GET(rows, AUDIT, path));
    jw_kv_int(w, "status", DB_GET(rows, AUDIT, status));
    jw_kv_string(w, "detail", DB_GET(rows, AUDIT, detail));
    jw_object_end(w);
}

// Adds a condition with an RFC 3339 time of the query.
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
    list_filter_contains(&l, "path", "a.path");
    filter_time(&l, "since", "a.time >= ?");
    filter_time(&l, "until", "a.time < ?");
    const char *way = query_get(v->query, "orderBy");
    list_cursor(&l, "a.id", way && !strcmp(way, "ORDER_BY_ASC"));
    list_sort(&l, "sortBy", sorts, "a.id DESC", "a.id");
    list_page(&l);
    static const struct list_source source = {"audit", SQL_SELECT(AUDIT_ROW), SQL_AUDIT_FROM, NULL,
                                              write_row};
    return list_answer(&l, &source, e);
}
