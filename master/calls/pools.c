// Agents, slots and pools as people see them, and what operators set.
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "api/wire.h"
#include "base/arena.h"
#include "base/clock.h"
#include "base/limits.h"
#include "base/text/json.h"
#include "master/calls/module.h"
#include "master/calls/queue_moves.h"
#include "master/lifecycle/lifecycle.h"

// --- slots ---------------------------------------------------------------------------------------

static const char *const container_states[] = {[PART_ASSIGNED] = "STATE_ASSIGNED",
                                               [PART_STARTING] = "STATE_STARTING",
                                               [PART_RUNNING] = "STATE_RUNNING",
                                               [PART_EXITED] = "STATE_TERMINATED"};

void agent_write_device(struct json_writer *w, const struct agent *g, int slot)
{
    static const char *const facts[] = {"memory", "pciBusId", "driver", "nvlinkGroup", "numaGroup"};
    const json_t *device = json_array_get(g->slots, (size_t)slot);
    jw_object(w);
    jw_kv_int(w, "id", slot);
    jw_kv_string(w, "brand", jget_string(device, "name", ""));
    jw_kv_string(w, "uuid", jget_string(device, "uuid", ""));
    jw_kv_string(w, "type", wire_name(WIRE_DEVICE_TYPE, jget_string(device, "type", "CPU")));
    for (size_t i = 0; i < sizeof facts / sizeof *facts; i++)
        if (jget(device, facts[i])) {
            jw_key(w, facts[i]);
            jw_json(w, jget(device, facts[i]));
        }
    jw_object_end(w);
}

static void write_container(struct json_writer *w, const struct part *p)
{
    char id[UUID_TEXT];
    jw_object(w);
    jw_kv_string(w, "parent", p->allocation->trial->task_id);
    jw_kv_string(w, "id", launch_container(p, id));
    jw_kv_string(w, "state", container_states[p->state]);
    jw_key(w, "devices");
    jw_array(w);
    for (int i = 0; i < p->slot_count; i++)
        agent_write_device(w, p->agent, p->slots[i]);
    jw_array_end(w);
    jw_kv_string(w, "allocationId", p->allocation->id);
    jw_object_end(w);
}

static void write_slot(struct json_writer *w, const struct agent *g, int slot)
{
    char id[16];
    const struct part *p = agent_part_on_slot(g, slot);
    snprintf(id, sizeof id, "%d", slot);
    jw_object(w);
    jw_kv_string(w, "id", id);
    jw_key(w, "device");
    agent_write_device(w, g, slot);
    jw_kv_bool(w, "enabled", g->enabled && agent_slot_usable(g, slot));
    jw_key(w, "container");
    if (p)
        write_container(w, p);
    else
        jw_null(w);
    jw_kv_bool(w, "draining", g->draining || g->slot_use[slot] == SLOT_DRAINING);
    agent_write_fault(w, g, slot);
    agent_write_use(w, g, slot);
    jw_object_end(w);
}

// --- agents --------------------------------------------------------------------------------------

// What a slot is counted by: its type, or its brand.
static const char *slot_kind(const struct agent *g, int slot, bool by_type)
{
    const json_t *device = json_array_get(g->slots, (size_t)slot);
    return by_type ? wire_name(WIRE_DEVICE_TYPE, jget_string(device, "type", "CPU"))
                   : jget_string(device, "name", "");
}

// The slots like slot `first`.
static void write_device_stats(struct json_writer *w, const struct agent *g, int first,
                               bool by_type)
{
    int64_t total = 0, disabled = 0, draining = 0, states[PART_EXITED + 1] = {0};
    for (int i = first; i < g->slot_count; i++) {
        if (strcmp(slot_kind(g, i, by_type), slot_kind(g, first, by_type)))
            continue;
        const struct part *p = agent_part_on_slot(g, i);
        total++;
        disabled += !g->enabled || !agent_slot_usable(g, i);
        draining += g->draining || g->slot_use[i] == SLOT_DRAINING;
        if (p)
            states[p->state]++;
    }
    jw_object(w);
    jw_key(w, "states");
    jw_object(w);
    for (int i = 0; i <= PART_EXITED; i++)
        if (states[i])
            jw_kv_int(w, container_states[i], states[i]);
    jw_object_end(w);
    jw_kv_int(w, "total", total);
    jw_kv_int(w, "disabled", disabled);
    jw_kv_int(w, "draining", draining);
    jw_object_end(w);
}

