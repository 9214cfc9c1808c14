// Requests that create and change workspaces, their projects and their members.
#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/limits.h"
#include "base/text/json.h"
#include "master/common/kinds.h"
#include "master/teams/module.h"
#include "master/teams/params.h"
#include "master/teams/project_keys.h"
#include "master/teams/teams.h"
#include "master/teams/workspace_settings.h"

static const double weight_max = 1e6;

// Every user may create workspaces, but not shares of the cluster: a workspace of a user who is no
// administrator gets only slots that no other team wants, until an administrator gives it a weight.
static const double weight_of_others = 0.001;
enum { QUOTA_MAX = 1 << 24 }; // slots

// --- reading the body ----------------------------------------------------------------------------

// NULL: not given.
static int read_name(const json_t *body, const char **out, struct error *e)
{
    const char *name = jget_string(body, "name", NULL);
    size_t len = name ? strlen(name) : 0;
    bool blank = true;
    *out = name;
    for (size_t i = 0; i < len; i++) {
        blank &= name[i] == ' ';
        if (iscntrl((unsigned char)name[i]))
            return error_set(e, ERR_INVALID, "name: no control characters");
    }
    if (name && (blank || len > LIMIT_NAME))
        return error_set(e, ERR_INVALID, "name: give 1 to %d bytes that are not all blank",
                         LIMIT_NAME);
    return 0;
}

// A field that the body does not contain keeps its value.
static int read_weight(const json_t *body, double *out, struct error *e)
{
    const json_t *given = jget(body, "weight");
    if (given)
        *out = json_is_number(given) ? json_number_value(given) : NAN;
    if (isfinite(*out) && *out > 0 && *out <= weight_max)
        return 0;
    return error_set(e, ERR_INVALID, "weight: a number above 0, at highest %.0f; 1 is usual",
                     weight_max);
}

static int read_slots(const json_t *body, const char *key, int64_t *out, struct error *e)
{
    if (jget(body, key))
        *out = jget_int(body, key, -1);
    if (*out >= 0 && *out <= QUOTA_MAX)
        return 0;
    return error_set(e, ERR_INVALID, "%s: a number of slots from 0 to %d", key, QUOTA_MAX);
}

static int read_role(const json_t *body, const char *key, enum role highest, const char **out,
                     struct error *e)
{
    const char *given = jget_string(body, key, NULL);
    if (!jget(body, key))
        return 0;
    if (highest == ROLE_ADMIN && given && !*given) { // no longer a member
        *out = "";
        return 0;
    }
    *out = role_word(given, highest);
    if (*out)
        return 0;
    return error_set(e, ERR_INVALID, "%s: one of none, viewer, editor%s", key,
                     highest == ROLE_ADMIN ? ", admin" : "");
}

// Writes a copy of the workspace to `ws`.
static int read_workspace(const json_t *body, struct workspace *ws, struct error *e)
{
    int err = read_weight(body, &ws->weight, e);
    if (!err)
        err = read_slots(body, "guaranteedSlots", &ws->guaranteed_slots, e);
    if (!err)
        err = read_slots(body, "maxSlots", &ws->max_slots, e);
    if (!err)
        err = read_role(body, "defaultRole", ROLE_EDITOR, &ws->default_role, e);
    if (!err && ws->max_slots && ws->guaranteed_slots > ws->max_slots)
        err = error_set(e, ERR_INVALID,
                        "guaranteedSlots: %lld is more than maxSlots (%lld), which the workspace "
                        "may never exceed",
                        (long long)ws->guaranteed_slots, (long long)ws->max_slots);
    return err;
}

static bool has_quota(const json_t *body)
{
    return jget(body, "weight") || jget(body, "guaranteedSlots") || jget(body, "maxSlots");
}

// --- finding the object, checking permissions ----------------------------------------------------

static int check_manage(const struct request *rq, const struct workspace *ws, enum act act,
                        struct error *e)
{
    return role_check(core_role(rq, ws), act, ws->name, e);
}

