#include "master/views/pager.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/hash.h"
#include "base/limits.h"
#include "base/log.h"
#include "db/statements/compose.h"

enum {
    COUNT_ROWS = 2000, // so many rows are counted one by one, for every page
    DRIVE_LEAST = 256, // so few ids are always worth looking up
    DRIVE_MOST = 20 * 1000,
    CURSOR_MAX = 1500,             // bytes; a row that is sorted by a longer text gives none
    VALUES_MAX = 32 * 1024 * 1024, // bytes of all that is also shown
};

void pager_init(struct pager *g, struct view *v, const struct sql_table *table,
                const struct pager_source *source)
{
    *g = (struct pager){.v = v,
                        .context = {.table = table, .arena = &v->rq->arena, .now = clock_wall_us()},
                        .source = source,
                        .limit = -1};
    g->tests_end = &g->tests;
}

static struct error *first_error(struct pager *g)
{
    return g->error.code ? NULL : &g->error;
}

// --- what is asked for ---------------------------------------------------------------------------

void pager_fixed_int(struct pager *g, const char *sql, bool counted, int64_t value)
{
    must(g->fixed_count < PAGER_FIXED_MAX);
    size_t i = g->fixed_count++;
    g->fixed[i].sql = sql;
    g->fixed[i].counted = counted;
    g->fixed[i].bound = strchr(sql, '?') != NULL;
    g->fixed[i].value = value;
}

void pager_fixed(struct pager *g, const char *sql, bool counted)
{
    pager_fixed_int(g, sql, counted, 0);
}

static void add_tree(struct pager *g, struct filter_node *n)
{
    *g->tests_end = n;
    g->tests_end = &n->next;
}

// Tests that must all be true stand beside each other, so that each may drive.
static void add_tests(struct pager *g, struct filter_node *n)
{
    if (n && n->shape == FILTER_AND) {
        for (struct filter_node *k = n->child, *next; k; k = next) {
            next = k->next;
            k->next = NULL;
            add_tree(g, k);
        }
    } else if (n) {
        add_tree(g, n);
    }
}

// "FIELD OPERATOR (quoted values)" by way of the parser, which checks them and tells what is wrong.
static void add_test(struct pager *g, const char *parameter, const char *field, enum filter_op op,
                     const char *const *values, size_t count)
{
    struct arena *a = g->context.arena;
    struct filter_node *n = NULL;
    struct error why = {0};
    struct filter_value *list = arena_alloc(a, count * sizeof *list);
    for (size_t i = 0; i < count && !why.code; i++) {
        const char *quoted = values[i];
        struct buf text;
        buf_init(&text, 2 * LIMIT_BODY_SMALL);
        buf_printf(&text, "%s %s \"", field, op == FILTER_HAS ? "~" : "=");
        for (; *quoted; quoted++)
            buf_printf(&text, strchr("\\\"", *quoted) ? "\\%c" : "%c", *quoted);
        buf_puts(&text, "\"");
        if (!filter_parse(a, g->context.table->list, buf_str(&text), &n, &why))
            list[i] = n->values[0];
        buf_free(&text);
    }
    if (why.code) {
        const char *said = strstr(why.text, ": "); // without the column, which is not the caller's
        error_set(first_error(g), why.code, "query parameter %s: %s", parameter,
                  said ? said + 2 : why.text);
        return;
    }
    n->op = op;
    n->values = list;
    n->value_count = count;
    add_tree(g, n);
}

static size_t values_of(struct pager *g, const char *name, const char *const **out)
{
    size_t count = query_all(g->v->query, name, NULL, 0);
    const char **values = arena_alloc(g->context.arena, (count + 1) * sizeof *values);
    query_all(g->v->query, name, values, count);
    *out = values;
    return count;
}

void pager_any_of(struct pager *g, const char *parameter, const char *field)
{
    const char *const *values;
    size_t count = values_of(g, parameter, &values);
    if (count && (count > 1 || *values[0]))
        add_test(g, parameter, field, count > 1 ? FILTER_IN : FILTER_EQ, values, count);
}

