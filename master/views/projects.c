// Projects.

#include "base/log.h"
#include "db/statements/lists.h"
#include "master/teams/authz.h"
#include "master/views/lists/list.h"
#include "master/views/views.h"

static void write_project(struct json_writer *w, struct db_rows *rows)
{
    jw_object(w);
    jw_kv_int(w, "id", DB_GET(rows, PROJECT_VIEW, id));
    jw_kv_string(w, "name", DB_GET(rows, PROJECT_VIEW, name));
    jw_kv_string(w, "key", DB_GET(rows, PROJECT_VIEW, key));
    jw_kv_int(w, "workspaceId", DB_GET(rows, PROJECT_VIEW, workspace_id));
    jw_kv_string(w, "description", DB_GET(rows, PROJECT_VIEW, description));
    jw_kv_bool(w, "archived", DB_GET(rows, PROJECT_VIEW, archived));
    jw_kv_string(w, "username", DB_GET(rows, PROJECT_VIEW, username));
    jw_kv_int(w, "userId", DB_GET(rows, PROJECT_VIEW, user_id));
    jw_kv_string(w, "workspaceName", DB_GET(rows, PROJECT_VIEW, workspace_name));
    jw_kv_int(w, "numExperiments", DB_GET(rows, PROJECT_VIEW, experiments));
    jw_kv_int(w, "numActiveExperiments", DB_GET(rows, PROJECT_VIEW, active_experiments));
    write_time(w, "lastExperimentStartedAt", DB_GET(rows, PROJECT_VIEW, last_submitted_at));
    jw_kv_int(w, "numRuns", DB_GET(rows, PROJECT_VIEW, trials));
    jw_kv_raw(w, "notes", DB_GET(rows, PROJECT_VIEW, notes));
    jw_kv_bool(w, "immutable", DB_GET(rows, PROJECT_VIEW, id) == UNCATEGORIZED);
    write_deletion_state(w, DB_GET(rows, PROJECT_VIEW, state), DB_GET(rows, PROJECT_VIEW, error));
    jw_object_end(w);
}

int view_workspace_projects(struct view *v, struct error *e)
{
    static const struct list_sort sorts[] = {
        {"SORT_BY_ID", "p.id"},
        {"SORT_BY_NAME", "p.name"},
        {"SORT_BY_DESCRIPTION", "p.description"},
        {"SORT_BY_CREATION_TIME", "p.created_at"},
        {"SORT_BY_LAST_EXPERIMENT_START_TIME", SQL_PROJECT_LAST_SUBMITTED},
        {NULL, NULL}};
    int64_t id;
    int rc = request_param_int(v->rq, 0, &id, e);
    if (rc)
        return rc;
    struct list l;
    list_init(&l, v);
    list_filter_visible(&l, "p.workspace_id");
    if (id) { // 0: projects of every workspace
        list_and(&l, "p.workspace_id = ?");
        list_bind_int(&l, id);
    }
    list_filter_bool(&l, "archived", "p.archived");
    list_filter_name(&l, "name", "p.name COLLATE NOCASE");
    list_filter_texts(&l, "users", SQL_PROJECT_USERNAME);
    list_filter_ints(&l, "userIds", "p.user_id");
    list_sort(&l, "sortBy", sorts, "p.id", "p.id");
    list_page(&l);
    static const struct list_source source = {"projects", SQL_SELECT(PROJECT_VIEW_ROW),
                                              SQL_PROJECT_FROM, SQL_PROJECT_JOINED, write_project};
    return list_answer(&l, &source, e);
}

int render_project(struct view *v, struct error *e)
{
    jw_object(&v->w);
    int rc = write_object_of_row(v, "project", DB_QUERY(v->db, PROJECT_VIEW_BY_ID, v->rq->id),
                                 write_project, e);
    jw_object_end(&v->w);
    return rc;
}

int view_project(struct view *v, struct error *e)
{
    int rc = request_param_int(v->rq, 0, &v->rq->id, e);
    return rc ? rc : render_project(v, e);
}

int view_project_of_key(struct view *v, struct error *e)
{
    struct db_rows *rows = DB_QUERY(v->db, PROJECT_OF_KEY, v->rq->params[0]);
    if (!authz_count_visible(v->db, &v->rq->principal, AUTHZ_PROJECT, rows, &v->rq->id))
        return error_not_found(e, "project", "%.64s", v->rq->params[0]);
    return render_project(v, e);
}

static void write_notes(struct json_writer *w, struct db_rows *rows)
{
    jw_raw(w, DB_GET(rows, PROJECT_NOTES, notes));
}

int render_project_notes(struct view *v, struct error *e)
{
    jw_object(&v->w);
    int rc =
        write_object_of_row(v, "notes", DB_QUERY(v->db, PROJECT_NOTES, v->rq->id), write_notes, e);
    jw_object_end(&v->w);
    return rc;
}
