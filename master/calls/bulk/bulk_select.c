#include "master/calls/bulk/bulk_select.h"

#include <stdlib.h>

#include "api/filter/filter_json.h"
#include "base/clock.h"
#include "base/limits.h"
#include "db/lists/filter_sql.h"
#include "db/statements/compose.h"
#include "db/statements/lists.h"

// Parses the filter into the arena; *out is never NULL, because a filter without tests is
// "id > 0".
static int read_filter(struct arena *arena, enum filter_list list, const char *filter,
                       struct filter_node **out, struct error *e)
{
    struct buf text;
    buf_init(&text, LIMIT_BODY_SMALL);
    int err = filter_of_json(list, filter, &text, e);
    if (!err && text.err)
        err = error_set(e, ERR_TOO_LARGE, "filter: too long");
    if (!err && (err = filter_parse(arena, list, buf_str(&text), out, e)))
        error_prefix(e, "filter");
    buf_free(&text);
    return err;
}

static void build_query(const struct filter_context *context, const struct filter_node *tree,
                        const struct principal *who, int64_t project, struct sql *out)
{
    sql_add(out, context->table->list == FILTER_RUNS ? SQL_SELECT_RUNS : SQL_SELECT_SEARCHES);
    if (project) {
        sql_add(out, SQL_AND_BRIEF_PROJECT);
        sql_int(out, project);
    }
    if (!who->admin) {
        sql_add(out, SQL_AND SQL_BRIEF_VISIBLE);
        sql_int(out, who->user_id);
    }
    sql_add(out, SQL_AND);
    filter_sql(context, tree, out);
    sql_add(out, SQL_FIRST_IDS);
    sql_int(out, LIMIT_BULK + 1);
}

static int read_ids(struct db_reader *db, const struct sql *sql, int64_t *ids, size_t *count,
                    struct error *e)
{
    struct db_rows *rows = sql_query(db, sql);
    int more;
    while ((more = db_next(rows)) > 0)
        ids[(*count)++] = DB_GET(rows, ID, id);
    db_rows_close(rows);
    if (more < 0)
        return error_set(e, ERR_INTERNAL, "the store cannot be read");
    if (*count > LIMIT_BULK)
        return error_set(e, ERR_TOO_LARGE,
                         "filter: selects more than %d objects; select fewer, or give a filter to "
                         "several calls",
                         LIMIT_BULK);
    return 0;
}

int bulk_select(struct db_reader *db, const struct principal *who, enum filter_list list,
                const char *filter, int64_t project, int64_t **ids, size_t *count, struct error *e)
{
    struct arena arena = {0};
    struct filter_context context = {.table = list == FILTER_RUNS ? &sql_runs : &sql_experiments,
                                     .arena = &arena,
                                     .now = clock_wall_us()};
    struct filter_node *tree = NULL;
    int err = read_filter(&arena, list, filter, &tree, e);
    *count = 0;
    *ids = NULL;
    if (!err) {
        struct sql sql;
        sql_init(&sql);
        build_query(&context, tree, who, project, &sql);
        *ids = xcalloc(LIMIT_BULK + 1, sizeof **ids);
        err = read_ids(db, &sql, *ids, count, e);
        sql_free(&sql);
    }
    arena_free(&arena);
    return err;
}
