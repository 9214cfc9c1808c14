#include "master/views/lists/filtered_list_internal.h"

#include <string.h>

#include "db/statements/compose.h"

// --- SQL -----------------------------------------------------------------------------------------

static void add_key(struct filtered_list *l, const struct filtered_list_query *p, size_t key,
                    struct sql *out)
{
    const struct sql_field *f = filtered_list_key_field(l, key);
    bool down = l->keys[key].descending;
    if (p->walk && !key) {
        sql_add(out, p->walk->walk_sort);
        return;
    }
    if (p->walk && !strcmp(f->name, "id")) {
        sql_add(out, p->walk->walk_id);
        return;
    }
    sql_add(out, down && f->sort_down ? f->sort_down : f->sort);
    sql_key_bind(out, l->context.arena, f, &l->keys[key].name);
}

json_t *filtered_list_cursor_value(const struct filtered_list *l, size_t key)
{
    return json_array_get(l->cursor, key + 1);
}

static void bind_cursor_value(struct filtered_list *l, size_t key, struct sql *out)
{
    const json_t *value = filtered_list_cursor_value(l, key);
    if (json_is_integer(value))
        sql_int(out, json_integer_value(value));
    else if (json_is_real(value))
        sql_double(out, json_real_value(value));
    else
        sql_text(out, json_string_value(value));
}

static void add_comparison(struct filtered_list *l, const struct filtered_list_query *p, size_t key,
                           const char *sign, struct sql *out)
{
    add_key(l, p, key, out);
    sql_add(out, sign);
    bind_cursor_value(l, key, out);
}

// Rows behind the cursor: behind it by the first key, or equal there and behind it by the next key,
// and so on.
static void add_behind_cursor(struct filtered_list *l, const struct filtered_list_query *p,
                              size_t key, struct sql *out)
{
    bool none = json_is_null(filtered_list_cursor_value(l, key));
    bool nulls = filtered_list_key_field(l, key)->nullable && p->phase != PHASE_WITH_VALUE;
    sql_add(out, "(");
    if (none) {
        sql_add(out, "0");
    } else {
        add_comparison(l, p, key, l->keys[key].descending ? " < ?" : " > ?", out);
        if (nulls || key) {
            sql_add(out, " OR ");
            add_key(l, p, key, out);
            sql_add(out, " IS NULL");
        }
    }
    if (key + 1 < l->key_count) {
        sql_add(out, " OR (");
        if (none)
            add_key(l, p, key, out), sql_add(out, " IS NULL");
        else
            add_comparison(l, p, key, " = ?", out);
        sql_add(out, " AND ");
        add_behind_cursor(l, p, key + 1, out);
        sql_add(out, ")");
    }
    sql_add(out, ")");
}

static void add_cursor(struct filtered_list *l, const struct filtered_list_query *p,
                       struct sql *out)
{
    bool from_none = l->cursor && json_is_null(filtered_list_cursor_value(l, 0));
    if (p->phase == PHASE_WITHOUT_VALUE) {
        if (from_none) {
            sql_add(out, " AND ");
            add_behind_cursor(l, p, 1, out);
        }
    } else if (l->cursor) {
        sql_add(out, " AND "); // redundant, but SQLite can start an index here
        add_comparison(l, p, 0, l->keys[0].descending ? " <= ?" : " >= ?", out);
        sql_add(out, " AND ");
        add_behind_cursor(l, p, 0, out);
    }
}

// Adds every condition except that of the cursor. `covered`: a test that the source of the rows
// implies.
void filtered_list_add_conditions(struct filtered_list *l, const struct filter_node *covered,
                                  struct sql *out)
{
    for (size_t i = 0; i < l->required_count; i++) {
        sql_add(out, " AND ");
        sql_add(out, l->required[i].sql);
        if (l->required[i].bound)
            sql_int(out, l->required[i].value);
    }
    for (const struct filter_node *n = l->tests; n; n = n->next) {
        if (n == covered)
            continue;
        sql_add(out, " AND ");
        filter_sql(&l->context, n, out);
    }
}

// Adds the tests of the walked metric as bounds of the walk, so that it stops where the tests stop.
// Columns of the list's own table are compared during the walk anyway.
static void add_walk_bounds(struct filtered_list *l, const struct sql_field *walk, struct sql *out)
{
    const struct filter_name *key = &l->keys[0].name;
    if (key->field->type != FILTER_METRIC)
        return;
    for (const struct filter_node *t = l->tests; t; t = t->next) {
        const struct filter_name *name = &t->name;
        if (t->shape == FILTER_TEST && sql_field_of(l->context.table, name) == walk &&
            !strcmp(name->key, key->key)) {
            sql_add(out, " AND ");
            if (!filter_sql_of(&l->context, t, walk->walk_sort, out))
                sql_add(out, "1");
        }
    }
}

