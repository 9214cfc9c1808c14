// The list of experiments: what its fields are in SQL, and how their indexes are walked.
//
// Rows are found in the small tables of 0005_lists.sql alone; the wide ones are joined to a page
// that is found.

#include <string.h>

#include "api/filter/filter_json.h"
#include "base/limits.h"
#include "master/views/pager.h"
#include "master/views/views.h"

#define BRIEFS         "experiment_briefs r"
#define IDS(condition) "SELECT id FROM experiment_briefs WHERE " condition

// A column of the briefs that has an index, one that has none.
#define COLUMN(name_, column_)                                                                     \
    .name = name_, .open = "r." column_, .close = "", .sort = "r." column_
#define WALK(column_, index_)                                                                      \
    .drive_open = IDS(column_), .drive_close = "",                                                 \
    .walk_from = BRIEFS " INDEXED BY experiment_briefs_" index_, .walk_sort = "r." column_,        \
    .walk_id = "r.id"
#define BY_NAME(name_, column_, ids_)                                                              \
    .name = name_, .counted = true, .open = "r." column_ " IN (SELECT " ids_, .close = ")",        \
    .drive_open = IDS(column_ " IN (SELECT " ids_), .drive_close = ")"
#define PLAIN(name_, column_)                                                                      \
    .name = name_, .open = "(SELECT " column_ " FROM experiments WHERE id = r.id)", .close = "",   \
    .sort = "(SELECT " column_ " FROM experiments WHERE id = r.id)"
#define METRIC_OF(column_)                                                                         \
    "(SELECT m." column_ " FROM experiment_metrics m WHERE m.experiment_id = r.id AND m.name = ?)"
#define METRIC(name_, pick_, column_)                                                              \
    {                                                                                              \
        .name = name_, .pick = pick_, .key = SQL_KEY_NAME, .nullable = true,                       \
        .open = METRIC_OF(column_), .close = "",                                                   \
        .drive_open = "SELECT experiment_id FROM experiment_metrics WHERE name = ? AND " column_,  \
        .drive_close = "", .sort = METRIC_OF(column_),                                             \
        .walk_from = "experiment_metrics s INDEXED BY experiment_metrics_" column_                 \
                     " CROSS JOIN experiment_briefs r ON r.id = s.experiment_id",                  \
        .walk_where = "s.name = ?", .walk_sort = "s." column_, .walk_id = "s.experiment_id"        \
    }
#define HPARAM_OF(which_)                                                                          \
    "(SELECT " which_ "(h.value) FROM experiment_hparams h WHERE h.experiment_id = r.id AND "      \
    "h.name = ?)"
#define HPARAM_IS(which_)                                                                          \
    "s.name = ? AND s.value = (SELECT " which_ "(h.value) FROM experiment_hparams h WHERE "        \
    "h.experiment_id = s.experiment_id AND h.name = s.name)"

// Tests whose index has what passes them in the order of ids.
static const struct sql_field along_words = {
    .walk_from = "experiments_text s CROSS JOIN experiment_briefs r ON r.id = s.rowid",
    .walk_where = "s.experiments_text MATCH ?",
    .walk_sort = "s.rowid",
    .walk_id = "s.rowid"};
static const struct sql_field along_label = {
    .walk_from = "experiment_labels s CROSS JOIN experiment_briefs r ON r.id = s.experiment_id",
    .walk_where = "s.label = ?",
    .walk_sort = "s.experiment_id",
    .walk_id = "s.experiment_id"};

