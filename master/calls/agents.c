// Agents and slots: snapshots for people, and the settings of operators.
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/arena.h"
#include "base/clock.h"
#include "base/limits.h"
#include "base/text/json.h"
#include "master/calls/module.h"
#include "master/calls/snapshots.h"
#include "master/lifecycle/lifecycle.h"

// --- snapshots -----------------------------------------------------------------------------------

void container_copy(struct request *rq, const struct part *p, const json_t *devices,
                    struct container_snapshot *out)
{
    char id[UUID_TEXT];
    const json_t **own = arena_alloc(&rq->arena, (size_t)p->slot_count * sizeof *own);
    for (int i = 0; i < p->slot_count; i++) {
        size_t slot = (size_t)p->slots[i];
        own[i] = devices ? json_array_get(devices, slot)
                         : request_copy_json(rq, json_array_get(p->agent->slots, slot));
    }
    size_t bytes = (size_t)p->slot_count * sizeof *p->slots;
    int *slots = arena_alloc(&rq->arena, bytes);
    if (bytes)
        memcpy(slots, p->slots, bytes);
    *out = (struct container_snapshot){
        .id = arena_strdup(&rq->arena, launch_container(p, id)),
        .task_id = arena_strdup(&rq->arena, p->allocation->trial->task_id),
        .allocation_id = arena_strdup(&rq->arena, p->allocation->id),
        .agent_id = arena_strdup(&rq->arena, p->agent->id),
        .state = p->state,
        .devices = own,
        .slots = slots,
        .slot_count = p->slot_count,
    };
}

// The first container on a slot is shown as the one that holds it.
static void copy_containers(struct request *rq, const struct agent *g, struct slot_snapshot *slots,
                            struct agent_snapshot *out)
{
    int count = 0;
    for (const struct part *p = g->parts; p; p = p->next_on_agent)
        count++;
    struct container_snapshot *items = arena_alloc(&rq->arena, (size_t)count * sizeof *items);
    out->containers = items;
    for (const struct part *p = g->parts; p; p = p->next_on_agent) {
        struct container_snapshot *item = &items[out->container_count++];
        container_copy(rq, p, out->devices, item);
        for (int i = 0; i < p->slot_count; i++)
            if (p->slots[i] < g->slot_count && !slots[p->slots[i]].container)
                slots[p->slots[i]].container = item;
    }
}

// As in Determined, an agent whose connection has broken is shown as draining until it is back.
static void copy_agent(struct request *rq, const struct agent *g, struct agent_snapshot *out)
{
    struct arena *arena = &rq->arena;
    bool there = g->state == AGENT_CONNECTED && !g->unreachable;
    struct slot_snapshot *slots = arena_alloc(arena, (size_t)g->slot_count * sizeof *slots);
    for (int i = 0; i < g->slot_count; i++) {
        slots[i].enabled = there && g->enabled && agent_slot_usable(g, i);
        slots[i].draining = !there || g->draining || g->slot_setting[i] == SLOT_DRAINING;
        slots[i].fault_overruled = agent_fault_is_overruled(g, i);
    }
    *out = (struct agent_snapshot){
        .id = arena_strdup(arena, g->id),
        .pool = arena_strdup(arena, g->pool->name),
        .address = arena_strdup(arena, g->address),
        .version = arena_strdup(arena, g->version),
        .hostname = arena_strdup(arena, g->hostname),
        .rack = arena_strdup(arena, g->rack),
        .registered_at = g->registered_at,
        .heard_at = g->heard_at,
        .enabled = there && g->enabled,
        .draining = !there || g->draining,
        .connected = g->state == AGENT_CONNECTED,
        .lost = g->state == AGENT_LOST,
        .devices = request_copy_json(rq, g->slots),
        .use = g->state == AGENT_CONNECTED ? request_copy_json(rq, jget(g->utilization, "slots"))
                                           : NULL,
        .ran = request_copy_json(rq, g->lost_runs),
        .slots = slots,
        .slot_count = g->slot_count,
    };
    copy_containers(rq, g, slots, out);
}

static int answer_agent(struct request *rq, const struct agent *g)
{
    struct agents_snapshot *result = arena_alloc(&rq->arena, sizeof *result);
    struct agent_snapshot *item = arena_alloc(&rq->arena, sizeof *item);
    copy_agent(rq, g, item);
    item->protections = request_copy_json(rq, g->protections);
    item->limits = request_copy_json(rq, g->limits);
    *result = (struct agents_snapshot){.page = {.shown = 1, .total = 1}, .items = item};
    rq->result = result;
    return 0;
}

