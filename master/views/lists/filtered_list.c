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
    COUNT_ROWS = 2000, // lists of up to this many rows are always counted
    CURSOR_MAX = 1500, // bytes; a page whose last row has longer sort values has no cursor
    VALUES_MAX = 32 * 1024 * 1024, // bytes of all `show` values of a page
};

void filtered_list_init(struct filtered_list *l, struct view *v, const struct sql_table *table,
                        const struct filtered_list_source *source)
{
    *l = (struct filtered_list){
        .v = v,
        .context = {.table = table, .arena = &v->rq->arena, .now = clock_wall_us()},
        .source = source,
        .limit = -1};
    l->tests_end = &l->tests;
}

// --- parameters ---------------------------------------------------------------------------

void filtered_list_require_int(struct filtered_list *l, const char *sql, bool counted,
                               int64_t value)
{
    must(l->required_count < FILTERED_LIST_REQUIRED_MAX);
    size_t i = l->required_count++;
    l->required[i].sql = sql;
    l->required[i].counted = counted;
    l->required[i].bound = strchr(sql, '?') != NULL;
    l->required[i].value = value;
}

void filtered_list_require(struct filtered_list *l, const char *sql, bool counted)
{
    filtered_list_require_int(l, sql, counted, 0);
}

static void append_test(struct filtered_list *l, struct filter_node *n)
{
    *l->tests_end = n;
    l->tests_end = &n->next;
}

// Adds the children of an AND as separate tests, so that each of them can become the driver.
static void append_tests(struct filtered_list *l, struct filter_node *n)
{
    if (n && n->shape == FILTER_AND) {
        for (struct filter_node *k = n->child, *next; k; k = next) {
            next = k->next;
            k->next = NULL;
            append_test(l, k);
        }
    } else if (n) {
        append_test(l, n);
    }
}

// Adds the test "FIELD OPERATOR values" by way of the parser, which checks the values.
static void add_parameter_test(struct filtered_list *l, const char *parameter, const char *field,
                               enum filter_op op, const char *const *values, size_t count)
{
    struct arena *a = l->context.arena;
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
        if (!filter_parse(a, l->context.table->list, buf_str(&text), &n, &why))
            list[i] = n->values[0];
        buf_free(&text);
    }
    if (why.code) {
        const char *said =
            strstr(why.text, ": "); // the parser's column means nothing to the caller
        error_set(filtered_list_first_error(l), why.code, "query parameter %s: %s", parameter,
                  said ? said + 2 : why.text);
        return;
    }
    n->op = op;
    n->values = list;
    n->value_count = count;
    append_test(l, n);
}

static size_t parameter_values(struct filtered_list *l, const char *name, const char *const **out)
{
    size_t count = query_all(l->v->query, name, NULL, 0);
    const char **values = arena_alloc(l->context.arena, (count + 1) * sizeof *values);
    query_all(l->v->query, name, values, count);
    *out = values;
    return count;
}

void filtered_list_any_of(struct filtered_list *l, const char *parameter, const char *field)
{
    const char *const *values;
    size_t count = parameter_values(l, parameter, &values);
    if (count && (count > 1 || *values[0]))
        add_parameter_test(l, parameter, field, count > 1 ? FILTER_IN : FILTER_EQ, values, count);
}

void filtered_list_all_of(struct filtered_list *l, const char *parameter, const char *field)
{
    const char *const *values;
    size_t count = parameter_values(l, parameter, &values);
    for (size_t i = 0; i < count; i++)
        add_parameter_test(l, parameter, field, FILTER_EQ, &values[i], 1);
}

void filtered_list_contains(struct filtered_list *l, const char *parameter, const char *field)
{
    const char *value = query_get(l->v->query, parameter);
    if (value && *value)
        add_parameter_test(l, parameter, field, FILTER_HAS, &value, 1);
}

void filtered_list_compare(struct filtered_list *l, const char *parameter, const char *field,
                           enum filter_op op)
{
    const char *const *values;
    size_t count = parameter_values(l, parameter, &values);
    if (count)
        add_parameter_test(l, parameter, field, op, values, op == FILTER_NOT_IN ? count : 1);
}

static void parse_order(struct filtered_list *l, const char *text)
{
    if (filter_parse_sort(l->context.arena, l->context.table->list, text, l->keys, &l->key_count,
                          filtered_list_first_error(l)))
        l->key_count = 0;
}

