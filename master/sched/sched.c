#include "master/sched/state.h"

#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/log.h"

struct sched *sched_new(void)
{
    return xcalloc(1, sizeof(struct sched));
}

void sched_free(struct sched *s)
{
    if (!s)
        return;
    for (int i = 0; i < s->pool_count; i++) {
        free(s->pools[i].waiting);
        free(s->pools[i].agents);
    }
    for (int i = 0; i < s->agent_handles.count; i++)
        free(s->agents[i].slots);
    free(s->pools);
    free(s->agents);
    free(s->jobs);
    free(s->gangs);
    free(s->agent_handles.free);
    free(s->job_handles.free);
    free(s->gang_handles.free);
    free(s->commands);
    free(s->places);
    free(s);
}

// --- handles -------------------------------------------------------------------------------------

// A handle for one more element of *array, which grows as needed; the element is zeroed.
static int handle_take(struct handles *h, void **array, size_t size)
{
    int handle;
    if (h->free_count) {
        handle = h->free[--h->free_count];
    } else {
        if (h->count == h->cap) {
            h->cap = h->cap ? 2 * h->cap : 16;
            *array = xrealloc(*array, (size_t)h->cap * size);
            h->free = xrealloc(h->free, (size_t)h->cap * sizeof *h->free);
        }
        handle = h->count++;
    }
    memset((char *)*array + (size_t)handle * size, 0, size);
    return handle;
}

static void handle_give(struct handles *h, int handle)
{
    h->free[h->free_count++] = handle;
}

static struct agent *agent_at(const struct sched *s, int agent)
{
    must(agent >= 0 && agent < s->agent_handles.count && s->agents[agent].used);
    return &s->agents[agent];
}

static struct job *job_at(const struct sched *s, int job)
{
    must(job >= 0 && job < s->job_handles.count && s->jobs[job].used);
    return &s->jobs[job];
}

static struct gang *gang_at(const struct sched *s, int gang)
{
    must(gang >= 0 && gang < s->gang_handles.count && s->gangs[gang].used);
    return &s->gangs[gang];
}

// A pass takes no memory: there is always room for a command for every gang and for all slots.
static void reserve_for_pass(struct sched *s)
{
    size_t gangs = (size_t)s->gang_handles.count, slots = (size_t)s->slot_count;
    if (gangs > s->command_cap) {
        s->command_cap = 2 * gangs;
        s->commands = xrealloc(s->commands, s->command_cap * sizeof *s->commands);
    }
    if (gangs + slots > s->place_cap) {
        s->place_cap = 2 * (gangs + slots);
        s->places = xrealloc(s->places, s->place_cap * sizeof *s->places);
    }
}

// Inserts `value` at `at` into an array of handles.
static void insert_at(int **array, size_t *count, size_t *cap, size_t at, int value)
{
    if (*count == *cap) {
        *cap = *cap ? 2 * *cap : 16;
        *array = xrealloc(*array, *cap * sizeof **array);
    }
    memmove(*array + at + 1, *array + at, (*count - at) * sizeof **array);
    (*array)[at] = value;
    ++*count;
}

static void erase_at(int *array, size_t *count, size_t at)
{
    --*count;
    memmove(array + at, array + at + 1, (*count - at) * sizeof *array);
}

// --- pools and agents ----------------------------------------------------------------------------

int sched_pool_add(struct sched *s)
{
    s->pools = xrealloc(s->pools, ((size_t)s->pool_count + 1) * sizeof *s->pools);
    memset(&s->pools[s->pool_count], 0, sizeof *s->pools);
    return s->pool_count++;
}

int sched_agent_add(struct sched *s, int pool, int slots)
{
    must(pool >= 0 && pool < s->pool_count && slots >= 0);
    int handle = handle_take(&s->agent_handles, (void **)&s->agents, sizeof *s->agents);
    struct agent *a = &s->agents[handle];
    a->used = true;
    a->pool = pool;
    a->slot_count = a->enabled = a->free = slots;
    a->slots = xcalloc((size_t)slots + 1, sizeof *a->slots);
    for (int i = 0; i < slots; i++)
        a->slots[i] = (struct slot){true, SCHED_NONE, SCHED_NONE, SCHED_NONE};
    s->slot_count += slots;
    struct pool *p = &s->pools[pool];
    size_t at = p->agent_count;
    while (at && p->agents[at - 1] > handle)
        at--;
    insert_at(&p->agents, &p->agent_count, &p->agent_cap, at, handle);
    reserve_for_pass(s);
    return handle;
}

void sched_agent_set(struct sched *s, int agent, bool usable)
{
    agent_at(s, agent)->usable = usable;
}