void pager_all_of(struct pager *g, const char *parameter, const char *field)
{
    const char *const *values;
    size_t count = values_of(g, parameter, &values);
    for (size_t i = 0; i < count; i++)
        add_test(g, parameter, field, FILTER_EQ, &values[i], 1);
}

void pager_part(struct pager *g, const char *parameter, const char *field)
{
    const char *value = query_get(g->v->query, parameter);
    if (value && *value)
        add_test(g, parameter, field, FILTER_HAS, &value, 1);
}

static void set_order(struct pager *g, const char *text)
{
    if (filter_parse_sort(g->context.arena, g->context.table->list, text, g->keys, &g->key_count,
                          first_error(g)))
        g->key_count = 0;
}

void pager_sort(struct pager *g, const char *parameter, const struct pager_sort *sorts)
{
    const char *by = query_get(g->v->query, parameter), *way = query_get(g->v->query, "orderBy");
    bool down = way && !strcmp(way, "ORDER_BY_DESC");
    if (way && *way && !down && strcmp(way, "ORDER_BY_ASC") && strcmp(way, "ORDER_BY_UNSPECIFIED"))
        error_set(first_error(g), ERR_INVALID,
                  "query parameter orderBy: \"%.64s\" is neither ORDER_BY_ASC nor ORDER_BY_DESC",
                  way);
    if (!by || !*by || !strcmp(by, "SORT_BY_UNSPECIFIED")) {
        if (way)
            set_order(g, down ? "-id" : "id");
        return;
    }
    while (sorts->name && strcmp(sorts->name, by))
        sorts++;
    if (sorts->name)
        set_order(g, arena_printf(g->context.arena, "%s%s", down ? "-" : "", sorts->by));
    else
        error_set(first_error(g), ERR_INVALID,
                  "query parameter %s: this list cannot be sorted by \"%.64s\"", parameter, by);
}

// "show=validation.loss&show=hparams.width": what could also be sorted by.
static void read_shown(struct pager *g)
{
    const char *const *names;
    size_t count = values_of(g, "show", &names);
    struct error why = {0};
    if (count > PAGER_SHOWN_MAX) {
        error_set(first_error(g), ERR_TOO_LARGE, "query parameter show: more than %d",
                  PAGER_SHOWN_MAX);
        return;
    }
    for (size_t i = 0; i < count && !why.code; i++) {
        struct filter_key keys[FILTER_KEYS_MAX];
        size_t parsed;
        if (!filter_parse_sort(g->context.arena, g->context.table->list, names[i], keys, &parsed,
                               &why) &&
            parsed != 1)
            error_set(&why, ERR_INVALID, "sort: one name in each");
        g->shown[g->shown_count++] = keys[0].name;
    }
    if (why.code) {
        const char *said = strstr(why.text, ": ");
        error_set(first_error(g), why.code, "query parameter show: %s", said ? said + 2 : why.text);
    }
}

static void read_number(struct pager *g, const char *name, int64_t fallback, int64_t *out)
{
    const char *text = query_get(g->v->query, name);
    *out = fallback;
    if (text && *text && !request_number(text, out))
        error_set(first_error(g), ERR_INVALID,
                  "query parameter %s: \"%.64s\" is not an integer of 64 bits", name, text);
}

static void read_page(struct pager *g)
{
    bool named = query_get(g->v->query, "limit");
    read_number(g, "offset", 0, &g->offset);
    read_number(g, "limit", LIMIT_PAGE, &g->limit);
    if (g->limit == -2) { // of the wire: no rows, only the total
        g->limit = 0;
        g->exact = true;
    } else if (g->limit <= 0) {
        g->limit = named ? -1 : LIMIT_PAGE;
    }
    const char *count = query_get(g->v->query, "count");
    g->exact |= g->offset < 0 || (count && !strcmp(count, "exact"));
}

