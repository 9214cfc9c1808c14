#include "master/calls/bulk/workspace_removal.h"

#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "master/calls/verbs.h"
#include "master/lifecycle/lifecycle.h"
#include "master/lifecycle/unmanaged.h"
#include "master/teams/teams.h"

enum {
    IN_FLIGHT = 16, // experiments that are being deleted at a time
    COMMIT_WAIT_US = 20000,
};

struct workspace_removal {
    struct workspace_removal *next;
    int64_t workspace, project; // one of them is 0
    int64_t *ids;               // ascending; the last ones are deleted first
    size_t count;               // experiments whose deletion has not begun
    size_t ended;               // the first of `ids` that are known to have ended
    bool killed;                // those that ran were told to end
    int64_t flying[IN_FLIGHT];
    size_t flying_count;
    char *failure; // why an experiment was not deleted; NULL: none has failed
    struct timer timer;
};

struct workspace_removals {
    struct workspace_removal *first;
};

// --- the workspace or project --------------------------------------------------------------------

static bool removal_exists(struct core *c, const struct workspace_removal *r)
{
    return r->workspace ? core_workspace(c, r->workspace) != NULL
                        : core_project(c, r->project) != NULL;
}

static bool removal_has(struct core *c, const struct workspace_removal *r,
                        const struct experiment *x)
{
    return r->workspace ? core_workspace_of(c, x)->id == r->workspace : x->project_id == r->project;
}

static void removal_free(struct core *c, struct workspace_removal *r)
{
    struct workspace_removal **at = &c->workspace_removals->first;
    while (*at != r)
        at = &(*at)->next;
    *at = r->next;
    timer_clear(&c->timers, &r->timer);
    free(r->failure);
    free(r->ids);
    free(r);
}

static void removal_wake(struct core *c, struct workspace_removal *r, int64_t after_us)
{
    timer_set(&c->timers, &r->timer, c->now + after_us);
}

static void removal_fail(struct core *c, struct workspace_removal *r, const char *why)
{
    char quoted[ERROR_TEXT_MAX];
    log_error("a deletion has failed", "workspace=%lld project=%lld err=%s",
              (long long)r->workspace, (long long)r->project,
              log_quote(quoted, sizeof quoted, why));
    if (r->workspace)
        workspace_deletion_failed(c, core_workspace(c, r->workspace), why);
    else
        project_deletion_failed(c, core_project(c, r->project), why);
    removal_free(c, r);
}

static void collect_ids(struct core *c, struct workspace_removal *r)
{
    free(r->ids);
    r->ids = xcalloc(c->experiments.count + 1, sizeof *r->ids);
    r->count = r->ended = 0;
    r->killed = false;
    for (size_t i = 0; i < c->experiments.count; i++) {
        const struct experiment *x = c->experiments.items[i].value;
        if (removal_has(c, r, x))
            r->ids[r->count++] = x->id;
    }
}

// --- the steps -----------------------------------------------------------------------------------

static struct experiment *find_inside(struct core *c, const struct workspace_removal *r, int64_t id)
{
    struct experiment *x = core_experiment_find(c, id);
    return x && removal_has(c, r, x) ? x : NULL;
}

static void kill_all(struct core *c, struct workspace_removal *r)
{
    for (size_t i = 0; i < r->count; i++) {
        struct experiment *x = find_inside(c, r, r->ids[i]);
        if (!x || experiment_is_terminal(x->state))
            continue;
        if (x->active && x->active->unmanaged)
            unmanaged_verb(c, x, EXPERIMENT_EV_KILL, NULL);
        else
            experiment_event(c, x, EXPERIMENT_EV_KILL, NULL);
    }
    r->killed = true;
}

// Whether every experiment has ended, and the store knows it: checks for deletions read the store.
static bool all_ended(struct core *c, struct workspace_removal *r)
{
    for (; r->ended < r->count; r->ended++) {
        const struct experiment *x = find_inside(c, r, r->ids[r->ended]);
        if (x && !experiment_is_terminal(x->state))
            return false;
        if (x && x->ended_in > atomic_load(&c->committed)) {
            removal_wake(c, r, COMMIT_WAIT_US);
            return false;
        }
    }
    return true;
}

// Forgets the deletions that are complete. ERR_FAILED: one has failed.
static int land(struct core *c, struct workspace_removal *r, struct error *e)
{
    size_t kept = 0;
    for (size_t i = 0; i < r->flying_count; i++) {
        const struct experiment *x = find_inside(c, r, r->flying[i]);
        if (x && x->state != EXPERIMENT_DELETING)
            return error_set(e, ERR_FAILED, "experiment %lld could not be deleted: %s",
                             (long long)x->id,
                             r->failure ? r->failure : "the master is busy; try again later");
        if (x)
            r->flying[kept++] = r->flying[i];
    }
    r->flying_count = kept;
    return 0;
}

