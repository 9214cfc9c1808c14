#include "master/views/lists/list.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/limits.h"
#include "base/log.h"
#include "db/statements/compose.h"

void list_init(struct list *l, struct view *v)
{
    *l = (struct list){.v = v, .limit = -1};
    buf_init(&l->where, LIST_SQL_MAX);
    buf_init(&l->order, LIST_SQL_MAX);
}

void list_and(struct list *l, const char *sql)
{
    buf_printf(&l->where, SQL_AND_CONDITION, sql);
}

static void list_bind(struct list *l, struct db_value value)
{
    must(l->value_count < LIST_VALUES_MAX);
    l->values[l->value_count++] = value;
}

void list_bind_int(struct list *l, int64_t value)
{
    list_bind(l, db_value_integer(value));
}

void list_bind_text(struct list *l, const char *value)
{
    list_bind(l, db_value_text(value));
}

// " AND column IN (?, ?)"
static void begin_in_condition(struct list *l, const char *column, size_t count)
{
    buf_printf(&l->where, SQL_AND_COLUMN_IN, column);
    for (size_t i = 0; i < count; i++)
        buf_puts(&l->where, i ? ", ?" : "?");
    buf_puts(&l->where, ")");
}

// Reads all values of a parameter into the request's arena and returns their number.
static size_t parameter_values(struct list *l, const char *name, const char *const **out)
{
    size_t count = query_all(l->v->query, name, NULL, 0);
    const char **values = arena_alloc(&l->v->rq->arena, (count + 1) * sizeof *values);
    query_all(l->v->query, name, values, count);
    *out = values;
    return count;
}

void list_filter_texts(struct list *l, const char *name, const char *column)
{
    const char *const *values;
    size_t count = parameter_values(l, name, &values);
    if (count)
        begin_in_condition(l, column, count);
    for (size_t i = 0; i < count; i++)
        list_bind_text(l, values[i]);
}

void list_filter_name(struct list *l, const char *name, const char *column)
{
    const char *value = query_get(l->v->query, name);
    if (value && *value)
        list_filter_texts(l, name, column);
}

void list_filter_ints(struct list *l, const char *name, const char *column)
{
    const char *const *values;
    size_t count = parameter_values(l, name, &values);
    if (count)
        begin_in_condition(l, column, count);
    for (size_t i = 0; i < count; i++) {
        int64_t number = 0;
        if (!request_number(values[i], &number) && !l->error.code)
            error_set(&l->error, ERR_INVALID,
                      "query parameter %s: \"%.64s\" is not an integer of 64 bits", name,
                      values[i]);
        list_bind_int(l, number);
    }
}

void list_filter_bool(struct list *l, const char *name, const char *column)
{
    const char *value = query_get(l->v->query, name);
    if (!value || !*value)
        return;
    bool yes = !strcmp(value, "true") || !strcmp(value, "True") || !strcmp(value, "1");
    bool no = !strcmp(value, "false") || !strcmp(value, "False") || !strcmp(value, "0");
    if (!yes && !no && !l->error.code)
        error_set(&l->error, ERR_INVALID, "query parameter %s: \"%.64s\" is neither true nor false",
                  name, value);
    buf_printf(&l->where, SQL_AND_COLUMN_IS, column);
    list_bind_int(l, yes);
}

void list_filter_contains(struct list *l, const char *name, const char *column)
{
    const char *value = query_get(l->v->query, name);
    if (!value || !*value)
        return;
    buf_printf(&l->where, SQL_AND_COLUMN_LIKE, column);
    char *pattern = arena_alloc(&l->v->rq->arena, 2 * strlen(value) + 3), *to = pattern;
    *to++ = '%';
    for (const char *c = value; *c; c++) {
        if (strchr("%_\\", *c))
            *to++ = '\\';
        *to++ = *c;
    }
    *to = '%';
    list_bind_text(l, pattern);
}

void list_filter_enum(struct list *l, const char *name, const char *column, enum wire_names table)
{
    const char *const *values;
    size_t count = parameter_values(l, name, &values);
    if (count)
        begin_in_condition(l, column, count);
    for (size_t i = 0; i < count; i++) {
        const char *word = "";
        struct error *e = l->error.code ? NULL : &l->error;
        if (wire_parse(table, values[i], &word, e) && e)
            error_prefix(e, "query parameter %s", name);
        list_bind_text(l, word ? word : "");
    }
}

void list_filter_visible(struct list *l, const char *workspace_column)
{
    const struct principal *me = &l->v->rq->principal;
    if (me->admin)
        return;
    buf_printf(&l->where, SQL_AND_COLUMN_VISIBLE, workspace_column);
    list_bind_int(l, me->user_id);
}

static const char *sort_direction(struct list *l)
{
    bool down;
    request_query_order(l->v->rq, &down, l->error.code ? NULL : &l->error);
    return down ? "DESC" : "ASC";
}