// The keys end with the id, which no two have; it goes the way of the key before it.
static void close_order(struct pager *g)
{
    if (!g->key_count)
        set_order(g, g->source->order);
    for (size_t i = 0; i < g->key_count; i++)
        if (!strcmp(g->keys[i].name.field->name, "id")) {
            g->key_count = i + 1;
            return;
        }
    struct filter_key id[FILTER_KEYS_MAX];
    size_t count;
    filter_parse_sort(g->context.arena, g->context.table->list, "id", id, &count, NULL);
    bool down = g->key_count && g->keys[g->key_count - 1].descending;
    g->keys[g->key_count] = id[0];
    g->keys[g->key_count++].descending = down;
}

static const struct sql_field *field_of(const struct pager *g, size_t key)
{
    return sql_field_of(g->context.table, &g->keys[key].name);
}

// --- cursors -------------------------------------------------------------------------------------

// What a cursor is of; a cursor of another order would start anywhere.
static int64_t order_mark(const struct pager *g)
{
    struct buf text;
    buf_init(&text, 64 * 1024);
    buf_puts(&text, g->source->key);
    for (size_t i = 0; i < g->key_count; i++)
        buf_printf(&text, ",%d %s.%s %d", g->keys[i].descending, g->keys[i].name.field->name,
                   g->keys[i].name.key, g->keys[i].name.pick);
    int64_t mark = (int64_t)(hash64(buf_str(&text), text.len) >> 16);
    buf_free(&text);
    return mark;
}

// base64 with - and _ in place of + and /, so that it stands in an address as it is.
static void translate(char *text, const char *from, const char *to)
{
    for (; *text; text++) {
        const char *found = strchr(from, *text);
        if (found)
            *text = to[found - from];
    }
}

static json_t *parse_cursor(char *text)
{
    void *data = NULL;
    size_t len = 0;
    json_t *values = NULL;
    translate(text, "-_", "+/");
    if (!base64_decode(text, strlen(text), &data, &len) &&
        json_parse(data, len, "cursor", &values, NULL))
        values = NULL;
    free(data);
    return values;
}

static bool is_cursor(const struct pager *g, const json_t *values)
{
    size_t i;
    json_t *value;
    if (!json_is_array(values) || json_array_size(values) != g->key_count + 1 ||
        json_integer_value(json_array_get(values, 0)) != order_mark(g))
        return false;
    json_array_foreach(values, i, value)
    {
        if (json_is_object(value) || json_is_array(value) || json_is_boolean(value))
            return false;
    }
    return json_is_integer(json_array_get(values, g->key_count));
}

static void read_cursor(struct pager *g)
{
    const char *text = query_get(g->v->query, "cursor");
    if (!text || !*text)
        return;
    g->after = parse_cursor(arena_strdup(g->context.arena, text));
    if (!is_cursor(g, g->after))
        error_set(first_error(g), ERR_INVALID,
                  "query parameter cursor: it is not of this list in this order; leave it out to "
                  "begin anew");
    if (g->offset)
        error_set(first_error(g), ERR_INVALID, "query parameters cursor and offset: one of them");
}

static void write_value(struct json_writer *w, struct db_rows *rows, int column)
{
    switch (db_get_type(rows, column)) {
    case DB_INTEGER:
        jw_int(w, db_get_integer(rows, column));
        break;
    case DB_REAL:
        jw_double(w, db_get_real(rows, column));
        break;
    case DB_TEXT:
        jw_string(w, db_get_text(rows, column));
        break;
    default:
        jw_null(w);
    }
}

// The cursor of the row, which is the last of the page.
static void keep_cursor(struct pager *g, struct db_rows *rows)
{
    struct json_writer w;
    buf_reset(&g->next);
    jw_init(&w, &g->next);
    jw_array(&w);
    jw_int(&w, order_mark(g));
    for (size_t i = 0; i < g->key_count; i++)
        write_value(&w, rows, g->source->column_count + (int)i);
    jw_array_end(&w);
}