static void write_stats(struct json_writer *w, const char *key, const struct agent *g, bool by_type)
{
    jw_key(w, key);
    jw_object(w);
    for (int i = 0, earlier; i < g->slot_count; i++) {
        const char *kind = slot_kind(g, i, by_type);
        for (earlier = 0; earlier < i; earlier++)
            if (!strcmp(slot_kind(g, earlier, by_type), kind))
                break;
        if (earlier < i)
            continue; // counted with that one
        jw_key(w, kind);
        write_device_stats(w, g, i, by_type);
    }
    jw_object_end(w);
}

static void write_agent(struct json_writer *w, const struct agent *g)
{
    char time[CLOCK_RFC3339_MAX], id[UUID_TEXT];
    jw_object(w);
    jw_kv_string(w, "id", g->id);
    jw_kv_string(w, "registeredTime", clock_format(g->registered_at, time));
    jw_key(w, "slots");
    jw_object(w);
    for (int i = 0; i < g->slot_count; i++) {
        char key[16];
        snprintf(key, sizeof key, "%d", i);
        jw_key(w, key);
        write_slot(w, g, i);
    }
    jw_object_end(w);
    jw_key(w, "containers");
    jw_object(w);
    for (const struct part *p = g->parts; p; p = p->next_on_agent) {
        jw_key(w, launch_container(p, id));
        write_container(w, p);
    }
    jw_object_end(w);
    jw_kv_string(w, "label", "");
    jw_key(w, "resourcePools");
    jw_array(w);
    jw_string(w, g->pool->name);
    jw_array_end(w);
    jw_key(w, "addresses");
    jw_array(w);
    jw_string(w, g->address);
    jw_array_end(w);
    jw_kv_bool(w, "enabled", g->enabled);
    jw_kv_bool(w, "draining", g->draining);
    jw_kv_string(w, "version", g->version);
    jw_kv_string(w, "hostname", g->hostname);
    jw_kv_string(w, "rack", g->rack);
    jw_kv_bool(w, "connected", g->state == AGENT_CONNECTED);
    jw_kv_bool(w, "lost", g->state == AGENT_LOST);
    jw_kv_string(w, "lastSeen", clock_format(g->heard_at, time));
    if (g->ran) {
        jw_key(w, "ran");
        jw_json(w, g->ran);
    }
    jw_key(w, "slotStats");
    jw_object(w);
    write_stats(w, "typeStats", g, true);
    write_stats(w, "brandStats", g, false);
    jw_object_end(w);
    jw_object_end(w);
}

// The part of a list that the caller asked for. `total` is known before the first row.
struct page {
    int64_t offset, limit, total; // limit 0: all
    int64_t seen, shown;
};

static int page_read(struct request *rq, struct page *p, struct error *e)
{
    int err = request_query_int(rq, "offset", 0, &p->offset, e);
    if (!err)
        err = request_query_int(rq, "limit", 0, &p->limit, e);
    if (p->offset < 0) // from the end
        p->offset = p->offset + p->total > 0 ? p->offset + p->total : 0;
    if (p->limit < 0)
        p->limit = 0;
    return err;
}

static bool page_takes(struct page *p)
{
    bool takes = p->seen++ >= p->offset && (!p->limit || p->shown < p->limit);
    p->shown += takes;
    return takes;
}

static const int64_t LOST_US = (int64_t)LIMIT_LOST_AGENT_H * 3600 * 1000000;

// Those that are connected or were a moment ago; and for people, who look here when something is
// gone, those that were given up lately.
static bool is_shown(const struct core *c, const struct agent *g, bool lost)
{
    if (g->state == AGENT_LOST)
        return g->version && lost && g->lost_at > c->wall - LOST_US;
    return g->version;
}

int core_agents(struct core *c, struct request *rq, struct error *e)
{
    struct json_writer w;
    struct page page = {0};
    const char *also = rq->query(rq, "lost");
    bool lost = also && (!strcasecmp(also, "true") || !strcmp(also, "1"));
    for (size_t i = 0; i < c->agent_count; i++)
        page.total += is_shown(c, c->agents[i], lost);
    int err = page_read(rq, &page, e);
    if (err)
        return err;
    jw_init(&w, &rq->answer);
    jw_object(&w);
    jw_key(&w, "agents");
    jw_array(&w);
    for (size_t i = 0; i < c->agent_count; i++)
        if (is_shown(c, c->agents[i], lost) && page_takes(&page))
            write_agent(&w, c->agents[i]);
    jw_array_end(&w);
    wire_write_pagination(&w, page.offset, page.limit, page.shown, page.total);
    jw_object_end(&w);
    return 0;
}

