#include "master/views/lists/filtered_list_internal.h"

#include <string.h>

#include "db/statements/compose.h"

// --- SQL -----------------------------------------------------------------------------------------

static void add_expression(struct filtered_list *g, const struct filtered_list_query *p, size_t key,
                           struct sql *out)
{
    const struct sql_field *f = filtered_list_key_field(g, key);
    bool down = g->keys[key].descending;
    if (p->walk && !key) {
        sql_add(out, p->walk->walk_sort);
        return;
    }
    if (p->walk && !strcmp(f->name, "id")) {
        sql_add(out, p->walk->walk_id);
        return;
    }
    sql_add(out, down && f->sort_down ? f->sort_down : f->sort);
    sql_key_bind(out, g->context.arena, f, &g->keys[key].name);
}

json_t *filtered_list_cursor_value(const struct filtered_list *g, size_t key)
{
    return json_array_get(g->after, key + 1);
}

static void bind_after(struct filtered_list *g, size_t key, struct sql *out)
{
    const json_t *value = filtered_list_cursor_value(g, key);
    if (json_is_integer(value))
        sql_int(out, json_integer_value(value));
    else if (json_is_real(value))
        sql_double(out, json_real_value(value));
    else
        sql_text(out, json_string_value(value));
}

static void add_comparison(struct filtered_list *g, const struct filtered_list_query *p, size_t key,
                           const char *sign, struct sql *out)
{
    add_expression(g, p, key, out);
    sql_add(out, sign);
    bind_after(g, key, out);
}

// Rows behind the cursor: by the first key, or equal there and behind it by the next, and so on.
static void add_after(struct filtered_list *g, const struct filtered_list_query *p, size_t key,
                      struct sql *out)
{
    bool none = json_is_null(filtered_list_cursor_value(g, key));
    bool nulls = filtered_list_key_field(g, key)->nullable && p->phase != PHASE_HAVE;
    sql_add(out, "(");
    if (none) {
        sql_add(out, "0");
    } else {
        add_comparison(g, p, key, g->keys[key].descending ? " < ?" : " > ?", out);
        if (nulls || key) {
            sql_add(out, " OR ");
            add_expression(g, p, key, out);
            sql_add(out, " IS NULL");
        }
    }
    if (key + 1 < g->key_count) {
        sql_add(out, " OR (");
        if (none)
            add_expression(g, p, key, out), sql_add(out, " IS NULL");
        else
            add_comparison(g, p, key, " = ?", out);
        sql_add(out, " AND ");
        add_after(g, p, key + 1, out);
        sql_add(out, ")");
    }
    sql_add(out, ")");
}

static void add_cursor(struct filtered_list *g, const struct filtered_list_query *p,
                       struct sql *out)
{
    bool from_none = g->after && json_is_null(filtered_list_cursor_value(g, 0));
    if (p->phase == PHASE_NONE) {
        if (from_none) {
            sql_add(out, " AND ");
            add_after(g, p, 1, out);
        }
    } else if (g->after) {
        sql_add(out, " AND "); // where an index begins
        add_comparison(g, p, 0, g->keys[0].descending ? " <= ?" : " >= ?", out);
        sql_add(out, " AND ");
        add_after(g, p, 0, out);
    }
}

// Every condition but the cursor's, and but `covered`, which the source of the rows has already.
void filtered_list_add_conditions(struct filtered_list *g, const struct filter_node *covered,
                                  struct sql *out)
{
    for (size_t i = 0; i < g->fixed_count; i++) {
        sql_add(out, " AND ");
        sql_add(out, g->fixed[i].sql);
        if (g->fixed[i].bound)
            sql_int(out, g->fixed[i].value);
    }
    for (const struct filter_node *n = g->tests; n; n = n->next) {
        if (n == covered)
            continue;
        sql_add(out, " AND ");
        filter_sql(&g->context, n, out);
    }
}

// Tests of the metric that the walk follows end it where they end: from 1.7 down, nothing below 0.3
// would be met for long. (A column of the list itself is compared as it is walked.)
static void add_bounds(struct filtered_list *g, const struct sql_field *walk, struct sql *out)
{
    const struct filter_name *key = &g->keys[0].name;
    if (key->field->type != FILTER_METRIC)
        return;
    for (const struct filter_node *t = g->tests; t; t = t->next) {
        const struct filter_name *name = &t->name;
        if (t->shape == FILTER_TEST && sql_field_of(g->context.table, name) == walk &&
            !strcmp(name->key, key->key)) {
            sql_add(out, " AND ");
            if (!filter_sql_of(&g->context, t, walk->walk_sort, out))
                sql_add(out, "1");
        }
    }
}

