// What a waiting gang could get at most: what is free and being handed over, what elastic gangs can
// spare, and what those hold who would have to leave for it. An upper bound in constant time; only
// gangs within it are considered, so a long queue behind a full pool costs a few additions each.
#include "master/sched/pass.h"

#include <string.h>

enum { FILTER_AFTER = 8 }; // queues with nobody within reach any more: there are others

// What a leaving gang hands over: all but the slots that it comes back for.
void reach_hand_over(struct pass *ps, const struct gang *g)
{
    int keeps = g->keeps;
    for (int agent = g->first_agent, at = g->first_slot; agent != SCHED_NONE;) {
        struct agent *a = &ps->s->agents[agent];
        const struct slot *slot = &a->slots[at];
        if (keeps-- <= 0 && a->usable && slot->enabled) {
            a->later++;
            ps->later++;
        }
        agent = slot->next_agent;
        at = slot->next_slot;
    }
}

// One that is moved comes back for as much as it needs, which is kept for it elsewhere.
static void keep_a_home(struct pass *ps, int gang)
{
    struct sched *s = ps->s;
    size_t pieces = place_find(s, ps->pool, gang, s->gangs[gang].min_slots, false);
    pass_claim(ps, s->pieces, pieces);
}

static bool may_leave(const struct gang *g)
{
    return g->placed && !g->leaving && !g->spec.non_preemptible;
}

static bool is_ripe(const struct sched *s, const struct gang *g)
{
    return g->since + s->rules.shortest <= s->now;
}

// --- slots that run, by rank ---------------------------------------------------------------------

static int bucket_of(const struct pass *ps, int64_t order)
{
    if (order <= ps->first_order)
        return 0;
    if (order >= ps->last_order)
        return ORDER_BUCKETS - 1;
    return (int)((order - ps->first_order) * ORDER_BUCKETS /
                 (ps->last_order - ps->first_order + 1));
}

static void tally_add(struct tally *t, const struct pass *ps, const struct gang *g)
{
    t->slots[g->rank.entitlement][g->rank.level][bucket_of(ps, g->rank.order)] += g->slots;
}

// From counts to sums: of a bucket and all behind it, of all levels and entitlements behind.
static void tally_sum(struct tally *t)
{
    for (int e = ENTITLEMENTS - 1; e >= 0; e--) {
        for (int l = LEVELS_CAP - 1; l >= 0; l--) {
            int64_t *slots = t->slots[e][l];
            for (int b = ORDER_BUCKETS - 2; b >= 0; b--)
                slots[b] += slots[b + 1];
            t->levels[e][l] = t->levels[e][l + 1] + slots[0];
        }
        t->entitlements[e] = t->entitlements[e + 1] + t->levels[e][0];
    }
}

// Slots of other teams' gangs that one of this rank goes before.
static int64_t tally_behind(const struct tally *t, const struct pass *ps, const struct rank *r)
{
    if (ps->pool->policy != SCHED_POLICY_FAIR_SHARE)
        return 0; // there are no other teams
    int64_t sum = t->entitlements[r->entitlement + 1];
    if (r->entitlement == ENTITLED_SELF || r->entitlement == ENTITLED_TEAM)
        return sum;
    return sum + t->levels[r->entitlement][r->level + 1] +
           t->slots[r->entitlement][r->level][bucket_of(ps, r->order)];
}

static void find_orders(struct pass *ps)
{
    ps->first_order = INT64_MAX;
    ps->last_order = INT64_MIN;
    for (size_t i = 0; i < ps->pool->running.count; i++) {
        int64_t order = ps->s->gangs[ps->pool->running.items[i]].rank.order;
        ps->first_order = order < ps->first_order ? order : ps->first_order;
        ps->last_order = order > ps->last_order ? order : ps->last_order;
    }
}

