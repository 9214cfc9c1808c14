// The order of decision over a pool: what teams are entitled to comes first, then the level of
// service. One rank for each gang, running or waiting; the sooner of two may take the slots of the
// later, never the other way, so preemption cannot go in circles.
//
// A team's own order stands above levels: a gang that its team puts behind another is ranked at
// best with that other.
#include "master/sched/internal.h"

#include "base/log.h"

enum {
    MISFITS = 32, // gangs in a row that do not fit into a rest, and it is left
    ROUNDS = 4,
    SLACK_PART = 256,      // of a pool
    DEBT_LOOK_MS = 1000,   // debts are not looked at more often
    LIMIT_SLOTS = 1 << 30, // more than there are
};

#define LANE_SAVES_US  (24 * HOUR_US)
#define LANE_SPENDS_US (24 * HOUR_US / 10)
#define LANE_LOOK_US   (HOUR_US / 12) // while it is used, it is looked at as often as this

static int64_t smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

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

// Whether a gang that is larger than what is left of its team's entitlement may have it all the
// same, because the team could not use it for so long: gangs are whole, so its share evens out over
// time. Until the debt is paid, whoever runs on it. The answer holds while the debt is in bounds.
static bool may_use_debt(const struct sched *s, struct share *share, int team, int64_t lacks)
{
    int64_t needs = share->spends ? 1 : lacks * (s->rules.debt_quantum / 1000);
    share->spends = s->teams[team].debt >= needs;
    *(share->spends ? &share->debt_from : &share->debt_to) = needs;
    return share->spends;
}

// Whether it has waited for so long that it goes before all; not if its team has a higher priority.
static bool goes_first(const struct share *share, const struct gang *g)
{
    return g->overdue && g->key.first / LEVELS_CAP == share->queue.items[0].first / LEVELS_CAP;
}

// Whether the entitlement of its team covers the gang; charges it.
static bool charge(struct sched *s, struct pool *p, struct share *share, struct gang *g)
{
    int64_t lacks = (int64_t)g->min_slots * FINE - share->rest;
    if (p->policy != SCHED_POLICY_FAIR_SHARE)
        return false;
    if (lacks <= 0) {
        share->rest = -lacks;
        return true;
    }
    bool first = !share->stretched;
    share->stretched |= first;
    if (goes_first(share, g) || (first && may_use_debt(s, share, g->team, lacks))) {
        share->rest = 0;
        share->beyond += lacks;
        return true;
    }
    share->margin = smaller(share->margin, lacks);
    return false;
}

// The first of an entitlement is the best: in a queue, and among those who get what is left over.
static void note_best(struct share *share, const struct rank *rank)
{
    unsigned bit = 1U << rank->entitlement;
    if (!(share->waits & bit))
        share->best[rank->entitlement] = *rank;
    share->waits |= bit;
}

// What reach.c needs to know of a queue: who waits, and what runs behind the first of those. Until
// the end of the queue is known, what somebody lacks is too much by all that runs behind the first.
static void count_waiting(struct share *share, size_t at, struct gang *g)
{
    struct cursor *first = &share->first;
    int64_t needs = g->overdue ? -LIMIT_SLOTS : g->min_slots;
    g->considered = true;
    if (!share->waits)
        *first = (struct cursor){.at = at, .priority = g->key.first / LEVELS_CAP};
    share->lacks = smaller(share->lacks, needs + first->ripe + first->lower);
    share->lacks_later = smaller(share->lacks_later, needs + first->ripe + first->young);
    note_best(share, &g->rank);
}

static void end_count(struct share *share)
{
    const struct cursor *first = &share->first;
    share->unmarked = share->waits;
    if (!share->waits)
        return;
    share->lacks -= first->ripe + first->lower;
    share->lacks_later -= first->ripe + first->young;
}

static void count_running(const struct sched *s, struct share *share, const struct gang *g)
{
    int64_t ripens = g->since + s->rules.shortest;
    if (g->leaving || !share->waits)
        return;
    if (ripens <= s->now) {
        share->first.ripe += g->slots;
        return;
    }
    share->first.young += g->slots;
    share->first.lower += g->key.first / LEVELS_CAP != share->first.priority ? g->slots : 0;
    share->ages_at = smaller(share->ages_at, ripens);
}

static void count_uncovered(struct share *share, size_t at)
{
    const struct queue *q = &share->queue;
    if (share->uncovered == q->count)
        share->uncovered = at;
    if (share->fresh == q->count && q->items[at].first % LEVELS_CAP <= LEVEL_FIRST)
        share->fresh = at;
}