static int find_agent(struct core *c, const struct request *rq, struct agent **out, struct error *e)
{
    *out = core_agent_find(c, rq->params[0]);
    if (*out && (*out)->version)
        return 0;
    return error_set(e, ERR_NOT_FOUND, "there is no agent %.64s", rq->params[0]);
}

static int find_slot(struct core *c, struct request *rq, struct agent **g, int64_t *slot,
                     struct error *e)
{
    int err = find_agent(c, rq, g, e);
    if (!err)
        err = request_param_int(rq, 1, slot, e);
    if (!err && (*slot < 0 || *slot >= (*g)->slot_count))
        err = error_set(e, ERR_NOT_FOUND, "agent %s has no slot %lld; it has 0 to %d", (*g)->id,
                        (long long)*slot, (*g)->slot_count - 1);
    return err;
}

static int answer_agent(struct request *rq, const struct agent *g)
{
    struct json_writer w;
    jw_init(&w, &rq->answer);
    jw_object(&w);
    jw_key(&w, "agent");
    write_agent(&w, g);
    jw_object_end(&w);
    return 0;
}

static int answer_slot(struct request *rq, const struct agent *g, int slot)
{
    struct json_writer w;
    jw_init(&w, &rq->answer);
    jw_object(&w);
    jw_key(&w, "slot");
    write_slot(&w, g, slot);
    jw_object_end(&w);
    return 0;
}

int core_agent(struct core *c, struct request *rq, struct error *e)
{
    struct agent *g;
    int err = find_agent(c, rq, &g, e);
    return err ? err : answer_agent(rq, g);
}

int core_slots(struct core *c, struct request *rq, struct error *e)
{
    struct agent *g;
    struct json_writer w;
    int err = find_agent(c, rq, &g, e);
    if (err)
        return err;
    jw_init(&w, &rq->answer);
    jw_object(&w);
    jw_key(&w, "slots");
    jw_array(&w);
    for (int i = 0; i < g->slot_count; i++)
        write_slot(&w, g, i);
    jw_array_end(&w);
    jw_object_end(&w);
    return 0;
}

int core_slot(struct core *c, struct request *rq, struct error *e)
{
    struct agent *g;
    int64_t slot;
    int err = find_slot(c, rq, &g, &slot, e);
    return err ? err : answer_slot(rq, g, (int)slot);
}

// --- what operators set --------------------------------------------------------------------------

static int check_operator(const struct request *rq, struct error *e)
{
    if (rq->principal.kind == PRINCIPAL_USER && rq->principal.admin)
        return 0;
    return error_set(e, ERR_FORBIDDEN, "only administrators enable and disable agents and slots");
}

// Without `drain` what runs there is asked to save its work and go elsewhere; with it, it may end.
static void clear(struct core *c, struct agent *g)
{
    for (struct part *p = g->parts, *next; p; p = next) {
        next = p->next_on_agent;
        allocation_event(c, p->allocation, ALLOCATION_EV_DRAIN);
    }
}

static int set_agent(struct core *c, struct request *rq, bool enabled, struct error *e)
{
    struct agent *g;
    int err = check_operator(rq, e);
    if (!err)
        err = find_agent(c, rq, &g, e);
    if (err)
        return err;
    bool drain = !enabled && jget_bool(rq->body, "drain", false);
    g->enabled = enabled;
    g->draining = drain;
    STORE(c, AGENT_SET_ENABLED, "iis", (int64_t)enabled, (int64_t)drain, g->id);
    core_event(c, EVENT_AGENT, 0, 0, g->id);
    if (!enabled && !drain)
        clear(c, g);
    agent_refresh(c, g);
    return answer_agent(rq, g);
}

int core_agent_enable(struct core *c, struct request *rq, struct error *e)
{
    return set_agent(c, rq, true, e);
}

int core_agent_disable(struct core *c, struct request *rq, struct error *e)
{
    return set_agent(c, rq, false, e);
}

