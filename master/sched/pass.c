// The decision. Every gang that waits is considered once, in the order of ranks, with what those
// before it have left:
//
//   1. it starts if it fits into what is free;
//   2. else, if it fits with what is being handed over, it is promised that (a claim);
//   3. else others leave for it, if there are such (preempt.c, move.c), and it gets the claim;
//   4. else it waits. If it only waits for others to have run their shortest time, it keeps what is
//      free, so that a stream of small gangs cannot hold it up; otherwise those behind it may use
//      what it cannot: they will leave for it when its turn comes.
#include "master/sched/pass.h"

#include "base/log.h"

enum { PREEMPTIONS = 64 }; // of one pass; the next goes on at once

// --- what there is -------------------------------------------------------------------------------

static void count_agents(struct pass *ps)
{
    struct pool *p = ps->pool;
    p->capacity = p->largest = p->usable = 0;
    for (size_t i = 0; i < p->agents.count; i++) {
        struct agent *a = &ps->s->agents[p->agents.items[i]];
        a->open = a->usable ? a->free : 0;
        a->later = 0;
        ps->open += a->open;
        p->capacity += a->usable ? a->enabled : 0;
        p->usable += a->usable;
        if (a->usable && a->enabled > p->largest)
            p->largest = a->enabled;
    }
}

// --- what a pass does ----------------------------------------------------------------------------

static struct sched_command *add_command(struct sched *s, enum sched_command_kind kind, int gang)
{
    must(s->command_count < s->command_cap);
    struct sched_command *c = &s->commands[s->command_count++];
    *c = (struct sched_command){
        .kind = kind, .gang = gang, .tag = s->gangs[gang].spec.tag, .beneficiary = SCHED_NONE};
    return c;
}

void pass_drain(struct pass *ps, int gang, enum sched_cause cause, int beneficiary, int keeps)
{
    struct sched *s = ps->s;
    struct gang *g = &s->gangs[gang];
    struct sched_command *c = add_command(s, SCHED_DRAIN, gang);
    c->cause = cause;
    if (beneficiary != SCHED_NONE)
        c->beneficiary = s->gangs[beneficiary].spec.tag;
    g->leaves_for = beneficiary;
    reach_forget(ps, g);
    g->leaving = true;
    g->moves = cause == SCHED_TO_MOVE && beneficiary != SCHED_NONE;
    ps->pool->shares[g->team].dirty = true;
    g->keeps = keeps;
    reach_hand_over(ps, g);
}

void pass_wake(struct pass *ps, int64_t when)
{
    if (when < ps->pool->next)
        ps->pool->next = when;
}

void pass_claim(struct pass *ps, const struct piece *pieces, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        struct agent *a = &ps->s->agents[pieces[i].agent];
        int now = pieces[i].count < a->open ? pieces[i].count : a->open;
        a->open -= now;
        a->later -= pieces[i].count - now;
        ps->open -= now;
        ps->later -= pieces[i].count - now;
        must(a->later >= 0);
    }
}

static void start(struct pass *ps, int gang, size_t pieces)
{
    struct sched *s = ps->s;
    size_t first = s->place_count;
    for (size_t i = 0; i < pieces; i++)
        place_take(s, gang, &s->pieces[i]);
    pass_claim(ps, s->pieces, pieces);
    gang_start(s, gang, s->places + first, s->place_count - first, s->now);
    struct sched_command *c = add_command(s, SCHED_START, gang);
    c->places = s->places + first;
    c->count = s->place_count - first;
}

static void start_aside(struct pass *ps)
{
    struct sched *s = ps->s;
    struct list *aside = &ps->pool->slotless;
    while (aside->count) {
        int gang = aside->items[0], agent = place_aside(s, ps->pool);
        if (agent == SCHED_NONE)
            return;
        struct sched_place *place = &s->places[s->place_count++];
        *place = (struct sched_place){agent, SCHED_NONE};
        gang_start(s, gang, place, 1, s->now);
        struct sched_command *c = add_command(s, SCHED_START, gang);
        c->places = place;
        c->count = 1;
    }
}

// --- one gang ------------------------------------------------------------------------------------