int teams_param_workspace(struct core *c, struct request *rq, enum act act, struct workspace **out,
                          struct error *e)
{
    int64_t id;
    int err = request_param_int(rq, 0, &id, e);
    if (err)
        return err;
    rq->id = id;
    *out = core_workspace(c, id);
    if (!*out || !role_may(core_role(rq, *out), ACT_SEE))
        return error_not_found(e, "workspace", "%lld", (long long)id);
    return check_manage(rq, *out, act, e);
}

int teams_param_project(struct core *c, struct request *rq, struct project **out, struct error *e)
{
    int64_t id;
    int err = request_param_int(rq, 0, &id, e);
    if (err)
        return err;
    rq->id = id;
    *out = core_project(c, id);
    if (!*out || !role_may(core_role(rq, (*out)->workspace), ACT_SEE))
        return error_not_found(e, "project", "%lld", (long long)id);
    return check_manage(rq, (*out)->workspace, ACT_MANAGE, e);
}

int teams_refuse_first(int64_t id, const char *what, const char *verb, struct error *e)
{
    if (id != UNCATEGORIZED)
        return 0;
    return error_set(e, ERR_CONFLICT,
                     "%s %d is where every experiment goes that names none: it cannot be %s", what,
                     UNCATEGORIZED, verb);
}

static int refuse_archived(const struct workspace *ws, struct error *e)
{
    if (ws->deleting)
        return error_set(e, ERR_CONFLICT, "workspace \"%.64s\" is being deleted", ws->name);
    if (!ws->archived)
        return 0;
    return error_set(e, ERR_CONFLICT, "workspace \"%.64s\" is archived; unarchive it first",
                     ws->name);
}

// A workspace that the caller may not see causes no conflict, because the refusal would reveal it.
static int check_workspace_name(struct core *c, const struct request *rq, const char *name,
                                const struct workspace *except, struct error *e)
{
    for (size_t i = 0; i < c->workspaces.count; i++) {
        const struct workspace *ws = c->workspaces.items[i].value;
        if (ws != except && !strcmp(ws->name, name) && role_may(core_role(rq, ws), ACT_SEE))
            return error_set(e, ERR_CONFLICT,
                             "there is a workspace \"%.64s\" already; choose another name", name);
    }
    return 0;
}

static int check_project_name(const struct workspace *ws, const char *name,
                              const struct project *except, struct error *e)
{
    for (size_t i = 0; i < ws->projects.count; i++) {
        const struct project *p = ws->projects.items[i].value;
        if (p != except && !strcmp(p->name, name))
            return error_set(e, ERR_CONFLICT,
                             "workspace \"%.64s\" has a project \"%.64s\" already; choose another "
                             "name",
                             ws->name, name);
    }
    return 0;
}

static void rename_to(char **name, const char *to)
{
    free(*name);
    *name = xstrdup(to);
}

// --- workspaces ----------------------------------------------------------------------------------

static void set_team(struct core *c, struct workspace *ws, const struct workspace *wanted)
{
    ws->weight = wanted->weight;
    ws->guaranteed_slots = wanted->guaranteed_slots;
    ws->max_slots = wanted->max_slots;
    ws->default_role = wanted->default_role;
    STORE(c, WORKSPACE_SET_TEAM, ws->weight, ws->guaranteed_slots, ws->max_slots, ws->default_role,
          ws->id);
    change_mark_workspace(c, ws->id);
    workspace_changed(c, ws);
}

