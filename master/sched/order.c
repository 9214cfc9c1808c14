// The order of decision over a pool: what teams are entitled to comes first, then the level of
// service. One rank for each gang, running or waiting; the sooner of two may take the slots of the
// later, never the other way, so preemption cannot go in circles.
//
// A team's own order stands above levels: a gang that its team puts behind another is ranked at
// best with that other.
#include "master/sched/parts.h"

#include "base/log.h"

enum {
    MISFITS = 32, // gangs in a row that do not fit into a rest, and it is left
    ROUNDS = 4
};
#define DEBT_LOOK (HOUR_US / 12) // to see whether debts have grown or been paid

bool rank_before(const struct rank *a, const struct rank *b)
{
    if (a->entitlement != b->entitlement)
        return a->entitlement < b->entitlement;
    if (a->level != b->level)
        return a->level < b->level;
    if (a->order != b->order)
        return a->order < b->order;
    return a->place < b->place;
}

int gang_needs(const struct gang *g)
{
    return g->placed ? g->slots : g->spec.least;
}

// Whether a gang that is larger than what is left of its team's entitlement may have it all the
// same, because the team could not use it for so long: gangs are whole, so its share evens out over
// time.
static bool may_use_debt(struct sched *s, struct pool *p, struct gang *g, int64_t lacks)
{
    int64_t debt = s->teams[g->team].debt;
    int64_t needs = g->placed && g->on_debt ? 1 : lacks * s->rules.debt_quantum / 1000 / FINE;
    g->on_debt = debt >= needs;
    if (s->now + DEBT_LOOK < p->next)
        p->next = s->now + DEBT_LOOK;
    return g->on_debt;
}

// How much of the gang's slots its team's entitlement has to cover; more than there is left when it
// is not to be covered.
static int64_t charge(struct sched *s, struct pool *p, struct share *share, struct gang *g)
{
    int64_t needs = (int64_t)gang_needs(g) * FINE;
    if (needs <= share->rest)
        return needs;
    bool first = share->rest > 0 && !share->stretched;
    share->stretched |= first;
    if (!g->overdue && !(first && may_use_debt(s, p, g, needs - share->rest)))
        return needs;
    p->beyond += needs - share->rest;
    return share->rest;
}

// Ranks the gangs of one queue, and marks what its team is entitled to.
static void rank_queue(struct sched *s, struct pool *p, struct share *share)
{
    bool is_fair = p->policy == SCHED_FAIR_SHARE;
    struct rank worst = {ENTITLED_NOT, 0, INT64_MIN, 0};
    share->rest = is_fair ? share->entitled : 0;
    share->stretched = false;
    share->hopeless = INT64_MAX;
    for (size_t i = 0; i < share->queue.count; i++) {
        const struct item *item = &share->queue.items[i];
        struct gang *g = &s->gangs[item->gang];
        struct rank own = {ENTITLED_NOT, item->first % LEVELS_CAP, item->second, ++p->ranked};
        if (own.level < worst.level || (own.level == worst.level && own.order < worst.order)) {
            own.level = worst.level;
            own.order = worst.order;
        }
        worst = own;
        int64_t charged = is_fair ? charge(s, p, share, g) : INT64_MAX;
        if (charged <= share->rest) {
            share->rest -= charged;
            own.entitlement = ENTITLED_SELF;
        }
        g->rank = own;
    }
}

// --- what is left over ---------------------------------------------------------------------------

static void sift_down(struct ranked *heap, size_t at, size_t count)
{
    struct ranked moved = heap[at];
    for (size_t child; (child = 2 * at + 1) < count; at = child) {
        if (child + 1 < count && rank_before(&heap[child + 1].rank, &heap[child].rank))
            child++;
        if (!rank_before(&heap[child].rank, &moved.rank))
            break;
        heap[at] = heap[child];
    }
    heap[at] = moved;
}

void heap_build(struct sched *s)
{
    for (size_t i = s->heap_count / 2; i-- > 0;)
        sift_down(s->heap, i, s->heap_count);
}

static void fill(struct sched *s, const struct pool *p, int team)
{
    const struct share *share = &p->shares[team];
    if (!share->waiting)
        return;
    for (size_t i = 0; i < share->queue.count; i++) {
        const struct gang *g = &s->gangs[share->queue.items[i].gang];
        if (!g->placed && g->considered)
            s->heap[s->heap_count++] =
                (struct ranked){.rank = g->rank, .gang = share->queue.items[i].gang};
    }
    for (int t = s->teams[team].first_child; t != SCHED_NONE; t = s->teams[t].next_sibling)
        fill(s, p, t);
}

