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
    if (ps->pool->policy != SCHED_FAIR_SHARE)
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
        const struct gang *g = &s->gangs[ps->pool->running.items[i]];
        if (g->leaving) {
            reach_hand_over(ps, g);
            continue;
        }
        bool ripe = is_ripe(s, g);
        ps->spare += ripe ? g->slots - g->least : 0;
        tally_add(&s->all, ps, g);
        if (ripe)
            tally_add(&s->ripe, ps, g);
    }
    tally_sum(&s->all);
    tally_sum(&s->ripe);
}

// --- who is within reach -------------------------------------------------------------------------

// Slots that one of this rank could get, when its own team has so many behind it; `closely`: once
// others have run for long enough.
static int64_t reach(const struct pass *ps, const struct rank *rank, int64_t own, bool closely)
{
    return ps->open + ps->later + ps->spare + own +
           tally_behind(closely ? &ps->s->all : &ps->s->ripe, ps, rank);
}

// A gang may take the slots of one of a lower priority of its team however young that is.
static void enter_priority(const struct sched *s, struct share *share, int64_t priority)
{
    const struct queue *q = &share->queue;
    share->cursor.priority = priority;
    share->cursor.lower = 0;
    for (size_t i = q->count; i-- > 0 && q->items[i].first / LEVELS_CAP != priority;) {
        const struct gang *g = &s->gangs[q->items[i].gang];
        share->cursor.lower += g->placed && !g->leaving && !is_ripe(s, g) ? g->slots : 0;
    }
}

// Whether the gang at the cursor of its queue could get what it needs.
static bool within_reach(const struct pass *ps, const struct share *share, const struct gang *g)
{
    const struct cursor *c = &share->cursor;
    bool closely = c->closely && ps->held < HOLDS;
    if (g->overdue || pool_is_strict(ps->pool) || g->least <= ps->open + ps->later + ps->spare)
        return true;
    return g->least < share->hopeless &&
           g->least <= reach(ps, &g->rank, c->ripe + (closely ? c->young : c->lower), closely);
}

// Moves the cursor to the next gang that waits and is within reach. False: there is none.
static bool advance(struct pass *ps, struct share *share)
{
    const struct sched *s = ps->s;
    const struct queue *q = &share->queue;
    struct cursor *c = &share->cursor;
    for (; c->at < q->count; c->at++) {
        const struct item *item = &q->items[c->at];
        const struct gang *g = &s->gangs[item->gang];
        if (item->first / LEVELS_CAP != c->priority)
            enter_priority(s, share, item->first / LEVELS_CAP);
        if (g->placed)
            *(is_ripe(s, g) ? &c->ripe : &c->young) -= g->leaving ? 0 : g->slots;
        else if (within_reach(ps, share, g))
            return true;
    }
    return false;
}

static struct ranked head_of(const struct sched *s, const struct share *share)
{
    int gang = share->queue.items[share->cursor.at].gang;
    return (struct ranked){s->gangs[gang].rank, gang, s->gangs[gang].team};
}

// A queue comes in with the best rank that anybody who waits in it has; where it stands for real is
// looked up when it has come to the top.
static void collect_queue(struct pass *ps, int team, bool closely)
{
    struct share *share = &ps->pool->shares[team];
    share->cursor = share->first;
    share->cursor.closely = closely;
    ps->s->heap[ps->s->heap_count++] = (struct ranked){share->best, SCHED_NONE, team};
}

// One whose first could be served when others have run for long enough: for the first few of these
// slots are kept until then.
static void remember(struct pass *ps, int team)
{
    const struct rank *best = &ps->pool->shares[team].best;
    size_t at = ps->close_count;
    while (at && rank_before(best, &ps->pool->shares[ps->close[at - 1]].best))
        at--;
    if (at == HOLDS)
        return;
    size_t last = ps->close_count < HOLDS ? ps->close_count++ : HOLDS - 1;
    memmove(ps->close + at + 1, ps->close + at, (last - at) * sizeof *ps->close);
    ps->close[at] = team;
}

// Whether any gang of a team's queue could be within reach of what is left now.
static bool could_reach(const struct pass *ps, const struct share *share, bool closely)
{
    if (!share->queue.count || !share->waits)
        return false;
    return pool_is_strict(ps->pool) ||
           (closely ? share->lacks_later : share->lacks) <= reach(ps, &share->best, 0, closely);
}

static void collect(struct pass *ps, int team)
{
    const struct share *share = &ps->pool->shares[team];
    if (!share->waiting)
        return;
    if (could_reach(ps, share, false))
        collect_queue(ps, team, false);
    else if (could_reach(ps, share, true))
        remember(ps, team);
    for (int t = ps->s->teams[team].first_child; t != SCHED_NONE; t = ps->s->teams[t].next_sibling)
        collect(ps, t);
}

void reach_collect(struct pass *ps)
{
    ps->s->heap_count = 0;
    collect(ps, SCHED_ROOT);
    for (size_t i = 0; i < ps->close_count; i++)
        collect_queue(ps, ps->close[i], true);
    heap_build(ps->s);
}

// Takes out the queues that have nobody within reach any more.
static void filter(struct pass *ps)
{
    struct sched *s = ps->s;
    size_t kept = 0;
    for (size_t i = 0; i < s->heap_count; i++) {
        const struct share *share = &ps->pool->shares[s->heap[i].team];
        if (could_reach(ps, share, share->cursor.closely))
            s->heap[kept++] = s->heap[i];
    }
    s->heap_count = kept;
    heap_build(s);
}

int reach_next(struct pass *ps)
{
    struct sched *s = ps->s;
    for (int missed = 0; s->heap_count;) {
        struct share *share = &ps->pool->shares[s->heap[0].team];
        int gang = s->heap[0].gang;
        if (!could_reach(ps, share, share->cursor.closely)) {
            heap_take(s);
            if (++missed == FILTER_AFTER)
                filter(ps);
            continue;
        }
        // What was within reach when the cursor came here may not be any more.
        bool in_reach = gang != SCHED_NONE && advance(ps, share) &&
                        share->queue.items[share->cursor.at].gang == gang;
        if (in_reach)
            share->cursor.at++;
        if (advance(ps, share))
            heap_replace(s, head_of(s, share));
        else
            heap_take(s);
        if (in_reach)
            return gang;
    }
    return SCHED_NONE;
}

void reach_forget(struct pass *ps, const struct gang *g)
{
    struct tally *t = &ps->s->ripe;
    const struct rank *r = &g->rank;
    if (g->since + ps->s->rules.shortest > ps->s->now)
        return;
    ps->spare -= g->slots - g->least;
    for (int b = bucket_of(ps, r->order); b >= 0; b--)
        t->slots[r->entitlement][r->level][b] -= g->slots;
    for (int l = r->level; l >= 0; l--)
        t->levels[r->entitlement][l] -= g->slots;
    for (int e = r->entitlement; e >= 0; e--)
        t->entitlements[e] -= g->slots;
}