int core_workspace_create(struct core *c, struct request *rq, struct error *e)
{
    const char *name;
    struct workspace wanted = {.creator = rq->principal.user_id,
                               .weight = rq->principal.admin ? 1 : weight_of_others,
                               .default_role = role_words[ROLE_EDITOR]};
    struct workspace_settings settings;
    int err = read_name(rq->body, &name, e);
    if (!err && !name)
        err = error_set(e, ERR_INVALID, "name: missing");
    if (!err)
        err = read_workspace(rq->body, &wanted, e);
    if (!err)
        err = check_workspace_name(c, rq, name, NULL, e);
    if (!err && has_quota(rq->body))
        err = role_check(core_role(rq, &wanted), ACT_SET_QUOTA, name, e);
    wanted.name = (char *)name; // of the body
    if (!err)
        err = workspace_settings_read(c, rq, &wanted, &settings, e);
    if (err)
        return err;
    struct workspace *ws = workspace_new(c, c->next_workspace, wanted.creator, name);
    STORE(c, WORKSPACE_INSERT, DB_NOT_NULL(ws->id), name, ws->creator, c->wall);
    workspace_settings_store(c, &settings, ws->id);
    set_team(c, ws, &wanted);
    rq->id = ws->id;
    log_info("workspace created", "workspace=%lld user=%s", (long long)ws->id,
             rq->principal.username);
    return 0;
}

int core_workspace_patch(struct core *c, struct request *rq, struct error *e)
{
    struct workspace *ws, wanted;
    struct workspace_settings settings;
    const char *name;
    int err =
        teams_param_workspace(c, rq, has_quota(rq->body) ? ACT_SET_QUOTA : ACT_MANAGE, &ws, e);
    if (!err)
        err = refuse_archived(ws, e);
    if (!err)
        err = read_name(rq->body, &name, e);
    if (err)
        return err;
    wanted = *ws;
    err = read_workspace(rq->body, &wanted, e);
    if (!err && name && strcmp(name, ws->name))
        err = teams_refuse_first(ws->id, "workspace", "renamed", e);
    if (!err && name)
        err = check_workspace_name(c, rq, name, ws, e);
    if (!err)
        err = workspace_settings_read(c, rq, ws, &settings, e);
    if (err)
        return err;
    if (name) {
        rename_to(&ws->name, name);
        STORE(c, WORKSPACE_SET_NAME, name, ws->id);
    }
    workspace_settings_store(c, &settings, ws->id);
    set_team(c, ws, &wanted);
    return 0;
}

static int archive_workspace(struct core *c, struct request *rq, bool archived, struct error *e)
{
    struct workspace *ws;
    int err = teams_param_workspace(c, rq, ACT_MANAGE, &ws, e);
    if (!err)
        err = teams_refuse_first(ws->id, "workspace", "archived", e);
    if (err)
        return err;
    ws->archived = archived;
    STORE(c, WORKSPACE_SET_ARCHIVED, archived, ws->id);
    change_mark_workspace(c, ws->id);
    return 0;
}

int core_workspace_archive(struct core *c, struct request *rq, struct error *e)
{
    return archive_workspace(c, rq, true, e);
}

int core_workspace_unarchive(struct core *c, struct request *rq, struct error *e)
{
    return archive_workspace(c, rq, false, e);
}

// --- projects ------------------------------------------------------------------------------------

static int read_project(const json_t *body, const char **name, const char **description,
                        struct error *e)
{
    int err = read_name(body, name, e);
    *description = jget_string(body, "description", NULL);
    if (!err && *description && strlen(*description) > LIMIT_DESCRIPTION)
        err = error_set(e, ERR_TOO_LARGE, "description: more than %d bytes", LIMIT_DESCRIPTION);
    return err;
}

int core_project_create(struct core *c, struct request *rq, struct error *e)
{
    struct workspace *ws;
    struct project_key key;
    const char *name, *description;
    int err = teams_param_workspace(c, rq, ACT_MANAGE, &ws, e);
    if (!err)
        err = read_project(rq->body, &name, &description, e);
    if (!err && !name)
        err = error_set(e, ERR_INVALID, "name: missing");
    if (!err)
        err = check_project_name(ws, name, NULL, e);
    if (!err)
        err = refuse_archived(ws, e);
    if (!err)
        err = project_key_read(c, rq->body, NULL, &key, e);
    if (err)
        return err;
    if (!*key.text)
        key = project_key_make(c, name);
    struct project *p = project_new(c, c->next_project, ws, name);
    memcpy(p->key, key.text, sizeof p->key);
    STORE(c, PROJECT_INSERT, p->id, name, ws->id, description ? description : "",
          rq->principal.user_id, c->wall, p->key);
    change_mark_workspace(c, ws->id);
    rq->id = p->id;
    return 0;
}

