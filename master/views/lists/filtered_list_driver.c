#include "master/views/lists/filtered_list_internal.h"

#include <math.h>
#include <stdlib.h>

#include "base/arena.h"
#include "db/statements/compose.h"

enum {
    DRIVER_ALWAYS_MAX = 256, // a driver with up to this many ids is always used
    DRIVER_IDS_MAX = 20 * 1000,
};

// --- the choice of a driver
// -----------------------------------------------------------------------------------

static int read_constant_count(struct filtered_list *l, const char *text, int64_t *out,
                               struct error *e)
{
    struct sql s;
    sql_init(&s);
    sql_add(&s, text);
    int err = filtered_list_read_count(l, &s, out, e);
    sql_free(&s);
    return err;
}

// Reads the ids that pass a test, if there are at most `most`. *count is -1 if there are more or if
// no index finds them.
static int read_driver_ids(struct filtered_list *l, const struct filter_node *n, int64_t most,
                           int64_t *ids, int64_t *count, struct error *e)
{
    struct sql s;
    int state = 0;
    *count = -1;
    sql_init(&s);
    if (filter_drive(&l->context, n, &s)) {
        struct db_rows *rows = sql_query(l->v->db, &s);
        for (*count = 0; (state = db_next(rows)) == 1 && *count < most;)
            ids[(*count)++] = DB_GET(rows, ID, id);
        db_rows_close(rows);
        *count = state == 1 ? -1 : *count;
    }
    sql_free(&s);
    return state < 0 ? error_set(e, ERR_INTERNAL, "the store cannot be read") : 0;
}

static const char *ids_to_json(struct filtered_list *l, const int64_t *ids, int64_t count)
{
    struct buf list;
    buf_init(&list, (size_t)DRIVER_IDS_MAX * 24);
    for (int64_t i = 0; i < count; i++)
        buf_printf(&list, "%c%lld", i ? ',' : '[', (long long)ids[i]);
    buf_puts(&list, count ? "]" : "[]");
    const char *text = arena_strdup(l->context.arena, buf_str(&list));
    buf_free(&list);
    return text;
}

static bool is_text_search(const struct filter_node *n)
{
    return n->shape == FILTER_TEST && n->op == FILTER_FINDS;
}

static const struct filter_node *other_text_search(const struct filtered_list *l)
{
    const struct filter_node *t = l->tests;
    while (t && (t == l->driver || !is_text_search(t)))
        t = t->next;
    return t;
}

// FROM the driver's ids, WHERE they pass the other tests. A full text search is run once, and its
// results are compared with the ids; the + keeps SQLite from running the search once for each id.
static void add_driver_source(struct filtered_list *l, const char *ids, struct sql *out)
{
    const struct filter_node *words = other_text_search(l);
    const struct filter_node *covered = filter_drive_is_exact(l->driver) ? l->driver : NULL;
    const struct sql_field *along =
        words ? sql_field_of(l->context.table, &words->name)->match_walk : NULL;
    sql_add(out, SQL_FROM);
    sql_add(out, along ? along->walk_from : l->source->base);
    sql_add(out, SQL_WHERE);
    if (along) {
        sql_add(out, along->walk_where);
        sql_text(out, filter_match_key(&l->context, words));
        sql_add(out, " AND +");
    }
    sql_add(out, along ? along->walk_id : l->context.table->id);
    sql_add(out, SQL_IN_LIST);
    sql_text(out, ids);
    filtered_list_add_conditions(l, along ? words : covered, out);
}

// Replaces the driver's ids by those that pass all tests.
static int run_driver(struct filtered_list *l, int64_t *ids, int64_t count, struct error *e)
{
    struct sql s;
    int state;
    sql_init(&s);
    sql_add(&s, SQL_SELECT_WORD);
    sql_add(&s, l->context.table->id);
    add_driver_source(l, ids_to_json(l, ids, count), &s);
    struct db_rows *rows = sql_query(l->v->db, &s);
    for (l->driven_count = 0; (state = db_next(rows)) == 1 && l->driven_count < count;)
        ids[l->driven_count++] = DB_GET(rows, ID, id);
    db_rows_close(rows);
    l->driven_ids = ids_to_json(l, ids, l->driven_count);
    sql_free(&s);
    return state < 0 ? error_set(e, ERR_INTERNAL, "the store cannot be read") : 0;
}

// Makes the test that passes the fewest ids, at most `least`, the driver. *ids receives the *count
// ids; *other has the same capacity. Full text searches are tried last, and only if the other tests
// leave many ids, because such a search reads every text that contains one of the words.
static int find_driver(struct filtered_list *l, int64_t least, int64_t **ids, int64_t **other,
                       int64_t *count, struct error *e)
{
    int err = 0;
    for (int words = 0; words < 2; words++) {
        for (const struct filter_node *t = l->tests; t && !err && least >= 0; t = t->next) {
            int64_t n = -1, *read = *other;
            if (is_text_search(t) != words || (words && l->driver && least < DRIVER_ALWAYS_MAX))
                continue;
            err = read_driver_ids(l, t, least, read, &n, e);
            if (n < 0)
                continue;
            *other = *ids;
            *ids = read;
            *count = n;
            l->driver = t;
            least = n - 1;
        }
    }
    return err;
}

// Prefers a full text search, because testing it row by row would run it once for each row.
static void choose_walk_test(struct filtered_list *l)
{
    for (const struct filter_node *t = l->tests; t; t = t->next)
        if (filter_match_key(&l->context, t) && (!l->walk_test || is_text_search(t)))
            l->walk_test = t;
    bool by_id = l->keys[0].name.field == l->keys[l->key_count - 1].name.field;
    if (l->driver || !by_id)
        l->walk_test = NULL;
}

// Chooses between driving and walking. With n ids to look up, a walk meets one of them every all /
// n rows, so it reads limit * all / n rows for a page; both read equally many at n = sqrt(limit *
// all). Ids at random places cost about twice as much as rows in order.
int filtered_list_choose_driver(struct filtered_list *l, struct error *e)
{
    int64_t count = 0;
    int err = l->source->size && l->tests
                  ? read_constant_count(l, l->source->size, &l->size_estimate, e)
                  : 0;
    if (err || !l->size_estimate)
        return err;
    double all = (double)l->size_estimate,
           even = sqrt((l->limit < 0 ? all : (double)l->limit + 1) * all) / 2;
    int64_t least = even < DRIVER_ALWAYS_MAX ? DRIVER_ALWAYS_MAX
                    : even > DRIVER_IDS_MAX  ? DRIVER_IDS_MAX
                                             : (int64_t)even;
    int64_t *ids = xcalloc((size_t)least + 1, sizeof *ids);
    int64_t *other = xcalloc((size_t)least + 1, sizeof *other);
    err = find_driver(l, least, &ids, &other, &count, e);
    if (!err && l->driver)
        err = run_driver(l, ids, count, e);
    choose_walk_test(l);
    free(ids);
    free(other);
    return err;
}
