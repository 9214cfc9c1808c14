// Resource pools, and the share of each pool that its workspaces and their users are entitled to,
// hold and want.
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/text/json.h"
#include "master/calls/module.h"
#include "master/calls/queue.h"
#include "master/calls/snapshots.h"
#include "master/lifecycle/lifecycle.h"
#include "master/teams/teams.h"

// --- pools ---------------------------------------------------------------------------------------

static void copy_pool(struct core *c, struct request *rq, const struct pool *pool,
                      struct pool_snapshot *out)
{
    const struct agent *first = NULL;
    *out = (struct pool_snapshot){
        .name = arena_strdup(&rq->arena, pool->name),
        .policy = pool->policy,
        .default_priority = pool_default_priority(pool),
        .max_user_priority = pool->max_user_priority,
    };
    for (size_t i = 0; i < c->agent_count; i++) {
        const struct agent *g = c->agents[i];
        if (g->pool != pool)
            continue;
        first = first ? first : g;
        out->agents_away += g->state != AGENT_CONNECTED;
    }
    const json_t *slot = first ? json_array_get(first->slots, 0) : NULL;
    out->device_type = arena_strdup(&rq->arena, jget_string(slot, "type", "CPU"));
    sched_pool_inspect(c->sched, pool->handle, &out->load);
}

static bool is_asked_for(const char *only, const char *name)
{
    return !only || !*only || !strcmp(only, name);
}

// The pools that exist, in the order of their creation. `only` names one of them; NULL or "": all.
static int answer_pools(struct core *c, struct request *rq, const char *only, bool paged,
                        struct error *e)
{
    struct page_snapshot page = {0};
    int64_t total = 0, at = 0, taken = 0;
    for (size_t i = 0; i < c->pool_count; i++)
        total += is_asked_for(only, c->pools[i]->name) && core_pool_exists(c, c->pools[i]);
    int err = paged ? page_read(rq, total, &page, e) : 0;
    if (err)
        return err;
    if (!paged)
        page = (struct page_snapshot){.shown = total, .total = total};
    struct pools_snapshot *result = arena_alloc(&rq->arena, sizeof *result);
    struct pool_snapshot *items = arena_alloc(&rq->arena, (size_t)page.shown * sizeof *items);
    for (size_t i = 0; taken < page.shown; i++)
        if (is_asked_for(only, c->pools[i]->name) && core_pool_exists(c, c->pools[i]) &&
            at++ >= page.offset)
            copy_pool(c, rq, c->pools[i], &items[taken++]);
    *result = (struct pools_snapshot){.page = page, .items = items};
    rq->result = result;
    return 0;
}

int core_resource_pools(struct core *c, struct request *rq, struct error *e)
{
    return answer_pools(c, rq, NULL, true, e);
}

// Every workspace may use every pool; its weight and slots limit how much of it.
int core_available_pools(struct core *c, struct request *rq, struct error *e)
{
    return answer_pools(c, rq, NULL, false, e);
}

// Counts the jobs that wait and that run in each pool, or in the pool that the caller names.
int core_job_queue_stats(struct core *c, struct request *rq, struct error *e)
{
    return answer_pools(c, rq, rq->query(rq, "resourcePools"), false, e);
}

// No pool is bound to some workspaces: the list is always empty, so there is no result.
int core_pool_bindings(struct core *c, struct request *rq, struct error *e)
{
    struct pool *pool;
    if (core_pool_require(c, rq->params[0], &pool, NULL))
        return error_not_found(e, "resource pool", "%.128s", rq->params[0]);
    return 0;
}

// --- shares --------------------------------------------------------------------------------------

struct job_counts { // experiments of one team of the scheduler
    int64_t waiting, running;
};

struct pool_shares {
    struct core *c;
    struct request *rq;
    const struct pool *pool;
    const char *pool_name;     // in the arena
    struct job_counts *counts; // by team
    size_t count;
    const struct share_snapshot **end; // of the list
};

static struct job_counts *counts_of_team(struct pool_shares *p, int team)
{
    if ((size_t)team >= p->count) {
        p->counts = xrealloc(p->counts, ((size_t)team + 1) * sizeof *p->counts);
        memset(p->counts + p->count, 0, ((size_t)team + 1 - p->count) * sizeof *p->counts);
        p->count = (size_t)team + 1;
    }
    return &p->counts[team];
}

