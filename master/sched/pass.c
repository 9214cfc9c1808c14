// A pass considers every waiting gang once, in the order of ranks. Each gets what the gangs before
// it have left:
//
//   1. It starts if it fits into the free slots.
//   2. Otherwise, if it fits together with the slots that are being handed over, these are promised
//      to it (a claim).
//   3. Otherwise other gangs are drained or moved for it where the rules allow that (preempt.c,
//      move.c), and it gets the claim.
//   4. Otherwise it waits. If it only waits for others to complete min_runtime, free slots are
//      reserved for it, so that a stream of small gangs cannot delay it. In all other cases later
//      gangs may use the free slots; they leave when its turn comes.
#include "master/sched/pass.h"

#include "base/log.h"

enum { PREEMPTIONS = 64 }; // of one pass; the next pass follows at once

// --- counting free and running slots -------------------------------------------------------------

static void count_agents(struct sched_pass *ps)
{
    struct sched_pool *p = ps->pool;
    p->capacity = p->largest = p->usable = 0;
    for (size_t i = 0; i < p->agents.count; i++) {
        struct sched_agent *a = &ps->s->agents[p->agents.items[i]];
        a->available = a->usable ? a->free : 0;
        a->incoming = 0;
        ps->available += a->available;
        p->capacity += a->usable ? a->enabled : 0;
        p->usable += a->usable;
        if (a->usable && a->enabled > p->largest)
            p->largest = a->enabled;
    }
}

// --- decisions -----------------------------------------------------------------------------------

static struct sched_command *add_command(struct sched *s, enum sched_command_kind kind, int gang)
{
    must(s->command_count < s->command_cap);
    struct sched_command *c = &s->commands[s->command_count++];
    *c = (struct sched_command){
        .kind = kind, .gang = gang, .tag = s->gangs[gang].spec.tag, .beneficiary = SCHED_NONE};
    return c;
}

void pass_drain(struct sched_pass *ps, int gang, enum sched_cause cause, int beneficiary,
                int retained)
{
    struct sched *s = ps->s;
    struct sched_gang *g = &s->gangs[gang];
    struct sched_command *c = add_command(s, SCHED_DRAIN, gang);
    c->cause = cause;
    if (beneficiary != SCHED_NONE)
        c->beneficiary = s->gangs[beneficiary].spec.tag;
    g->beneficiary = beneficiary;
    reach_forget(ps, g);
    g->leaving = true;
    g->moves = cause == SCHED_TO_MOVE && beneficiary != SCHED_NONE;
    ps->pool->shares[g->team].dirty = true;
    g->retained = retained;
    reach_hand_over(ps, g);
}

void pass_wake(struct sched_pass *ps, int64_t when)
{
    if (when < ps->pool->next)
        ps->pool->next = when;
}

void pass_claim(struct sched_pass *ps, const struct placement_piece *pieces, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        struct sched_agent *a = &ps->s->agents[pieces[i].agent];
        int now = pieces[i].count < a->available ? pieces[i].count : a->available;
        a->available -= now;
        a->incoming -= pieces[i].count - now;
        ps->available -= now;
        ps->incoming -= pieces[i].count - now;
        must(a->incoming >= 0);
    }
}

static void start_gang(struct sched_pass *ps, int gang, size_t pieces)
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

