// The list of experiments. Queries find rows in the narrow tables of 0005_lists.sql alone, and join
// the wide tables only to the rows of one page.

#include <string.h>
#include <strings.h>

#include "api/filter/filter_json.h"
#include "base/limits.h"
#include "db/statements/lists.h"
#include "master/views/lists/filtered_list.h"
#include "master/views/views.h"

// The parameter `omit` may be repeated, and may hold several words with commas between them.
static bool is_omitted(struct view *v, const char *word)
{
    const char *given[QUERY_PAIRS_MAX];
    size_t count = query_all(v->query, "omit", given, QUERY_PAIRS_MAX), n = strlen(word);
    for (size_t i = 0; i < count && i < QUERY_PAIRS_MAX; i++)
        for (const char *at = given[i]; *at; at += strcspn(at, ","), at += *at == ',')
            if (strcspn(at, ",") == n && !strncmp(at, word, n))
                return true;
    return false;
}

static void write_light_row(struct json_writer *w, struct db_rows *rows)
{
    jw_object(w);
    write_experiment_members(w, rows);
    jw_object_end(w);
}

static void write_row(struct json_writer *w, struct db_rows *rows)
{
    jw_object(w);
    write_experiment_members(w, rows);
    jw_kv_string(w, "originalConfig",
                 ""); // the client requires this key; GET of one experiment has the value
    jw_object_end(w);
}

static const struct filtered_list_sort sorts[] = {{"SORT_BY_ID", "id"},
                                                  {"SORT_BY_NAME", "name"},
                                                  {"SORT_BY_DESCRIPTION", "description"},
                                                  {"SORT_BY_START_TIME", "started"},
                                                  {"SORT_BY_END_TIME", "ended"},
                                                  {"SORT_BY_STATE", "state"},
                                                  {"SORT_BY_PROGRESS", "progress"},
                                                  {"SORT_BY_USER", "owner"},
                                                  {"SORT_BY_NUM_TRIALS", "trials"},
                                                  {"SORT_BY_FORKED_FROM", "forked_from"},
                                                  {"SORT_BY_PROJECT_ID", "project_id"},
                                                  {"SORT_BY_SEARCHER_METRIC_VAL", "metric"},
                                                  {"SORT_BY_RESOURCE_POOL", "resource_pool"},
                                                  {"SORT_BY_CHECKPOINT_SIZE", "checkpoint_size"},
                                                  {"SORT_BY_CHECKPOINT_COUNT", "checkpoints"},
                                                  {NULL, NULL}};

// A project of 0 means every project; a value that is no number is refused.
static void filter_project(struct filtered_list *l, struct view *v)
{
    const char *project = query_get(v->query, "projectId");
    if (project && strcmp(project, "0"))
        filtered_list_any_of(l, "projectId", "project_id");
}

// Without a project, archived=false leaves out the experiments of archived projects too.
static void filter_archived(struct filtered_list *l, struct view *v)
{
    const char *archived = query_get(v->query, "archived"),
               *project = query_get(v->query, "projectId");
    filtered_list_any_of(l, "archived", "archived");
    if (archived && !strcasecmp(archived, "false") && (!project || !strcmp(project, "0")))
        filtered_list_require(l, SQL_BRIEF_PARENTS_IN_USE, true);
}

static void filter_ids(struct filtered_list *l)
{
    static const struct {
        const char *parameter;
        enum filter_op op;
    } tests[] = {{"experimentIdFilter.gt", FILTER_GT},
                 {"experimentIdFilter.gte", FILTER_GE},
                 {"experimentIdFilter.lt", FILTER_LT},
                 {"experimentIdFilter.lte", FILTER_LE},
                 {"experimentIdFilter.notIn", FILTER_NOT_IN}};
    filtered_list_any_of(l, "experimentIdFilter.incl", "id");
    for (size_t i = 0; i < sizeof tests / sizeof *tests; i++)
        filtered_list_compare(l, tests[i].parameter, "id", tests[i].op);
}

// Begins a list of the experiments that the caller may see.
static void begin_list(struct filtered_list *l, struct view *v,
                       const struct filtered_list_source *source)
{
    filtered_list_init(l, v, &sql_experiments, source);
    filtered_list_require(l, "r.kind = 'EXPERIMENT'", true);
    if (!v->rq->principal.admin) // the + in the SQL keeps SQLite from using an index here
        filtered_list_require_int(l, SQL_BRIEF_VISIBLE, true, v->rq->principal.user_id);
    filter_project(l, v);
}

