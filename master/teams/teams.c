#include "master/teams/teams.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "master/teams/module.h"

static const double usage_half_life_us = 7 * 24 * 3600 * 1e6; // the scheduler's half-life

// --- teams of the scheduler ----------------------------------------------------------------------

static struct sched_team_spec spec_of(double weight, int64_t guaranteed, int64_t maximum)
{
    int64_t thousandths = llround(weight * SCHED_WEIGHT_ONE);
    return (struct sched_team_spec){
        .weight = thousandths < 1 ? 1 : thousandths, .guaranteed = guaranteed, .maximum = maximum};
}

static int add_team(struct core *c, int parent, struct sched_team_spec spec,
                    const struct usage *before)
{
    int team = sched_team_add(c->sched, parent, &spec);
    double age = c->wall > before->at ? (double)(c->wall - before->at) : 0;
    double left = before->slot_seconds * exp2(-age / usage_half_life_us);
    if (left >= 1)
        sched_team_restore(c->sched, team, llround(left), c->now);
    return team;
}

int core_team(struct core *c, int64_t workspace, int64_t user)
{
    struct workspace *ws = core_workspace(c, workspace);
    must(ws);
    struct member *m = member_of(ws, user);
    if (m->team == SCHED_NONE)
        m->team = add_team(c, ws->team, spec_of(m->weight, 0, m->max_slots), &m->usage);
    return m->team;
}

void workspace_changed(struct core *c, struct workspace *ws)
{
    struct sched_team_spec spec = spec_of(ws->weight, ws->guaranteed_slots, ws->max_slots);
    if (ws->team == SCHED_NONE)
        ws->team = add_team(c, SCHED_ROOT, spec, &ws->usage);
    else
        sched_team_set(c->sched, ws->team, &spec);
    c->sched_due = true;
}

void member_changed(struct core *c, const struct member *m)
{
    struct sched_team_spec spec = spec_of(m->weight, 0, m->max_slots);
    if (m->team != SCHED_NONE)
        sched_team_set(c->sched, m->team, &spec);
    c->sched_due = true;
}

// --- permissions ---------------------------------------------------------------------------------

enum role core_role(const struct request *rq, const struct workspace *ws)
{
    const struct principal *p = &rq->principal;
    if (p->kind != PRINCIPAL_USER)
        return ROLE_NONE;
    const struct member *m = id_map_find(&ws->members, p->user_id);
    return role_of(p->admin, p->user_id == ws->creator, m ? m->role : NULL, ws->default_role);
}

bool core_sees(struct core *c, const struct request *rq, const struct experiment *x)
{
    return role_may(core_role(rq, core_workspace_of(c, x)), ACT_SEE);
}

static int experiment_check_act(struct core *c, const struct request *rq,
                                const struct experiment *x, enum act act, struct error *e)
{
    const struct workspace *ws = core_workspace_of(c, x);
    enum role role = core_role(rq, ws);
    if (role_may(role, ACT_SEE))
        return role_check(role, act, ws->name, e);
    return error_not_found(e, "experiment", "%lld", (long long)x->id);
}

static int experiment_prefix_error(const struct experiment *x, struct error *e)
{
    return error_prefix(e, "%s %lld", kind_words[x->kind].noun, (long long)x->id);
}

int core_may_change(struct core *c, const struct request *rq, const struct experiment *x,
                    struct error *e)
{
    bool own = rq->principal.kind == PRINCIPAL_USER && rq->principal.user_id == x->user_id;
    int err = experiment_check_act(c, rq, x, own ? ACT_CHANGE_OWN : ACT_CHANGE_OTHERS, e);
    return err == ERR_FORBIDDEN ? experiment_prefix_error(x, e)
                                : err; // an invisible object gets the usual ERR_NOT_FOUND
}

int core_may_submit(struct core *c, const struct request *rq, int64_t project, struct error *e)
{
    const struct project *p = core_project(c, project);
    enum role role = p ? core_role(rq, p->workspace) : ROLE_NONE;
    if (!role_may(role, ACT_SEE))
        return error_not_found(e, "project", "%lld", (long long)project);
    if (p->archived || p->workspace->archived)
        return error_set(e, ERR_STATE,
                         "project %lld (\"%.64s\" in workspace \"%.64s\") is archived; unarchive "
                         "it first, or submit to another",
                         (long long)project, p->name, p->workspace->name);
    if (p->deleting || p->workspace->deleting)
        return error_set(e, ERR_STATE,
                         "project %lld (\"%.64s\" in workspace \"%.64s\") is being deleted",
                         (long long)project, p->name, p->workspace->name);
    return role_check(role, ACT_SUBMIT, p->workspace->name, e);
}

// --- made and removed ----------------------------------------------------------------------------

struct workspace *workspace_new(struct core *c, int64_t id, int64_t creator, const char *name)
{
    struct workspace *ws = xcalloc(1, sizeof *ws);
    *ws = (struct workspace){.id = id,
                             .creator = creator,
                             .name = xstrdup(name),
                             .default_role = role_words[ROLE_EDITOR],
                             .weight = 1,
                             .team = SCHED_NONE};
    id_map_put(&c->workspaces, id, ws);
    if (c->next_workspace <= id)
        c->next_workspace = id + 1;
    return ws;
}