void sched_slot_set(struct sched *s, int agent, int slot, bool enabled)
{
    struct agent *a = agent_at(s, agent);
    must(slot >= 0 && slot < a->slot_count);
    struct slot *one = &a->slots[slot];
    if (one->enabled == enabled)
        return;
    one->enabled = enabled;
    a->enabled += enabled ? 1 : -1;
    if (one->gang == SCHED_NONE)
        a->free += enabled ? 1 : -1;
}

void sched_agent_remove(struct sched *s, int agent)
{
    struct agent *a = agent_at(s, agent);
    must(!a->zero_slot_gangs);
    for (int i = 0; i < a->slot_count; i++)
        must(a->slots[i].gang == SCHED_NONE);
    struct pool *p = &s->pools[a->pool];
    size_t at = 0;
    while (p->agents[at] != agent)
        at++;
    erase_at(p->agents, &p->agent_count, at);
    s->slot_count -= a->slot_count;
    free(a->slots);
    *a = (struct agent){0};
    handle_give(&s->agent_handles, agent);
}

// --- jobs ----------------------------------------------------------------------------------------

int sched_job_add(struct sched *s, const struct sched_job *job)
{
    must(job->pool >= 0 && job->pool < s->pool_count);
    must(job->priority >= SCHED_PRIORITY_MIN && job->priority <= SCHED_PRIORITY_MAX);
    int handle = handle_take(&s->job_handles, (void **)&s->jobs, sizeof *s->jobs);
    s->jobs[handle].used = true;
    s->jobs[handle].spec = *job;
    return handle;
}

void sched_job_remove(struct sched *s, int job)
{
    struct job *j = job_at(s, job);
    must(!j->gangs);
    *j = (struct job){0};
    handle_give(&s->job_handles, job);
}

// --- gangs ---------------------------------------------------------------------------------------

// Whether gang a is decided before gang b.
static bool before(const struct sched *s, int a, int b)
{
    const struct gang *x = &s->gangs[a], *y = &s->gangs[b];
    const struct sched_job *i = &s->jobs[x->job].spec, *j = &s->jobs[y->job].spec;
    if (i->priority != j->priority)
        return i->priority < j->priority;
    if (i->order != j->order)
        return i->order < j->order;
    return x->sequence < y->sequence;
}

static void waiting_insert(struct sched *s, int gang)
{
    struct pool *p = &s->pools[s->jobs[s->gangs[gang].job].spec.pool];
    size_t low = 0, high = p->waiting_count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (before(s, p->waiting[middle], gang))
            low = middle + 1;
        else
            high = middle;
    }
    insert_at(&p->waiting, &p->waiting_count, &p->waiting_cap, low, gang);
}

void waiting_remove(struct sched *s, int gang)
{
    struct pool *p = &s->pools[s->jobs[s->gangs[gang].job].spec.pool];
    size_t at = 0;
    while (p->waiting[at] != gang)
        at++;
    erase_at(p->waiting, &p->waiting_count, at);
}

void sched_job_set(struct sched *s, int job, int priority, int64_t limit)
{
    struct job *j = job_at(s, job);
    must(priority >= SCHED_PRIORITY_MIN && priority <= SCHED_PRIORITY_MAX);
    j->spec.limit = limit;
    if (priority == j->spec.priority)
        return;
    struct pool *p = &s->pools[j->spec.pool];
    int *mine = xcalloc((size_t)j->gangs + 1, sizeof *mine);
    int count = 0;
    for (size_t i = 0; i < p->waiting_count; i++)
        if (s->gangs[p->waiting[i]].job == job)
            mine[count++] = p->waiting[i];
    for (int i = 0; i < count; i++)
        waiting_remove(s, mine[i]);
    j->spec.priority = priority;
    for (int i = 0; i < count; i++)
        waiting_insert(s, mine[i]);
    free(mine);
}

int sched_gang_add(struct sched *s, int job, int slots, bool one_agent, int64_t tag)
{
    must(slots >= 0);
    job_at(s, job)->gangs++;
    int handle = handle_take(&s->gang_handles, (void **)&s->gangs, sizeof *s->gangs);
    s->gangs[handle] = (struct gang){.used = true,
                                     .job = job,
                                     .slots = slots,
                                     .one_agent = one_agent,
                                     .tag = tag,
                                     .sequence = ++s->sequence,
                                     .first_agent = SCHED_NONE,
                                     .first_slot = SCHED_NONE,
                                     .reason = SCHED_NOT_CONSIDERED,
                                     .behind = SCHED_NONE};
    waiting_insert(s, handle);
    reserve_for_pass(s);
    return handle;
}

void gang_take(struct sched *s, int gang, struct sched_place place)
{
    struct agent *a = agent_at(s, place.agent);
    struct gang *g = &s->gangs[gang];
    if (place.slot == SCHED_NONE) {
        must(!g->slots && g->first_agent == SCHED_NONE);
        a->zero_slot_gangs++;
    } else {
        must(place.slot >= 0 && place.slot < a->slot_count);
        struct slot *slot = &a->slots[place.slot];
        must(slot->gang == SCHED_NONE);
        *slot = (struct slot){slot->enabled, gang, g->first_agent, g->first_slot};
        a->free -= slot->enabled;
    }
    g->first_agent = place.agent;
    g->first_slot = place.slot;
}

