#include "db/lists/filter_sql.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "db/statements/compose.h"
#include "db/statements/lists.h"

enum { SQL_TEXT_MAX = 256 * 1024 };

void sql_init(struct sql *s)
{
    *s = (struct sql){.cap = 32};
    s->values = xcalloc(s->cap, sizeof *s->values);
    buf_init(&s->text, SQL_TEXT_MAX);
}

void sql_free(struct sql *s)
{
    buf_free(&s->text);
    free(s->values);
    *s = (struct sql){0};
}

void sql_add(struct sql *s, const char *constant)
{
    buf_puts(&s->text, constant);
}

static void add_value(struct sql *s, struct db_value value)
{
    if (s->count == s->cap) {
        s->cap *= 2;
        s->values = xrealloc(s->values, s->cap * sizeof *s->values);
    }
    s->values[s->count++] = value;
}

void sql_int(struct sql *s, int64_t value)
{
    add_value(s, db_value_integer(value));
}

void sql_double(struct sql *s, double value)
{
    add_value(s, db_value_real(value));
}

void sql_text(struct sql *s, const char *value)
{
    add_value(s, db_value_text(value));
}

struct db_rows *sql_query(struct db_reader *db, const struct sql *s)
{
    must(!s->text.err);
    return db_query_sql(db, buf_str(&s->text), s->values, s->count);
}

// --- fields --------------------------------------------------------------------------------------

const struct sql_field *sql_field_of(const struct sql_table *t, const struct filter_name *name)
{
    const struct sql_field *f = t->fields;
    while (strcmp(f->name, name->field->name) || f->pick != name->pick) {
        f++;
        must(f->name); // a test checks that every field of the language is in the table
    }
    return f;
}

static const char *json_path(struct arena *a, const struct filter_name *name)
{
    const char *path = "$";
    for (size_t i = 0; i < name->part_count; i++)
        path = arena_printf(a, "%s.\"%s\"", path, name->parts[i]);
    return path;
}

void sql_key_bind(struct sql *s, struct arena *a, const struct sql_field *f,
                  const struct filter_name *name)
{
    static const char *const picks[] = {"last", "min", "max"};
    bool metric = name->field->type == FILTER_METRIC;
    switch (f->key) {
    case SQL_KEY_NONE:
        break;
    case SQL_KEY_NAME:
        sql_text(s, metric ? arena_printf(a, "%s.%s", name->field->name, name->key) : name->key);
        break;
    case SQL_KEY_HPARAM:
        sql_text(s, json_path(a, name));
        break;
    case SQL_KEY_METRIC:
        sql_text(s, arena_printf(a, "$.%s.\"%s\".%s",
                                 strcmp(name->field->name, "training") ? "validation_metrics"
                                                                       : "avg_metrics",
                                 name->key, picks[name->pick]));
        break;
    }
}

// --- tests ---------------------------------------------------------------------------------------

static void add_marks(struct sql *out, size_t count)
{
    sql_add(out, SQL_IN);
    for (size_t i = 0; i < count; i++)
        sql_add(out, i ? ", ?" : "?");
    sql_add(out, ")");
}

// Binds whole numbers as integers, so that they match ids.
static void bind_number(struct sql *out, double number)
{
    if (number >= -9e15 && number <= 9e15 && number == trunc(number))
        sql_int(out, (int64_t)number);
    else
        sql_double(out, number);
}

static void bind_value(const struct filter_context *c, const struct filter_value *v,
                       struct sql *out)
{
    switch (v->kind) {
    case FILTER_IS_NUMBER:
        bind_number(out, v->number);
        break;
    case FILTER_IS_TEXT:
        sql_text(out, v->text);
        break;
    case FILTER_IS_TIME:
        sql_int(out, v->time);
        break;
    case FILTER_IS_AGO:
        sql_int(out, c->now - v->time);
        break;
    }
}

