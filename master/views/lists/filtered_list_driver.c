#include "master/views/lists/filtered_list_internal.h"

#include <math.h>
#include <stdlib.h>

#include "base/arena.h"
#include "db/statements/compose.h"

enum {
    DRIVE_LEAST = 256, // so few ids are always worth looking up
    DRIVE_MOST = 20 * 1000,
};

// --- which way -----------------------------------------------------------------------------------

static int ask_constant(struct filtered_list *g, const char *text, int64_t *out, struct error *e)
{
    struct sql s;
    sql_init(&s);
    sql_add(&s, text);
    int err = filtered_list_read_count(g, &s, out, e);
    sql_free(&s);
    return err;
}

// The ids of a test's drive, if they are at most `most`; *count -1: they are more, or the test has
// no drive.
static int read_drive(struct filtered_list *g, const struct filter_node *n, int64_t most,
                      int64_t *ids, int64_t *count, struct error *e)
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

static const char *list_of(struct filtered_list *g, const int64_t *ids, int64_t count)
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

static const struct filter_node *words_beside(const struct filtered_list *g)
{
    const struct filter_node *t = g->tests;
    while (t && (t == g->driver || !is_words(t)))
        t = t->next;
    return t;
}

// FROM the driver's ids, WHERE they pass the other tests. Words are walked, once, and looked for
// among the ids (the + keeps them from being looked up for each), since to test by words is to
// gather all that have them.
static void add_driven(struct filtered_list *g, const char *ids, struct sql *out)
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
    filtered_list_add_conditions(g, along ? words : covered, out);
}

// What passes all tests, instead of the driver's ids.
static int drive(struct filtered_list *g, int64_t *ids, int64_t count, struct error *e)
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
static int find_driver(struct filtered_list *g, int64_t least, int64_t **ids, int64_t **other,
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
static void choose_along(struct filtered_list *g)
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
int filtered_list_choose_driver(struct filtered_list *g, struct error *e)
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
