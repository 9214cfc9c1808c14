// Projects as the wire has them.

#include "base/log.h"
#include "master/views/list.h"
#include "master/views/views.h"

// By the table of counts: a project may hold a hundred thousand.
#define COUNTED(column_)                                                                           \
    "(SELECT coalesce(sum(c." column_ "), 0) FROM experiment_counts c WHERE c.project_id = p.id "  \
    "AND c.kind = 'EXPERIMENT'"
#define PROJECT_COLUMNS                                                                            \
    "SELECT p.id, p.name, p.workspace_id, p.description, p.archived, u.username, p.user_id, "      \
    "w.name, " COUNTED("experiments") "), " COUNTED(                                               \
        "experiments") " AND c.state NOT IN ('COMPLETED', 'CANCELED', 'ERROR')), "                 \
                       "(SELECT b.submitted_at FROM experiment_briefs b WHERE b.project_id = "     \
                       "p.id AND b.kind = 'EXPERIMENT' "                                           \
                       "ORDER BY b.id DESC LIMIT 1), " COUNTED("trials") "), p.notes"
#define PROJECT_FROM   "FROM projects p"
#define PROJECT_JOINED "JOIN users u ON u.id = p.user_id JOIN workspaces w ON w.id = p.workspace_id"

static void write_project(struct json_writer *w, struct db_rows *rows)
{
    jw_object(w);
    jw_kv_int(w, "id", db_int(rows, 0));
    jw_kv_string(w, "name", db_text(rows, 1));
    jw_kv_string(w, "key", "");
    jw_kv_int(w, "workspaceId", db_int(rows, 2));
    jw_kv_string(w, "description", db_text(rows, 3));
    jw_kv_bool(w, "archived", db_int(rows, 4));
    jw_kv_string(w, "username", db_text(rows, 5));
    jw_kv_int(w, "userId", db_int(rows, 6));
    jw_kv_string(w, "workspaceName", db_text(rows, 7));
    jw_kv_int(w, "numExperiments", db_int(rows, 8));
    jw_kv_int(w, "numActiveExperiments", db_int(rows, 9));
    write_time(w, "lastExperimentStartedAt", db_int(rows, 10));
    jw_kv_int(w, "numRuns", db_int(rows, 11));
    jw_kv_raw(w, "notes", db_text(rows, 12));
    jw_kv_bool(w, "immutable", db_int(rows, 0) == UNCATEGORIZED);
    jw_kv_string(w, "state", "WORKSPACE_STATE_UNSPECIFIED");
    jw_kv_string(w, "errorMessage", "");
    jw_object_end(w);
}

int view_workspace_projects(struct view *v, struct error *e)
{
    static const struct list_sort sorts[] = {
        {"SORT_BY_ID", "p.id"}, {"SORT_BY_NAME", "p.name"}, {NULL, NULL}};
    int64_t id;
    int rc = request_param_int(v->rq, 0, &id, e);
    if (rc)
        return rc;
    struct list l;
    list_init(&l, v);
    list_filter_seen(&l, "p.workspace_id");
    if (id) { // 0: of every workspace
        list_and(&l, "p.workspace_id = ?");
        list_bind_int(&l, id);
    }
    list_filter_bool(&l, "archived", "p.archived");
    list_filter_part(&l, "name", "p.name");
    list_sort(&l, "sortBy", sorts, "p.id", "p.id");
    list_page(&l);
    static const struct list_source source = {"projects", PROJECT_COLUMNS, PROJECT_FROM,
                                              PROJECT_JOINED, write_project};
    return list_answer(&l, &source, e);
}

int render_project(struct view *v, struct error *e)
{
    static const char sql[] = PROJECT_COLUMNS " " PROJECT_FROM " " PROJECT_JOINED " WHERE p.id = ?";
    jw_object(&v->w);
    int rc = write_one(v, "project", sql, write_project, e);
    jw_object_end(&v->w);
    return rc;
}

int view_project(struct view *v, struct error *e)
{
    int rc = request_param_int(v->rq, 0, &v->rq->id, e);
    return rc ? rc : render_project(v, e);
}

static void write_notes(struct json_writer *w, struct db_rows *rows)
{
    jw_raw(w, db_text(rows, 0));
}

int render_project_notes(struct view *v, struct error *e)
{
    jw_object(&v->w);
    int rc = write_one(v, "notes", "SELECT notes FROM projects WHERE id = ?", write_notes, e);
    jw_object_end(&v->w);
    return rc;
}