static void rank_queue(struct sched *s, struct pool *p, struct share *share)
{
    const struct queue *q = &share->queue;
    struct rank worst = {.entitlement = ENTITLED_NOT, .order = INT64_MIN};
    share->rest = share->ranked_with = share->entitled;
    share->dirty = share->stretched = false;
    share->waits = 0;
    share->beyond = 0;
    share->margin = share->ages_at = share->lacks = share->lacks_later = INT64_MAX;
    share->debt_from = INT64_MIN;
    share->debt_to = INT64_MAX;
    share->uncovered = share->fresh = q->count;
    for (size_t i = 0; i < q->count; i++) {
        struct gang *g = &s->gangs[q->items[i].gang];
        g->rank = (struct rank){ENTITLED_NOT, (int8_t)(q->items[i].first % LEVELS_CAP), (int32_t)i,
                                q->items[i].second};
        if (g->rank.level < worst.level ||
            (g->rank.level == worst.level && g->rank.order < worst.order)) {
            g->rank.level = worst.level;
            g->rank.order = worst.order;
        }
        worst = g->rank;
        if (charge(s, p, share, g))
            g->rank.entitlement = goes_first(share, g) ? ENTITLED_FAST : ENTITLED_SELF;
        else
            count_uncovered(share, i);
        if (g->placed)
            count_running(s, share, g);
        else
            count_waiting(share, i, g);
    }
    end_count(share);
}

// Ranks the gangs of one queue, and marks what its team is entitled to, where that has changed.
static void renew_ranks(struct sched *s, struct pool *p, int team)
{
    struct share *share = &p->shares[team];
    int64_t more = share->entitled - share->ranked_with, debt = s->teams[team].debt;
    bool holds = !share->dirty && s->now < share->ages_at && more < share->margin &&
                 share->rest + more >= 0 && debt >= share->debt_from && debt < share->debt_to;
    if (!holds) {
        rank_queue(s, p, share);
        return;
    }
    share->rest += more;
    share->ranked_with += more;
    share->margin -= share->margin == INT64_MAX ? 0 : more;
}