// Keeps what is free for a gang that only waits for others to have run long enough.
static void keep(struct pass *ps, int gang, int needs)
{
    ps->keeper = gang;
    size_t pieces = ps->open ? place_more(ps->s, ps->pool, gang, &needs) : 0;
    pass_claim(ps, ps->s->pieces, pieces);
}

static bool make_room(struct pass *ps, int gang, int needs)
{
    int64_t until = INT64_MAX;
    bool done = false;
    if (ps->preemptions >= PREEMPTIONS) {
        pass_wake(ps, ps->s->now);
        return false;
    }
    done = preempt(ps, gang, needs, &until);
    if (!done && ps->s->gangs[gang].spec.one_agent && ps->open >= needs)
        done = clear_agent(ps, gang, needs, &until);
    ps->preemptions += done;
    if (done || until == INT64_MAX)
        return done;
    pass_wake(ps, until);
    if (ps->held++ < HOLDS)
        keep(ps, gang, needs);
    return false;
}

// A gang that cannot start now, in a pool where nobody leaves for anybody.
static void block(struct pass *ps, int gang)
{
    if (!ps->blocked && ps->pool->policy == SCHED_POLICY_EASY)
        easy_block(ps, gang);
    ps->blocked = true;
    ps->keeper = gang;
}

// Starts the gang, or promises it what it needs, if that can be.
static void serve(struct pass *ps, int gang, int needs)
{
    struct sched *s = ps->s;
    size_t pieces = ps->open >= needs ? place_find(s, ps->pool, gang, needs, false) : 0;
    if (pieces) {
        start(ps, gang, pieces);
        return;
    }
    pieces = ps->open + ps->later >= needs ? place_find(s, ps->pool, gang, needs, true) : 0;
    pass_claim(ps, s->pieces, pieces);
    if (!pieces && !make_room(ps, gang, needs))
        return;
    s->gangs[gang].promised = ps->pool->passes;
    ps->keeper = gang;
}

static void consider(struct pass *ps, int gang)
{
    struct sched *s = ps->s;
    struct gang *g = &s->gangs[gang];
    int team;
    if (gang_hindrance(s, gang, &team) != SCHED_PLACED)
        return;
    if (pool_is_strict(ps->pool)) {
        size_t pieces = place_find(s, ps->pool, gang, g->min_slots, false);
        if (pieces && easy_allows(ps, g))
            start(ps, gang, pieces);
        else
            block(ps, gang);
        return;
    }
    serve(ps, gang, g->min_slots);
}

// --- one pool ------------------------------------------------------------------------------------

// A job that was moved to another pool: what runs of it follows.
static void follow_jobs(struct pass *ps)
{
    struct sched *s = ps->s;
    for (size_t i = 0; i < ps->pool->running.count; i++) {
        int gang = ps->pool->running.items[i];
        const struct gang *g = &s->gangs[gang];
        if (!g->leaving && !g->spec.non_preemptible && g->pool != s->jobs[g->spec.job].spec.pool)
            pass_drain(ps, gang, SCHED_TO_MOVE, SCHED_NONE, 0);
    }
}

static void pass_pool(struct sched *s, struct pool *p)
{
    struct pass ps = {.s = s, .pool = p, .keeper = SCHED_NONE};
    size_t first = s->command_count;
    p->next = INT64_MAX;
    p->passes++;
    count_agents(&ps);
    start_aside(&ps);
    order_rank(s, p);
    reach_count(&ps);
    follow_jobs(&ps);
    reach_collect(&ps);
    for (int gang; (gang = reach_next(&ps)) != SCHED_NONE;) {
        if (p->policy == SCHED_POLICY_FIFO && ps.blocked)
            break;
        consider(&ps, gang);
    }
    if (!ps.blocked) {
        elastic_fill(&ps, first);
        elastic_grow(&ps);
    }
    p->keeper = ps.keeper;
}

size_t sched_pass(struct sched *s, int64_t now, const struct sched_command **out)
{
    see(s, now);
    s->command_count = s->place_count = 0;
    for (int i = 0; i < s->pool_count; i++)
        pass_pool(s, &s->pools[i]);
    *out = s->commands;
    return s->command_count;
}

int64_t sched_next(const struct sched *s)
{
    int64_t next = INT64_MAX;
    for (int i = 0; i < s->pool_count; i++)
        if (s->pools[i].next < next)
            next = s->pools[i].next;
    return next;
}