int core_project_patch(struct core *c, struct request *rq, struct error *e)
{
    struct project *p;
    struct project_key key;
    const char *name, *description;
    int err = teams_param_project(c, rq, &p, e);
    if (!err)
        err = read_project(rq->body, &name, &description, e);
    if (!err && name && strcmp(name, p->name))
        err = teams_refuse_first(p->id, "project", "renamed", e);
    if (!err && name)
        err = check_project_name(p->workspace, name, p, e);
    if (!err)
        err = project_key_read(c, rq->body, p, &key, e);
    if (err)
        return err;
    if (*key.text) {
        memcpy(p->key, key.text, sizeof p->key);
        STORE(c, PROJECT_SET_KEY, p->key, p->id);
    }
    if (name) {
        rename_to(&p->name, name);
        STORE(c, PROJECT_SET_NAME, name, p->id);
    }
    if (description)
        STORE(c, PROJECT_SET_DESCRIPTION, description, p->id);
    change_mark_workspace(c, p->workspace->id);
    return 0;
}

static int archive_project(struct core *c, struct request *rq, bool archived, struct error *e)
{
    struct project *p;
    int err = teams_param_project(c, rq, &p, e);
    if (!err)
        err = teams_refuse_first(p->id, "project", "archived", e);
    if (err)
        return err;
    p->archived = archived;
    STORE(c, PROJECT_SET_ARCHIVED, archived, p->id);
    change_mark_workspace(c, p->workspace->id);
    return 0;
}

int core_project_archive(struct core *c, struct request *rq, struct error *e)
{
    return archive_project(c, rq, true, e);
}

int core_project_unarchive(struct core *c, struct request *rq, struct error *e)
{
    return archive_project(c, rq, false, e);
}

// The move acts like a removal here and a creation there: the experiments count for the other
// workspace from now on.
static int check_move(const struct request *rq, const struct project *p, const struct workspace *to,
                      struct error *e)
{
    int err = teams_refuse_first(p->id, "project", "moved", e);
    if (!err)
        err = check_manage(rq, to, ACT_MANAGE, e);
    if (!err)
        err = refuse_archived(p->workspace, e);
    if (!err)
        err = refuse_archived(to, e);
    if (!err && (p->archived || p->deleting))
        err = error_set(e, ERR_CONFLICT, "project %lld is %s", (long long)p->id,
                        p->deleting ? "being deleted" : "archived; unarchive it first");
    return err ? err : check_project_name(to, p->name, p, e);
}

static bool still_runs(const struct experiment *x)
{
    return x->active && !experiment_is_terminal(x->state);
}

// Followers who cannot see the other workspace get the event before the move, and nothing about its
// destination.
static void leave_workspace(struct core *c, const struct project *p)
{
    for (size_t i = 0; i < c->experiments.count; i++) {
        const struct experiment *x = c->experiments.items[i].value;
        if (x->project_id == p->id)
            change_mark_left(c, x);
    }
    change_mark_workspace(c, p->workspace->id);
}

static void enter_workspace(struct core *c, const struct project *p)
{
    for (size_t i = 0; i < c->experiments.count; i++) {
        const struct experiment *x = c->experiments.items[i].value;
        if (x->project_id != p->id)
            continue;
        change_mark(c, EVENT_EXPERIMENT, x->id, 0, NULL);
        if (still_runs(x))
            CORE_DISPATCH(c, experiment_moved, c, x->active);
    }
    change_mark_workspace(c, p->workspace->id);
}