static int answer_slot(struct request *rq, const struct agent *g, int64_t slot)
{
    rq->id = slot;
    return answer_agent(rq, g);
}

// --- reads ---------------------------------------------------------------------------------------

int page_read(struct request *rq, int64_t total, struct page_snapshot *out, struct error *e)
{
    *out = (struct page_snapshot){.total = total};
    int err = request_query_int(rq, "offset", 0, &out->offset, e);
    if (!err)
        err = request_query_int(rq, "limit", 0, &out->limit, e);
    if (out->offset < 0) // from the end
        out->offset = out->offset + total > 0 ? out->offset + total : 0;
    if (out->limit < 0)
        out->limit = 0;
    int64_t left = out->offset < total ? total - out->offset : 0;
    out->shown = out->limit && out->limit < left ? out->limit : left;
    return err;
}

static const int64_t LOST_US = (int64_t)LIMIT_LOST_AGENT_H * 3600 * 1000000;

// An agent is listed while it is connected and during its reconnect time. With lost=true, agents
// that were given up during the last LIMIT_LOST_AGENT_H hours are listed, too.
static bool is_listed(const struct core *c, const struct agent *g, bool lost)
{
    if (g->state == AGENT_LOST)
        return g->version && lost && g->lost_at > c->wall - LOST_US;
    return g->version;
}

typedef int agent_order(const void *a, const void *b); // of two pointers to agents

static int by_id(const void *a, const void *b)
{
    const struct agent *const *x = a, *const *y = b;
    return strcmp((*x)->id, (*y)->id);
}

static int by_time(const void *a, const void *b)
{
    const struct agent *const *x = a, *const *y = b;
    int64_t one = (*x)->registered_at, other = (*y)->registered_at;
    return one == other ? by_id(a, b) : one < other ? -1 : 1;
}

static int read_sort(struct request *rq, agent_order **order, struct error *e)
{
    static const struct {
        const char *name;
        agent_order *order;
    } orders[] = {{"", by_id},
                  {"SORT_BY_UNSPECIFIED", by_id},
                  {"SORT_BY_ID", by_id},
                  {"SORT_BY_TIME", by_time}};
    const char *by = rq->query(rq, "sortBy");
    for (size_t i = 0; i < sizeof orders / sizeof *orders; i++)
        if (!strcmp(by ? by : "", orders[i].name)) {
            *order = orders[i].order;
            return 0;
        }
    return error_set(e, ERR_INVALID,
                     "query parameter sortBy: agents cannot be sorted by \"%.64s\", only by "
                     "SORT_BY_ID and SORT_BY_TIME",
                     by);
}

int core_agents(struct core *c, struct request *rq, struct error *e)
{
    const char *value = rq->query(rq, "lost");
    bool lost = value && (!strcasecmp(value, "true") || !strcmp(value, "1")), down;
    struct page_snapshot page;
    agent_order *order = by_id;
    struct agent **listed = arena_alloc(&rq->arena, (c->agent_count + 1) * sizeof *listed);
    int64_t total = 0;
    for (size_t i = 0; i < c->agent_count; i++)
        if (is_listed(c, c->agents[i], lost))
            listed[total++] = c->agents[i];
    int err = read_sort(rq, &order, e);
    err = err ? err : request_query_order(rq, &down, e);
    if (!err)
        err = page_read(rq, total, &page, e);
    if (err)
        return err;
    qsort(listed, (size_t)total, sizeof *listed, order);
    struct agents_snapshot *result = arena_alloc(&rq->arena, sizeof *result);
    struct agent_snapshot *items = arena_alloc(&rq->arena, (size_t)page.shown * sizeof *items);
    for (int64_t i = 0; !err && i < page.shown; i++) {
        int64_t at = page.offset + i;
        copy_agent(rq, listed[down ? total - 1 - at : at], &items[i]);
        err = request_check_result(rq, e);
    }
    *result = (struct agents_snapshot){.page = page, .items = items};
    rq->result = result;
    return err;
}

static int find_agent(struct core *c, const struct request *rq, struct agent **out, struct error *e)
{
    *out = core_agent_find(c, rq->params[0]);
    if (*out && (*out)->version)
        return 0;
    return error_not_found(e, "agent", "%.64s", rq->params[0]);
}