void filtered_list_sort(struct filtered_list *l, const char *parameter,
                        const struct filtered_list_sort *sorts)
{
    const char *by = query_get(l->v->query, parameter), *way = query_get(l->v->query, "orderBy");
    bool down;
    request_query_order(l->v->rq, &down, filtered_list_first_error(l));
    if (!by || !*by || !strcmp(by, "SORT_BY_UNSPECIFIED")) {
        if (way)
            parse_order(l, down ? "-id" : "id");
        return;
    }
    while (sorts->name && strcmp(sorts->name, by))
        sorts++;
    if (sorts->name)
        parse_order(l, arena_printf(l->context.arena, "%s%s", down ? "-" : "", sorts->by));
    else
        error_set(filtered_list_first_error(l), ERR_INVALID,
                  "query parameter %s: this list cannot be sorted by \"%.64s\"", parameter, by);
}

// "show=validation.loss&show=hparams.width": fields whose values the answer has for each row.
static void read_shown(struct filtered_list *l)
{
    const char *const *names;
    size_t count = parameter_values(l, "show", &names);
    struct error why = {0};
    if (count > FILTERED_LIST_SHOWN_MAX) {
        error_set(filtered_list_first_error(l), ERR_TOO_LARGE, "query parameter show: more than %d",
                  FILTERED_LIST_SHOWN_MAX);
        return;
    }
    for (size_t i = 0; i < count && !why.code; i++) {
        struct filter_key keys[FILTER_KEYS_MAX];
        size_t parsed;
        if (!filter_parse_sort(l->context.arena, l->context.table->list, names[i], keys, &parsed,
                               &why) &&
            parsed != 1)
            error_set(&why, ERR_INVALID, "sort: one name in each");
        l->shown[l->shown_count++] = keys[0].name;
    }
    if (why.code) {
        const char *said = strstr(why.text, ": ");
        error_set(filtered_list_first_error(l), why.code, "query parameter show: %s",
                  said ? said + 2 : why.text);
    }
}

static void read_number(struct filtered_list *l, const char *name, int64_t fallback, int64_t *out)
{
    const char *text = query_get(l->v->query, name);
    *out = fallback;
    if (text && *text && !request_number(text, out))
        error_set(filtered_list_first_error(l), ERR_INVALID,
                  "query parameter %s: \"%.64s\" is not an integer of 64 bits", name, text);
}

static void read_page(struct filtered_list *l)
{
    bool named = query_get(l->v->query, "limit");
    read_number(l, "offset", 0, &l->offset);
    read_number(l, "limit", LIMIT_PAGE, &l->limit);
    if (l->limit == -2) { // as in Determined: no rows, only the total
        l->limit = 0;
        l->exact_total = true;
    } else if (l->limit <= 0) {
        l->limit = named ? -1 : LIMIT_PAGE;
    }
    const char *count = query_get(l->v->query, "count");
    l->exact_total |= l->offset < 0 || (count && !strcmp(count, "exact"));
}

// Makes the id the last sort key, so that no two rows are equal. It has the direction of the key
// before it.
static void append_id_key(struct filtered_list *l)
{
    if (!l->key_count)
        parse_order(l, l->source->order);
    for (size_t i = 0; i < l->key_count; i++)
        if (!strcmp(l->keys[i].name.field->name, "id")) {
            l->key_count = i + 1;
            return;
        }
    struct filter_key id[FILTER_KEYS_MAX];
    size_t count;
    filter_parse_sort(l->context.arena, l->context.table->list, "id", id, &count, NULL);
    bool down = l->key_count && l->keys[l->key_count - 1].descending;
    l->keys[l->key_count] = id[0];
    l->keys[l->key_count++].descending = down;
}

// --- totals --------------------------------------------------------------------------------------

static bool counts_cover_tests(const struct filtered_list *l)
{
    bool counted = l->source->counts;
    for (size_t i = 0; i < l->required_count; i++)
        counted &= l->required[i].counted;
    for (const struct filter_node *n = l->tests; n && counted; n = n->next)
        counted = filter_is_counted(&l->context, n);
    return counted;
}

// A driven list has the total already; else the table of counts may have it; else all rows are
// counted.
static int count(struct filtered_list *l, struct error *e)
{
    struct sql s;
    if (l->driver) {
        l->total = l->driven_count;
        return 0;
    }
    sql_init(&s);
    if (counts_cover_tests(l)) {
        sql_add(&s, l->source->counts);
        sql_add(&s, SQL_WHERE_TRUE);
        filtered_list_add_conditions(l, NULL, &s);
    } else {
        sql_add(&s, SQL_SELECT_COUNT);
        filtered_list_add_source(l, &(struct filtered_list_query){0}, &s);
    }
    int err = filtered_list_read_count(l, &s, &l->total, e);
    sql_free(&s);
    return err;
}