void reach_count(struct pass *ps)
{
    struct sched *s = ps->s;
    memset(&s->ripe, 0, sizeof s->ripe);
    memset(&s->all, 0, sizeof s->all);
    find_orders(ps);
    for (size_t i = 0; i < ps->pool->running.count; i++) {
        int gang = ps->pool->running.items[i];
        const struct gang *g = &s->gangs[gang];
        if (g->leaving) {
            reach_hand_over(ps, g);
            if (g->moves)
                keep_a_home(ps, gang);
            continue;
        }
        if (g->spec.non_preemptible)
            continue;
        bool ripe = is_ripe(s, g);
        *(ripe ? &ps->spare : &ps->spare_later) += g->slots - g->min_slots;
        tally_add(&s->all, ps, g);
        if (ripe)
            tally_add(&s->ripe, ps, g);
    }
    tally_sum(&s->all);
    tally_sum(&s->ripe);
}

// --- who is within reach -------------------------------------------------------------------------

static bool closely(const struct pass *ps)
{
    return ps->held < HOLDS;
}

// Slots that are free, being handed over or spared; `later`: once all have run for long enough.
static int64_t spared(const struct pass *ps, bool later)
{
    return ps->open + ps->later + ps->spare + (later ? ps->spare_later : 0);
}

// Slots that one of this rank could get beside those of its own team.
static int64_t reach(const struct pass *ps, const struct rank *rank, bool later)
{
    const struct sched *s = ps->s;
    return spared(ps, later) + tally_behind(later ? &s->all : &s->ripe, ps, rank);
}

// A gang may take the slots of one of a lower priority of its team however young that is.
static void enter_priority(const struct sched *s, const struct queue *q, struct cursor *c)
{
    c->priority = q->items[c->at].first / LEVELS_CAP;
    c->lower = 0;
    for (size_t i = q->count; i-- > 0 && q->items[i].first / LEVELS_CAP != c->priority;) {
        const struct gang *g = &s->gangs[q->items[i].gang];
        c->lower += may_leave(g) && !is_ripe(s, g) ? g->slots : 0;
    }
}

// Whether the gang at a place of its queue could get what it needs.
static bool within_reach(const struct pass *ps, const struct share *share, const struct cursor *c,
                         const struct gang *g)
{
    bool later = closely(ps);
    if (g->overdue || pool_is_strict(ps->pool) || g->min_slots <= spared(ps, false))
        return true;
    return g->min_slots < share->hopeless &&
           g->min_slots <= reach(ps, &g->rank, later) + c->ripe + (later ? c->young : c->lower);
}

// Moves on to the next gang of the entitlement that waits and is within reach. False: there is
// none.
static bool advance(struct pass *ps, struct share *share, int entitlement)
{
    const struct sched *s = ps->s;
    const struct queue *q = &share->queue;
    struct cursor *c = &share->cursors[entitlement];
    for (; c->at < q->count; c->at++) {
        const struct gang *g = &s->gangs[q->items[c->at].gang];
        if (q->items[c->at].first / LEVELS_CAP != c->priority)
            enter_priority(s, q, c);
        if (g->placed)
            *(is_ripe(s, g) ? &c->ripe : &c->young) -= may_leave(g) ? g->slots : 0;
        else if (g->rank.entitlement == entitlement && within_reach(ps, share, c, g))
            return true;
    }
    return false;
}

static struct ranked head_of(const struct sched *s, const struct share *share, int entitlement)
{
    int gang = share->queue.items[share->cursors[entitlement].at].gang;
    return (struct ranked){s->gangs[gang].rank, gang, s->gangs[gang].team};
}

// Whether any gang of a team that has this entitlement could be within reach of what is left now.
static bool could_reach(const struct pass *ps, const struct share *share, int entitlement,
                        bool later)
{
    if (!share->queue.count || !(share->waits & 1U << entitlement))
        return false;
    return pool_is_strict(ps->pool) || (later ? share->lacks_later : share->lacks) <=
                                           reach(ps, &share->best[entitlement], later);
}

// --- the heap: of each team and entitlement the next
// -----------------------------------------------

// These come in with the best rank that anybody who waits among them has; who that is for real is
// looked up when they have come to the top.
static void enter(struct pass *ps, int team, int entitlement)
{
    struct sched *s = ps->s;
    struct share *share = &ps->pool->shares[team];
    share->cursors[entitlement] = share->first;
    s->heap[s->heap_count++] = (struct ranked){share->best[entitlement], SCHED_NONE, team};
}

