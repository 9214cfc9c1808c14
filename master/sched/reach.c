// What a waiting gang could get at most: what is free and being handed over, what elastic gangs can
// spare, and what those hold who would have to leave for it. An upper bound in constant time; only
// gangs within it are considered, so a long queue behind a full pool costs a few additions each.
#include "master/sched/pass.h"

#include <string.h>

enum { FILTER_AFTER = 32 }; // who are not within reach in a row: many are not

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
        bool is_ripe = g->since + s->rules.shortest <= s->now;
        ps->spare += is_ripe ? g->slots - g->spec.least : 0;
        tally_add(&s->all, ps, g);
        if (is_ripe)
            tally_add(&s->ripe, ps, g);
    }
    tally_sum(&s->all);
    tally_sum(&s->ripe);
}

// --- who is within reach -------------------------------------------------------------------------

struct within {               // slots of a team's own gangs that run behind a place in its queue
    int64_t lower, all, ripe; // of a lower priority; of the same: all, and those of some age
    int64_t priority;
};

static void within_pass(const struct sched *s, struct within *w, const struct gang *g)
{
    int64_t priority = g->key.first / LEVELS_CAP;
    if (priority != w->priority) {
        w->lower += w->all;
        w->all = w->ripe = 0;
        w->priority = priority;
    }
    if (!g->placed || g->leaving)
        return;
    w->all += g->slots;
    w->ripe += g->since + s->rules.shortest <= s->now ? g->slots : 0;
}

// One that could be served when others have run for long enough: the first few of these keep slots.
static void remember(struct pass *ps, const struct ranked *r)
{
    size_t at = ps->hold_count;
    if (at == HOLDS && !rank_before(&r->rank, &ps->holds[HOLDS - 1].rank))
        return;
    if (at == HOLDS)
        at--;
    else
        ps->hold_count++;
    for (; at && rank_before(&r->rank, &ps->holds[at - 1].rank); at--)
        ps->holds[at] = ps->holds[at - 1];
    ps->holds[at] = *r;
}

static bool within_reach(const struct pass *ps, const struct ranked *r)
{
    int64_t free = ps->open + ps->later + ps->spare;
    if (r->least <= free || r->within == INT64_MAX)
        return true;
    return r->least < ps->pool->shares[r->team].hopeless &&
           r->least <= free + r->within + tally_behind(&ps->s->ripe, ps, &r->rank);
}

static void sort_in(struct pass *ps, int gang, const struct within *w)
{
    struct sched *s = ps->s;
    const struct gang *g = &s->gangs[gang];
    struct ranked r = {g->rank, gang, g->team, g->spec.least, w->lower + w->ripe};
    if (g->overdue || pool_is_strict(ps->pool))
        r.within = INT64_MAX;
    if (within_reach(ps, &r))
        s->heap[s->heap_count++] = r;
    else if (r.least <= ps->open + ps->later + ps->spare + w->lower + w->all +
                            tally_behind(&s->all, ps, &g->rank))
        remember(ps, &r);
}

static void collect(struct pass *ps, int team)
{
    struct sched *s = ps->s;
    const struct share *share = &ps->pool->shares[team];
    struct within w = {.priority = -1};
    if (!share->waiting)
        return;
    for (size_t i = share->queue.count; i-- > 0;) {
        int gang = share->queue.items[i].gang;
        struct gang *g = &s->gangs[gang];
        within_pass(s, &w, g);
        if (g->placed)
            continue;
        g->considered = true;
        sort_in(ps, gang, &w);
    }
    for (int t = s->teams[team].first_child; t != SCHED_NONE; t = s->teams[t].next_sibling)
        collect(ps, t);
}

void reach_collect(struct pass *ps)
{
    struct sched *s = ps->s;
    s->heap_count = 0;
    collect(ps, SCHED_ROOT);
    for (size_t i = 0; i < ps->hold_count; i++) {
        s->heap[s->heap_count] = ps->holds[i];
        s->heap[s->heap_count++].within = INT64_MAX;
    }
    heap_build(s);
}

static void filter(struct pass *ps)
{
    struct sched *s = ps->s;
    size_t kept = 0;
    for (size_t i = 0; i < s->heap_count; i++)
        if (within_reach(ps, &s->heap[i]))
            s->heap[kept++] = s->heap[i];
    s->heap_count = kept;
    heap_build(s);
}

int reach_next(struct pass *ps)
{
    struct sched *s = ps->s;
    for (int missed = 0; s->heap_count; missed++) {
        if (within_reach(ps, &s->heap[0]))
            return heap_take(s);
        heap_take(s);
        if (missed % FILTER_AFTER == FILTER_AFTER - 1)
            filter(ps);
    }
    return SCHED_NONE;
}

void reach_forget(struct pass *ps, const struct gang *g)
{
    struct tally *t = &ps->s->ripe;
    const struct rank *r = &g->rank;
    if (g->since + ps->s->rules.shortest > ps->s->now)
        return;
    ps->spare -= g->slots - g->spec.least;
    for (int b = bucket_of(ps, r->order); b >= 0; b--)
        t->slots[r->entitlement][r->level][b] -= g->slots;
    for (int64_t l = r->level; l >= 0; l--)
        t->levels[r->entitlement][l] -= g->slots;
    for (int e = r->entitlement; e >= 0; e--)
        t->entitlements[e] -= g->slots;
}