void gang_started(struct sched *s, int gang)
{
    struct gang *g = &s->gangs[gang];
    struct job *j = &s->jobs[g->job];
    g->placed = true;
    g->reason = SCHED_PLACED;
    j->held += g->slots;
    s->pools[j->spec.pool].running++;
}

void sched_gang_adopt(struct sched *s, int gang, const struct sched_place *places, size_t count)
{
    struct gang *g = gang_at(s, gang);
    must(!g->placed && count == (g->slots ? (size_t)g->slots : 1));
    for (size_t i = 0; i < count; i++)
        gang_take(s, gang, places[i]);
    waiting_remove(s, gang);
    gang_started(s, gang);
}

static void gang_leave_slots(struct sched *s, struct gang *g)
{
    int agent = g->first_agent, at = g->first_slot;
    if (!g->slots) {
        s->agents[agent].zero_slot_gangs--;
        return;
    }
    while (agent != SCHED_NONE) {
        struct slot *slot = &s->agents[agent].slots[at];
        s->agents[agent].free += slot->enabled;
        int next_agent = slot->next_agent, next_slot = slot->next_slot;
        *slot = (struct slot){slot->enabled, SCHED_NONE, SCHED_NONE, SCHED_NONE};
        agent = next_agent;
        at = next_slot;
    }
}

void sched_gang_remove(struct sched *s, int gang)
{
    struct gang *g = gang_at(s, gang);
    struct job *j = &s->jobs[g->job];
    if (g->placed) {
        gang_leave_slots(s, g);
        j->held -= g->slots;
        s->pools[j->spec.pool].running--;
    } else {
        waiting_remove(s, gang);
    }
    j->gangs--;
    *g = (struct gang){0};
    handle_give(&s->gang_handles, gang);
}

int64_t sched_gang_on(const struct sched *s, int agent, int slot)
{
    const struct agent *a = agent_at(s, agent);
    must(slot >= 0 && slot < a->slot_count);
    int gang = a->slots[slot].gang;
    return gang == SCHED_NONE ? SCHED_NONE : s->gangs[gang].tag;
}

// --- invariants ----------------------------------------------------------------------------------

static void check_agent(const struct sched *s, const struct agent *a)
{
    int enabled = 0, free_slots = 0;
    for (int i = 0; i < a->slot_count; i++) {
        const struct slot *slot = &a->slots[i];
        enabled += slot->enabled;
        free_slots += slot->enabled && slot->gang == SCHED_NONE;
        must(slot->gang == SCHED_NONE || (gang_at(s, slot->gang)->placed));
    }
    must(enabled == a->enabled && free_slots == a->free);
    must(a->zero_slot_gangs >= 0 && a->zero_slot_gangs <= SCHED_ZERO_SLOT_GANGS);
}

// A placed gang holds exactly its slots, on one agent when it must; a waiting one holds none.
static void check_gang(const struct sched *s, int handle)
{
    const struct gang *g = &s->gangs[handle];
    int held = 0;
    for (int agent = g->first_agent, at = g->first_slot; at != SCHED_NONE; held++) {
        const struct slot *slot = &agent_at(s, agent)->slots[at];
        must(slot->gang == handle);
        must(!g->one_agent || agent == g->first_agent);
        agent = slot->next_agent;
        at = slot->next_slot;
    }
    must(held == (g->placed ? g->slots : 0));
    must((g->first_agent != SCHED_NONE) == g->placed);
}

static void check_order(const struct sched *s, const struct pool *p)
{
    for (size_t i = 0; i < p->waiting_count; i++) {
        must(!gang_at(s, p->waiting[i])->placed);
        must(!i || before(s, p->waiting[i - 1], p->waiting[i]));
    }
}

void sched_check(const struct sched *s)
{
    int waiting = 0, running = 0, gangs = 0, placed = 0;
    for (int i = 0; i < s->agent_handles.count; i++)
        if (s->agents[i].used)
            check_agent(s, &s->agents[i]);
    for (int i = 0; i < s->gang_handles.count; i++)
        if (s->gangs[i].used) {
            check_gang(s, i);
            gangs++;
            placed += s->gangs[i].placed;
        }
    for (int i = 0; i < s->pool_count; i++) {
        check_order(s, &s->pools[i]);
        waiting += (int)s->pools[i].waiting_count;
        running += s->pools[i].running;
    }
    must(running == placed && waiting == gangs - placed);
    for (int i = 0; i < s->job_handles.count; i++) {
        const struct job *j = &s->jobs[i];
        must(!j->used || (j->held >= 0 && j->gangs >= 0));
    }
}