static const struct sql_field fields[] = {
    {COLUMN("id", "id"), .drive_open = IDS("id"), .drive_close = "",
     .walk_from = BRIEFS " NOT INDEXED", .walk_sort = "r.id", .walk_id = "r.id"},
    {COLUMN("name", "name"), WALK("name", "name")},
    {PLAIN("description", "description"),
     .walk_from = "experiments s INDEXED BY experiments_description CROSS JOIN experiment_briefs r "
                  "ON r.id = s.id",
     .walk_sort = "s.description", .walk_id = "s.id"},
    {PLAIN("notes", "notes")},
    {COLUMN("forked_from", "parent_id"), WALK("parent_id", "parent"), .nullable = true},
    {.name = "text",
     .open = "r.id IN (SELECT rowid FROM experiments_text WHERE experiments_text",
     .close = ")",
     .drive_open = "SELECT rowid FROM experiments_text WHERE experiments_text",
     .drive_close = "",
     .along = &along_words},
    {.name = "label",
     .open = "EXISTS (SELECT 1 FROM experiment_labels l WHERE l.experiment_id = r.id AND l.label",
     .close = ")",
     .drive_open = "SELECT experiment_id FROM experiment_labels WHERE label",
     .drive_close = "",
     .along = &along_label},
    {COLUMN("state", "state"), WALK("state", "state"), .counted = true},
    {COLUMN("archived", "archived"), .counted = true},
    {COLUMN("unmanaged", "unmanaged")},
    {BY_NAME("owner", "user_id", "id FROM users WHERE username"),
     .sort = "(SELECT username FROM users WHERE id = r.user_id)",
     .walk_from = "users u CROSS JOIN experiment_briefs r INDEXED BY experiment_briefs_user "
                  "ON r.user_id = u.id",
     .walk_sort = "u.username", .walk_id = "r.id"},
    {COLUMN("user_id", "user_id"), WALK("user_id", "user"), .counted = true},
    {BY_NAME("workspace", "project_id",
             "p.id FROM projects p JOIN workspaces w ON w.id = p.workspace_id WHERE w.name"),
     .sort = "(SELECT w.name FROM projects p JOIN workspaces w ON w.id = p.workspace_id "
             "WHERE p.id = r.project_id)",
     .walk_from = "workspaces s CROSS JOIN projects j INDEXED BY projects_workspace ON "
                  "j.workspace_id = s.id CROSS JOIN experiment_briefs r INDEXED BY "
                  "experiment_briefs_project ON r.project_id = j.id",
     .walk_sort = "s.name", .walk_id = "r.id"},
    {BY_NAME("project", "project_id", "id FROM projects WHERE name"),
     .sort = "(SELECT name FROM projects WHERE id = r.project_id)",
     .walk_from = "projects s INDEXED BY projects_name CROSS JOIN experiment_briefs r INDEXED BY "
                  "experiment_briefs_project ON r.project_id = s.id",
     .walk_sort = "s.name", .walk_id = "r.id"},
    {COLUMN("project_id", "project_id"), WALK("project_id", "project"), .counted = true},
    {COLUMN("searcher", "searcher"), WALK("searcher", "searcher")},
    {COLUMN("resource_pool", "pool"), WALK("pool", "pool")},
    {COLUMN("slots", "slots"), WALK("slots", "slots")},
    {COLUMN("trials", "trials"), WALK("trials", "trials")},
    {COLUMN("progress", "progress"), WALK("progress", "progress")},
    {COLUMN("metric", "best"), WALK("best", "best"), .nullable = true},
    {COLUMN("started", "submitted_at"), WALK("submitted_at", "submitted")},
    {COLUMN("ended", "ended_at"), WALK("ended_at", "ended"), .nullable = true},
    // That of one that runs grows, so no index has it; sorted, it comes last.
    {.name = "duration",
     .nullable = true,
     .open = "coalesce(r.duration, (? - r.submitted_at) / 1e6)",
     .close = "",
     .sort = "r.duration",
     .walk_from = BRIEFS " INDEXED BY experiment_briefs_duration",
     .walk_sort = "r.duration",
     .walk_id = "r.id"},
    {.name = "hparams",
     .key = SQL_KEY_NAME,
     .nullable = true,
     .open = "EXISTS (SELECT 1 FROM experiment_hparams h WHERE h.experiment_id = r.id AND "
             "h.name = ? AND h.value",
     .close = ")",
     .drive_open = "SELECT experiment_id FROM experiment_hparams WHERE name = ? AND value",
     .drive_close = "",
     .sort = HPARAM_OF("min"),
     .sort_down = HPARAM_OF("max"),
     .walk_from = "experiment_hparams s INDEXED BY experiment_hparams_value "
                  "CROSS JOIN experiment_briefs r ON r.id = s.experiment_id",
     .walk_where = HPARAM_IS("min"),
     .walk_where_down = HPARAM_IS("max"),
     .walk_sort = "s.value",
     .walk_id = "s.experiment_id"},
    METRIC("training", FILTER_LAST, "last"),
    METRIC("training", FILTER_MIN, "low"),
    METRIC("training", FILTER_MAX, "high"),
    METRIC("validation", FILTER_LAST, "last"),
    METRIC("validation", FILTER_MIN, "low"),
    METRIC("validation", FILTER_MAX, "high"),
    {0},
};

// What runs, starts or pulls is little, however much is queued.
static const struct sql_table table = {
    .list = FILTER_EXPERIMENTS,
    .fields = fields,
    .id = "r.id",
    .active_ids = IDS("state = 'ACTIVE'"),
    .live_open = "SELECT t.experiment_id FROM allocations a JOIN trials t ON t.id = a.trial_id "
                 "WHERE a.state <> 'TERMINATED' AND a.state IN ('RUNNING', 'TERMINATING', "
                 "'STARTING', 'PULLING') GROUP BY t.experiment_id HAVING max(CASE a.state "
                 "WHEN 'STARTING' THEN 2 WHEN 'PULLING' THEN 1 ELSE 3 END) IN (",
    .live_close = ")",
};

// What is large stands in the wide rows: who leaves all of it out has a light list, which does not
// read them.
#define LISTED(description, notes, config)                                                         \
    "SELECT " EXPERIMENT_LIST_ROW(SQL_FIRST, SQL_NEXT, description, notes, config)
#define LIGHT_JOINED                                                                               \
    "CROSS JOIN experiment_briefs r ON r.id = k.id CROSS JOIN users u ON u.id = r.user_id "        \
    "CROSS JOIN projects p ON p.id = r.project_id CROSS JOIN workspaces w ON w.id = "              \
    "p.workspace_id"