// When its team's debt will have grown or been paid so far that a gang's cover changes.
static void wake_for_debt(const struct sched *s, struct pool *p, int team)
{
    const struct share *share = &p->shares[team];
    int64_t debt = s->teams[team].debt, rate = share->nominal - FINE * share->held, left = -1;
    if (rate > 0 && share->debt_to != INT64_MAX)
        left = (share->debt_to - debt) / rate;
    else if (rate < 0 && share->debt_from != INT64_MIN)
        left = (debt - share->debt_from) / -rate;
    left = left >= 0 && left < DEBT_LOOK_MS ? DEBT_LOOK_MS : left;
    if (left >= 0 && s->now + (left + 1) * 1000 < p->next)
        p->next = s->now + (left + 1) * 1000;
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

void heap_replace(struct sched *s, struct ranked first)
{
    s->heap[0] = first;
    sift_down(s->heap, 0, s->heap_count);
}

static void fill(struct sched *s, const struct pool *p, int team)
{
    const struct share *share = &p->shares[team];
    if (!share->waiting)
        return;
    for (size_t i = 0; i < share->queue.count; i++) {
        const struct gang *g = &s->gangs[share->queue.items[i].gang];
        if (!g->placed && g->considered)
            s->heap[s->heap_count++] = (struct ranked){g->rank, share->queue.items[i].gang, team};
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
    while (share->walked < share->queue.count) {
        const struct item *item = &share->queue.items[share->walked++];
        if (item->first % LEVELS_CAP <= level &&
            s->gangs[item->gang].rank.entitlement == ENTITLED_NOT)
            return item->gang;
    }
    return SCHED_NONE;
}

// Ranks the next gang of a team among those to be covered. In the fast lane users take turns: the
// user with the least use of it, divided by the weight, comes first.
static struct ranked head_for(const struct sched *s, const struct pool *p, int gang, int team,
                              int level)
{
    struct ranked head = {s->gangs[gang].rank, gang, team};
    if (level == LEVEL_FIRST) {
        head.rank.order = p->shares[team].fast * SCHED_WEIGHT_ONE / s->teams[team].spec.weight;
        head.rank.place = team;
    }
    return head;
}

static void collect_heads(struct sched *s, struct pool *p, int team, int level)
{
    struct share *share = &p->shares[team];
    if (!share->held && !share->waiting)
        return;
    size_t from = level > LEVEL_FIRST ? share->uncovered : share->fresh;
    if (from < share->queue.count) {
        share->walked = from;
        share->fast = 0;
        int gang = next_uncovered(s, share, level);
        if (gang != SCHED_NONE)
            s->heap[s->heap_count++] = head_for(s, p, gang, team, level);
    }
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
        int gang = s->heap[0].gang;
        struct gang *g = &s->gangs[gang];
        int64_t needs = (int64_t)g->min_slots * FINE;
        struct share *share = &p->shares[g->team];
        int next = next_uncovered(s, share, level);
        share->fast += needs <= rest ? needs : 0;
        if (next != SCHED_NONE)
            heap_replace(s, head_for(s, p, next, g->team, level));
        else
            heap_take(s);
        misfits = needs <= rest ? 0 : misfits + 1;
        if (needs > rest)
            continue;
        rest -= needs;
        g->rank.entitlement = entitlement;
        if (!g->placed)
            note_best(&p->shares[g->team], &g->rank);
        p->marked.items[p->marked.count++] = gang;
    }
    return rest;
}

static void forget_marks(struct sched *s, struct pool *p)
{
    for (size_t i = 0; i < p->marked.count; i++) {
        struct gang *g = &s->gangs[p->marked.items[i]];
        if (g->rank.entitlement == ENTITLED_FAST || g->rank.entitlement == ENTITLED_TEAM)
            g->rank.entitlement = ENTITLED_NOT;
        p->shares[g->team].waits = p->shares[g->team].unmarked;
    }
    p->marked.count = 0;
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
    share->hopeless = INT64_MAX;
    if (child == SCHED_NONE || share->queue.count) {
        queue_renew(s, p, share);
        if (p->waiting_count && share->queue.count && share->queue.due < p->next)
            p->next = share->queue.due;
        renew_ranks(s, p, team);
        if (share->stretched)
            wake_for_debt(s, p, team);
        p->beyond += share->beyond;
        return;
    }
    share->rest = share->entitled;
    for (; child != SCHED_NONE; child = s->teams[child].next_sibling) {
        rank_team(s, p, child);
        if (p->shares[child].held || p->shares[child].waiting)
            share->rest += p->shares[child].rest - p->shares[child].entitled;
    }
    if (team != SCHED_ROOT && p->policy == SCHED_POLICY_FAIR_SHARE)
        share->rest = cover(s, p, team, LEVELS_CAP, ENTITLED_TEAM, share->rest);
}

// The size of the fast lane now, in thousandths of a slot. Its part of the pool is an average: it
// may spend the unused part of at most one day within a few hours. So a burst of short jobs starts
// at once, and an endless stream of them gets no more than that part.
static int64_t lane_of(struct sched *s, struct pool *p)
{
    int64_t part = p->capacity * s->rules.fast_percent * FINE / 100;
    int64_t passed = p->fast_at ? (s->now - p->fast_at) / 1000 : 0; // ms
    int64_t most = part * (LANE_SAVES_US / 1000);
    if (!p->fast_at || passed >= LANE_LOOK_US / 1000) {
        p->fast_saved += passed * (part - p->fast_used);
        if (!p->fast_at || p->fast_saved > most)
            p->fast_saved = most;
        p->fast_saved = p->fast_saved > 0 ? p->fast_saved : 0;
        p->fast_at = s->now;
    }
    int64_t lane = p->fast_saved / (LANE_SPENDS_US / 1000) / FINE * FINE;
    return smaller(lane, p->capacity * FINE);
}

// One round with as much set aside as p->aside says; returns how much it was.
static int64_t rank_round(struct sched *s, struct pool *p, int64_t lane)
{
    int64_t left = p->capacity * FINE - p->aside;
    p->beyond = 0;
    forget_marks(s, p);
    shares_divide(s, p, left > 0 ? left : 0);
    rank_team(s, p, SCHED_ROOT);
    p->fast_used = lane - cover(s, p, SCHED_ROOT, LEVEL_FIRST, ENTITLED_FAST, lane);
    return p->beyond + p->fast_used;
}

// Entitlements are of what the fast lane and those who waited too long leave. How much that is
// follows from the entitlements: begin with none, until it is not more than assumed, or by so
// little that it does not matter. Returns how much it is.
static int64_t rank_from_none(struct sched *s, struct pool *p, int64_t lane)
{
    int64_t slack = p->capacity / SLACK_PART * FINE, used = 0;
    for (int round = 0; round < ROUNDS; round++) {
        p->aside = used;
        used = rank_round(s, p, lane);
        if (used <= p->aside + slack)
            break;
    }
    return used;
}

// Tries the result of the last pass first, which nearly always saves all but one round and most of
// the ranking. Nothing here may depend on the running jobs: at one moment the order is fixed, or
// preemption could go in circles. So the first guess changes only with time.
void order_rank(struct sched *s, struct pool *p)
{
    if (p->policy != SCHED_POLICY_FAIR_SHARE) {
        rank_team(s, p, SCHED_ROOT);
        return;
    }
    shares_begin(s, p);
    int64_t lane = lane_of(s, p), slack = p->capacity / SLACK_PART * FINE;
    if (s->now > p->aside_at)
        p->aside_tried = p->aside;
    p->aside_at = s->now;
    p->aside = p->aside_tried;
    int64_t used = rank_round(s, p, lane);
    if (used > p->aside + slack || used < p->aside - slack)
        p->aside = rank_from_none(s, p, lane);
    if (p->fast_used && p->fast_at + LANE_LOOK_US < p->next)
        p->next = p->fast_at + LANE_LOOK_US;
}