void heap_fill(struct sched *s, const struct pool *p)
{
    s->heap_count = 0;
    fill(s, p, SCHED_ROOT);
    heap_build(s);
}

int heap_take(struct sched *s)
{
    if (!s->heap_count)
        return SCHED_NONE;
    int gang = s->heap[0].gang;
    s->heap[0] = s->heap[--s->heap_count];
    if (s->heap_count)
        sift_down(s->heap, 0, s->heap_count);
    return gang;
}

// The first of a queue from its cursor on that is not covered, up to a level; SCHED_NONE.
static int next_uncovered(const struct sched *s, struct share *share, int level)
{
    for (; share->cursor < share->queue.count; share->cursor++) {
        const struct gang *g = &s->gangs[share->queue.items[share->cursor].gang];
        if (g->rank.entitlement == ENTITLED_NOT && g->key.first % LEVELS_CAP <= level)
            return share->queue.items[share->cursor++].gang;
    }
    return SCHED_NONE;
}

static void collect_heads(struct sched *s, struct pool *p, int team, int level)
{
    struct share *share = &p->shares[team];
    if (!share->held && !share->waiting)
        return;
    share->cursor = 0;
    int gang = next_uncovered(s, share, level);
    if (gang != SCHED_NONE)
        s->heap[s->heap_count++] = (struct ranked){.rank = s->gangs[gang].rank, .gang = gang};
    for (int t = s->teams[team].first_child; t != SCHED_NONE; t = s->teams[t].next_sibling)
        collect_heads(s, p, t, level);
}

// Covers gangs of a team and those below it, in the order of ranks, as far as `rest` (thousandths)
// goes; returns what is left of it.
static int64_t cover(struct sched *s, struct pool *p, int team, int level,
                     enum entitlement entitlement, int64_t rest)
{
    s->heap_count = 0;
    if (rest < FINE)
        return rest;
    collect_heads(s, p, team, level);
    heap_build(s);
    for (int misfits = 0; s->heap_count && rest >= FINE && misfits < MISFITS;) {
        struct gang *g = &s->gangs[s->heap[0].gang];
        int64_t needs = (int64_t)gang_needs(g) * FINE;
        int next = next_uncovered(s, &p->shares[g->team], level);
        if (next != SCHED_NONE)
            s->heap[0] = (struct ranked){.rank = s->gangs[next].rank, .gang = next};
        else
            s->heap[0] = s->heap[--s->heap_count];
        if (s->heap_count)
            sift_down(s->heap, 0, s->heap_count);
        misfits = needs <= rest ? 0 : misfits + 1;
        if (needs > rest)
            continue;
        rest -= needs;
        g->rank.entitlement = entitlement;
    }
    return rest;
}

// --- the tree ------------------------------------------------------------------------------------

// What the members of a team could not use of their parts, because gangs are whole, goes to those
// of them who are next.
static void rank_team(struct sched *s, struct pool *p, int team)
{
    struct share *share = &p->shares[team];
    int child = s->teams[team].first_child;
    if (!share->held && !share->waiting)
        return;
    queue_renew(s, p, &share->queue);
    if (p->waiting_count && share->queue.count && share->queue.due < p->next)
        p->next = share->queue.due;
    rank_queue(s, p, share);
    bool is_inner = child != SCHED_NONE && team != SCHED_ROOT;
    for (; child != SCHED_NONE; child = s->teams[child].next_sibling) {
        rank_team(s, p, child);
        share->rest += p->shares[child].rest - p->shares[child].entitled;
    }
    if (is_inner && p->policy == SCHED_FAIR_SHARE)
        share->rest = cover(s, p, team, LEVELS_CAP, ENTITLED_TEAM, share->rest);
}

// Entitlements are of what the fast lane and those who waited too long leave. How much that is
// follows from the entitlements: begin with what it was, until it is not more than assumed.
void order_rank(struct sched *s, struct pool *p)
{
    int64_t lane = p->capacity * s->rules.fast_percent / 100 * FINE;
    shares_begin(s, p);
    for (int round = 0; round < ROUNDS; round++) {
        int64_t left = p->capacity - (p->aside_slots + FINE - 1) / FINE;
        p->ranked = p->beyond = 0;
        shares_divide(s, p, left > 0 ? left : 0);
        rank_team(s, p, SCHED_ROOT);
        if (p->policy != SCHED_FAIR_SHARE)
            return;
        int64_t used = p->beyond + lane - cover(s, p, SCHED_ROOT, LEVEL_FIRST, ENTITLED_FAST, lane);
        bool settled = used <= p->aside_slots;
        p->aside_slots = used;
        if (settled)
            return;
    }
}
