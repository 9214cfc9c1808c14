// An upper bound for the slots that a waiting gang could get: free slots, slots being handed over,
// spare slots of elastic gangs, and slots of gangs that would have to leave for it. The bound takes
// constant time, and only gangs within it are considered, so a long queue behind a full pool costs
// a few additions per gang.
#include "master/sched/pass.h"

#include <string.h>

enum { FILTER_AFTER = 8 }; // filter the heap after this many queues without a gang within reach

// Counts the slots that a leaving gang hands over: all except those that it will want again.
void reach_hand_over(struct sched_pass *ps, const struct sched_gang *g)
{
    int kept = g->retained;
    for (int agent = g->first_agent, at = g->first_slot; agent != SCHED_NONE;) {
        struct sched_agent *a = &ps->s->agents[agent];
        const struct sched_slot *slot = &a->slots[at];
        if (kept-- <= 0 && a->usable && slot->enabled) {
            a->incoming++;
            ps->incoming++;
        }
        agent = slot->next_agent;
        at = slot->next_slot;
    }
}

// Claims slots elsewhere for a gang that is being moved, which comes back for its minimum.
static void claim_new_places(struct sched_pass *ps, int gang)
{
    struct sched *s = ps->s;
    size_t pieces = place_find(s, ps->pool, gang, s->gangs[gang].min_slots, false);
    pass_claim(ps, s->pieces, pieces);
}

static bool may_leave(const struct sched_gang *g)
{
    return g->placed && !g->leaving && !g->spec.non_preemptible;
}

static bool is_preemptible(const struct sched *s, const struct sched_gang *g)
{
    return g->since + s->rules.min_runtime <= s->now;
}

// --- slots that run, by rank ---------------------------------------------------------------------

static int bucket_of(const struct sched_pass *ps, int64_t order)
{
    if (order <= ps->first_order)
        return 0;
    if (order >= ps->last_order)
        return ORDER_BUCKETS - 1;
    return (int)((order - ps->first_order) * ORDER_BUCKETS /
                 (ps->last_order - ps->first_order + 1));
}

static void tally_add(struct slot_tally *t, const struct sched_pass *ps, const struct sched_gang *g)
{
    t->slots[g->rank.entitlement][g->rank.level][bucket_of(ps, g->rank.order)] += g->slots;
}

// Turns counts into sums: of a bucket and all behind it, of a level and all behind it, and so on.
static void tally_sum(struct slot_tally *t)
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

// Running slots of other teams that a gang of this rank precedes.
static int64_t tally_behind(const struct slot_tally *t, const struct sched_pass *ps,
                            const struct gang_rank *r)
{
    if (ps->pool->policy != SCHED_POLICY_FAIR_SHARE)
        return 0; // the pool has no other teams
    int64_t sum = t->entitlements[r->entitlement + 1];
    if (r->entitlement == ENTITLED_SELF || r->entitlement == ENTITLED_TEAM)
        return sum;
    return sum + t->levels[r->entitlement][r->level + 1] +
           t->slots[r->entitlement][r->level][bucket_of(ps, r->order)];
}

static void find_orders(struct sched_pass *ps)
{
    ps->first_order = INT64_MAX;
    ps->last_order = INT64_MIN;
    for (size_t i = 0; i < ps->pool->running.count; i++) {
        int64_t order = ps->s->gangs[ps->pool->running.items[i]].rank.order;
        ps->first_order = order < ps->first_order ? order : ps->first_order;
        ps->last_order = order > ps->last_order ? order : ps->last_order;
    }
}

void reach_count(struct sched_pass *ps)
{
    struct sched *s = ps->s;
    memset(&s->preemptible, 0, sizeof s->preemptible);
    memset(&s->all, 0, sizeof s->all);
    find_orders(ps);
    for (size_t i = 0; i < ps->pool->running.count; i++) {
        int gang = ps->pool->running.items[i];
        const struct sched_gang *g = &s->gangs[gang];
        if (g->leaving) {
            reach_hand_over(ps, g);
            if (g->moves)
                claim_new_places(ps, gang);
            continue;
        }
        if (g->spec.non_preemptible)
            continue;
        bool preemptible = is_preemptible(s, g);
        *(preemptible ? &ps->spare : &ps->spare_protected) += g->slots - g->min_slots;
        tally_add(&s->all, ps, g);
        if (preemptible)
            tally_add(&s->preemptible, ps, g);
    }
    tally_sum(&s->all);
    tally_sum(&s->preemptible);
}

