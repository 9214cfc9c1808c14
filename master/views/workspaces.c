// Workspaces, including the members that make them teams of the scheduler (weight, slots, roles).

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/config/expconf.h"
#include "base/log.h"
#include "base/text/json.h"
#include "db/statements/lists.h"
#include "master/views/lists/list.h"
#include "master/views/views.h"

// Secrets are masked for every caller, as in Determined.
static void write_storage(struct json_writer *w, const char *text)
{
    json_t *storage;
    if (!*text || json_parse(text, strlen(text), "checkpoint storage", &storage, NULL))
        return;
    expconf_mask_storage(storage);
    char *shown = json_text(storage);
    jw_kv_raw(w, "checkpointStorageConfig", shown);
    free(shown);
    json_decref(storage);
}

void write_deletion_state(struct json_writer *w, const char *state, const char *why)
{
    char word[64];
    snprintf(word, sizeof word, "WORKSPACE_STATE_%s", *state ? state : "UNSPECIFIED");
    jw_kv_string(w, "state", word);
    jw_kv_string(w, "errorMessage", why);
}

static void write_workspace(struct json_writer *w, struct db_rows *rows)
{
    jw_object(w);
    jw_kv_int(w, "id", DB_GET(rows, WORKSPACE_VIEW, id));
    jw_kv_string(w, "name", DB_GET(rows, WORKSPACE_VIEW, name));
    jw_kv_bool(w, "archived", DB_GET(rows, WORKSPACE_VIEW, archived));
    jw_kv_string(w, "username", DB_GET(rows, WORKSPACE_VIEW, username));
    jw_kv_int(w, "userId", DB_GET(rows, WORKSPACE_VIEW, user_id));
    jw_kv_int(w, "numProjects", DB_GET(rows, WORKSPACE_VIEW, projects));
    jw_kv_int(w, "numExperiments", DB_GET(rows, WORKSPACE_VIEW, experiments));
    jw_kv_bool(w, "immutable", DB_GET(rows, WORKSPACE_VIEW, id) == UNCATEGORIZED);
    jw_kv_bool(w, "pinned", false);
    write_deletion_state(w, DB_GET(rows, WORKSPACE_VIEW, state),
                         DB_GET(rows, WORKSPACE_VIEW, error));
    if (*DB_GET(rows, WORKSPACE_VIEW, agent_user_group))
        jw_kv_raw(w, "agentUserGroup", DB_GET(rows, WORKSPACE_VIEW, agent_user_group));
    write_storage(w, DB_GET(rows, WORKSPACE_VIEW, checkpoint_storage));
    if (*DB_GET(rows, WORKSPACE_VIEW, compute_pool))
        jw_kv_string(w, "defaultComputePool", DB_GET(rows, WORKSPACE_VIEW, compute_pool));
    if (*DB_GET(rows, WORKSPACE_VIEW, aux_pool))
        jw_kv_string(w, "defaultAuxPool", DB_GET(rows, WORKSPACE_VIEW, aux_pool));
    jw_kv_double(w, "weight", DB_GET(rows, WORKSPACE_VIEW, weight));
    jw_kv_int(w, "guaranteedSlots", DB_GET(rows, WORKSPACE_VIEW, guaranteed_slots));
    jw_kv_int(w, "maxSlots", DB_GET(rows, WORKSPACE_VIEW, max_slots));
    jw_kv_string(w, "defaultRole", DB_GET(rows, WORKSPACE_VIEW, default_role));
    jw_kv_int(w, "numMembers", DB_GET(rows, WORKSPACE_VIEW, members)); // includes the creator
    jw_object_end(w);
}

int view_workspaces(struct view *v, struct error *e)
{
    static const struct list_sort sorts[] = {
        {"SORT_BY_ID", "w.id"}, {"SORT_BY_NAME", "w.name"}, {NULL, NULL}};
    struct list l;
    list_init(&l, v);
    list_filter_visible(&l, "w.id");
    list_filter_bool(&l, "archived", "w.archived");
    list_filter_name(&l, "name", "w.name COLLATE NOCASE");
    list_filter_name(&l, "nameCaseSensitive", "w.name");
    list_filter_texts(&l, "users", SQL_WORKSPACE_USERNAME);
    list_filter_ints(&l, "userIds", "w.user_id");
    list_sort(&l, "sortBy", sorts, "w.id", "w.id");
    list_page(&l);
    static const struct list_source source = {"workspaces", SQL_SELECT(WORKSPACE_VIEW_ROW),
                                              SQL_WORKSPACE_FROM, SQL_WORKSPACE_JOINED,
                                              write_workspace};
    return list_answer(&l, &source, e);
}

static int answer_workspace(struct view *v, struct error *e)
{
    return write_object_of_row(v, "workspace", DB_QUERY(v->db, WORKSPACE_VIEW_BY_ID, v->rq->id),
                               write_workspace, e);
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
    jw_kv_raw(&v->w, "namespaceBindings", "{}"); // the client requires this key
    jw_object_end(&v->w);
    return rc;
}
