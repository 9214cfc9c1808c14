#include "master/views/lists/filtered_list_internal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/hash.h"
#include "base/limits.h"
#include "base/log.h"
#include "db/statements/compose.h"

enum {
    COUNT_ROWS = 2000,             // so many rows are counted one by one, for every page
    CURSOR_MAX = 1500,             // bytes; a row that is sorted by a longer text gives none
    VALUES_MAX = 32 * 1024 * 1024, // bytes of all that is also shown
};

void filtered_list_init(struct filtered_list *g, struct view *v, const struct sql_table *table,
                        const struct filtered_list_source *source)
{
    *g = (struct filtered_list){
        .v = v,
        .context = {.table = table, .arena = &v->rq->arena, .now = clock_wall_us()},
        .source = source,
        .limit = -1};
    g->tests_end = &g->tests;
}

// --- what is asked for ---------------------------------------------------------------------------

void filtered_list_require_int(struct filtered_list *g, const char *sql, bool counted,
                               int64_t value)
{
    must(g->fixed_count < PAGER_FIXED_MAX);
    size_t i = g->fixed_count++;
    g->fixed[i].sql = sql;
    g->fixed[i].counted = counted;
    g->fixed[i].bound = strchr(sql, '?') != NULL;
    g->fixed[i].value = value;
}

void filtered_list_require(struct filtered_list *g, const char *sql, bool counted)
{
    filtered_list_require_int(g, sql, counted, 0);
}

static void add_tree(struct filtered_list *g, struct filter_node *n)
{
    *g->tests_end = n;
    g->tests_end = &n->next;
}

// Tests that must all be true stand beside each other, so that each may drive.
static void add_tests(struct filtered_list *g, struct filter_node *n)
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
static void add_test(struct filtered_list *g, const char *parameter, const char *field,
                     enum filter_op op, const char *const *values, size_t count)
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
        error_set(filtered_list_first_error(g), why.code, "query parameter %s: %s", parameter,
                  said ? said + 2 : why.text);
        return;
    }
    n->op = op;
    n->values = list;
    n->value_count = count;
    add_tree(g, n);
}

static size_t values_of(struct filtered_list *g, const char *name, const char *const **out)
{
    size_t count = query_all(g->v->query, name, NULL, 0);
    const char **values = arena_alloc(g->context.arena, (count + 1) * sizeof *values);
    query_all(g->v->query, name, values, count);
    *out = values;
    return count;
}

void filtered_list_any_of(struct filtered_list *g, const char *parameter, const char *field)
{
    const char *const *values;
    size_t count = values_of(g, parameter, &values);
    if (count && (count > 1 || *values[0]))
        add_test(g, parameter, field, count > 1 ? FILTER_IN : FILTER_EQ, values, count);
}

void filtered_list_all_of(struct filtered_list *g, const char *parameter, const char *field)
{
    const char *const *values;
    size_t count = values_of(g, parameter, &values);
    for (size_t i = 0; i < count; i++)
        add_test(g, parameter, field, FILTER_EQ, &values[i], 1);
}

void filtered_list_contains(struct filtered_list *g, const char *parameter, const char *field)
{
    const char *value = query_get(g->v->query, parameter);
    if (value && *value)
        add_test(g, parameter, field, FILTER_HAS, &value, 1);
}

static void set_order(struct filtered_list *g, const char *text)
{
    if (filter_parse_sort(g->context.arena, g->context.table->list, text, g->keys, &g->key_count,
                          filtered_list_first_error(g)))
        g->key_count = 0;
}