// Nothing of it stays, so one of its name that comes is a new one.
int core_agent_forget(struct core *c, struct request *rq, struct error *e)
{
    struct agent *g;
    int err = check_operator(rq, e);
    if (!err)
        err = find_agent(c, rq, &g, e);
    if (err)
        return err;
    if (g->state == AGENT_CONNECTED)
        return error_set(e, ERR_CONFLICT, "agent %s is connected: stop it first", g->id);
    if (g->state == AGENT_AWAY)
        return error_set(e, ERR_CONFLICT,
                         "agent %s is not given up yet, its tasks may still run: try again in a "
                         "moment",
                         g->id);
    agent_forget(g);
    STORE(c, AGENT_DELETE, "s", g->id);
    core_event(c, EVENT_AGENT, 0, 0, g->id);
    return 0;
}

static int set_slot(struct core *c, struct request *rq, bool enabled, struct error *e)
{
    struct agent *g;
    int64_t slot;
    int err = check_operator(rq, e);
    if (!err)
        err = find_slot(c, rq, &g, &slot, e);
    if (err)
        return err;
    const struct part *p = agent_part_on_slot(g, (int)slot);
    bool drain = jget_bool(rq->body, "drain", false);
    g->slot_use[slot] = enabled ? SLOT_USED : drain ? SLOT_DRAINING : SLOT_DISABLED;
    if (enabled && agent_slot_fault(g, (int)slot)) {
        agent_overrule(g, (int)slot);
        agent_store(c, g);
    }
    char *disabled = agent_disabled_slots(g);
    STORE(c, AGENT_SET_DISABLED_SLOTS, "ss", disabled, g->id);
    core_event(c, EVENT_AGENT, 0, 0, g->id);
    free(disabled);
    if (p && !enabled && !drain)
        allocation_event(c, p->allocation, ALLOCATION_EV_DRAIN);
    agent_refresh(c, g);
    return answer_slot(rq, g, (int)slot);
}

int core_slot_enable(struct core *c, struct request *rq, struct error *e)
{
    return set_slot(c, rq, true, e);
}

int core_slot_disable(struct core *c, struct request *rq, struct error *e)
{
    return set_slot(c, rq, false, e);
}

// --- pools ---------------------------------------------------------------------------------------

static const struct agent *first_agent(struct core *c, const struct pool *pool)
{
    for (size_t i = 0; i < c->agent_count; i++)
        if (c->agents[i]->pool == pool)
            return c->agents[i];
    return NULL;
}

// Those that are not heard now.
static int64_t away_agents(struct core *c, const struct pool *pool)
{
    int64_t count = 0;
    for (size_t i = 0; i < c->agent_count; i++)
        count += c->agents[i]->pool == pool && c->agents[i]->state != AGENT_CONNECTED;
    return count;
}

static const char *slot_type(const struct agent *g)
{
    return jget_string(g ? json_array_get(g->slots, 0) : NULL, "type", "CPU");
}

// Determined has no word for fifo.
static const char *scheduler_type(enum sched_policy policy)
{
    if (policy == SCHED_POLICY_FAIR_SHARE)
        return "SCHEDULER_TYPE_FAIR_SHARE";
    return policy == SCHED_POLICY_PRIORITY ? "SCHEDULER_TYPE_PRIORITY"
                                           : "SCHEDULER_TYPE_UNSPECIFIED";
}

static void write_details(struct json_writer *w, const struct pool *pool)
{
    jw_key(w, "details");
    jw_object(w);
    if (pool->policy == SCHED_POLICY_PRIORITY) {
        jw_key(w, "priorityScheduler");
        jw_object(w);
        jw_kv_bool(w, "preemption", true);
        jw_kv_int(w, "defaultPriority", pool_default_priority(pool));
        jw_object_end(w);
    }
    jw_object_end(w);
}