// --- gangs within reach --------------------------------------------------------------------------

static bool counts_protected(const struct sched_pass *ps)
{
    return ps->reservations < RESERVATIONS_MAX;
}

// Slots that are free, being handed over or spare; with `later`, also spare slots that are still
// protected by min_runtime.
static int64_t spare_slots(const struct sched_pass *ps, bool later)
{
    return ps->available + ps->incoming + ps->spare + (later ? ps->spare_protected : 0);
}

// Slots that a gang of this rank could get in addition to those of its own team.
static int64_t reachable_slots(const struct sched_pass *ps, const struct gang_rank *rank,
                               bool later)
{
    const struct sched *s = ps->s;
    return spare_slots(ps, later) + tally_behind(later ? &s->all : &s->preemptible, ps, rank);
}

// Within a team, min_runtime does not protect a gang from a higher priority.
static void enter_priority(const struct sched *s, const struct sched_queue *q,
                           struct queue_cursor *c)
{
    c->priority = q->items[c->at].first / LEVELS_CAP;
    c->lower_protected = 0;
    for (size_t i = q->count; i-- > 0 && q->items[i].first / LEVELS_CAP != c->priority;) {
        const struct sched_gang *g = &s->gangs[q->items[i].gang];
        c->lower_protected += may_leave(g) && !is_preemptible(s, g) ? g->slots : 0;
    }
}

// Returns whether the gang at a position of its queue could get the slots that it needs.
static bool within_reach(const struct sched_pass *ps, const struct team_share *share,
                         const struct queue_cursor *c, const struct sched_gang *g)
{
    bool later = counts_protected(ps);
    if (g->overdue || pool_is_strict(ps->pool) || g->min_slots <= spare_slots(ps, false))
        return true;
    return g->min_slots < share->unattainable &&
           g->min_slots <= reachable_slots(ps, &g->rank, later) + c->preemptible +
                               (later ? c->protected : c->lower_protected);
}

// Moves the cursor to the next waiting gang of the entitlement that is within reach. False: there
// is none.
static bool cursor_advance(struct sched_pass *ps, struct team_share *share, int entitlement)
{
    const struct sched *s = ps->s;
    const struct sched_queue *q = &share->queue;
    struct queue_cursor *c = &share->cursors[entitlement];
    for (; c->at < q->count; c->at++) {
        const struct sched_gang *g = &s->gangs[q->items[c->at].gang];
        if (q->items[c->at].first / LEVELS_CAP != c->priority)
            enter_priority(s, q, c);
        if (g->placed)
            *(is_preemptible(s, g) ? &c->preemptible : &c->protected) -=
                may_leave(g) ? g->slots : 0;
        else if (g->rank.entitlement == entitlement && within_reach(ps, share, c, g))
            return true;
    }
    return false;
}

static struct ranked_gang head_of(const struct sched *s, const struct team_share *share,
                                  int entitlement)
{
    int gang = share->queue.items[share->cursors[entitlement].at].gang;
    return (struct ranked_gang){s->gangs[gang].rank, gang, s->gangs[gang].team};
}

// Returns whether any gang of a team with this entitlement could be within reach of the remaining
// slots.
static bool could_reach(const struct sched_pass *ps, const struct team_share *share,
                        int entitlement, bool later)
{
    if (!share->queue.count || !(share->waits & 1U << entitlement))
        return false;
    return pool_is_strict(ps->pool) || (later ? share->lacks_later : share->lacks) <=
                                           reachable_slots(ps, &share->best[entitlement], later);
}

// --- the heap: the next gang of each team and entitlement ----------------------------------------

// An entry starts with the best rank of any waiting gang of its team and entitlement. The real gang
// is looked up when the entry reaches the top of the heap.
static void heap_add_entry(struct sched_pass *ps, int team, int entitlement)
{
    struct sched *s = ps->s;
    struct team_share *share = &ps->pool->shares[team];
    share->cursors[entitlement] = share->first;
    s->heap[s->heap_count++] = (struct ranked_gang){share->best[entitlement], SCHED_NONE, team};
}