// Adds FROM and WHERE with the conditions.
void filtered_list_add_source(struct filtered_list *l, const struct filtered_list_query *p,
                              struct sql *out)
{
    const struct filter_node *covered = NULL;
    sql_add(out, SQL_FROM);
    sql_add(out, p->walk ? p->walk->walk_from : l->source->base);
    sql_add(out, SQL_WHERE_TRUE);
    if (p->walk && p->walk->walk_where) {
        sql_add(out, " AND ");
        bool down = l->keys[0].descending && p->walk->walk_where_down;
        sql_add(out, down ? p->walk->walk_where_down : p->walk->walk_where);
        if (l->walk_test) {
            sql_text(out, filter_match_key(&l->context, l->walk_test));
        } else {
            sql_key_bind(out, l->context.arena, p->walk, &l->keys[0].name);
            add_walk_bounds(l, p->walk, out);
        }
        covered = l->walk_test;
    } else if (!p->walk && l->driver) {
        sql_add(out, " AND ");
        sql_add(out, l->context.table->id);
        sql_add(out, SQL_IN_LIST);
        sql_text(out, l->driven_ids);
        return;
    }
    filtered_list_add_conditions(l, covered, out);
}

// Returns the name that a sort key has as a column of the inner query.
static const char *key_alias(const struct filtered_list *l, size_t key)
{
    static const char *const aliases[FILTER_KEYS_MAX] = {"k0", "k1", "k2", "k3"};
    return key + 1 == l->key_count ? "id" : aliases[key];
}

static void add_inner_query(struct filtered_list *l, const struct filtered_list_query *p,
                            struct sql *out)
{
    sql_add(out, SQL_SELECT_WORD);
    for (size_t i = 0; i < l->key_count; i++) {
        sql_add(out, i ? ", " : "");
        add_key(l, p, i, out);
        sql_add(out, " AS ");
        sql_add(out, key_alias(l, i));
    }
    filtered_list_add_source(l, p, out);
    if (p->phase != PHASE_ALL) {
        sql_add(out, " AND ");
        add_key(l, p, 0, out);
        sql_add(out, p->phase == PHASE_WITH_VALUE ? " IS NOT NULL" : " IS NULL");
    }
    add_cursor(l, p, out);
    sql_add(out, SQL_ORDER_BY);
    for (size_t i = p->phase == PHASE_WITHOUT_VALUE; i < l->key_count; i++) {
        bool nulls = filtered_list_key_field(l, i)->nullable && (i || p->phase == PHASE_ALL);
        sql_add(out, key_alias(l, i));
        sql_add(out, l->keys[i].descending ? " DESC" : nulls ? " ASC NULLS LAST" : " ASC");
        sql_add(out, i + 1 < l->key_count ? ", " : SQL_PAGE);
    }
}

// The outer query keeps the order of the inner one: SQLite runs the inner query row by row, and
// CROSS JOIN makes it the outermost loop.
void filtered_list_add_page(struct filtered_list *l, const struct filtered_list_query *p,
                            struct sql *out)
{
    sql_add(out, l->source->columns);
    for (size_t i = 0; i < l->key_count; i++) {
        sql_add(out, ", k.");
        sql_add(out, key_alias(l, i));
    }
    for (size_t i = 0; i < l->shown_count; i++) {
        const struct sql_field *f = sql_field_of(l->context.table, &l->shown[i]);
        sql_add(out, ", ");
        sql_add(out, f->sort);
        sql_key_bind(out, l->context.arena, f, &l->shown[i]);
    }
    sql_add(out, SQL_FROM_QUERY);
    add_inner_query(l, p, out);
    sql_int(out, l->limit < 0 ? -1 : l->limit + 1 - l->rows);
    sql_int(out, l->offset);
    sql_add(out, ") k ");
    sql_add(out, l->source->joined);
}

int filtered_list_read_count(struct filtered_list *l, const struct sql *s, int64_t *out,
                             struct error *e)
{
    struct db_rows *rows = sql_query(l->v->db, s);
    bool found = db_next(rows) == 1;
    *out = found ? DB_GET(rows, COUNT, count) : 0;
    db_rows_close(rows);
    return found ? 0 : error_set(e, ERR_INTERNAL, "the store cannot be read");
}