// Those whose first could be served when others have run for long enough: for the first few of
// these slots are kept until then.
static void remember(struct pass *ps, int team, int entitlement)
{
    struct ranked new = {ps->pool->shares[team].best[entitlement], SCHED_NONE, team};
    size_t at = ps->close_count;
    while (at && rank_before(&new.rank, &ps->close[at - 1].rank))
        at--;
    if (at == HOLDS)
        return;
    size_t last = ps->close_count < HOLDS ? ps->close_count++ : HOLDS - 1;
    memmove(ps->close + at + 1, ps->close + at, (last - at) * sizeof *ps->close);
    ps->close[at] = new;
}

static void collect(struct pass *ps, int team)
{
    const struct share *share = &ps->pool->shares[team];
    if (!share->waiting)
        return;
    for (int e = 0; e < ENTITLEMENTS; e++)
        if (could_reach(ps, share, e, false))
            enter(ps, team, e);
        else if (could_reach(ps, share, e, true))
            remember(ps, team, e);
    for (int t = ps->s->teams[team].first_child; t != SCHED_NONE; t = ps->s->teams[t].next_sibling)
        collect(ps, t);
}

void reach_collect(struct pass *ps)
{
    ps->s->heap_count = 0;
    collect(ps, SCHED_ROOT);
    for (size_t i = 0; i < ps->close_count; i++)
        enter(ps, ps->close[i].team, ps->close[i].rank.entitlement);
    heap_build(ps->s);
}

static bool top_could_reach(const struct pass *ps, const struct ranked *r)
{
    return could_reach(ps, &ps->pool->shares[r->team], r->rank.entitlement, closely(ps));
}

// Takes out those who have nobody within reach any more.
static void filter(struct pass *ps)
{
    struct sched *s = ps->s;
    size_t kept = 0;
    for (size_t i = 0; i < s->heap_count; i++)
        if (top_could_reach(ps, &s->heap[i]))
            s->heap[kept++] = s->heap[i];
    s->heap_count = kept;
    heap_build(s);
}

// Takes the top, and puts the next of its team and entitlement there. SCHED_NONE: it was nobody.
static int take_top(struct pass *ps)
{
    struct sched *s = ps->s;
    struct share *share = &ps->pool->shares[s->heap[0].team];
    int gang = s->heap[0].gang, entitlement = s->heap[0].rank.entitlement;
    struct cursor *c = &share->cursors[entitlement];
    // What was within reach when the cursor came here may not be any more.
    bool taken = gang != SCHED_NONE && advance(ps, share, entitlement) &&
                 share->queue.items[c->at].gang == gang;
    c->at += taken;
    if (advance(ps, share, entitlement))
        heap_replace(s, head_of(s, share, entitlement));
    else
        heap_take(s);
    return taken ? gang : SCHED_NONE;
}

int reach_next(struct pass *ps)
{
    struct sched *s = ps->s;
    int gang = SCHED_NONE;
    for (int missed = 0; s->heap_count && gang == SCHED_NONE;) {
        if (top_could_reach(ps, &s->heap[0])) {
            gang = take_top(ps);
        } else {
            heap_take(s);
            if (++missed == FILTER_AFTER)
                filter(ps);
        }
    }
    return gang;
}

void reach_forget(struct pass *ps, const struct gang *g)
{
    struct tally *t = &ps->s->ripe;
    const struct rank *r = &g->rank;
    if (g->since + ps->s->rules.shortest > ps->s->now)
        return;
    ps->spare -= g->slots - g->min_slots;
    for (int b = bucket_of(ps, r->order); b >= 0; b--)
        t->slots[r->entitlement][r->level][b] -= g->slots;
    for (int l = r->level; l >= 0; l--)
        t->levels[r->entitlement][l] -= g->slots;
    for (int e = r->entitlement; e >= 0; e--)
        t->entitlements[e] -= g->slots;
}