// Of the row, which is the latest.
static void keep_values(struct pager *g, struct db_rows *rows)
{
    struct json_writer w;
    if (!g->shown_count)
        return;
    buf_puts(&g->values, g->rows ? "," : "[");
    jw_init(&w, &g->values);
    jw_array(&w);
    for (size_t i = 0; i < g->shown_count; i++)
        write_value(&w, rows, g->source->column_count + (int)(g->key_count + i));
    jw_array_end(&w);
}

static int write_values(struct pager *g, struct error *e)
{
    if (!g->shown_count)
        return 0;
    buf_puts(&g->values, g->rows ? "]" : "[]");
    if (g->values.err)
        return error_set(e, ERR_TOO_LARGE, "query parameter show: ask for fewer rows at a time");
    jw_kv_raw(&g->v->w, "values", buf_str(&g->values));
    return 0;
}

static void write_cursor(struct pager *g)
{
    bool fits = g->more && g->limit > 0 && !g->next.err;
    char *text = fits ? base64_encode(buf_str(&g->next), g->next.len) : NULL;
    if (text)
        translate(text, "+/", "-_");
    jw_kv_string(&g->v->w, "nextCursor", text);
    free(text);
}

// --- SQL -----------------------------------------------------------------------------------------

enum phase { PHASE_ALL, PHASE_HAVE, PHASE_NONE }; // rows that have a value to be sorted by, or none

struct plan { // of one query
    enum phase phase;
    const struct sql_field *walk; // NULL: driven or sorted
};

