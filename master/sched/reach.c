// What a waiting gang could get at most: what is free and being handed over, what elastic gangs can
// spare, and what those hold who would have to leave for it. An upper bound in constant time; only
// gangs within it are considered, so a long queue behind a full pool costs a few additions each.
#include "master/sched/pass.h"

#include <string.h>

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

// Slots that one of this rank could get, when its own team has so many behind it, and so many more
// that are young. The first few who have to wait are looked at more closely: for them slots are
// kept until others have run for long enough.
static int64_t reach(const struct pass *ps, const struct rank *rank, int64_t own, int64_t young)
{
    bool closely = ps->held < HOLDS;
    return ps->open + ps->later + ps->spare + own + (closely ? young : 0) +
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
    if (g->overdue || pool_is_strict(ps->pool) || g->least <= ps->open + ps->later + ps->spare)
        return true;
    return g->least < share->hopeless &&
           g->least <= reach(ps, &g->rank, c->ripe + c->lower, c->young - c->lower);
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

// A queue none of whose gangs could be within reach is not looked at.
static void collect_queue(struct pass *ps, struct share *share)
{
    struct sched *s = ps->s;
    bool in_vain = share->smallest > reach(ps, &share->best, share->ripe + share->young, 0);
    if (share->smallest == INT64_MAX || (in_vain && !pool_is_strict(ps->pool)))
        return;
    share->cursor = (struct cursor){0, share->ripe, share->young, -1, 0};
    if (advance(ps, share))
        s->heap[s->heap_count++] = head_of(s, share);
}

static void collect(struct pass *ps, int team)
{
    struct share *share = &ps->pool->shares[team];
    if (!share->waiting)
        return;
    if (share->queue.count)
        collect_queue(ps, share);
    for (int t = ps->s->teams[team].first_child; t != SCHED_NONE; t = ps->s->teams[t].next_sibling)
        collect(ps, t);
}

void reach_collect(struct pass *ps)
{
    ps->s->heap_count = 0;
    collect(ps, SCHED_ROOT);
    heap_build(ps->s);
}

int reach_next(struct pass *ps)
{
    struct sched *s = ps->s;
    while (s->heap_count) {
        struct share *share = &ps->pool->shares[s->heap[0].team];
        int gang = s->heap[0].gang;
        // What was within reach when the cursor came here may not be any more.
        bool in_reach = advance(ps, share) && share->queue.items[share->cursor.at].gang == gang;
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
