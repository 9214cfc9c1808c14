// Finds live objects by id or name, and the allocation that a running task calls for.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/wire.h"
#include "base/arena.h"
#include "master/kernel/state.h"

struct experiment *core_experiment_find(struct core *c, int64_t id)
{
    return id_map_find(&c->experiments, id);
}

struct project *core_project(struct core *c, int64_t id)
{
    return id_map_find(&c->projects, id);
}

struct workspace *core_workspace(struct core *c, int64_t id)
{
    return id_map_find(&c->workspaces, id);
}

struct workspace *core_workspace_of(struct core *c, const struct experiment *x)
{
    return core_project(c, x->project_id)->workspace;
}

struct trial *core_trial_find(struct core *c, int64_t id)
{
    return id_map_find(&c->trials, id);
}

// Whether a text with the trial's numbers also has the trial's UUID. A short id has none.
static bool trial_is_named(const struct trial *t, const char *id, const struct task_id *read)
{
    size_t len = strlen(t->first_task_id);
    return read->is_short || (!strncmp(id, t->first_task_id, len) && strchr("-.", id[len]));
}

// A command or generic task has one trial, and its id EXPERIMENT.JOB names the job.
struct trial *core_trial_of_task(struct core *c, const char *id)
{
    struct task_id read;
    if (!task_id_read(id, &read)) {
        const struct experiment *x = core_experiment_find(c, strtoll(id, NULL, 10));
        return x && x->kind != KIND_EXPERIMENT && x->active ? x->active->trials : NULL;
    }
    struct trial *t = core_trial_find(c, read.trial);
    return t && t->active->experiment->id == read.experiment && trial_is_named(t, id, &read) ? t
                                                                                             : NULL;
}

// Allocation ids are TASK.EPOCH.
struct allocation *core_allocation_find(struct core *c, const char *id)
{
    struct trial *t = id ? core_trial_of_task(c, id) : NULL;
    return t && t->allocation && !strcmp(t->allocation->id, id) ? t->allocation : NULL;
}

bool core_allocation_on_agent(struct core *c, const char *allocation, const char *agent)
{
    const struct allocation *a = core_allocation_find(c, allocation);
    for (int i = 0; a && i < a->part_count; i++)
        if (!strcmp(a->parts[i].agent->id, agent))
            return true;
    if (a)
        return false;
    struct db_rows *rows = DB_QUERY(c->reader, AGENT_HOLDS_ALLOCATION, allocation, agent);
    bool holds = db_next(rows) == 1;
    db_rows_close(rows);
    return holds;
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

static const struct core_pool_option *pool_option(const struct core *c, const char *name)
{
    for (size_t i = 0; i < c->options.pool_count; i++)
        if (!strcmp(c->options.pools[i].name, name))
            return &c->options.pools[i];
    return NULL;
}

static struct pool *pool_find(const struct core *c, const char *name)
{
    if (!name || !*name)
        name = DEFAULT_POOL;
    for (size_t i = 0; i < c->pool_count; i++)
        if (!strcmp(c->pools[i]->name, name))
            return c->pools[i];
    return NULL;
}

static int pool_max_user_priority(const struct core *c, const struct core_pool_option *option)
{
    int most = option ? option->max_user_priority : 0;
    most = most ? most : c->options.max_user_priority;
    return most ? most : SCHED_PRIORITY_DEFAULT;
}

struct pool *core_pool_get(struct core *c, const char *name)
{
    struct pool *found = pool_find(c, name);
    if (found)
        return found;
    if (!name || !*name)
        name = DEFAULT_POOL;
    const struct core_pool_option *option = pool_option(c, name);
    c->pools = xrealloc(c->pools, (c->pool_count + 1) * sizeof(struct pool *));
    struct pool *pool = xcalloc(1, sizeof *pool);
    pool->name = xstrdup(name);
    pool->configured = option || !c->pool_count; // the first pool is the default
    pool->policy = option && !option->as_default ? option->policy : c->options.scheduler;
    pool->max_user_priority = pool_max_user_priority(c, option);
    pool->preemption_timeout_us = option && option->preemption_timeout_us
                                      ? option->preemption_timeout_us
                                      : c->options.preemption_timeout_us;
    pool->handle = sched_pool_add(c->sched, pool->policy);
    c->pools[c->pool_count++] = pool;
    return pool;
}

int pool_default_priority(const struct pool *pool)
{
    return pool->max_user_priority > SCHED_PRIORITY_DEFAULT ? pool->max_user_priority
                                                            : SCHED_PRIORITY_DEFAULT;
}

bool core_pool_exists(const struct core *c, const struct pool *pool)
{
    bool exists = pool->configured;
    for (size_t i = 0; i < c->agent_count && !exists; i++)
        exists = c->agents[i]->pool == pool && c->agents[i]->version;
    return exists;
}

int core_pool_require(struct core *c, const char *name, struct pool **out, struct error *e)
{
    struct buf known;
    struct pool *pool = pool_find(c, name);
    if (pool && core_pool_exists(c, pool)) {
        *out = pool;
        return 0;
    }
    buf_init(&known, ERROR_TEXT_MAX / 2);
    for (size_t i = 0; i < c->pool_count; i++)
        if (core_pool_exists(c, c->pools[i]))
            buf_printf(&known, "%s%s", i ? ", " : "", c->pools[i]->name);
    int err = error_set(e, ERR_INVALID,
                        "there is no resource pool \"%.64s\": name one of %s, or start an agent "
                        "with --pool %.64s first",
                        name, buf_str(&known), name);
    buf_free(&known);
    return err;
}

int core_rack_number(struct core *c, const char *name)
{
    if (!*name)
        return SCHED_NONE;
    for (int i = 0; i < c->rack_count; i++)
        if (!strcmp(c->racks[i], name))
            return i;
    c->racks = xrealloc(c->racks, ((size_t)c->rack_count + 1) * sizeof *c->racks);
    c->racks[c->rack_count] = xstrdup(name);
    return c->rack_count++;
}

int64_t core_to_monotonic(const struct core *c, int64_t wall)
{
    int64_t ago = c->wall - wall;
    return ago > 0 ? c->now - ago : c->now;
}

int64_t core_to_wall(const struct core *c, int64_t monotonic)
{
    return c->wall + (monotonic - c->now);
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
    if (*out && (*out)->kind == KIND_EXPERIMENT)
        return 0;
    return error_not_found(e, "experiment", "%lld", (long long)id);
}

struct allocation *core_calling_allocation(struct core *c, const struct request *rq)
{
    struct allocation *a =
        *rq->principal.allocation_id ? core_allocation_find(c, rq->principal.allocation_id) : NULL;
    return a && a->state != ALLOCATION_QUEUED ? a : NULL;
}

int core_caller(struct core *c, struct request *rq, struct allocation **out, struct error *e)
{
    if (rq->principal.kind != PRINCIPAL_TASK)
        return error_set(e, ERR_FORBIDDEN, "only a running task may make this call");
    *out = core_calling_allocation(c, rq);
    return *out ? 0 : error_set(e, ERR_FORBIDDEN, "allocation has ended");
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