static void move_project(struct core *c, struct project *p, struct workspace *to)
{
    leave_workspace(c, p);
    id_map_remove(&p->workspace->projects, p->id);
    id_map_put(&to->projects, p->id, p);
    p->workspace = to;
    STORE(c, PROJECT_SET_WORKSPACE, to->id, p->id);
    enter_workspace(c, p);
}

int core_project_move(struct core *c, struct request *rq, struct error *e)
{
    struct project *p;
    int64_t id = jget_int(rq->body, "destinationWorkspaceId", 0);
    struct workspace *to = core_workspace(c, id);
    int err = teams_param_project(c, rq, &p, e);
    if (!err && (!to || !role_may(core_role(rq, to), ACT_SEE)))
        err = error_set(e, ERR_NOT_FOUND, "destinationWorkspaceId: workspace '%lld' not found",
                        (long long)id);
    if (!err)
        err = check_move(rq, p, to, e);
    CORE_DISPATCH_CHECKED(err, c, project_move_check, c, p, to, e);
    if (!err && p->workspace != to)
        move_project(c, p, to);
    return err;
}

// --- members -------------------------------------------------------------------------------------

static int param_user(struct core *c, struct request *rq, int64_t *user, struct error *e)
{
    int err = request_param_int(rq, 1, user, e);
    if (err)
        return err;
    struct db_rows *rows = DB_QUERY(c->reader, USER_BY_ID, *user);
    bool found = db_next(rows) > 0;
    db_rows_close(rows);
    return found ? 0
                 : error_set(e, ERR_NOT_FOUND, "user '%lld' not found; muster user list names them",
                             (long long)*user);
}

static void set_member(struct core *c, struct workspace *ws, const struct member *wanted)
{
    struct member *m = member_of(ws, wanted->user_id);
    m->role = wanted->role;
    m->weight = wanted->weight;
    m->max_slots = wanted->max_slots;
    STORE(c, MEMBER_SET, ws->id, m->user_id, m->role, m->weight, m->max_slots);
    change_mark_workspace(c, ws->id);
    member_changed(c, m);
}

int core_member_set(struct core *c, struct request *rq, struct error *e)
{
    struct workspace *ws;
    struct member wanted = {.role = "", .weight = 1};
    int64_t user;
    enum act act = jget(rq->body, "maxSlots") ? ACT_SET_QUOTA : ACT_MANAGE;
    int err = teams_param_workspace(c, rq, act, &ws, e);
    if (!err)
        err = param_user(c, rq, &user, e);
    if (err)
        return err;
    const struct member *m = id_map_find(&ws->members, user);
    if (m)
        wanted = *m;
    wanted.user_id = user;
    err = read_role(rq->body, "role", ROLE_ADMIN, &wanted.role, e);
    if (!err)
        err = read_weight(rq->body, &wanted.weight, e);
    if (!err)
        err = read_slots(rq->body, "maxSlots", &wanted.max_slots, e);
    if (!err && user == ws->creator && jget(rq->body, "role") &&
        strcmp(wanted.role, role_words[ROLE_ADMIN]))
        err = error_set(e, ERR_CONFLICT,
                        "role: user %lld made workspace \"%.64s\" and stays its administrator",
                        (long long)user, ws->name);
    if (!err)
        set_member(c, ws, &wanted);
    return err;
}

int core_member_remove(struct core *c, struct request *rq, struct error *e)
{
    struct workspace *ws;
    int64_t user;
    int err = teams_param_workspace(c, rq, ACT_MANAGE, &ws, e);
    if (!err)
        err = param_user(c, rq, &user, e);
    if (err)
        return err;
    const struct member *m = id_map_find(&ws->members, user);
    if (!m)
        return error_set(e, ERR_NOT_FOUND, "user %lld is no member of workspace \"%.64s\"",
                         (long long)user, ws->name);
    if (m->max_slots && (err = check_manage(rq, ws, ACT_SET_QUOTA, e)))
        return err;
    const struct member plain = {.user_id = user, .role = "", .weight = 1};
    set_member(c, ws, &plain);
    return 0;
}
