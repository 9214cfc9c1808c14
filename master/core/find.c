// Finding what lives, and who may touch it.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "master/core/state.h"

// The place of `id`, or where it would stand.
static size_t by_id_place(const struct by_id *set, int64_t id)
{
    size_t low = 0, high = set->count;
    if (high && set->items[high - 1].id < id)
        return high; // ids grow: mostly the end
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (set->items[middle].id < id)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

void by_id_put(struct by_id *set, int64_t id, void *value)
{
    size_t at = by_id_place(set, id);
    must(at == set->count || set->items[at].id != id);
    if (set->count == set->cap) {
        set->cap = set->cap ? 2 * set->cap : 64;
        set->items = xrealloc(set->items, set->cap * sizeof *set->items);
    }
    memmove(set->items + at + 1, set->items + at, (set->count - at) * sizeof *set->items);
    set->items[at] = (struct by_id_item){id, value};
    set->count++;
}

void *by_id_find(const struct by_id *set, int64_t id)
{
    size_t at = by_id_place(set, id);
    return at < set->count && set->items[at].id == id ? set->items[at].value : NULL;
}

void by_id_remove(struct by_id *set, int64_t id)
{
    size_t at = by_id_place(set, id);
    must(at < set->count && set->items[at].id == id);
    set->count--;
    memmove(set->items + at, set->items + at + 1, (set->count - at) * sizeof *set->items);
}

struct experiment *core_experiment_find(struct core *c, int64_t id)
{
    return by_id_find(&c->experiments, id);
}

struct trial *core_trial_find(struct core *c, int64_t id)
{
    return by_id_find(&c->trials, id);
}

// Allocation ids are EXPERIMENT.TRIAL.EPOCH.
struct allocation *core_allocation_find(struct core *c, const char *id)
{
    long long experiment, trial;
    if (!id || sscanf(id, "%lld.%lld.", &experiment, &trial) != 2)
        return NULL;
    struct trial *t = core_trial_find(c, trial);
    return t && t->allocation && !strcmp(t->allocation->id, id) ? t->allocation : NULL;
}

struct agent *core_agent_find(struct core *c, const char *id)
{
    size_t low = 0, high = c->agent_count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        int order = strcmp(c->agents[middle]->id, id);
        if (!order)
            return c->agents[middle];
        if (order < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return NULL;
}

struct pool *core_pool(struct core *c, const char *name)
{
    if (!name || !*name)
        name = "default";
    for (size_t i = 0; i < c->pool_count; i++)
        if (!strcmp(c->pools[i]->name, name))
            return c->pools[i];
    c->pools = xrealloc(c->pools, (c->pool_count + 1) * sizeof(struct pool *));
    struct pool *pool = xcalloc(1, sizeof *pool);
    pool->name = xstrdup(name);
    pool->handle = sched_pool_add(c->sched);
    c->pools[c->pool_count++] = pool;
    return pool;
}

int core_param_experiment(struct core *c, struct request *rq, struct experiment **out,
                          struct error *e)
{
    int64_t id;
    int err = request_param_int(rq, 0, &id, e);
    if (err)
        return err;
    *out = core_experiment_find(c, id);
    rq->id = id;
    return *out ? 0 : error_set(e, ERR_NOT_FOUND, "there is no experiment %lld", (long long)id);
}

int core_caller(struct core *c, struct request *rq, struct allocation **out, struct error *e)
{
    if (rq->principal.kind != PRINCIPAL_TASK)
        return error_set(e, ERR_FORBIDDEN, "only a running task may say this of itself");
    struct allocation *a = core_allocation_find(c, rq->principal.allocation_id);
    if (!a || a->state == ALLOCATION_QUEUED)
        return error_set(e, ERR_FORBIDDEN, "allocation has ended");
    *out = a;
    return 0;
}

int core_caller_of_trial(struct core *c, struct request *rq, struct allocation **out,
                         struct error *e)
{
    int64_t id;
    int err = request_param_int(rq, 0, &id, e);
    if (!err)
        err = core_caller(c, rq, out, e);
    if (err)
        return err;
    rq->id = id;
    if ((*out)->trial->id != id)
        return error_set(e, ERR_FORBIDDEN, "allocation %s is of trial %lld, not of trial %lld",
                         (*out)->id, (long long)(*out)->trial->id, (long long)id);
    return 0;
}

int core_caller_of_allocation(struct core *c, struct request *rq, struct allocation **out,
                              struct error *e)
{
    int err = core_caller(c, rq, out, e);
    if (err)
        return err;
    if (strcmp((*out)->id, rq->params[0]))
        return error_set(e, ERR_FORBIDDEN, "this token is of allocation %s, not of %.64s",
                         (*out)->id, rq->params[0]);
    return 0;
}

int core_may_change(const struct request *rq, const struct experiment *x, struct error *e)
{
    const struct principal *p = &rq->principal;
    if (p->kind == PRINCIPAL_USER && (p->admin || p->user_id == x->user_id))
        return 0;
    return error_set(e, ERR_FORBIDDEN,
                     "experiment %lld is another user's: only its owner and administrators may "
                     "change it",
                     (long long)x->id);
}