struct project *project_new(struct core *c, int64_t id, struct workspace *ws, const char *name)
{
    struct project *p = xcalloc(1, sizeof *p);
    *p = (struct project){.id = id, .workspace = ws, .name = xstrdup(name)};
    id_map_put(&c->projects, id, p);
    id_map_put(&ws->projects, id, p);
    if (c->next_project <= id)
        c->next_project = id + 1;
    return p;
}

struct member *member_of(struct workspace *ws, int64_t user)
{
    struct member *m = id_map_find(&ws->members, user);
    if (m)
        return m;
    m = xcalloc(1, sizeof *m);
    *m = (struct member){.user_id = user, .role = "", .weight = 1, .team = SCHED_NONE};
    id_map_put(&ws->members, user, m);
    return m;
}

static void project_free(struct project *p)
{
    free(p->name);
    free(p);
}

static void workspace_free(struct workspace *ws)
{
    for (size_t i = 0; i < ws->members.count; i++)
        free(ws->members.items[i].value);
    free(ws->members.items);
    free(ws->projects.items);
    free(ws->name);
    free(ws);
}

void project_remove(struct core *c, struct project *p)
{
    must(!p->experiments);
    id_map_remove(&p->workspace->projects, p->id);
    id_map_remove(&c->projects, p->id);
    STORE(c, PROJECT_DELETE, p->id);
    project_free(p);
}

void workspace_remove(struct core *c, struct workspace *ws)
{
    while (ws->projects.count)
        project_remove(c, ws->projects.items[0].value);
    for (size_t i = 0; i < ws->members.count; i++) {
        const struct member *m = ws->members.items[i].value;
        if (m->team != SCHED_NONE)
            sched_team_remove(c->sched, m->team);
    }
    sched_team_remove(c->sched, ws->team);
    CORE_DISPATCH(c, workspace_removed, c, ws);
    id_map_remove(&c->workspaces, ws->id);
    STORE(c, MEMBERS_DELETE, ws->id);
    STORE(c, WORKSPACE_DELETE, ws->id);
    workspace_free(ws);
}

void teams_free(struct core *c)
{
    for (size_t i = 0; i < c->projects.count; i++)
        project_free(c->projects.items[i].value);
    for (size_t i = 0; i < c->workspaces.count; i++)
        workspace_free(c->workspaces.items[i].value);
    free(c->projects.items);
    free(c->workspaces.items);
}

// --- from the store ------------------------------------------------------------------------------

static void load_workspace(struct core *c, struct db_rows *rows)
{
    struct workspace *ws =
        workspace_new(c, DB_GET(rows, WORKSPACES_ALL, id), DB_GET(rows, WORKSPACES_ALL, user_id),
                      DB_GET(rows, WORKSPACES_ALL, name));
    ws->archived = DB_GET(rows, WORKSPACES_ALL, archived);
    ws->deleting = !strcmp(DB_GET(rows, WORKSPACES_ALL, state), deletion_states[DELETION_RUNNING]);
    ws->weight = DB_GET(rows, WORKSPACES_ALL, weight);
    ws->guaranteed_slots = DB_GET(rows, WORKSPACES_ALL, guaranteed_slots);
    ws->max_slots = DB_GET(rows, WORKSPACES_ALL, max_slots);
    ws->default_role = role_word(DB_GET(rows, WORKSPACES_ALL, default_role), ROLE_EDITOR);
    ws->usage =
        (struct usage){DB_GET(rows, WORKSPACES_ALL, usage), DB_GET(rows, WORKSPACES_ALL, usage_at)};
    workspace_changed(c, ws);
}

static void load_project(struct core *c, struct db_rows *rows)
{
    struct workspace *ws = core_workspace(c, DB_GET(rows, PROJECTS_ALL, workspace_id));
    struct project *p =
        project_new(c, DB_GET(rows, PROJECTS_ALL, id), ws, DB_GET(rows, PROJECTS_ALL, name));
    snprintf(p->key, sizeof p->key, "%s", DB_GET(rows, PROJECTS_ALL, key));
    p->archived = DB_GET(rows, PROJECTS_ALL, archived);
    p->deleting = !strcmp(DB_GET(rows, PROJECTS_ALL, state), deletion_states[DELETION_RUNNING]);
}

static void load_member(struct core *c, struct db_rows *rows)
{
    struct member *m = member_of(core_workspace(c, DB_GET(rows, MEMBERS_ALL, workspace_id)),
                                 DB_GET(rows, MEMBERS_ALL, user_id));
    const char *role = role_word(DB_GET(rows, MEMBERS_ALL, role), ROLE_ADMIN);
    m->role = role ? role : "";
    m->weight = DB_GET(rows, MEMBERS_ALL, weight);
    m->max_slots = DB_GET(rows, MEMBERS_ALL, max_slots);
    m->usage =
        (struct usage){DB_GET(rows, MEMBERS_ALL, usage), DB_GET(rows, MEMBERS_ALL, usage_at)};
}

int teams_load(struct core *c, struct error *e)
{
    static const struct {
        enum stmt query;
        void (*row)(struct core *c, struct db_rows *rows);
    } parts[] = {{STMT_WORKSPACES_ALL, load_workspace},
                 {STMT_PROJECTS_ALL, load_project},
                 {STMT_MEMBERS_ALL, load_member}};
    c->next_workspace = c->next_project = 1;
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        struct db_rows *rows = db_query_all(c->reader, parts[i].query);
        int more;
        while ((more = db_next(rows)) > 0)
            parts[i].row(c, rows);
        db_rows_close(rows);
        if (more < 0)
            return db_unreadable(c->reader, e);
    }
    return 0;
}
