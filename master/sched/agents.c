// Pools, agents and their slots.
#include "master/sched/internal.h"

#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/log.h"

const char *const sched_policy_names[SCHED_POLICIES] = {"fair_share", "priority", "fifo", "easy"};

const struct sched_rules sched_default_rules = {
    .levels = {1 * HOUR_US, 10 * HOUR_US, 100 * HOUR_US},
    .min_runtime = HOUR_US / 12,
    .overdue_large = 30 * HOUR_US,
    .overdue = 120 * HOUR_US,
    .overdue_percent = 50,
    .fast_percent = 10,
    .debt_quantum = HOUR_US,
    .grow_after = HOUR_US / 6,
};

struct sched *sched_new(const struct sched_rules *rules)
{
    struct sched *s = xcalloc(1, sizeof *s);
    s->rules = rules ? *rules : sched_default_rules;
    struct sched_team_spec everybody = {.weight = SCHED_WEIGHT_ONE};
    must(sched_team_add(s, SCHED_NONE, &everybody) == SCHED_ROOT);
    return s;
}

static void free_pool(struct sched_pool *p)
{
    for (int i = 0; i < p->share_cap; i++)
        free(p->shares[i].queue.items);
    free(p->shares);
    free(p->agents.items);
    free(p->running.items);
    free(p->slotless.items);
    free(p->marked.items);
}

static void free_slots(struct sched_agent *a)
{
    free(a->slots);
    free(a->near_slots);
}

void sched_free(struct sched *s)
{
    if (!s)
        return;
    for (int i = 0; i < s->pool_count; i++)
        free_pool(&s->pools[i]);
    for (int i = 0; i < s->agent_handles.count; i++)
        free_slots(&s->agents[i]);
    free(s->pools);
    free(s->agents);
    free(s->teams);
    free(s->jobs);
    free(s->gangs);
    free(s->agent_handles.free);
    free(s->team_handles.free);
    free(s->job_handles.free);
    free(s->gang_handles.free);
    free(s->commands);
    free(s->places);
    free(s->scratch);
    free(s->heap);
    free(s->victims);
    free(s->pieces);
    free(s->rack_slots);
    free(s);
}

// A pass allocates no memory, so there is always room for one command per gang, all slots, and a
// sort.
void reserve_for_pass(struct sched *s)
{
    size_t gangs = (size_t)s->gang_handles.count, slots = (size_t)s->slot_count;
    if (gangs > s->command_cap) {
        s->command_cap = 2 * gangs;
        s->commands = xrealloc(s->commands, s->command_cap * sizeof *s->commands);
        s->scratch = xrealloc(s->scratch, s->command_cap * sizeof *s->scratch);
        s->victims = xrealloc(s->victims, s->command_cap * sizeof *s->victims);
    }
    size_t heap_cap = s->command_cap + ENTITLEMENTS * (size_t)s->team_handles.cap;
    if (heap_cap > s->heap_cap) {
        s->heap_cap = heap_cap;
        s->heap = xrealloc(s->heap, heap_cap * sizeof *s->heap);
    }
    for (int i = 0; i < s->pool_count; i++) {
        struct handle_list *marked = &s->pools[i].marked;
        if (s->command_cap <= marked->cap)
            continue;
        marked->cap = s->command_cap;
        marked->items = xrealloc(marked->items, marked->cap * sizeof *marked->items);
    }
    if (gangs + 2 * slots > s->place_cap) { // elastic gangs are written twice
        s->place_cap = 2 * (gangs + 2 * slots);
        s->places = xrealloc(s->places, s->place_cap * sizeof *s->places);
    }
}

// --- pools ---------------------------------------------------------------------------------------

// Makes room for a share of every team in the pool.
void reserve_shares(struct sched *s, struct sched_pool *p)
{
    int cap = s->team_handles.cap;
    if (cap <= p->share_cap)
        return;
    p->shares = xrealloc(p->shares, (size_t)cap * sizeof *p->shares);
    memset(p->shares + p->share_cap, 0, (size_t)(cap - p->share_cap) * sizeof *p->shares);
    p->share_cap = cap;
}

int sched_pool_add(struct sched *s, enum sched_policy policy)
{
    s->pools = xrealloc(s->pools, ((size_t)s->pool_count + 1) * sizeof *s->pools);
    struct sched_pool *p = &s->pools[s->pool_count];
    *p = (struct sched_pool){.policy = policy, .next = INT64_MAX};
    reserve_shares(s, p);
    return s->pool_count++;
}