static int begin_more(struct core *c, struct workspace_removal *r, struct error *e)
{
    while (r->count && r->flying_count < IN_FLIGHT) {
        int64_t id = r->ids[--r->count];
        struct experiment *x = find_inside(c, r, id);
        int err = x ? removal_begin(c, x, e) : 0;
        if (err)
            return err;
        if (x)
            r->flying[r->flying_count++] = id;
    }
    return 0;
}

static int64_t experiments_inside(struct core *c, const struct workspace_removal *r)
{
    if (r->project)
        return core_project(c, r->project)->experiments;
    const struct workspace *ws = core_workspace(c, r->workspace);
    int64_t count = 0;
    for (size_t i = 0; i < ws->projects.count; i++)
        count += ((const struct project *)ws->projects.items[i].value)->experiments;
    return count;
}

static int finish(struct core *c, struct workspace_removal *r, struct error *e)
{
    if (experiments_inside(c, r)) {
        collect_ids(c, r);
        removal_wake(c, r, 0);
        return 0;
    }
    int err = r->workspace ? workspace_deletion_finish(c, core_workspace(c, r->workspace), e) : 0;
    if (!err && r->project)
        project_deletion_finish(c, core_project(c, r->project));
    if (!err)
        removal_free(c, r);
    return err;
}

static void removal_step(struct core *c, void *arg)
{
    struct workspace_removal *r = arg;
    struct error e = {0};
    if (!removal_exists(c, r)) { // a project that was deleted with its workspace
        removal_free(c, r);
        return;
    }
    if (!r->killed)
        kill_all(c, r);
    if (!all_ended(c, r))
        return;
    int err = land(c, r, &e);
    if (!err)
        err = begin_more(c, r, &e);
    if (!err && !r->count && !r->flying_count)
        err = finish(c, r, &e);
    if (err)
        removal_fail(c, r, e.text);
}

// --- events --------------------------------------------------------------------------------------

static void removal_start(struct core *c, int64_t workspace, int64_t project)
{
    struct workspace_removal *r = xcalloc(1, sizeof *r);
    *r = (struct workspace_removal){
        .next = c->workspace_removals->first, .workspace = workspace, .project = project};
    r->timer = (struct timer){.fire = removal_step, .arg = r};
    c->workspace_removals->first = r;
    collect_ids(c, r);
    removal_wake(c, r, 0);
}

static void start_workspace(struct core *c, const struct workspace *ws)
{
    removal_start(c, ws->id, 0);
}

static void start_project(struct core *c, const struct project *p)
{
    removal_start(c, 0, p->id);
}

static void wake_for(struct core *c, const struct experiment *x)
{
    for (struct workspace_removal *r = c->workspace_removals->first; r; r = r->next)
        if (removal_exists(c, r) && removal_has(c, r, x))
            removal_wake(c, r, 0);
}

static void note_removal(struct core *c, const struct experiment *x, const char *failure)
{
    for (struct workspace_removal *r = c->workspace_removals->first; r && failure; r = r->next)
        if (!r->failure && removal_exists(c, r) && removal_has(c, r, x))
            r->failure = xstrdup(failure);
    wake_for(c, x);
}

static void removals_init(struct core *c)
{
    c->workspace_removals = xcalloc(1, sizeof *c->workspace_removals);
}

static void removals_resume(struct core *c)
{
    for (size_t i = 0; i < c->workspaces.count; i++) {
        const struct workspace *ws = c->workspaces.items[i].value;
        if (ws->deleting)
            removal_start(c, ws->id, 0);
    }
    for (size_t i = 0; i < c->projects.count; i++) {
        const struct project *p = c->projects.items[i].value;
        if (p->deleting)
            removal_start(c, 0, p->id);
    }
}

static void removals_free(struct core *c)
{
    while (c->workspace_removals->first)
        removal_free(c, c->workspace_removals->first);
    free(c->workspace_removals);
}

const struct core_module workspace_removal_module = {
    .name = "workspace_removal",
    .init = removals_init,
    .start = removals_resume,
    .free = removals_free,
    .workspace_deleting = start_workspace,
    .project_deleting = start_project,
    .experiment_state_changed = wake_for,
    .experiment_removed = note_removal,
};