void list_sort(struct list *l, const char *name, const struct list_sort *sorts,
               const char *fallback, const char *tie)
{
    const char *by = query_get(l->v->query, name), *way = sort_direction(l);
    buf_puts(&l->order, SQL_ORDER_BY);
    if (!by || !*by || !strcmp(by, "SORT_BY_UNSPECIFIED")) {
        bool asked = query_get(l->v->query, "orderBy");
        buf_printf(&l->order, "%s %s", asked ? tie : fallback, asked ? way : "");
        return;
    }
    for (; sorts->name; sorts++)
        if (!strcmp(sorts->name, by)) {
            buf_printf(&l->order, "%s %s, %s %s", sorts->column, way, tie, way);
            return;
        }
    if (!l->error.code)
        error_set(&l->error, ERR_INVALID,
                  "query parameter %s: this list cannot be sorted by "
                  "\"%.64s\"",
                  name, by);
}

void list_page(struct list *l)
{
    struct error *e = l->error.code ? NULL : &l->error;
    bool named = query_get(l->v->query, "limit");
    request_query_int(l->v->rq, "offset", 0, &l->offset, e);
    request_query_int(l->v->rq, "limit", LIMIT_PAGE, &l->limit, e);
    if (l->limit == -2) // as in Determined: no rows, only the total
        l->limit = 0;
    else if (l->limit <= 0)
        l->limit = named ? -1 : LIMIT_PAGE;
}

void list_cursor(struct list *l, const char *column, bool up)
{
    int64_t last;
    const char *text = query_get(l->v->query, "cursor");
    struct error *e = l->error.code ? NULL : &l->error;
    l->has_cursor = true;
    l->after_cursor = text && *text && !request_query_int(l->v->rq, "cursor", 0, &last, e);
    if (!l->after_cursor)
        return;
    buf_printf(&l->where, " AND %s %s ?", column, up ? ">" : "<");
    list_bind_int(l, last);
}

static int count_rows(struct list *l, const char *from, struct error *e)
{
    struct buf sql;
    buf_init(&sql, LIST_SQL_MAX);
    buf_printf(&sql, SQL_LIST_COUNT, from, buf_str(&l->where));
    struct db_rows *rows = db_query_sql(l->v->db, buf_str(&sql), l->values, l->value_count);
    int rc = db_next(rows) == 1 ? 0 : error_set(e, ERR_INTERNAL, "the store cannot be read");
    if (!rc)
        l->total = DB_GET(rows, COUNT, count);
    db_rows_close(rows);
    buf_free(&sql);
    return rc;
}

// Counts the rows, then opens the page. NULL: *e has the error.
static struct db_rows *open_page(struct list *l, const struct list_source *source, struct error *e)
{
    if (l->error.code) {
        *e = l->error;
        return NULL;
    }
    if (!l->after_cursor && count_rows(l, source->from, e))
        return NULL;
    if (l->offset < 0)
        l->offset = l->offset + l->total > 0 ? l->offset + l->total : 0;
    struct buf sql;
    buf_init(&sql, LIST_SQL_MAX);
    buf_printf(&sql, SQL_LIST_PAGE, source->columns, source->from,
               source->joined ? source->joined : "", buf_str(&l->where), buf_str(&l->order));
    list_bind_int(l, l->limit);
    list_bind_int(l, l->offset);
    struct db_rows *rows = db_query_sql(l->v->db, buf_str(&sql), l->values, l->value_count);
    buf_free(&sql);
    return rows;
}

// "nextCursor" is null if no page follows. The total behind a cursor is not known.
static void write_cursor(struct list *l, int64_t count, int64_t last)
{
    char text[32];
    snprintf(text, sizeof text, "%lld", (long long)last);
    jw_kv_string(&l->v->w, "nextCursor", count && count == l->limit ? text : NULL);
    jw_kv_bool(&l->v->w, "totalIsLeast", l->after_cursor);
}

int list_answer(struct list *l, const struct list_source *source, struct error *e)
{
    struct json_writer *w = &l->v->w;
    struct db_rows *rows = open_page(l, source, e);
    int64_t count = 0, last = 0;
    int more = 0;
    if (rows) {
        if (!l->inside_object)
            jw_object(w);
        jw_key(w, source->key);
        jw_array(w);
        for (; (more = db_next(rows)) == 1; count++) {
            last = l->has_cursor ? DB_GET(rows, ID, id) : 0;
            source->write(w, rows);
        }
        jw_array_end(w);
        if (l->after_cursor)
            l->total = count;
        wire_write_pagination(w, l->offset, l->limit < 0 ? 0 : l->limit, count, l->total);
        if (l->has_cursor)
            write_cursor(l, count, last);
        if (!l->inside_object)
            jw_object_end(w);
        db_rows_close(rows);
    }
    buf_free(&l->where);
    buf_free(&l->order);
    if (!rows)
        return e->code;
    return more ? error_set(e, ERR_INTERNAL, "the store cannot be read") : 0;
}