// FROM and WHERE with the conditions.
void filtered_list_add_source(struct filtered_list *g, const struct filtered_list_query *p,
                              struct sql *out)
{
    const struct filter_node *covered = NULL;
    sql_add(out, SQL_FROM);
    sql_add(out, p->walk ? p->walk->walk_from : g->source->base);
    sql_add(out, SQL_WHERE_TRUE);
    if (p->walk && p->walk->walk_where) {
        sql_add(out, " AND ");
        bool down = g->keys[0].descending && p->walk->walk_where_down;
        sql_add(out, down ? p->walk->walk_where_down : p->walk->walk_where);
        if (g->along) {
            sql_text(out, filter_along(&g->context, g->along));
        } else {
            sql_key_bind(out, g->context.arena, p->walk, &g->keys[0].name);
            add_bounds(g, p->walk, out);
        }
        covered = g->along;
    } else if (!p->walk && g->driver) {
        sql_add(out, " AND ");
        sql_add(out, g->context.table->id);
        sql_add(out, SQL_IN_LIST);
        sql_text(out, g->ids);
        return;
    }
    filtered_list_add_conditions(g, covered, out);
}

// Of a key, which is a column of the inner query; the last is the id.
static const char *alias_of(const struct filtered_list *g, size_t key)
{
    static const char *const aliases[FILTER_KEYS_MAX] = {"k0", "k1", "k2", "k3"};
    return key + 1 == g->key_count ? "id" : aliases[key];
}

static void add_inner(struct filtered_list *g, const struct filtered_list_query *p, struct sql *out)
{
    sql_add(out, SQL_SELECT_WORD);
    for (size_t i = 0; i < g->key_count; i++) {
        sql_add(out, i ? ", " : "");
        add_expression(g, p, i, out);
        sql_add(out, " AS ");
        sql_add(out, alias_of(g, i));
    }
    filtered_list_add_source(g, p, out);
    if (p->phase != PHASE_ALL) {
        sql_add(out, " AND ");
        add_expression(g, p, 0, out);
        sql_add(out, p->phase == PHASE_HAVE ? " IS NOT NULL" : " IS NULL");
    }
    add_cursor(g, p, out);
    sql_add(out, SQL_ORDER_BY);
    for (size_t i = p->phase == PHASE_NONE; i < g->key_count; i++) {
        bool nulls = filtered_list_key_field(g, i)->nullable && (i || p->phase == PHASE_ALL);
        sql_add(out, alias_of(g, i));
        sql_add(out, g->keys[i].descending ? " DESC" : nulls ? " ASC NULLS LAST" : " ASC");
        sql_add(out, i + 1 < g->key_count ? ", " : SQL_PAGE);
    }
}

// The outer query follows the order of the inner one: SQLite runs it row by row, and CROSS JOIN
// keeps it the outermost loop.
void filtered_list_add_page(struct filtered_list *g, const struct filtered_list_query *p,
                            struct sql *out)
{
    sql_add(out, g->source->columns);
    for (size_t i = 0; i < g->key_count; i++) {
        sql_add(out, ", k.");
        sql_add(out, alias_of(g, i));
    }
    for (size_t i = 0; i < g->shown_count; i++) {
        const struct sql_field *f = sql_field_of(g->context.table, &g->shown[i]);
        sql_add(out, ", ");
        sql_add(out, f->sort);
        sql_key_bind(out, g->context.arena, f, &g->shown[i]);
    }
    sql_add(out, SQL_FROM_QUERY);
    add_inner(g, p, out);
    sql_int(out, g->limit < 0 ? -1 : g->limit + 1 - g->rows);
    sql_int(out, g->offset);
    sql_add(out, ") k ");
    sql_add(out, g->source->joined);
}

int filtered_list_read_count(struct filtered_list *g, const struct sql *s, int64_t *out,
                             struct error *e)
{
    struct db_rows *rows = sql_query(g->v->db, s);
    bool found = db_next(rows) == 1;
    *out = found ? DB_GET(rows, COUNT, count) : 0;
    db_rows_close(rows);
    return found ? 0 : error_set(e, ERR_INTERNAL, "the store cannot be read");
}