static void add_expression(struct pager *g, const struct plan *p, size_t key, struct sql *out)
{
    const struct sql_field *f = field_of(g, key);
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

static json_t *after_value(const struct pager *g, size_t key)
{
    return json_array_get(g->after, key + 1);
}

static void bind_after(struct pager *g, size_t key, struct sql *out)
{
    const json_t *value = after_value(g, key);
    if (json_is_integer(value))
        sql_int(out, json_integer_value(value));
    else if (json_is_real(value))
        sql_double(out, json_real_value(value));
    else
        sql_text(out, json_string_value(value));
}

static void add_comparison(struct pager *g, const struct plan *p, size_t key, const char *sign,
                           struct sql *out)
{
    add_expression(g, p, key, out);
    sql_add(out, sign);
    bind_after(g, key, out);
}

// Rows behind the cursor: by the first key, or equal there and behind it by the next, and so on.
static void add_after(struct pager *g, const struct plan *p, size_t key, struct sql *out)
{
    bool none = json_is_null(after_value(g, key));
    bool nulls = field_of(g, key)->nullable && p->phase != PHASE_HAVE;
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

static void add_cursor(struct pager *g, const struct plan *p, struct sql *out)
{
    bool from_none = g->after && json_is_null(after_value(g, 0));
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
static void add_conditions(struct pager *g, const struct filter_node *covered, struct sql *out)
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
static void add_bounds(struct pager *g, const struct sql_field *walk, struct sql *out)
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
static void add_source(struct pager *g, const struct plan *p, struct sql *out)
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
    add_conditions(g, covered, out);
}

// Of a key, which is a column of the inner query; the last is the id.
static const char *alias_of(const struct pager *g, size_t key)
{
    static const char *const aliases[FILTER_KEYS_MAX] = {"k0", "k1", "k2", "k3"};
    return key + 1 == g->key_count ? "id" : aliases[key];
}

static void add_inner(struct pager *g, const struct plan *p, struct sql *out)
{
    sql_add(out, SQL_SELECT_WORD);
    for (size_t i = 0; i < g->key_count; i++) {
        sql_add(out, i ? ", " : "");
        add_expression(g, p, i, out);
        sql_add(out, " AS ");
        sql_add(out, alias_of(g, i));
    }
    add_source(g, p, out);
    if (p->phase != PHASE_ALL) {
        sql_add(out, " AND ");
        add_expression(g, p, 0, out);
        sql_add(out, p->phase == PHASE_HAVE ? " IS NOT NULL" : " IS NULL");
    }
    add_cursor(g, p, out);
    sql_add(out, SQL_ORDER_BY);
    for (size_t i = p->phase == PHASE_NONE; i < g->key_count; i++) {
        bool nulls = field_of(g, i)->nullable && (i || p->phase == PHASE_ALL);
        sql_add(out, alias_of(g, i));
        sql_add(out, g->keys[i].descending ? " DESC" : nulls ? " ASC NULLS LAST" : " ASC");
        sql_add(out, i + 1 < g->key_count ? ", " : SQL_PAGE);
    }
}

// The outer query follows the order of the inner one: SQLite runs it row by row, and CROSS JOIN
// keeps it the outermost loop.
static void add_page(struct pager *g, const struct plan *p, struct sql *out)
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

// --- which way -----------------------------------------------------------------------------------

static int ask(struct pager *g, const struct sql *s, int64_t *out, struct error *e)
{
    struct db_rows *rows = sql_query(g->v->db, s);
    bool found = db_next(rows) == 1;
    *out = found ? DB_GET(rows, COUNT, count) : 0;
    db_rows_close(rows);
    return found ? 0 : error_set(e, ERR_INTERNAL, "the store cannot be read");
}

static int ask_constant(struct pager *g, const char *text, int64_t *out, struct error *e)
{
    struct sql s;
    sql_init(&s);
    sql_add(&s, text);
    int err = ask(g, &s, out, e);
    sql_free(&s);
    return err;
}

// The ids of a test's drive, if they are at most `most`; *count -1: they are more, or the test has
// no drive.
static int read_drive(struct pager *g, const struct filter_node *n, int64_t most, int64_t *ids,
                      int64_t *count, struct error *e)
{
    struct sql s;
    int state = 0;
    *count = -1;
    sql_init(&s);
    if (filter_drive(&g->context, n, &s)) {
        struct db_rows *rows = sql_query(g->v->db, &s);
        for (*count = 0; (state = db_next(rows)) == 1 && *count < most;)
            ids[(*count)++] = DB_GET(rows, ID, id);
        db_rows_close(rows);
        *count = state == 1 ? -1 : *count;
    }
    sql_free(&s);
    return state < 0 ? error_set(e, ERR_INTERNAL, "the store cannot be read") : 0;
}

static const char *list_of(struct pager *g, const int64_t *ids, int64_t count)
{
    struct buf list;
    buf_init(&list, (size_t)DRIVE_MOST * 24);
    for (int64_t i = 0; i < count; i++)
        buf_printf(&list, "%c%lld", i ? ',' : '[', (long long)ids[i]);
    buf_puts(&list, count ? "]" : "[]");
    const char *text = arena_strdup(g->context.arena, buf_str(&list));
    buf_free(&list);
    return text;
}

static bool is_words(const struct filter_node *n)
{
    return n->shape == FILTER_TEST && n->op == FILTER_FINDS;
}

static const struct filter_node *words_beside(const struct pager *g)
{
    const struct filter_node *t = g->tests;
    while (t && (t == g->driver || !is_words(t)))
        t = t->next;
    return t;
}

// FROM the driver's ids, WHERE they pass the other tests. Words are walked, once, and looked for
// among the ids (the + keeps them from being looked up for each), since to test by words is to
// gather all that have them.
static void add_driven(struct pager *g, const char *ids, struct sql *out)
{
    const struct filter_node *words = words_beside(g);
    const struct filter_node *covered = filter_drive_is_exact(g->driver) ? g->driver : NULL;
    const struct sql_field *along =
        words ? sql_field_of(g->context.table, &words->name)->along : NULL;
    sql_add(out, SQL_FROM);
    sql_add(out, along ? along->walk_from : g->source->base);
    sql_add(out, SQL_WHERE);
    if (along) {
        sql_add(out, along->walk_where);
        sql_text(out, filter_along(&g->context, words));
        sql_add(out, " AND +");
    }
    sql_add(out, along ? along->walk_id : g->context.table->id);
    sql_add(out, SQL_IN_LIST);
    sql_text(out, ids);
    add_conditions(g, along ? words : covered, out);
}

// What passes all tests, instead of the driver's ids.
static int drive(struct pager *g, int64_t *ids, int64_t count, struct error *e)
{
    struct sql s;
    int state;
    sql_init(&s);
    sql_add(&s, SQL_SELECT_WORD);
    sql_add(&s, g->context.table->id);
    add_driven(g, list_of(g, ids, count), &s);
    struct db_rows *rows = sql_query(g->v->db, &s);
    for (g->found = 0; (state = db_next(rows)) == 1 && g->found < count;)
        ids[g->found++] = DB_GET(rows, ID, id);
    db_rows_close(rows);
    g->ids = list_of(g, ids, g->found);
    sql_free(&s);
    return state < 0 ? error_set(e, ERR_INTERNAL, "the store cannot be read") : 0;
}

// The test that passes the fewest ids, at most `least`, becomes the driver, with these in *ids, of
// which there are *count; *other has as much room. Words are looked up last, and not at all where
// there are few ids without them: that reads every text that has one of them.
static int find_driver(struct pager *g, int64_t least, int64_t **ids, int64_t **other,
                       int64_t *count, struct error *e)
{
    int err = 0;
    for (int words = 0; words < 2; words++) {
        for (const struct filter_node *t = g->tests; t && !err && least >= 0; t = t->next) {
            int64_t n = -1, *read = *other;
            if (is_words(t) != words || (words && g->driver && least < DRIVE_LEAST))
                continue;
            err = read_drive(g, t, least, read, &n, e);
            if (n < 0)
                continue;
            *other = *ids;
            *ids = read;
            *count = n;
            g->driver = t;
            least = n - 1;
        }
    }
    return err;
}

// Words are the better ones to walk along: tested one by one, each would be looked up for itself.
static void choose_along(struct pager *g)
{
    for (const struct filter_node *t = g->tests; t; t = t->next)
        if (filter_along(&g->context, t) && (!g->along || is_words(t)))
            g->along = t;
    bool by_id = g->keys[0].name.field == g->keys[g->key_count - 1].name.field;
    if (g->driver || !by_id)
        g->along = NULL;
}

// Driven by the test that passes the fewest. With n ids to look up, a walk meets one of them every
// `all` / n rows, so it reads limit * all / n: as many at n = sqrt(limit * all). Ids that lie
// anywhere cost about twice as much as rows in order.
static int choose_driver(struct pager *g, struct error *e)
{
    int64_t count = 0;
    int err = g->source->size && g->tests ? ask_constant(g, g->source->size, &g->all, e) : 0;
    if (err || !g->all)
        return err;
    double all = (double)g->all, even = sqrt((g->limit < 0 ? all : (double)g->limit + 1) * all) / 2;
    int64_t least = even < DRIVE_LEAST  ? DRIVE_LEAST
                    : even > DRIVE_MOST ? DRIVE_MOST
                                        : (int64_t)even;
    int64_t *ids = xcalloc((size_t)least + 1, sizeof *ids);
    int64_t *other = xcalloc((size_t)least + 1, sizeof *other);
    err = find_driver(g, least, &ids, &other, &count, e);
    if (!err && g->driver)
        err = drive(g, ids, count, e);
    choose_along(g);
    free(ids);
    free(other);
    return err;
}

// --- totals --------------------------------------------------------------------------------------

static bool is_counted(const struct pager *g)
{
    bool counted = g->source->counts;
    for (size_t i = 0; i < g->fixed_count; i++)
        counted &= g->fixed[i].counted;
    for (const struct filter_node *n = g->tests; n && counted; n = n->next)
        counted = filter_is_counted(&g->context, n);
    return counted;
}

// As a driven page has found them, by the table of counts, else row by row.
static int count(struct pager *g, struct error *e)
{
    struct sql s;
    if (g->driver) {
        g->total = g->found;
        return 0;
    }
    sql_init(&s);
    if (is_counted(g)) {
        sql_add(&s, g->source->counts);
        sql_add(&s, SQL_WHERE_TRUE);
        add_conditions(g, NULL, &s);
    } else {
        sql_add(&s, SQL_SELECT_COUNT);
        add_source(g, &(struct plan){0}, &s);
    }
    int err = ask(g, &s, &g->total, e);
    sql_free(&s);
    return err;
}

// After the page has been read. Where the rows would have to be counted one by one and there are
// many, the total says only that more follow, unless the caller pays for it.
static int complete_total(struct pager *g, struct error *e)
{
    int64_t seen = g->offset + g->rows + g->more;
    bool last = !g->more && g->limit && (g->rows || !g->offset);
    bool dear = !g->exact && !g->driver && g->all > COUNT_ROWS && !is_counted(g);
    int err = 0;
    if (last && !g->after)
        g->total = seen;
    else if (!dear)
        err = count(g, e);
    g->least = dear && !(last && !g->after);
    if (g->rows && g->total < seen) // or others have overtaken the page
        g->total = seen;
    return err;
}

// --- the answer ----------------------------------------------------------------------------------

static int write_rows(struct pager *g, const struct plan *p, struct error *e)
{
    struct sql s;
    int state;
    sql_init(&s);
    add_page(g, p, &s);
    struct db_rows *rows = sql_query(g->v->db, &s);
    while ((state = db_next(rows)) == 1 && !g->more) {
        g->more = g->limit >= 0 && g->rows == g->limit;
        if (g->more)
            break;
        g->source->write(&g->v->w, rows);
        keep_values(g, rows);
        if (++g->rows == g->limit)
            keep_cursor(g, rows);
    }
    db_rows_close(rows);
    sql_free(&s);
    return state < 0 ? error_set(e, ERR_INTERNAL, "the store cannot be read") : 0;
}

static int write_page(struct pager *g, struct error *e)
{
    const struct sql_field *first = field_of(g, 0);
    bool split = first->nullable && !g->offset; // those without a value are a query of their own
    struct plan p = {.phase = split ? PHASE_HAVE : PHASE_ALL};
    int err = 0;
    if (!g->limit)
        return 0;
    if (!g->driver && first->walk_from && (split || !first->nullable))
        p.walk = g->along ? sql_field_of(g->context.table, &g->along->name)->along : first;
    if (!split || !g->after || !json_is_null(after_value(g, 0)))
        err = write_rows(g, &p, e);
    if (err || !split || g->more)
        return err;
    p = (struct plan){.phase = PHASE_NONE}; // whose index does not have them
    return write_rows(g, &p, e);
}

static int prepare(struct pager *g, struct error *e)
{
    struct filter_node *tree = NULL;
    const char *filter = query_get(g->v->query, "filter"), *sort = query_get(g->v->query, "sort");
    if (filter &&
        !filter_parse(g->context.arena, g->context.table->list, filter, &tree, first_error(g)))
        add_tests(g, tree);
    if (sort && *sort)
        set_order(g, sort);
    read_shown(g);
    read_page(g);
    if (!g->error.code)
        close_order(g);
    if (!g->error.code)
        read_cursor(g);
    if (g->error.code) {
        *e = g->error;
        return e->code;
    }
    int err = choose_driver(g, e);
    if (!err && g->offset < 0) { // from the end
        err = count(g, e);
        g->offset = g->offset + g->total > 0 ? g->offset + g->total : 0;
    }
    return err;
}

int pager_answer(struct pager *g, struct error *e)
{
    struct json_writer *w = &g->v->w;
    buf_init(&g->next, CURSOR_MAX);
    buf_init(&g->values, VALUES_MAX);
    int err = prepare(g, e);
    if (!err) {
        jw_object(w);
        jw_key(w, g->source->key);
        jw_array(w);
        err = write_page(g, e);
        jw_array_end(w);
    }
    if (!err)
        err = complete_total(g, e);
    if (!err)
        err = write_values(g, e);
    if (!err) {
        wire_write_pagination(w, g->offset, g->limit < 0 ? 0 : g->limit, g->rows, g->total);
        write_cursor(g);
        jw_kv_bool(w, "totalIsLeast", g->least);
        jw_object_end(w);
    }
    json_decref(g->after);
    buf_free(&g->next);
    buf_free(&g->values);
    return err;
}
