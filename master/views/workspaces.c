// Workspaces as the wire has them, and what of ours makes them teams: weight, slots, roles.

#include "base/log.h"
#include "master/views/list.h"
#include "master/views/views.h"

enum { // columns of WORKSPACE_COLUMNS
    W_ID,
    W_NAME,
    W_ARCHIVED,
    W_USERNAME,
    W_USER_ID,
    W_PROJECTS,
    W_EXPERIMENTS,
    W_WEIGHT,
    W_GUARANTEED,
    W_MAX,
    W_DEFAULT_ROLE,
    W_MEMBERS,
};

#define WORKSPACE_COLUMNS                                                                          \
    "SELECT w.id, w.name, w.archived, u.username, w.user_id, "                                     \
    "(SELECT count(*) FROM projects p WHERE p.workspace_id = w.id), "                              \
    "(SELECT coalesce(sum(c.experiments), 0) FROM projects p JOIN experiment_counts c "            \
    "ON c.project_id = p.id AND c.kind = 'EXPERIMENT' WHERE p.workspace_id = w.id), w.weight, "    \
    "w.guaranteed_slots, w.max_slots, w.default_role, "                                            \
    "1 + (SELECT count(*) FROM workspace_members m WHERE m.workspace_id = w.id AND "               \
    "m.role NOT IN ('', 'none') AND m.user_id <> w.user_id)"
#define WORKSPACE_FROM   "FROM workspaces w"
#define WORKSPACE_JOINED "JOIN users u ON u.id = w.user_id"

static void write_workspace(struct json_writer *w, struct db_rows *rows)
{
    jw_object(w);
    jw_kv_int(w, "id", db_int(rows, W_ID));
    jw_kv_string(w, "name", db_text(rows, W_NAME));
    jw_kv_bool(w, "archived", db_int(rows, W_ARCHIVED));
    jw_kv_string(w, "username", db_text(rows, W_USERNAME));
    jw_kv_int(w, "userId", db_int(rows, W_USER_ID));
    jw_kv_int(w, "numProjects", db_int(rows, W_PROJECTS));
    jw_kv_int(w, "numExperiments", db_int(rows, W_EXPERIMENTS));
    jw_kv_bool(w, "immutable", db_int(rows, W_ID) == UNCATEGORIZED);
    jw_kv_bool(w, "pinned", false);
    jw_kv_string(w, "state", "WORKSPACE_STATE_UNSPECIFIED");
    jw_kv_string(w, "errorMessage", "");
    jw_kv_double(w, "weight", db_double(rows, W_WEIGHT));
    jw_kv_int(w, "guaranteedSlots", db_int(rows, W_GUARANTEED));
    jw_kv_int(w, "maxSlots", db_int(rows, W_MAX));
    jw_kv_string(w, "defaultRole", db_text(rows, W_DEFAULT_ROLE));
    jw_kv_int(w, "numMembers", db_int(rows, W_MEMBERS)); // its creator among them
    jw_object_end(w);
}

int view_workspaces(struct view *v, struct error *e)
{
    static const struct list_sort sorts[] = {
        {"SORT_BY_ID", "w.id"}, {"SORT_BY_NAME", "w.name"}, {NULL, NULL}};
    struct list l;
    list_init(&l, v);
    list_filter_seen(&l, "w.id");
    list_filter_bool(&l, "archived", "w.archived");
    list_filter_part(&l, "name", "w.name");
    list_filter_texts(&l, "users", "SELECT username FROM users WHERE id = w.user_id");
    list_sort(&l, "sortBy", sorts, "w.id", "w.id");
    list_page(&l);
    static const struct list_source source = {"workspaces", WORKSPACE_COLUMNS, WORKSPACE_FROM,
                                              WORKSPACE_JOINED, write_workspace};
    return list_answer(&l, &source, e);
}

static int answer_workspace(struct view *v, struct error *e)
{
    static const char sql[] =
        WORKSPACE_COLUMNS " " WORKSPACE_FROM " " WORKSPACE_JOINED " WHERE w.id = ?";
    return write_one(v, "workspace", sql, write_workspace, e);
}

int view_workspace(struct view *v, struct error *e)
{
    int rc = request_param_int(v->rq, 0, &v->rq->id, e);
    if (rc)
        return rc;
    jw_object(&v->w);
    rc = answer_workspace(v, e);
    jw_object_end(&v->w);
    return rc;
}

int render_workspace(struct view *v, struct error *e)
{
    jw_object(&v->w);
    int rc = answer_workspace(v, e);
    jw_kv_raw(&v->w, "namespaceBindings", "{}"); // required by the client
    jw_object_end(&v->w);
    return rc;
}