static const char *like_pattern(struct arena *a, const char *part)
{
    char *pattern = arena_alloc(a, 2 * strlen(part) + 3), *to = pattern;
    *to++ = '%';
    for (const char *p = part; *p; p++) {
        if (strchr("%_\\", *p))
            *to++ = '\\';
        *to++ = *p;
    }
    *to = '%';
    return pattern;
}

// Makes each word of a search a phrase of its own; a star at its end stays outside: "image" "net"*
static const char *words_query(struct arena *a, const char *text)
{
    char *query = arena_alloc(a, 6 * strlen(text) + 4), *to = query;
    while (*text) {
        size_t n = strcspn(text, " \t\r\n\"");
        bool begins = n > 1 && text[n - 1] == '*';
        if (n) {
            *to++ = '"';
            memcpy(to, text, n - begins);
            to += n - begins;
            memcpy(to, begins ? "\"* " : "\"  ", 3);
            to += 3;
        }
        text += n + (text[n] != '\0');
    }
    if (to == query)
        memcpy(query, "\"\"", 3); // matches nothing
    return query;
}

static size_t letter_bytes(const char *p)
{
    size_t n = *p != '\0';
    while (n && (p[n] & 0xc0) == 0x80)
        n++;
    return n;
}

// Appends the three letters at `p` as a quoted phrase of the trigram index. Returns the end, or
// NULL if fewer than three letters are left.
static char *put_trigram(char *to, const char *p)
{
    const char *end = p;
    for (int letters = 0; letters < 3; letters++) {
        if (!*end)
            return NULL;
        end += letter_bytes(end);
    }
    *to++ = '"';
    for (; p < end; p++) {
        if (*p == '"')
            *to++ = '"';
        *to++ = *p;
    }
    memcpy(to, "\" ", 2);
    return to + 2;
}

// Returns a query of the trigrams at every third letter and of the last trigram. A name with all of
// them may still not contain the part, but few such names exist, and the index is asked for fewer
// trigrams. NULL: the part has fewer than three letters.
static const char *trigram_query(struct arena *a, const char *part)
{
    char *query = arena_alloc(a, 16 * strlen(part) + 1), *to = query, *next;
    const char *last = part;
    int letters = 0;
    for (const char *p = part; *p; p += letter_bytes(p), letters++) {
        last = letters >= 3 ? last + letter_bytes(last) : part; // two letters before p
        if (letters % 3 == 0 && (next = put_trigram(to, p)))
            to = next;
    }
    if (letters > 3 && letters % 3 && (next = put_trigram(to, last)))
        to = next;
    return to == query ? NULL : query;
}

// Adds an operator such as " > ?" and binds its values.
static void add_operator(const struct filter_context *c, const struct filter_node *n,
                         struct sql *out)
{
    const struct filter_value *v = n->values;
    bool above = n->op == FILTER_GT || n->op == FILTER_GE;
    if (n->op == FILTER_IS) {
        sql_add(out, n->name.field->type == FILTER_FLAG ? " = 1" : " IS NOT NULL");
    } else if (n->op == FILTER_HAS) {
        sql_add(out, " LIKE ? ESCAPE '\\'");
        sql_text(out, like_pattern(c->arena, v->text));
    } else if (n->op == FILTER_FINDS) {
        sql_add(out, " MATCH ?");
        sql_text(out, words_query(c->arena, v->text));
    } else if (n->op == FILTER_IN || n->op == FILTER_NOT_IN) {
        add_marks(out, n->value_count);
        for (size_t i = 0; i < n->value_count; i++)
            bind_value(c, &v[i], out);
    } else if (above && n->name.field->type == FILTER_HPARAM) {
        // SQLite orders texts above all numbers; the upper bound excludes them.
        sql_add(out, " BETWEEN ? AND 9e999");
        sql_double(out, n->op == FILTER_GT ? nextafter(v->number, INFINITY) : v->number);
    } else {
        static const char *const signs[] = {
            [FILTER_EQ] = " = ?",  [FILTER_NE] = " = ?", [FILTER_LT] = " < ?",
            [FILTER_LE] = " <= ?", [FILTER_GT] = " > ?", [FILTER_GE] = " >= ?"};
        sql_add(out, signs[n->op]);
        bind_value(c, v, out);
    }
}