static void count_experiment(struct pool_shares *p, const struct active_experiment *active)
{
    const struct experiment *x = active->experiment;
    const struct workspace *ws = core_workspace_of(p->c, x);
    const int teams[] = {ws->team, core_team(p->c, ws->id, x->user_id)};
    bool waiting = false, running = false;
    for (const struct trial *t = active->trials; t; t = t->next) {
        waiting = waiting || trial_waits(t);
        running = running || (t->allocation && !trial_waits(t));
    }
    for (int i = 0; i < 2; i++) {
        counts_of_team(p, teams[i])->waiting += waiting && !running;
        counts_of_team(p, teams[i])->running += running;
    }
}

static void count_experiments(struct pool_shares *p)
{
    struct core *c = p->c;
    c->queue_listing++;
    for (size_t i = 0; i < c->trials.count; i++) {
        struct active_experiment *active = ((const struct trial *)c->trials.items[i].value)->active;
        if (active->pool != p->pool || active->queue_listing == c->queue_listing)
            continue;
        active->queue_listing = c->queue_listing;
        count_experiment(p, active);
    }
}

// Adds the share of a workspace (m NULL), or of one of its members. A share with default settings
// is left out while it is not used.
static void add_share(struct pool_shares *p, const struct workspace *ws, const struct member *m,
                      const char *workspace)
{
    const int team = m ? m->team : ws->team;
    struct share_snapshot share = {
        .pool = p->pool_name,
        .workspace = workspace,
        .workspace_id = ws->id,
        .user_id = m ? m->user_id : 0,
        .weight = m ? m->weight : ws->weight,
        .guaranteed = m ? 0 : ws->guaranteed_slots,
        .maximum = m ? m->max_slots : ws->max_slots,
    };
    if (team != SCHED_NONE) {
        const struct job_counts *counts = counts_of_team(p, team);
        sched_team_share(p->c->sched, team, p->pool->handle, p->c->now, &share.use);
        share.waiting = counts->waiting;
        share.running = counts->running;
    }
    bool used = share.use.used || share.use.wanted || share.use.usage > 0 || share.use.debt > 0 ||
                share.waiting || share.running;
    bool configured = share.weight < 1 || share.weight > 1 || share.guaranteed || share.maximum;
    if (!used && !configured)
        return;
    struct share_snapshot *item = arena_alloc(&p->rq->arena, sizeof *item);
    *item = share;
    *p->end = item;
    p->end = &item->next;
}

// A workspace that the caller may not see is there without its name and its users.
static void add_workspace(struct pool_shares *p, const struct workspace *ws)
{
    bool seen = role_may(core_role(p->rq, ws), ACT_SEE);
    const char *name = seen ? arena_strdup(&p->rq->arena, ws->name) : "";
    add_share(p, ws, NULL, name);
    for (size_t i = 0; i < ws->members.count && seen; i++)
        add_share(p, ws, ws->members.items[i].value, name);
}

// Lists the shares pool by pool: each workspace, followed by its users.
int core_shares(struct core *c, struct request *rq, struct error *e)
{
    const char *only = rq->query(rq, "resourcePool");
    struct share_snapshot *head =
        arena_alloc(&rq->arena, sizeof *head); // its successors are filled
    struct pool_shares p = {.c = c, .rq = rq, .end = &head->next};
    int err = 0;
    for (size_t i = 0; !err && i < c->pool_count; i++) {
        p.pool = c->pools[i];
        if (!is_asked_for(only, p.pool->name) || !core_pool_exists(c, p.pool))
            continue;
        p.pool_name = arena_strdup(&rq->arena, p.pool->name);
        count_experiments(&p);
        for (size_t k = 0; !err && k < c->workspaces.count; k++) {
            add_workspace(&p, c->workspaces.items[k].value);
            err = request_check_result(rq, e);
        }
        free(p.counts);
        p.counts = NULL;
        p.count = 0;
    }
    rq->result = head;
    return err;
}
