// One pass: walks every pool's waiting gangs in order and starts what fits.
//
// The order is strict. A gang that could run on the pool's agents but finds them busy keeps them
// for itself: nobody after it may take a slot it could use, so it cannot be starved. What it can
// use is a matter of size: a gang that must be on one agent can only use agents with at least as
// many slots as it wants; any other gang can use every slot. So one number per pool, the barrier,
// says what is left for those behind: agents with fewer slots than that. Gangs that cannot run
// however long they wait (larger than the pool, over their job's limit) keep nothing.
#include "master/sched/state.h"

#include <limits.h>
#include <string.h>

#include "base/log.h"

static bool open_to(const struct agent *a, int barrier)
{
    return a->usable && a->enabled < barrier;
}

// The agent with the fewest free slots that still has `slots`; the first of equals. SCHED_NONE.
static int best_fit(const struct sched *s, const struct pool *p, int slots, int barrier)
{
    int best = SCHED_NONE;
    for (size_t i = 0; i < p->agent_count; i++) {
        const struct agent *a = &s->agents[p->agents[i]];
        if (open_to(a, barrier) && a->free >= slots &&
            (best == SCHED_NONE || a->free < s->agents[best].free))
            best = p->agents[i];
    }
    return best;
}

static int most_free(const struct sched *s, const struct pool *p, int barrier)
{
    int best = SCHED_NONE;
    for (size_t i = 0; i < p->agent_count; i++) {
        const struct agent *a = &s->agents[p->agents[i]];
        if (open_to(a, barrier) && (best == SCHED_NONE || a->free > s->agents[best].free))
            best = p->agents[i];
    }
    return best;
}

static int fewest_zero_slot_gangs(const struct sched *s, const struct pool *p)
{
    int best = SCHED_NONE;
    for (size_t i = 0; i < p->agent_count; i++) {
        const struct agent *a = &s->agents[p->agents[i]];
        if (a->usable && a->zero_slot_gangs < SCHED_ZERO_SLOT_GANGS &&
            (best == SCHED_NONE || a->zero_slot_gangs < s->agents[best].zero_slot_gangs))
            best = p->agents[i];
    }
    return best;
}

static void take_place(struct sched *s, int gang, struct sched_place place)
{
    must(s->place_count < s->place_cap);
    s->places[s->place_count++] = place;
    gang_take(s, gang, place);
}

static void take_slots(struct sched *s, int gang, int agent, int count)
{
    const struct agent *a = &s->agents[agent];
    for (int i = 0; count; i++) {
        must(i < a->slot_count);
        if (a->slots[i].enabled && a->slots[i].gang == SCHED_NONE) {
            take_place(s, gang, (struct sched_place){agent, i});
            count--;
        }
    }
}

// Best fit on one agent; where none has room, the largest pieces first and the rest best fit. The
// caller has made sure that it fits.
static void place(struct sched *s, const struct pool *p, int gang, int barrier)
{
    int left = s->gangs[gang].slots;
    while (left) {
        int agent = best_fit(s, p, left, barrier);
        int count = left;
        if (agent == SCHED_NONE) {
            agent = most_free(s, p, barrier);
            must(agent != SCHED_NONE && s->agents[agent].free > 0);
            count = s->agents[agent].free;
        }
        take_slots(s, gang, agent, count);
        left -= count;
    }
}

struct room { // what a pool has for a gang
    int agents, total, largest, free, largest_free;
};

// Counts the agents that `barrier` leaves open.
static struct room look(const struct sched *s, const struct pool *p, int barrier)
{
    struct room r = {0};
    for (size_t i = 0; i < p->agent_count; i++) {
        const struct agent *a = &s->agents[p->agents[i]];
        if (!open_to(a, barrier))
            continue;
        r.agents++;
        r.total += a->enabled;
        r.free += a->free;
        if (a->enabled > r.largest)
            r.largest = a->enabled;
        if (a->free > r.largest_free)
            r.largest_free = a->free;
    }
    return r;
}

static bool fits(const struct gang *g, const struct room *r)
{
    return g->slots <= (g->one_agent ? r->largest_free : r->free);
}

// Why a gang of at least one slot cannot start; SCHED_PLACED when it can. `all` is the whole pool,
// `open` what the gangs before leave.
static enum sched_reason_code judge(const struct gang *g, const struct job *j,
                                    const struct room *all, const struct room *open)
{
    if (!all->agents)
        return SCHED_NO_AGENTS;
    if (g->slots > all->total)
        return SCHED_OVER_POOL;
    if (g->one_agent && g->slots > all->largest)
        return SCHED_OVER_AGENT;
    if (j->spec.limit && j->held + g->slots > j->spec.limit)
        return SCHED_OVER_LIMIT;
    if (fits(g, open))
        return SCHED_PLACED;
    if (fits(g, all))
        return SCHED_BEHIND;
    return g->slots <= all->free ? SCHED_SPREAD : SCHED_BUSY;
}