bool filter_sql_of(const struct filter_context *c, const struct filter_node *n,
                   const char *expression, struct sql *out)
{
    bool bound = n->op == FILTER_EQ || n->op == FILTER_LT || n->op == FILTER_LE ||
                 n->op == FILTER_GT || n->op == FILTER_GE;
    if (n->shape != FILTER_TEST || !bound)
        return false;
    sql_add(out, expression);
    add_operator(c, n, out);
    return true;
}

// --- states --------------------------------------------------------------------------------------

// The states that the allocations of an active object give it, by their rank in SQL_ACTIVE_STATE.
static const char *const active_state_names[] = {"QUEUED", "PULLING", "STARTING", "RUNNING"};

enum { ACTIVE_STATES = 4 };

struct state_test { // the states that one test names
    bool active[ACTIVE_STATES];
    bool any_active;
};

static struct state_test read_states(const struct filter_node *n)
{
    struct state_test s = {0};
    bool all = false;
    for (size_t i = 0; i < n->value_count; i++) {
        all |= !strcmp(n->values[i].text, "ACTIVE"); // ACTIVE stands for all of them
        for (int k = 0; k < ACTIVE_STATES; k++)
            s.active[k] |= !strcmp(n->values[i].text, active_state_names[k]);
    }
    for (int k = 0; k < ACTIVE_STATES && !all; k++)
        s.any_active |= s.active[k];
    return s;
}

// Adds the active objects with the named states. If QUEUED is one of them: all active objects
// except those with the other states.
static void add_active(const struct filter_context *c, const struct state_test *s, const char *raw,
                       struct sql *out)
{
    const char *glue = "";
    bool queued = s->active[0];
    sql_add(out, " OR (");
    sql_add(out, raw);
    sql_add(out, " = 'ACTIVE' AND ");
    sql_add(out, c->table->id);
    sql_add(out, queued ? SQL_NOT_IN : SQL_IN);
    sql_add(out, c->table->active_open);
    for (int k = 1; k < ACTIVE_STATES; k++) {
        static const char *const ranks[] = {"0", "1", "2", "3"};
        if (s->active[k] == queued)
            continue;
        sql_add(out, glue);
        sql_add(out, ranks[k]);
        glue = ", ";
    }
    sql_add(out, c->table->active_close);
    sql_add(out, "))");
}

static void add_text_list(const struct filter_node *n, struct sql *out)
{
    add_marks(out, n->value_count);
    for (size_t i = 0; i < n->value_count; i++)
        sql_text(out, n->values[i].text);
}

static void add_state(const struct filter_context *c, const struct sql_field *f,
                      const struct filter_node *n, struct sql *out)
{
    struct state_test s = read_states(n);
    sql_add(out, f->open);
    add_text_list(n, out);
    if (s.any_active)
        add_active(c, &s, f->open, out);
}

// --- trees ---------------------------------------------------------------------------------------

static void add_test(const struct filter_context *c, const struct filter_node *n, struct sql *out)
{
    const struct sql_field *f = sql_field_of(c->table, &n->name);
    bool negated = n->op == FILTER_NE || n->op == FILTER_NOT_IN;
    sql_add(out, negated ? "NOT coalesce(" : "coalesce(");
    if (n->name.field->type == FILTER_STATE) {
        sql_add(out, "(");
        add_state(c, f, n, out);
        sql_add(out, ")");
    } else {
        sql_add(out, f->open);
        sql_key_bind(out, c->arena, f, &n->name);
        if (n->name.field->type == FILTER_DURATION)
            sql_int(out, c->now);
        add_operator(c, n, out);
        sql_add(out, f->close);
    }
    sql_add(out, ", 0)");
}