// Determines the total after the page was read. If only an expensive count would find it, the total
// says just that more rows follow, unless the caller asked for the exact number.
static int complete_total(struct filtered_list *l, struct error *e)
{
    int64_t known_rows = l->offset + l->rows + l->more;
    bool last = !l->more && l->limit && (l->rows || !l->offset);
    bool expensive =
        !l->exact_total && !l->driver && l->size_estimate > COUNT_ROWS && !counts_cover_tests(l);
    int err = 0;
    if (last && !l->cursor)
        l->total = known_rows;
    else if (!expensive)
        err = count(l, e);
    l->total_is_minimum = expensive && !(last && !l->cursor);
    if (l->rows && l->total < known_rows) // rows were added while the page was read
        l->total = known_rows;
    return err;
}

// --- the answer ----------------------------------------------------------------------------------

static int write_rows(struct filtered_list *l, const struct filtered_list_query *p, struct error *e)
{
    struct sql s;
    int state;
    sql_init(&s);
    filtered_list_add_page(l, p, &s);
    struct db_rows *rows = sql_query(l->v->db, &s);
    while ((state = db_next(rows)) == 1 && !l->more) {
        l->more = l->limit >= 0 && l->rows == l->limit;
        if (l->more)
            break;
        l->source->write(&l->v->w, rows);
        filtered_list_save_values(l, rows);
        if (++l->rows == l->limit)
            filtered_list_save_cursor(l, rows);
    }
    db_rows_close(rows);
    sql_free(&s);
    return state < 0 ? error_set(e, ERR_INTERNAL, "the store cannot be read") : 0;
}

static int write_page(struct filtered_list *l, struct error *e)
{
    const struct sql_field *first = filtered_list_key_field(l, 0);
    bool split = first->nullable && !l->offset; // rows without a value need a query of their own
    struct filtered_list_query p = {.phase = split ? PHASE_WITH_VALUE : PHASE_ALL};
    int err = 0;
    if (!l->limit)
        return 0;
    if (!l->driver && first->walk_from && (split || !first->nullable))
        p.walk =
            l->walk_test ? sql_field_of(l->context.table, &l->walk_test->name)->match_walk : first;
    if (!split || !l->cursor || !json_is_null(filtered_list_cursor_value(l, 0)))
        err = write_rows(l, &p, e);
    if (err || !split || l->more)
        return err;
    p = (struct filtered_list_query){
        .phase = PHASE_WITHOUT_VALUE}; // the index has no rows without a value
    return write_rows(l, &p, e);
}

static int prepare(struct filtered_list *l, struct error *e)
{
    struct filter_node *tree = NULL;
    const char *filter = query_get(l->v->query, "filter"), *sort = query_get(l->v->query, "sort");
    if (filter && !filter_parse(l->context.arena, l->context.table->list, filter, &tree,
                                filtered_list_first_error(l)))
        append_tests(l, tree);
    if (sort && *sort)
        parse_order(l, sort);
    read_shown(l);
    read_page(l);
    if (!l->error.code)
        append_id_key(l);
    if (!l->error.code)
        filtered_list_read_cursor(l);
    if (l->error.code) {
        *e = l->error;
        return e->code;
    }
    int err = filtered_list_choose_driver(l, e);
    if (!err && l->offset < 0) { // counted from the end
        err = count(l, e);
        l->offset = l->offset + l->total > 0 ? l->offset + l->total : 0;
    }
    return err;
}

int filtered_list_answer(struct filtered_list *l, struct error *e)
{
    struct json_writer *w = &l->v->w;
    buf_init(&l->next, CURSOR_MAX);
    buf_init(&l->values, VALUES_MAX);
    int err = prepare(l, e);
    if (!err) {
        jw_object(w);
        jw_key(w, l->source->key);
        jw_array(w);
        err = write_page(l, e);
        jw_array_end(w);
    }
    if (!err)
        err = complete_total(l, e);
    if (!err)
        err = filtered_list_write_values(l, e);
    if (!err) {
        wire_write_pagination(w, l->offset, l->limit < 0 ? 0 : l->limit, l->rows, l->total);
        filtered_list_write_cursor(l);
        jw_kv_bool(w, "totalIsLeast", l->total_is_minimum);
        jw_object_end(w);
    }
    json_decref(l->cursor);
    buf_free(&l->next);
    buf_free(&l->values);
    return err;
}