// Remembers the first teams whose gangs only wait for min_runtime; free slots are reserved for
// these gangs.
static void add_near_miss(struct sched_pass *ps, int team, int entitlement)
{
    struct ranked_gang new = {ps->pool->shares[team].best[entitlement], SCHED_NONE, team};
    size_t at = ps->near_miss_count;
    while (at && rank_before(&new.rank, &ps->near_misses[at - 1].rank))
        at--;
    if (at == RESERVATIONS_MAX)
        return;
    size_t last =
        ps->near_miss_count < RESERVATIONS_MAX ? ps->near_miss_count++ : RESERVATIONS_MAX - 1;
    memmove(ps->near_misses + at + 1, ps->near_misses + at, (last - at) * sizeof *ps->near_misses);
    ps->near_misses[at] = new;
}

static void collect_team(struct sched_pass *ps, int team)
{
    const struct team_share *share = &ps->pool->shares[team];
    if (!share->waiting)
        return;
    for (int e = 0; e < ENTITLEMENTS; e++)
        if (could_reach(ps, share, e, false))
            heap_add_entry(ps, team, e);
        else if (could_reach(ps, share, e, true))
            add_near_miss(ps, team, e);
    for (int t = ps->s->teams[team].first_child; t != SCHED_NONE; t = ps->s->teams[t].next_sibling)
        collect_team(ps, t);
}

void reach_collect(struct sched_pass *ps)
{
    ps->s->heap_count = 0;
    collect_team(ps, SCHED_ROOT);
    for (size_t i = 0; i < ps->near_miss_count; i++)
        heap_add_entry(ps, ps->near_misses[i].team, ps->near_misses[i].rank.entitlement);
    heap_build(ps->s);
}

static bool top_could_reach(const struct sched_pass *ps, const struct ranked_gang *r)
{
    return could_reach(ps, &ps->pool->shares[r->team], r->rank.entitlement, counts_protected(ps));
}

// Removes entries without any gang within reach.
static void heap_filter(struct sched_pass *ps)
{
    struct sched *s = ps->s;
    size_t kept = 0;
    for (size_t i = 0; i < s->heap_count; i++)
        if (top_could_reach(ps, &s->heap[i]))
            s->heap[kept++] = s->heap[i];
    s->heap_count = kept;
    heap_build(s);
}

// Takes the top entry and replaces it by the next gang of the same team and entitlement.
// SCHED_NONE: the entry had no gang within reach.
static int heap_take_top(struct sched_pass *ps)
{
    struct sched *s = ps->s;
    struct team_share *share = &ps->pool->shares[s->heap[0].team];
    int gang = s->heap[0].gang, entitlement = s->heap[0].rank.entitlement;
    struct queue_cursor *c = &share->cursors[entitlement];
    // A gang that was within reach when the cursor found it may be out of reach now.
    bool taken = gang != SCHED_NONE && cursor_advance(ps, share, entitlement) &&
                 share->queue.items[c->at].gang == gang;
    c->at += taken;
    if (cursor_advance(ps, share, entitlement))
        heap_replace(s, head_of(s, share, entitlement));
    else
        heap_take(s);
    return taken ? gang : SCHED_NONE;
}

int reach_next(struct sched_pass *ps)
{
    struct sched *s = ps->s;
    int gang = SCHED_NONE;
    for (int missed = 0; s->heap_count && gang == SCHED_NONE;) {
        if (top_could_reach(ps, &s->heap[0])) {
            gang = heap_take_top(ps);
        } else {
            heap_take(s);
            if (++missed == FILTER_AFTER)
                heap_filter(ps);
        }
    }
    return gang;
}

void reach_forget(struct sched_pass *ps, const struct sched_gang *g)
{
    struct slot_tally *t = &ps->s->preemptible;
    const struct gang_rank *r = &g->rank;
    if (g->since + ps->s->rules.min_runtime > ps->s->now)
        return;
    ps->spare -= g->slots - g->min_slots;
    for (int b = bucket_of(ps, r->order); b >= 0; b--)
        t->slots[r->entitlement][r->level][b] -= g->slots;
    for (int l = r->level; l >= 0; l--)
        t->levels[r->entitlement][l] -= g->slots;
    for (int e = r->entitlement; e >= 0; e--)
        t->entitlements[e] -= g->slots;
}