void filter_sql(const struct filter_context *c, const struct filter_node *n, struct sql *out)
{
    if (n->shape == FILTER_TEST) {
        add_test(c, n, out);
        return;
    }
    sql_add(out, n->shape == FILTER_NOT ? "NOT (" : "(");
    for (const struct filter_node *k = n->child; k; k = k->next) {
        filter_sql(c, k, out);
        if (k->next)
            sql_add(out, n->shape == FILTER_AND ? " AND " : " OR ");
    }
    sql_add(out, ")");
}

static bool drive_state(const struct filter_context *c, const struct filter_node *n,
                        struct sql *out)
{
    const struct sql_field *f = sql_field_of(c->table, &n->name);
    struct state_test s = read_states(n);
    if (!f->drive_open)
        return false;
    sql_add(out, f->drive_open);
    add_text_list(n, out);
    sql_add(out, f->drive_close);
    if (s.any_active && s.active[0]) {
        sql_add(out, " UNION ALL ");
        sql_add(out, c->table->active_ids);
    } else if (s.any_active) {
        sql_add(out, " UNION ALL ");
        sql_add(out, c->table->active_open);
        sql_add(out, "1, 2, 3");
        sql_add(out, c->table->active_close);
    }
    return true;
}

static bool drive_test(const struct filter_context *c, const struct filter_node *n, struct sql *out)
{
    const struct sql_field *f = sql_field_of(c->table, &n->name);
    if (n->op == FILTER_NE || n->op == FILTER_NOT_IN)
        return false;
    if (n->name.field->type == FILTER_STATE)
        return drive_state(c, n, out);
    if (!strcmp(f->name, "name") && n->op == FILTER_HAS && f->drive_open) {
        const char *query = trigram_query(c->arena, n->values[0].text);
        if (!query)
            return false;
        sql_add(out, SQL_NAMES_MATCH);
        sql_text(out, query);
        return true;
    }
    if (!f->drive_open || n->op == FILTER_HAS)
        return false;
    sql_add(out, f->drive_open);
    sql_key_bind(out, c->arena, f, &n->name);
    add_operator(c, n, out);
    sql_add(out, f->drive_close);
    return true;
}

static void sql_truncate(struct sql *s, size_t len, size_t count)
{
    s->count = count;
    s->text.len = len;
    if (s->text.data)
        s->text.data[len] = '\0';
}

// Among tests that must all be true, uses the first that has a driving query. master/views/lists
// asks for each of the outermost tests and takes the query with the fewest ids.
bool filter_drive(const struct filter_context *c, const struct filter_node *n, struct sql *out)
{
    size_t len = out->text.len, count = out->count;
    bool any = n->shape == FILTER_AND, all = n->shape == FILTER_OR;
    if (n->shape == FILTER_TEST)
        return drive_test(c, n, out);
    for (const struct filter_node *k = n->child; k && (any || all); k = k->next) {
        bool driven = filter_drive(c, k, out);
        if (driven && any)
            return true;
        all &= driven;
        if (all && k->next)
            sql_add(out, " UNION ALL ");
    }
    if (!all)
        sql_truncate(out, len, count);
    return all;
}

bool filter_drive_is_exact(const struct filter_node *n)
{
    return n->shape == FILTER_TEST && n->op != FILTER_HAS && n->name.field->type != FILTER_STATE;
}

const char *filter_match_key(const struct filter_context *c, const struct filter_node *n)
{
    if (n->shape != FILTER_TEST || !sql_field_of(c->table, &n->name)->match_walk)
        return NULL;
    return n->op == FILTER_FINDS ? words_query(c->arena, n->values[0].text)
           : n->op == FILTER_EQ  ? n->values[0].text
                                 : NULL;
}

bool filter_is_counted(const struct filter_context *c, const struct filter_node *n)
{
    if (n->shape == FILTER_TEST) {
        const struct sql_field *f = sql_field_of(c->table, &n->name);
        return f->counted && !(n->name.field->type == FILTER_STATE && read_states(n).any_active);
    }
    for (const struct filter_node *k = n->child; k; k = k->next)
        if (!filter_is_counted(c, k))
            return false;
    return true;
}