void filtered_list_sort(struct filtered_list *g, const char *parameter,
                        const struct filtered_list_sort *sorts)
{
    const char *by = query_get(g->v->query, parameter), *way = query_get(g->v->query, "orderBy");
    bool down = way && !strcmp(way, "ORDER_BY_DESC");
    if (way && *way && !down && strcmp(way, "ORDER_BY_ASC") && strcmp(way, "ORDER_BY_UNSPECIFIED"))
        error_set(filtered_list_first_error(g), ERR_INVALID,
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
        error_set(filtered_list_first_error(g), ERR_INVALID,
                  "query parameter %s: this list cannot be sorted by \"%.64s\"", parameter, by);
}

// "show=validation.loss&show=hparams.width": what could also be sorted by.
static void read_shown(struct filtered_list *g)
{
    const char *const *names;
    size_t count = values_of(g, "show", &names);
    struct error why = {0};
    if (count > PAGER_SHOWN_MAX) {
        error_set(filtered_list_first_error(g), ERR_TOO_LARGE, "query parameter show: more than %d",
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
        error_set(filtered_list_first_error(g), why.code, "query parameter show: %s",
                  said ? said + 2 : why.text);
    }
}

static void read_number(struct filtered_list *g, const char *name, int64_t fallback, int64_t *out)
{
    const char *text = query_get(g->v->query, name);
    *out = fallback;
    if (text && *text && !request_number(text, out))
        error_set(filtered_list_first_error(g), ERR_INVALID,
                  "query parameter %s: \"%.64s\" is not an integer of 64 bits", name, text);
}

static void read_page(struct filtered_list *g)
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
static void close_order(struct filtered_list *g)
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

// --- totals --------------------------------------------------------------------------------------

static bool is_counted(const struct filtered_list *g)
{
    bool counted = g->source->counts;
    for (size_t i = 0; i < g->fixed_count; i++)
        counted &= g->fixed[i].counted;
    for (const struct filter_node *n = g->tests; n && counted; n = n->next)
        counted = filter_is_counted(&g->context, n);
    return counted;
}

// As a driven page has found them, by the table of counts, else row by row.
static int count(struct filtered_list *g, struct error *e)
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
        filtered_list_add_conditions(g, NULL, &s);
    } else {
        sql_add(&s, SQL_SELECT_COUNT);
        filtered_list_add_source(g, &(struct filtered_list_query){0}, &s);
    }
    int err = filtered_list_read_count(g, &s, &g->total, e);
    sql_free(&s);
    return err;
}

// After the page has been read. Where the rows would have to be counted one by one and there are
// many, the total says only that more follow, unless the caller pays for it.
static int complete_total(struct filtered_list *g, struct error *e)
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

static int write_rows(struct filtered_list *g, const struct filtered_list_query *p, struct error *e)
{
    struct sql s;
    int state;
    sql_init(&s);
    filtered_list_add_page(g, p, &s);
    struct db_rows *rows = sql_query(g->v->db, &s);
    while ((state = db_next(rows)) == 1 && !g->more) {
        g->more = g->limit >= 0 && g->rows == g->limit;
        if (g->more)
            break;
        g->source->write(&g->v->w, rows);
        filtered_list_save_values(g, rows);
        if (++g->rows == g->limit)
            filtered_list_save_cursor(g, rows);
    }
    db_rows_close(rows);
    sql_free(&s);
    return state < 0 ? error_set(e, ERR_INTERNAL, "the store cannot be read") : 0;
}

static int write_page(struct filtered_list *g, struct error *e)
{
    const struct sql_field *first = filtered_list_key_field(g, 0);
    bool split = first->nullable && !g->offset; // those without a value are a query of their own
    struct filtered_list_query p = {.phase = split ? PHASE_HAVE : PHASE_ALL};
    int err = 0;
    if (!g->limit)
        return 0;
    if (!g->driver && first->walk_from && (split || !first->nullable))
        p.walk = g->along ? sql_field_of(g->context.table, &g->along->name)->along : first;
    if (!split || !g->after || !json_is_null(filtered_list_cursor_value(g, 0)))
        err = write_rows(g, &p, e);
    if (err || !split || g->more)
        return err;
    p = (struct filtered_list_query){.phase = PHASE_NONE}; // whose index does not have them
    return write_rows(g, &p, e);
}

static int prepare(struct filtered_list *g, struct error *e)
{
    struct filter_node *tree = NULL;
    const char *filter = query_get(g->v->query, "filter"), *sort = query_get(g->v->query, "sort");
    if (filter && !filter_parse(g->context.arena, g->context.table->list, filter, &tree,
                                filtered_list_first_error(g)))
        add_tests(g, tree);
    if (sort && *sort)
        set_order(g, sort);
    read_shown(g);
    read_page(g);
    if (!g->error.code)
        close_order(g);
    if (!g->error.code)
        filtered_list_read_cursor(g);
    if (g->error.code) {
        *e = g->error;
        return e->code;
    }
    int err = filtered_list_choose_driver(g, e);
    if (!err && g->offset < 0) { // from the end
        err = count(g, e);
        g->offset = g->offset + g->total > 0 ? g->offset + g->total : 0;
    }
    return err;
}

int filtered_list_answer(struct filtered_list *g, struct error *e)
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
        err = filtered_list_write_values(g, e);
    if (!err) {
        wire_write_pagination(w, g->offset, g->limit < 0 ? 0 : g->limit, g->rows, g->total);
        filtered_list_write_cursor(g);
        jw_kv_bool(w, "totalIsLeast", g->least);
        jw_object_end(w);
    }
    json_decref(g->after);
    buf_free(&g->next);
    buf_free(&g->values);
    return err;
}
