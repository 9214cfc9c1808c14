#include "master/calls/submit.h"

#include <stdlib.h>
#include <string.h>

#include "api/checkpoint/checkpoint.h"
#include "api/config/mounts.h"
#include "base/arena.h"
#include "base/buf.h"
#include "base/limits.h"

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

// Members that do not train at the same time are compared with members that have ended.
static char *pbt_warning(const json_t *config, const struct pool *pool, int pool_slots)
{
    const json_t *searcher = jget(config, "searcher");
    int64_t members = jget_int(searcher, "population_size", 1);
    int64_t slots = min_slots_of_trial(config), most = pool_slots;
    int64_t max_slots = jget_int(jget(config, "resources"), "max_slots", 0);
    int64_t concurrent = jget_int(searcher, "max_concurrent_trials", 0);
    char *cause;
    if (strcmp(jget_string(searcher, "name", ""), "pbt") != 0 || slots < 1)
        return NULL;
    most = max_slots && max_slots < most ? max_slots : most;
    int64_t together = concurrent && concurrent < most / slots ? concurrent : most / slots;
    if (together >= members)
        return NULL;
    if (together == concurrent)
        cause = xasprintf("max_concurrent_trials is %lld", (long long)concurrent);
    else if (most == max_slots)
        cause = xasprintf("resources.max_slots is %lld", (long long)max_slots);
    else
        cause = xasprintf("resource pool %s has %d slots", pool->name, pool_slots);
    char *text = xasprintf(
        "searcher.population_size: the %lld members need %lld slots to train at the same time, and "
        "%s, so at most %lld train together; the others start when these end, so "
        "few members are compared: lower population_size%s, or add slots",
        (long long)members, (long long)(members * slots), cause, (long long)together,
        slots > 1 ? " or slots_per_trial" : "");
    free(cause);
    return text;
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
    char *warning = search_warning(config);
    return warning ? warning : pbt_warning(config, pool, view.slots);
}

// --- one process for several slots ---------------------------------------------------------------

static bool is_python(const char *word, size_t len)
{
    for (size_t i = len; i-- > 0;)
        if (word[i] == '/') {
            word += i + 1;
            len -= i + 1;
            break;
        }
    return len >= 6 && !strncmp(word, "python", 6) && strspn(word + 6, "0123456789.") >= len - 6;
}

// Whether a shell line runs one Python program by itself: "A=1 python3 -u train.py --lr 1". A
// module (-m) may be a launcher, and so may a program of another language.
static bool is_one_python_program(const char *line)
{
    bool python = false;
    if (strpbrk(line, ";&|`$(\n"))
        return false;
    for (size_t len; *line; line += len) {
        line += strspn(line, " ");
        len = strcspn(line, " ");
        if (!python && is_python(line, len))
            python = true;
        else if (!python && !memchr(line, '=', len))
            return false;
        else if (python && *line != '-')
            return len > 3 && !strncmp(line + len - 3, ".py", 3);
        else if (python && (len < 2 || line[1] == 'm' || line[1] == 'c'))
            return false;
    }
    return false;
}

char *feasibility_launch_warning(const json_t *config)
{
    const json_t *entrypoint = jget(config, "entrypoint");
    int64_t slots = jget_int(jget(config, "resources"), "slots_per_trial", 1);
    struct buf line;
    size_t i;
    json_t *word;
    buf_init(&line, LIMIT_CONFIG_COMPLETE);
    buf_puts(&line, json_is_string(entrypoint) ? json_string_value(entrypoint) : "");
    json_array_foreach((json_t *)entrypoint, i, word)
        buf_printf(&line, "%s%s", i ? " " : "", json_string_value(word));
    bool warns = slots > 1 && is_one_python_program(buf_str(&line));
    buf_free(&line);
    return warns
               ? xasprintf(
                     "entrypoint: a trial has %lld slots, but only one process starts on each "
                     "machine; unless it uses all slots there, add launch: per_slot (a process for "
                     "each slot) or start it with torchrun. launch: per_machine removes this "
                     "warning",
                     (long long)slots)
               : NULL;
}