#define LISTED_JOINED LIGHT_JOINED " CROSS JOIN experiments e ON e.id = r.id"

// One of `words` in the parameter omit, which may be repeated or hold several with commas between.
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
    jw_kv_string(w, "originalConfig", ""); // required by the client; see the description
    jw_object_end(w);
}

static const struct pager_sort sorts[] = {{"SORT_BY_ID", "id"},
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
                                          {NULL, NULL}};

// A project that is no number is refused, and 0 is that of every project.
static void test_project(struct pager *g, struct view *v)
{
    const char *project = query_get(v->query, "projectId");
    if (project && strcmp(project, "0"))
        pager_any_of(g, "projectId", "project_id");
}

// What every list of experiments is about: those that the caller may see.
static void begin(struct pager *g, struct view *v, const struct pager_source *source)
{
    pager_init(g, v, &table, source);
    pager_fixed(g, "r.kind = 'EXPERIMENT'", true);
    if (!v->rq->principal.admin) // the + keeps indexes out of it: it is told by row
        pager_fixed_int(g,
                        "+r.project_id IN (SELECT id FROM projects WHERE workspace_id IN "
                        "(" SQL_SEEN_WORKSPACES "))",
                        true, v->rq->principal.user_id);
    test_project(g, v);
}

int view_experiments(struct view *v, struct error *e)
{
    bool config = !is_omitted(v, "config");
    bool texts = !is_omitted(v, "description") || !is_omitted(v, "notes");
    const struct pager_source source = {
        .key = "experiments",
        .base = BRIEFS " NOT INDEXED",
        .size = "SELECT max(id) FROM experiment_briefs",
        .counts = "SELECT coalesce(sum(experiments), 0) FROM experiment_counts r",
        .columns = !config ? texts ? LISTED("e.description", "e.notes", "NULL")
                                   : LISTED("NULL", "NULL", "NULL")
                           : LISTED("e.description", "e.notes", "e.config"),
        .column_count = DB_COLUMNS(EXPERIMENT_LIST),
        .joined = config || texts ? LISTED_JOINED : LIGHT_JOINED,
        .order = "-id",
        .write = is_omitted(v, "originalConfig") ? write_light_row : write_row};
    struct pager g;
    begin(&g, v, &source);
    pager_any_of(&g, "states", "state");
    pager_all_of(&g, "labels", "label");
    pager_any_of(&g, "users", "owner");
    pager_any_of(&g, "userIds", "user_id");
    pager_any_of(&g, "archived", "archived");
    pager_part(&g, "name", "name");
    pager_part(&g, "description", "description");
    pager_any_of(&g, "experimentIdFilter.incl", "id");
    pager_sort(&g, "sortBy", sorts);
    return pager_answer(&g, e);
}

// --- as the web client of Determined searches ----------------------------------------------------

// The trial that has the best validation, with what the wire requires of a trial; NULL: none.
#define BEST_TRIAL                                                                                 \
    "(SELECT json_object('id', t.id, 'experimentId', t.experiment_id, 'state', 'STATE_' || "       \
    "t.state, 'hparams', json(t.hparams), 'restarts', t.restarts, 'totalBatchesProcessed', "       \
    "t.steps_completed, 'taskIds', json_array(t.task_id), 'startTime', "                           \
    "strftime('%Y-%m-%dT%H:%M:%fZ', t.started_at / 1e6, "                                          \
    "'unixepoch'), 'summaryMetrics', json(t.summary_metrics), 'bestValidation', "                  \
    "json(t.best_validation)) FROM trials t WHERE t.id = (SELECT h.trial_id FROM "                 \
    "validation_history h WHERE h.experiment_id = r.id ORDER BY h.id DESC LIMIT 1))"

static void write_searched(struct json_writer *w, struct db_rows *rows)
{
    jw_object(w);
    jw_key(w, "experiment");
    write_row(w, rows);
    if (!DB_IS_NULL(rows, SEARCHED_EXPERIMENT, best_trial))
        jw_kv_raw(w, "bestTrial", DB_GET(rows, SEARCHED_EXPERIMENT, best_trial));
    jw_object_end(w);
}

// The body as the parameters of a list. The texts live in the request's arena.
static int read_search(struct view *v, struct query *out, struct error *e)
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
        err = filter_of_json(filter, &text, e);
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
    static const struct pager_source source = {
        .key = "experiments",
        .base = BRIEFS " NOT INDEXED",
        .size = "SELECT max(id) FROM experiment_briefs",
        .counts = "SELECT coalesce(sum(experiments), 0) FROM experiment_counts r",
        .columns = LISTED("e.description", "e.notes", "e.config") ", " BEST_TRIAL,
        .column_count = DB_COLUMNS(SEARCHED_EXPERIMENT),
        .joined = LISTED_JOINED,
        .order = "id",
        .write = write_searched};
    struct query *query = arena_alloc(&v->rq->arena, sizeof *query);
    struct pager g;
    int err = read_search(v, query, e);
    if (err)
        return err;
    v->query = query;
    begin(&g, v, &source);
    return pager_answer(&g, e);
}