// The wire wants all of its keys; those of clouds and containers are empty here.
static void write_pool(struct core *c, struct json_writer *w, const struct pool *pool)
{
    static const char *const empty[] = {"location",
                                        "imageId",
                                        "instanceType",
                                        "masterUrl",
                                        "masterCertName",
                                        "startupScript",
                                        "containerStartupScript",
                                        "agentDockerNetwork",
                                        "agentDockerImage",
                                        "agentDockerRuntime",
                                        "agentFluentImage",
                                        "resourceManagerName",
                                        "clusterName",
                                        "accelerator"};
    static const char *const zero[] = {
        "auxContainersRunning", "minAgents",          "maxAgents",
        "slotsPerAgent",        "maxIdleAgentPeriod", "maxAgentStartingPeriod"};
    struct sched_pool_view view;
    bool is_default = !strcmp(pool->name, "default");
    sched_pool_inspect(c->sched, pool->handle, &view);
    jw_object(w);
    jw_kv_string(w, "name", pool->name);
    jw_kv_string(w, "description", "");
    jw_kv_string(w, "type", "RESOURCE_POOL_TYPE_STATIC");
    jw_kv_int(w, "numAgents", view.agents);
    jw_kv_int(w, "agentsAway", away_agents(c, pool));
    jw_kv_int(w, "slotsAvailable", view.slots);
    jw_kv_int(w, "slotsUsed", view.slots - view.free);
    jw_kv_string(w, "slotType", wire_name(WIRE_DEVICE_TYPE, slot_type(first_agent(c, pool))));
    jw_kv_int(w, "auxContainerCapacity", (int64_t)view.agents * SCHED_ZERO_SLOT_GANGS);
    jw_kv_int(w, "auxContainerCapacityPerAgent", SCHED_ZERO_SLOT_GANGS);
    jw_kv_bool(w, "defaultComputePool", is_default);
    jw_kv_bool(w, "defaultAuxPool", is_default);
    jw_kv_bool(w, "preemptible", pool->policy != SCHED_POLICY_FIFO);
    jw_kv_string(w, "schedulerType", scheduler_type(pool->policy));
    jw_kv_string(w, "scheduler", sched_policy_names[pool->policy]);
    jw_kv_int(w, "maxUserPriority", pool->max_user_priority);
    jw_kv_string(w, "schedulerFittingPolicy", "FITTING_POLICY_BEST");
    for (size_t i = 0; i < sizeof empty / sizeof *empty; i++)
        jw_kv_string(w, empty[i], "");
    for (size_t i = 0; i < sizeof zero / sizeof *zero; i++)
        jw_kv_int(w, zero[i], 0);
    jw_kv_raw(w, "resourceManagerMetadata", "{}");
    write_details(w, pool);
    jw_key(w, "stats");
    jw_object(w);
    jw_kv_int(w, "queuedCount", view.waiting);
    jw_kv_int(w, "scheduledCount", view.running);
    jw_object_end(w);
    jw_object_end(w);
}

// The default pool, those of the configuration, and those that have ever had an agent: a name that
// only an experiment asks for is no pool.
int core_resource_pools(struct core *c, struct request *rq, struct error *e)
{
    struct json_writer w;
    struct page page = {0};
    for (size_t i = 0; i < c->pool_count; i++)
        page.total += core_pool_exists(c, c->pools[i]);
    int err = page_read(rq, &page, e);
    if (err)
        return err;
    jw_init(&w, &rq->answer);
    jw_object(&w);
    jw_key(&w, "resourcePools");
    jw_array(&w);
    for (size_t i = 0; i < c->pool_count; i++)
        if (core_pool_exists(c, c->pools[i]) && page_takes(&page))
            write_pool(c, &w, c->pools[i]);
    jw_array_end(&w);
    wire_write_pagination(&w, page.offset, page.limit, page.shown, page.total);
    jw_object_end(&w);
    return 0;
}

// Every pool is there for every workspace; what each may use of one is said by its weight and
// slots.
int core_available_pools(struct core *c, struct request *rq, struct error *e)
{
    struct json_writer w;
    int64_t shown = 0;
    (void)e;
    jw_init(&w, &rq->answer);
    jw_object(&w);
    jw_key(&w, "resourcePools");
    jw_array(&w);
    for (size_t i = 0; i < c->pool_count; i++)
        if (core_pool_exists(c, c->pools[i])) {
            jw_string(&w, c->pools[i]->name);
            shown++;
        }
    jw_array_end(&w);
    wire_write_pagination(&w, 0, 0, shown, shown);
    jw_object_end(&w);
    return 0;
}

// No pool is bound to some workspaces alone.
int core_pool_bindings(struct core *c, struct request *rq, struct error *e)
{
    struct pool *pool;
    struct json_writer w;
    if (core_pool_known(c, rq->params[0], &pool, NULL))
        return error_set(e, ERR_NOT_FOUND, "there is no resource pool %.128s", rq->params[0]);
    jw_init(&w, &rq->answer);
    jw_object(&w);
    jw_kv_raw(&w, "workspaceIds", "[]");
    wire_write_pagination(&w, 0, 0, 0, 0);
    jw_object_end(&w);
    return 0;
}