static void start_slotless_gangs(struct sched_pass *ps)
{
    struct sched *s = ps->s;
    struct handle_list *aside = &ps->pool->slotless;
    while (aside->count) {
        int gang = aside->items[0], agent = place_find_slotless(s, ps->pool);
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

// Reserves free slots for a gang that only waits for others to complete min_runtime.
static void reserve_free_slots(struct sched_pass *ps, int gang, int needs)
{
    ps->reserving_gang = gang;
    size_t pieces = ps->available ? place_more(ps->s, ps->pool, gang, &needs) : 0;
    pass_claim(ps, ps->s->pieces, pieces);
}

static bool make_room(struct sched_pass *ps, int gang, int needs)
{
    int64_t until = INT64_MAX;
    bool done = false;
    if (ps->preemptions >= PREEMPTIONS) {
        pass_wake(ps, ps->s->now);
        return false;
    }
    done = preempt(ps, gang, needs, &until);
    if (!done && ps->s->gangs[gang].spec.one_agent && ps->available >= needs)
        done = clear_agent(ps, gang, needs, &until);
    ps->preemptions += done;
    if (done || until == INT64_MAX)
        return done;
    pass_wake(ps, until);
    if (ps->reservations++ < RESERVATIONS_MAX)
        reserve_free_slots(ps, gang, needs);
    return false;
}

// Records the first gang that cannot start in a pool without preemption.
static void block_pool(struct sched_pass *ps, int gang)
{
    if (!ps->blocked && ps->pool->policy == SCHED_POLICY_EASY)
        easy_block(ps, gang);
    ps->blocked = true;
    ps->reserving_gang = gang;
}

// Starts the gang, or promises it the slots that it needs, where possible.
static void start_or_promise(struct sched_pass *ps, int gang, int needs)
{
    struct sched *s = ps->s;
    size_t pieces = ps->available >= needs ? place_find(s, ps->pool, gang, needs, false) : 0;
    if (pieces) {
        start_gang(ps, gang, pieces);
        return;
    }
    pieces = ps->available + ps->incoming >= needs ? place_find(s, ps->pool, gang, needs, true) : 0;
    pass_claim(ps, s->pieces, pieces);
    if (!pieces && !make_room(ps, gang, needs))
        return;
    s->gangs[gang].promised = ps->pool->passes;
    ps->reserving_gang = gang;
}

static void consider_gang(struct sched_pass *ps, int gang)
{
    struct sched *s = ps->s;
    struct sched_gang *g = &s->gangs[gang];
    int team;
    if (gang_obstacle(s, gang, &team) != SCHED_PLACED)
        return;
    if (pool_is_strict(ps->pool)) {
        size_t pieces = place_find(s, ps->pool, gang, g->min_slots, false);
        if (pieces && easy_allows(ps, g))
            start_gang(ps, gang, pieces);
        else
            block_pool(ps, gang);
        return;
    }
    start_or_promise(ps, gang, g->min_slots);
}

// --- one pool ------------------------------------------------------------------------------------

// Drains running gangs whose job was moved to another pool, or which were resized; they continue
// there, or with the new number of slots.
static void follow_changes(struct sched_pass *ps)
{
    struct sched *s = ps->s;
    for (size_t i = 0; i < ps->pool->running.count; i++) {
        int gang = ps->pool->running.items[i];
        const struct sched_gang *g = &s->gangs[gang];
        if (g->leaving || g->spec.non_preemptible)
            continue;
        if (g->pool != s->jobs[g->spec.job].spec.pool)
            pass_drain(ps, gang, SCHED_TO_MOVE, SCHED_NONE, 0);
        else if (g->resized_min)
            pass_drain(ps, gang, SCHED_TO_RESIZE, SCHED_NONE,
                       g->slots < g->resized_min ? g->slots : g->resized_min);
    }
}

static void pass_pool(struct sched *s, struct sched_pool *p)
{
    struct sched_pass ps = {.s = s, .pool = p, .reserving_gang = SCHED_NONE};
    size_t first = s->command_count;
    p->next = INT64_MAX;
    p->passes++;
    count_agents(&ps);
    start_slotless_gangs(&ps);
    order_rank(s, p);
    reach_count(&ps);
    follow_changes(&ps);
    reach_collect(&ps);
    for (int gang; (gang = reach_next(&ps)) != SCHED_NONE;) {
        if (p->policy == SCHED_POLICY_FIFO && ps.blocked)
            break;
        consider_gang(&ps, gang);
    }
    if (!ps.blocked) {
        elastic_fill(&ps, first);
        elastic_grow(&ps);
    }
    p->reserving_gang = ps.reserving_gang;
}

size_t sched_pass(struct sched *s, int64_t now, const struct sched_command **out)
{
    sched_set_time(s, now);
    s->command_count = s->place_count = 0;
    for (int i = 0; i < s->pool_count; i++)
        pass_pool(s, &s->pools[i]);
    *out = s->commands;
    return s->command_count;
}

int64_t sched_next_pass(const struct sched *s)
{
    int64_t next = INT64_MAX;
    for (int i = 0; i < s->pool_count; i++)
        if (s->pools[i].next < next)
            next = s->pools[i].next;
    return next;
}