static int find_slot(struct core *c, struct request *rq, struct agent **g, int64_t *slot,
                     struct error *e)
{
    int err = find_agent(c, rq, g, e);
    if (!err)
        err = request_param_int(rq, 1, slot, e);
    if (!err && (*slot < 0 || *slot >= (*g)->slot_count))
        err =
            error_set(e, ERR_NOT_FOUND, "slot '%lld' not found; the slots of agent %s are 0 to %d",
                      (long long)*slot, (*g)->id, (*g)->slot_count - 1);
    return err;
}

int core_agent(struct core *c, struct request *rq, struct error *e)
{
    struct agent *g;
    int err = find_agent(c, rq, &g, e);
    return err ? err : answer_agent(rq, g);
}

int core_slots(struct core *c, struct request *rq, struct error *e)
{
    return core_agent(c, rq, e);
}

int core_slot(struct core *c, struct request *rq, struct error *e)
{
    struct agent *g;
    int64_t slot;
    int err = find_slot(c, rq, &g, &slot, e);
    return err ? err : answer_slot(rq, g, slot);
}

// --- settings of operators -----------------------------------------------------------------------

static int check_operator(const struct request *rq, struct error *e)
{
    if (rq->principal.kind == PRINCIPAL_USER && rq->principal.admin)
        return 0;
    return error_set(e, ERR_FORBIDDEN, "only administrators enable and disable agents and slots");
}

// The task ends at once, and its trial starts again elsewhere.
static void end_on_disabled(struct core *c, const struct part *p, const char *what)
{
    char span[32];
    struct allocation *a = p->allocation;
    if (p->state == PART_EXITED || a->state == ALLOCATION_TERMINATING)
        return;
    char *reason = xasprintf("%s was disabled", what);
    char *text = xasprintf("%s: SIGTERM now, SIGKILL after %s", reason,
                           duration_format(c->options.kill_grace_us, span, sizeof span));
    CORE_DISPATCH(c, trial_message, c, a->trial, a->id, "INFO", text);
    allocation_kill(c, a, OUTCOME_KILLED, reason);
    free(text);
    free(reason);
}

// A disabled agent without `drain` ends its tasks; with `drain` they may run to their end.
static int set_agent_enabled(struct core *c, struct request *rq, bool enabled, struct error *e)
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
    STORE(c, AGENT_SET_ENABLED, enabled, drain, g->id);
    change_mark(c, EVENT_AGENT, 0, 0, g->id);
    char *what = xasprintf("agent %s", g->id);
    for (const struct part *p = enabled || drain ? NULL : g->parts; p; p = p->next_on_agent)
        end_on_disabled(c, p, what);
    free(what);
    agent_refresh(c, g);
    return answer_agent(rq, g);
}

int core_agent_enable(struct core *c, struct request *rq, struct error *e)
{
    return set_agent_enabled(c, rq, true, e);
}

int core_agent_disable(struct core *c, struct request *rq, struct error *e)
{
    return set_agent_enabled(c, rq, false, e);
}

// Forgets a lost agent and its settings: an agent that comes with the same id later is a new one.
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
        return error_set(
            e, ERR_CONFLICT,
            "agent %s is not lost yet, and its tasks may still run; try again in a moment", g->id);
    agent_forget(g);
    STORE(c, AGENT_DELETE, g->id);
    change_mark(c, EVENT_AGENT, 0, 0, g->id);
    return 0;
}

static int set_slot_enabled(struct core *c, struct request *rq, bool enabled, struct error *e)
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
    g->slot_setting[slot] = enabled ? SLOT_ENABLED : drain ? SLOT_DRAINING : SLOT_DISABLED;
    if (enabled && agent_slot_fault(g, (int)slot)) {
        agent_overrule_fault(g, (int)slot);
        agent_store(c, g);
    }
    char *disabled = agent_disabled_slots(g);
    STORE(c, AGENT_SET_DISABLED_SLOTS, disabled, g->id);
    change_mark(c, EVENT_AGENT, 0, 0, g->id);
    free(disabled);
    char *what = xasprintf("slot %lld of agent %s", (long long)slot, g->id);
    if (p && !enabled && !drain)
        end_on_disabled(c, p, what);
    free(what);
    agent_refresh(c, g);
    return answer_slot(rq, g, slot);
}

int core_slot_enable(struct core *c, struct request *rq, struct error *e)
{
    return set_slot_enabled(c, rq, true, e);
}

int core_slot_disable(struct core *c, struct request *rq, struct error *e)
{
    return set_slot_enabled(c, rq, false, e);
}
