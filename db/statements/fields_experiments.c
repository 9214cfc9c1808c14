// SQL of the fields of experiment lists, and how lists walk their indexes.
//
// Queries find rows in the small tables of 0005_lists.sql alone; the wide tables are joined to the
// rows of one page.

#include "db/lists/filter_sql.h"

#define BRIEFS         "experiment_briefs r"
#define IDS(condition) "SELECT id FROM experiment_briefs WHERE " condition

// A column of the briefs, with (WALK) or without an index.
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

// Tests whose index has the matching rows in the order of ids.
static const struct sql_field text_match_walk = {
    .walk_from = "experiments_text s CROSS JOIN experiment_briefs r ON r.id = s.rowid",
    .walk_where = "s.experiments_text MATCH ?",
    .walk_sort = "s.rowid",
    .walk_id = "s.rowid"};
static const struct sql_field label_match_walk = {
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
     .match_walk = &text_match_walk},
    {.name = "label",
     .open = "EXISTS (SELECT 1 FROM experiment_labels l WHERE l.experiment_id = r.id AND l.label",
     .close = ")",
     .drive_open = "SELECT experiment_id FROM experiment_labels WHERE label",
     .drive_close = "",
     .match_walk = &label_match_walk},
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
    {COLUMN("checkpoints", "checkpoints"), WALK("checkpoints", "checkpoints")},
    {COLUMN("checkpoint_size", "checkpoint_bytes"), WALK("checkpoint_bytes", "checkpoint_bytes")},
    {COLUMN("external_id", "external_id"), WALK("external_id", "external"), .nullable = true},
    {COLUMN("metric", "best"), WALK("best", "best"), .nullable = true},
    {COLUMN("started", "submitted_at"), WALK("submitted_at", "submitted")},
    {COLUMN("ended", "ended_at"), WALK("ended_at", "ended"), .nullable = true},
    // The duration of a running experiment grows, so no index has it; such experiments are sorted
    // last.
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

// Few experiments run, start or pull, even if many are queued.
const struct sql_table sql_experiments = {
    .list = FILTER_EXPERIMENTS,
    .fields = fields,
    .id = "r.id",
    .active_ids = IDS("state = 'ACTIVE'"),
    .active_open = "SELECT t.experiment_id FROM allocations a JOIN trials t ON t.id = a.trial_id "
                   "WHERE a.state <> 'TERMINATED' AND a.state IN ('RUNNING', 'TERMINATING', "
                   "'STARTING', 'PULLING') GROUP BY t.experiment_id HAVING max(CASE a.state "
                   "WHEN 'STARTING' THEN 2 WHEN 'PULLING' THEN 1 ELSE 3 END) IN (",
    .active_close = ")",
};