struct pool_pass { // how far the pass of one pool has come
    struct pool *pool;
    int barrier;    // agents with this many slots or more are kept
    int64_t keeper; // tag of the gang that set the barrier
    struct room all, open;
};

static void recount(const struct sched *s, struct pool_pass *pass)
{
    pass->all = look(s, pass->pool, INT_MAX);
    pass->open = pass->barrier == INT_MAX ? pass->all : look(s, pass->pool, pass->barrier);
}

// Keeps the slots that gang g could use from all after it.
static void keep_for(const struct sched *s, struct pool_pass *pass, const struct gang *g)
{
    int barrier = g->one_agent ? g->slots : 1;
    if (barrier >= pass->barrier)
        return;
    pass->barrier = barrier;
    pass->keeper = g->tag;
    recount(s, pass);
}

// Whether the gang was started.
static bool consider(struct sched *s, struct pool_pass *pass, int handle)
{
    struct gang *g = &s->gangs[handle];
    if (!g->slots) {
        int agent = fewest_zero_slot_gangs(s, pass->pool);
        g->reason = pass->all.agents ? SCHED_BUSY : SCHED_NO_AGENTS;
        if (agent == SCHED_NONE)
            return false;
        take_place(s, handle, (struct sched_place){agent, SCHED_NONE});
        return true;
    }
    g->reason = judge(g, &s->jobs[g->job], &pass->all, &pass->open);
    g->behind = g->reason == SCHED_BEHIND ? pass->keeper : SCHED_NONE;
    if (g->reason == SCHED_PLACED) {
        place(s, pass->pool, handle, pass->barrier);
        recount(s, pass);
        return true;
    }
    if (g->reason >= SCHED_BUSY)
        keep_for(s, pass, g);
    return false;
}

// Walks one pool's queue once; commands are added at s->commands + *count. Whether any gang
// started.
static bool walk_queue(struct sched *s, struct pool *p, size_t *count)
{
    struct pool_pass pass = {.pool = p, .barrier = INT_MAX, .keeper = SCHED_NONE};
    size_t kept = 0, before = *count, waiting = p->waiting_count;
    recount(s, &pass);
    for (size_t k = 0; k < waiting; k++) {
        int handle = p->waiting[k];
        size_t first = s->place_count;
        s->gangs[handle].ahead = (int)kept;
        if (!consider(s, &pass, handle)) {
            p->waiting[kept++] = handle;
            continue;
        }
        gang_started(s, handle);
        must(*count < s->command_cap);
        s->commands[(*count)++] = (struct sched_command){.kind = SCHED_START,
                                                         .gang = handle,
                                                         .tag = s->gangs[handle].tag,
                                                         .places = s->places + first,
                                                         .count = s->place_count - first};
    }
    p->waiting_count = kept;
    return *count > before;
}

size_t sched_pass(struct sched *s, const struct sched_command **out)
{
    size_t count = 0;
    s->place_count = 0;
    for (int i = 0; i < s->pool_count; i++)
        while (walk_queue(s, &s->pools[i], &count))
            ; // a start may put a gang before it over its job's limit, which frees what it kept
    *out = s->commands;
    return count;
}

void sched_why(const struct sched *s, int gang, struct sched_reason *out)
{
    must(gang >= 0 && gang < s->gang_handles.count && s->gangs[gang].used);
    const struct gang *g = &s->gangs[gang];
    const struct job *j = &s->jobs[g->job];
    struct room r = look(s, &s->pools[j->spec.pool], INT_MAX);
    *out = (struct sched_reason){.code = g->reason,
                                 .needs = g->slots,
                                 .free = r.free,
                                 .largest_free = r.largest_free,
                                 .largest = r.largest,
                                 .total = r.total,
                                 .ahead = g->ahead,
                                 .behind = g->behind,
                                 .job_used = j->held,
                                 .job_limit = j->spec.limit};
}

void sched_pool_look(const struct sched *s, int pool, struct sched_pool_view *out)
{
    must(pool >= 0 && pool < s->pool_count);
    const struct pool *p = &s->pools[pool];
    struct room r = look(s, p, INT_MAX);
    *out = (struct sched_pool_view){.agents = r.agents,
                                    .slots = r.total,
                                    .free = r.free,
                                    .waiting = (int)p->waiting_count,
                                    .running = p->running};
}
