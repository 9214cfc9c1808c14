// Deletion of workspaces and projects. An empty one is deleted at once. Any other gets the state
// DELETING, and master/calls/bulk deletes its experiments first.
#include "base/text/json.h"
#include "master/kernel/module.h"
#include "master/teams/module.h"
#include "master/teams/params.h"
#include "master/teams/teams.h"

const char *const deletion_states[] = {
    [DELETION_NONE] = "",
    [DELETION_RUNNING] = "DELETING",
    [DELETION_FAILED] = "DELETE_FAILED",
};

static int answer_deleted(struct request *rq, bool completed)
{
    buf_printf(&rq->answer, "{\"completed\":%s}", completed ? "true" : "false");
    return 0;
}

// --- workspaces ----------------------------------------------------------------------------------

static void set_workspace_state(struct core *c, struct workspace *ws, enum deletion_state state,
                                const char *why)
{
    ws->deleting = state == DELETION_RUNNING;
    STORE(c, WORKSPACE_SET_STATE, deletion_states[state], why, ws->id);
    change_mark_workspace(c, ws->id);
}

// Models may be in use elsewhere, so they are not deleted with their workspace.
static int refuse_models(struct core *c, int64_t id, struct error *e)
{
    struct db_rows *rows = DB_QUERY(c->reader, WORKSPACE_MODELS, id);
    int64_t models = db_next(rows) == 1 ? DB_GET(rows, WORKSPACE_MODELS, count) : 0;
    db_rows_close(rows);
    if (!models)
        return 0;
    return error_set(e, ERR_STATE, "workspace %lld holds %lld models: move or delete them first",
                     (long long)id, (long long)models);
}

static bool has_experiments(const struct workspace *ws)
{
    for (size_t i = 0; i < ws->projects.count; i++)
        if (((const struct project *)ws->projects.items[i].value)->experiments)
            return true;
    return false;
}

int workspace_deletion_finish(struct core *c, struct workspace *ws, struct error *e)
{
    int err = refuse_models(c, ws->id, e);
    if (err)
        return err;
    log_info("workspace deleted", "workspace=%lld", (long long)ws->id);
    change_mark_workspace(c, ws->id);
    workspace_remove(c, ws);
    return 0;
}

void workspace_deletion_failed(struct core *c, struct workspace *ws, const char *why)
{
    set_workspace_state(c, ws, DELETION_FAILED, why);
}

int core_workspace_delete(struct core *c, struct request *rq, struct error *e)
{
    struct workspace *ws;
    int err = teams_param_workspace(c, rq, ACT_MANAGE, &ws, e);
    if (!err)
        err = teams_refuse_first(ws->id, "workspace", "deleted", e);
    if (!err && ws->guaranteed_slots > 0) // an administrator has granted the guarantee
        err = role_check(core_role(rq, ws), ACT_SET_QUOTA, ws->name, e);
    if (!err)
        err = refuse_models(c, ws->id, e);
    if (err)
        return err;
    if (!has_experiments(ws)) {
        err = workspace_deletion_finish(c, ws, e);
        return err ? err : answer_deleted(rq, true);
    }
    if (!ws->deleting) {
        log_info("workspace is being deleted", "workspace=%lld user=%s", (long long)ws->id,
                 rq->principal.username);
        set_workspace_state(c, ws, DELETION_RUNNING, "");
        CORE_DISPATCH(c, workspace_deleting, c, ws);
    }
    return answer_deleted(rq, false);
}

// --- projects ------------------------------------------------------------------------------------

static void set_project_state(struct core *c, struct project *p, enum deletion_state state,
                              const char *why)
{
    p->deleting = state == DELETION_RUNNING;
    STORE(c, PROJECT_SET_STATE, deletion_states[state], why, p->id);
    change_mark_workspace(c, p->workspace->id);
}

void project_deletion_finish(struct core *c, struct project *p)
{
    log_info("project deleted", "project=%lld", (long long)p->id);
    change_mark_workspace(c, p->workspace->id);
    project_remove(c, p);
}

void project_deletion_failed(struct core *c, struct project *p, const char *why)
{
    set_project_state(c, p, DELETION_FAILED, why);
}

int core_project_delete(struct core *c, struct request *rq, struct error *e)
{
    struct project *p;
    int err = teams_param_project(c, rq, &p, e);
    if (!err)
        err = teams_refuse_first(p->id, "project", "deleted", e);
    if (err)
        return err;
    if (!p->experiments) {
        project_deletion_finish(c, p);
        return answer_deleted(rq, true);
    }
    if (!p->deleting) {
        log_info("project is being deleted", "project=%lld user=%s", (long long)p->id,
                 rq->principal.username);
        set_project_state(c, p, DELETION_RUNNING, "");
        CORE_DISPATCH(c, project_deleting, c, p);
    }
    return answer_deleted(rq, false);
}