void sched_pool_set(struct sched *s, int pool, enum sched_policy policy)
{
    must(pool >= 0 && pool < s->pool_count);
    for (int i = 0; i < s->gang_handles.count; i++)
        if (s->gangs[i].used && s->gangs[i].pool == pool)
            gang_unlink(s, i);
    s->pools[pool].policy = policy;
    for (int i = 0; i < s->gang_handles.count; i++)
        if (s->gangs[i].used && s->gangs[i].pool == pool)
            gang_link(s, i);
}

// --- agents --------------------------------------------------------------------------------------

// Makes room for the searches of a pass.
static void reserve_for_search(struct sched *s, int rack)
{
    s->pieces = xrealloc(s->pieces, (size_t)s->agent_handles.cap * sizeof *s->pieces);
    if (rack < s->rack_count)
        return;
    s->rack_count = rack + 1;
    s->rack_slots = xrealloc(s->rack_slots, (size_t)s->rack_count * sizeof *s->rack_slots);
}

int sched_agent_add(struct sched *s, int pool, int slots, int rack)
{
    must(pool >= 0 && pool < s->pool_count && slots >= 0 && rack >= SCHED_NONE);
    int handle = handle_take(&s->agent_handles, (void **)&s->agents, sizeof *s->agents);
    reserve_for_search(s, rack);
    struct sched_agent *a = &s->agents[handle];
    *a = (struct sched_agent){.used = true,
                              .pool = pool,
                              .rack = rack,
                              .slot_count = slots,
                              .enabled = slots,
                              .free = slots,
                              .reserved_for = SCHED_NONE,
                              .slots = xcalloc((size_t)slots + 1, sizeof *a->slots)};
    for (int i = 0; i < slots; i++)
        a->slots[i] = (struct sched_slot){true, SCHED_NONE, SCHED_NONE, SCHED_NONE};
    s->slot_count += slots;
    struct handle_list *agents = &s->pools[pool].agents;
    size_t at = agents->count;
    while (at && agents->items[at - 1] > handle)
        at--;
    list_insert(agents, at, handle);
    reserve_for_pass(s);
    return handle;
}

void sched_agent_set(struct sched *s, int agent, bool usable)
{
    agent_at(s, agent)->usable = usable;
}

void sched_slot_set(struct sched *s, int agent, int slot, bool enabled)
{
    struct sched_agent *a = agent_at(s, agent);
    must(slot >= 0 && slot < a->slot_count);
    struct sched_slot *one = &a->slots[slot];
    if (one->enabled == enabled)
        return;
    one->enabled = enabled;
    a->enabled += enabled ? 1 : -1;
    if (one->gang == SCHED_NONE)
        a->free += enabled ? 1 : -1;
}

void sched_agent_set_nearness(struct sched *s, int agent, const int *nvlink, const int *numa,
                              const int *model)
{
    struct sched_agent *a = agent_at(s, agent);
    bool any = false;
    for (int i = 0; i < a->slot_count; i++)
        any = any || nvlink[i] >= 0 || numa[i] >= 0 || model[i] != model[0];
    free(a->near_slots);
    a->near_slots = any ? xcalloc((size_t)a->slot_count, sizeof *a->near_slots) : NULL;
    if (any)
        near_arrange(a->near_slots, a->slot_count, nvlink, numa, model);
}

// The handle will be reused, so no gang may exclude it any longer.
static void remove_exclusions(struct sched *s, int agent)
{
    for (int i = 0; i < s->gang_handles.count; i++) {
        struct sched_gang_spec *spec = &s->gangs[i].spec;
        for (int k = spec->excluded_count; s->gangs[i].used && k--;)
            if (spec->excluded[k] == agent)
                spec->excluded[k] = spec->excluded[--spec->excluded_count];
    }
}

void sched_agent_remove(struct sched *s, int agent)
{
    struct sched_agent *a = agent_at(s, agent);
    must(!a->zero_slot_gangs);
    for (int i = 0; i < a->slot_count; i++)
        must(a->slots[i].gang == SCHED_NONE);
    struct handle_list *agents = &s->pools[a->pool].agents;
    size_t at = 0;
    while (agents->items[at] != agent)
        at++;
    list_erase(agents, at);
    s->slot_count -= a->slot_count;
    remove_exclusions(s, agent);
    if (a->reserved_for != SCHED_NONE)
        s->gangs[a->reserved_for].cleared_agent = SCHED_NONE;
    free_slots(a);
    *a = (struct sched_agent){0};
    handle_give(&s->agent_handles, agent);
}
