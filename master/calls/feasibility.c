#include "master/calls/submit.h"

#include <stdlib.h>

#include "api/checkpoint/checkpoint.h"
#include "api/config/mounts.h"
#include "base/arena.h"

static int64_t min_slots_of_trial(const json_t *config)
{
    const json_t *resources = jget(config, "resources");
    return jget_int(resources, "min_slots", jget_int(resources, "slots_per_trial", 1));
}

static int check_maximum(int64_t min_slots, int64_t maximum, const char *whose, const char *team,
                         struct error *e)
{
    if (!maximum || min_slots <= maximum)
        return 0;
    return error_set(
        e, ERR_INVALID,
        "resources.slots_per_trial: request unfulfillable: a trial needs %lld slots, and %s "
        "\"%.64s\" may never hold more than %lld: ask for fewer, or ask an administrator to raise "
        "that maximum",
        (long long)min_slots, whose, team, (long long)maximum);
}

int feasibility_check(struct core *c, const json_t *config, const struct workspace *ws,
                      int64_t user, struct error *e)
{
    struct pool *pool;
    int64_t min_slots = min_slots_of_trial(config);
    const struct member *m = id_map_find(&ws->members, user);
    const char *name = jget_string(jget(config, "resources"), "resource_pool", "");
    int err = core_pool_require(c, name, &pool, e);
    if (err)
        return error_prefix(e, "resources.resource_pool");
    err = check_maximum(min_slots, ws->max_slots, "workspace", ws->name, e);
    if (!err && m)
        err = check_maximum(min_slots, m->max_slots, "you in workspace", ws->name, e);
    return err;
}

// The fault of an agent that is connected, if there is one and each of them has one; else NULL.
static const struct agent *find_mount_fault(const struct core *c, const json_t *config)
{
    const char *name = jget_string(jget(config, "resources"), "resource_pool", "");
    const struct pool *pool = core_pool_get((struct core *)c, name);
    const struct agent *found = NULL;
    for (size_t i = 0; i < c->agent_count; i++) {
        const struct agent *g = c->agents[i];
        if (g->pool != pool || g->state != AGENT_CONNECTED)
            continue;
        if (!*g->mount_fault)
            return NULL;
        found = g;
    }
    return found;
}

int feasibility_check_storage(struct core *c, const json_t *config, struct error *e)
{
    const struct agent *g = shared_fs_needed(config) ? find_mount_fault(c, config) : NULL;
    const json_t *storage = jget(config, "checkpoint_storage");
    char *root = NULL;
    if (!g || checkpoint_root(storage, &root, e))
        return 0;
    error_set(
        e, ERR_INVALID,
        "checkpoint_storage: the program would write to " SHARED_FS_MOUNT
        ", and no agent of resource pool %s can show host_path there (agent %s: %.300s): write "
        "{type: directory, container_path: %.300s} instead",
        g->pool->name, g->id, g->mount_fault, root);
    free(root);
    return ERR_INVALID;
}

bool feasibility_ignores_mounts(struct core *c, const json_t *config)
{
    return bind_mounts_present(config) && find_mount_fault(c, config);
}

static int largest_agent(const struct core *c, const struct pool *pool)
{
    int largest = 0;
    for (size_t i = 0; i < c->agent_count; i++) {
        const struct agent *g = c->agents[i];
        if (g->pool == pool && g->state == AGENT_CONNECTED && g->enabled && g->slot_count > largest)
            largest = g->slot_count;
    }
    return largest;
}

char *feasibility_warning(struct core *c, const json_t *config)
{
    struct sched_pool_view view;
    const json_t *resources = jget(config, "resources");
    const struct pool *pool = core_pool_get(c, jget_string(resources, "resource_pool", ""));
    int min_slots = (int)min_slots_of_trial(config), largest = largest_agent(c, pool);
    sched_pool_inspect(c->sched, pool->handle, &view);
    if (!view.agents)
        return xasprintf("resource pool %s has no agent that is connected and enabled: the job "
                         "waits until there is one",
                         pool->name);
    if (min_slots > view.slots)
        return xasprintf(
            "a trial needs %d slots, and resource pool %s has %d in all: the job waits until "
            "more agents join",
            min_slots, pool->name, view.slots);
    if (jget_bool(resources, "is_single_node", false) && min_slots > largest)
        return xasprintf("a trial needs %d slots on one machine, and the largest machine of "
                         "resource pool %s has %d: the job waits until a larger one joins",
                         min_slots, pool->name, largest);
    return search_warning(config);
}