int view_experiments(struct view *v, struct error *e)
{
    bool config = !is_omitted(v, "config");
    bool texts = !is_omitted(v, "description") || !is_omitted(v, "notes");
    const struct filtered_list_source source = {
        .key = "experiments",
        .base = SQL_BRIEFS,
        .size = SQL_BRIEF_MAX_ID,
        .counts = SQL_BRIEF_COUNT,
        .columns = !config ? texts ? SQL_LISTED("e.description", "e.notes", "NULL")
                                   : SQL_LISTED("NULL", "NULL", "NULL")
                           : SQL_LISTED("e.description", "e.notes", "e.config"),
        .column_count = DB_COLUMNS(EXPERIMENT_LIST),
        .joined = config || texts ? SQL_LISTED_JOINED : SQL_LIGHT_JOINED,
        .order = "-id",
        .write = is_omitted(v, "originalConfig") ? write_light_row : write_row};
    struct filtered_list l;
    begin_list(&l, v, &source);
    filtered_list_any_of(&l, "states", "state");
    filtered_list_all_of(&l, "labels", "label");
    filtered_list_any_of(&l, "users", "owner");
    filtered_list_any_of(&l, "userIds", "user_id");
    filter_archived(&l, v);
    filtered_list_contains(&l, "name", "name");
    filtered_list_contains(&l, "description", "description");
    filter_ids(&l);
    filtered_list_sort(&l, "sortBy", sorts);
    return filtered_list_answer(&l, e);
}

// --- the search of Determined's web client ----------------------------------------------------

static void write_search_result(struct json_writer *w, struct db_rows *rows)
{
    jw_object(w);
    jw_key(w, "experiment");
    write_row(w, rows);
    if (!DB_IS_NULL(rows, SEARCHED_EXPERIMENT, best_trial))
        jw_kv_raw(w, "bestTrial", DB_GET(rows, SEARCHED_EXPERIMENT, best_trial));
    jw_object_end(w);
}

// Turns the body into the parameters of a list. The texts live in the request's arena.
static int read_search_body(struct view *v, struct query *out, struct error *e)
{
    static const char *const numbers[] = {"projectId", "offset", "limit"};
    struct arena *a = &v->rq->arena;
    const json_t *body = v->rq->body;
    const char *filter = jget_string(body, "filter", ""), *sort = jget_string(body, "sort", "");
    struct buf text;
    int err = 0;
    buf_init(&text, LIMIT_BODY_SMALL);
    out->pairs = arena_alloc(a, 5 * sizeof *out->pairs);
    for (size_t i = 0; i < 3; i++)
        if (jget(body, numbers[i]))
            out->pairs[out->count++] = (struct query_pair){
                numbers[i], arena_printf(a, "%lld", (long long)jget_int(body, numbers[i], 0))};
    if (*filter) {
        err = filter_of_json(FILTER_EXPERIMENTS, filter, &text, e);
        out->pairs[out->count++] = (struct query_pair){"filter", arena_strdup(a, buf_str(&text))};
    }
    buf_reset(&text);
    if (!err && *sort) {
        err = filter_sort_of_columns(sort, &text, e);
        out->pairs[out->count++] = (struct query_pair){"sort", arena_strdup(a, buf_str(&text))};
    }
    if (!err && text.err)
        err = error_set(e, ERR_TOO_LARGE, "filter: too long");
    buf_free(&text);
    return err;
}

int view_search_experiments(struct view *v, struct error *e)
{
    static const struct filtered_list_source source = {.key = "experiments",
                                                       .base = SQL_BRIEFS,
                                                       .size = SQL_BRIEF_MAX_ID,
                                                       .counts = SQL_BRIEF_COUNT,
                                                       .columns = SQL_SEARCHED_EXPERIMENT,
                                                       .column_count =
                                                           DB_COLUMNS(SEARCHED_EXPERIMENT),
                                                       .joined = SQL_LISTED_JOINED,
                                                       .order = "id",
                                                       .write = write_search_result};
    struct query *query = arena_alloc(&v->rq->arena, sizeof *query);
    struct filtered_list l;
    int err = read_search_body(v, query, e);
    if (err)
        return err;
    v->query = query;
    begin_list(&l, v, &source);
    return filtered_list_answer(&l, e);
}
