// The order of decision in a pool: gangs that are covered by their team's entitlement come first,
// then the level of service decides. Each gang, running or waiting, has one rank. A gang may only
// take slots of gangs behind it, so preemption cannot go in circles.
//
// The team's own order takes precedence over levels: a gang that its team puts behind another gang
// ranks at best equal to that gang.
#include "master/sched/internal.h"

#include "base/log.h"

enum {
    MISFITS = 32, // gangs in a row that do not fit into a rest before the rest is given up
    ROUNDS = 4,
    SLACK_PART = 256,      // tolerance, as a part of the pool
    DEBT_LOOK_MS = 1000,   // minimum time between two looks at a debt
    LIMIT_SLOTS = 1 << 30, // more than any pool has
};

#define LANE_SAVES_US  (24 * HOUR_US)
#define LANE_SPENDS_US (24 * HOUR_US / 10)
#define LANE_LOOK_US   (HOUR_US / 12) // interval of passes while the lane is used

static int64_t smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

bool rank_before(const struct gang_rank *a, const struct gang_rank *b)
{
    if (a->entitlement != b->entitlement)
        return a->entitlement < b->entitlement;
    if (a->level != b->level)
        return a->level < b->level;
    if (a->order != b->order)
        return a->order < b->order;
    return a->place < b->place;
}

// Returns whether a gang larger than the rest of its team's entitlement may have it all because of
// the team's debt. Gangs are whole, so the share of a team evens out over time. Once allowed, the
// gang may keep it until the debt is paid. The answer holds while the debt stays within its bounds.
static bool may_use_debt(const struct sched *s, struct team_share *share, int team, int64_t lacks)
{
    int64_t needs = share->uses_debt ? 1 : lacks * (s->rules.debt_quantum / 1000);
    share->uses_debt = s->teams[team].debt >= needs;
    *(share->uses_debt ? &share->debt_from : &share->debt_to) = needs;
    return share->uses_debt;
}

// Returns whether an overdue gang goes before all others. It does not if its team has a gang of a
// higher priority.
static bool goes_first(const struct team_share *share, const struct sched_gang *g)
{
    return g->overdue && g->key.first / LEVELS_CAP == share->queue.items[0].first / LEVELS_CAP;
}

// Returns whether the team's entitlement covers the gang, and charges the gang to it.
static bool charge_entitlement(struct sched *s, struct sched_pool *p, struct team_share *share,
                               struct sched_gang *g)
{
    int64_t lacks = (int64_t)g->min_slots * MILLISLOTS - share->rest;
    if (p->policy != SCHED_POLICY_FAIR_SHARE)
        return false;
    if (lacks <= 0) {
        share->rest = -lacks;
        return true;
    }
    bool first = !share->exceeded;
    share->exceeded |= first;
    if (goes_first(share, g) || (first && may_use_debt(s, share, g->team, lacks))) {
        share->rest = 0;
        share->beyond += lacks;
        return true;
    }
    share->margin = smaller(share->margin, lacks);
    return false;
}

// Records the best rank of each entitlement; the first gang found has it, both in a queue and among
// the gangs that are covered by a rest.
static void note_best(struct team_share *share, const struct gang_rank *rank)
{
    unsigned bit = 1U << rank->entitlement;
    if (!(share->waits & bit))
        share->best[rank->entitlement] = *rank;
    share->waits |= bit;
}

// Counts what reach.c needs to know of a queue: the waiting gangs, and the running ones behind the
// first waiting gang. Until end_count(), `lacks` is too large by all running slots behind the first
// waiting gang.
static void count_waiting(struct team_share *share, size_t at, struct sched_gang *g)
{
    struct queue_cursor *first = &share->first;
    int64_t needs = g->overdue ? -LIMIT_SLOTS : g->min_slots;
    g->considered = true;
    if (!share->waits)
        *first = (struct queue_cursor){.at = at, .priority = g->key.first / LEVELS_CAP};
    share->lacks = smaller(share->lacks, needs + first->preemptible + first->lower_protected);
    share->lacks_later = smaller(share->lacks_later, needs + first->preemptible + first->protected);
    note_best(share, &g->rank);
}

static void end_count(struct team_share *share)
{
    const struct queue_cursor *first = &share->first;
    share->unmarked = share->waits;
    if (!share->waits)
        return;
    share->lacks -= first->preemptible + first->lower_protected;
    share->lacks_later -= first->preemptible + first->protected;
}

static void count_running(const struct sched *s, struct team_share *share,
                          const struct sched_gang *g)
{
    int64_t preemptible_at = g->since + s->rules.min_runtime;
    if (g->leaving || !share->waits)
        return;
    if (preemptible_at <= s->now) {
        share->first.preemptible += g->slots;
        return;
    }
    share->first.protected += g->slots;
    share->first.lower_protected +=
        g->key.first / LEVELS_CAP != share->first.priority ? g->slots : 0;
    share->ages_at = smaller(share->ages_at, preemptible_at);
}

static void count_uncovered(struct team_share *share, size_t at)
{
    const struct sched_queue *q = &share->queue;
    if (share->uncovered == q->count)
        share->uncovered = at;
    if (share->first_level == q->count && q->items[at].first % LEVELS_CAP <= LEVEL_FIRST)
        share->first_level = at;
}

static void rank_queue(struct sched *s, struct sched_pool *p, struct team_share *share)
{
    const struct sched_queue *q = &share->queue;
    struct gang_rank worst = {.entitlement = ENTITLED_NOT, .order = INT64_MIN};
    share->rest = share->ranked_with = share->entitled;
    share->dirty = share->exceeded = false;
    share->waits = 0;
    share->beyond = 0;
    share->margin = share->ages_at = share->lacks = share->lacks_later = INT64_MAX;
    share->debt_from = INT64_MIN;
    share->debt_to = INT64_MAX;
    share->uncovered = share->first_level = q->count;
    for (size_t i = 0; i < q->count; i++) {
        struct sched_gang *g = &s->gangs[q->items[i].gang];
        g->rank = (struct gang_rank){ENTITLED_NOT, (int8_t)(q->items[i].first % LEVELS_CAP),
                                     (int32_t)i, q->items[i].second};
        if (g->rank.level < worst.level ||
            (g->rank.level == worst.level && g->rank.order < worst.order)) {
            g->rank.level = worst.level;
            g->rank.order = worst.order;
        }
        worst = g->rank;
        if (charge_entitlement(s, p, share, g))
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

// Ranks the gangs of one queue and marks the covered ones, unless the last ranking still holds.
static void renew_ranks(struct sched *s, struct sched_pool *p, int team)
{
    struct team_share *share = &p->shares[team];
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

// Schedules a pass for the time when the team's debt will have changed so much that a gang's cover
// changes.
static void wake_for_debt(const struct sched *s, struct sched_pool *p, int team)
{
    const struct team_share *share = &p->shares[team];
    int64_t debt = s->teams[team].debt, rate = share->nominal - MILLISLOTS * share->held, left = -1;
    if (rate > 0 && share->debt_to != INT64_MAX)
        left = (share->debt_to - debt) / rate;
    else if (rate < 0 && share->debt_from != INT64_MIN)
        left = (debt - share->debt_from) / -rate;
    left = left >= 0 && left < DEBT_LOOK_MS ? DEBT_LOOK_MS : left;
    if (left >= 0 && s->now + (left + 1) * 1000 < p->next)
        p->next = s->now + (left + 1) * 1000;
}

// --- the rest of an entitlement ------------------------------------------------------------------

static void sift_down(struct ranked_gang *heap, size_t at, size_t count)
{
    struct ranked_gang moved = heap[at];
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

void heap_replace(struct sched *s, struct ranked_gang first)
{
    s->heap[0] = first;
    sift_down(s->heap, 0, s->heap_count);
}

static void heap_add_team(struct sched *s, const struct sched_pool *p, int team)
{
    const struct team_share *share = &p->shares[team];
    if (!share->waiting)
        return;
    for (size_t i = 0; i < share->queue.count; i++) {
        const struct sched_gang *g = &s->gangs[share->queue.items[i].gang];
        if (!g->placed && g->considered)
            s->heap[s->heap_count++] =
                (struct ranked_gang){g->rank, share->queue.items[i].gang, team};
    }
    for (int t = s->teams[team].first_child; t != SCHED_NONE; t = s->teams[t].next_sibling)
        heap_add_team(s, p, t);
}

void heap_fill(struct sched *s, const struct sched_pool *p)
{
    s->heap_count = 0;
    heap_add_team(s, p, SCHED_ROOT);
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

// Returns the next gang of the queue, from its cursor on, that is not covered and has at most this
// level; SCHED_NONE: none.
static int next_uncovered(const struct sched *s, struct team_share *share, int level)
{
    while (share->walked < share->queue.count) {
        const struct queue_item *item = &share->queue.items[share->walked++];
        if (item->first % LEVELS_CAP <= level &&
            s->gangs[item->gang].rank.entitlement == ENTITLED_NOT)
            return item->gang;
    }
    return SCHED_NONE;
}

// Ranks the next gang of a team among the gangs to be covered. In the fast lane users take turns:
// the user with the least use of the lane, divided by the weight, comes first.
static struct ranked_gang head_to_cover(const struct sched *s, const struct sched_pool *p, int gang,
                                        int team, int level)
{
    struct ranked_gang head = {s->gangs[gang].rank, gang, team};
    if (level == LEVEL_FIRST) {
        head.rank.order = p->shares[team].fast * SCHED_WEIGHT_ONE / s->teams[team].spec.weight;
        head.rank.place = team;
    }
    return head;
}

static void collect_heads(struct sched *s, struct sched_pool *p, int team, int level)
{
    struct team_share *share = &p->shares[team];
    if (!share->held && !share->waiting)
        return;
    size_t from = level > LEVEL_FIRST ? share->uncovered : share->first_level;
    if (from < share->queue.count) {
        share->walked = from;
        share->fast = 0;
        int gang = next_uncovered(s, share, level);
        if (gang != SCHED_NONE)
            s->heap[s->heap_count++] = head_to_cover(s, p, gang, team, level);
    }
    for (int t = s->teams[team].first_child; t != SCHED_NONE; t = s->teams[t].next_sibling)
        collect_heads(s, p, t, level);
}

// Covers gangs of a team and of the teams below it, in the order of ranks, as far as `rest`
// (thousandths of a slot) goes. Returns the remaining rest.
static int64_t cover_gangs(struct sched *s, struct sched_pool *p, int team, int level,
                           enum entitlement entitlement, int64_t rest)
{
    s->heap_count = 0;
    if (rest < MILLISLOTS)
        return rest;
    collect_heads(s, p, team, level);
    heap_build(s);
    for (int misfits = 0; s->heap_count && rest >= MILLISLOTS && misfits < MISFITS;) {
        int gang = s->heap[0].gang;
        struct sched_gang *g = &s->gangs[gang];
        int64_t needs = (int64_t)g->min_slots * MILLISLOTS;
        struct team_share *share = &p->shares[g->team];
        int next = next_uncovered(s, share, level);
        share->fast += needs <= rest ? needs : 0;
        if (next != SCHED_NONE)
            heap_replace(s, head_to_cover(s, p, next, g->team, level));
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

static void forget_marks(struct sched *s, struct sched_pool *p)
{
    for (size_t i = 0; i < p->marked.count; i++) {
        struct sched_gang *g = &s->gangs[p->marked.items[i]];
        if (g->rank.entitlement == ENTITLED_FAST || g->rank.entitlement == ENTITLED_TEAM)
            g->rank.entitlement = ENTITLED_NOT;
        p->shares[g->team].waits = p->shares[g->team].unmarked;
    }
    p->marked.count = 0;
}

// --- the tree ------------------------------------------------------------------------------------

// Whole gangs leave parts of their teams' entitlements unused. The rests of all members cover
// further gangs of the parent team.
static void rank_team(struct sched *s, struct sched_pool *p, int team)
{
    struct team_share *share = &p->shares[team];
    int child = s->teams[team].first_child;
    if (!share->held && !share->waiting)
        return;
    share->unattainable = INT64_MAX;
    if (child == SCHED_NONE || share->queue.count) {
        queue_renew(s, p, share);
        if (p->waiting_count && share->queue.count && share->queue.due < p->next)
            p->next = share->queue.due;
        renew_ranks(s, p, team);
        if (share->exceeded)
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
        share->rest = cover_gangs(s, p, team, LEVELS_CAP, ENTITLED_TEAM, share->rest);
}

// The current size of the fast lane in thousandths of a slot. On average the lane gets its part of
// the pool; it may spend the unused part of at most one day within a few hours. So a burst of short
// jobs starts at once, and an endless stream of them gets no more than that part.
static int64_t fast_lane_size(struct sched *s, struct sched_pool *p)
{
    int64_t part = p->capacity * s->rules.fast_percent * MILLISLOTS / 100;
    int64_t passed = p->fast_at ? (s->now - p->fast_at) / 1000 : 0; // ms
    int64_t max_saved = part * (LANE_SAVES_US / 1000);
    if (!p->fast_at || passed >= LANE_LOOK_US / 1000) {
        p->fast_saved += passed * (part - p->fast_used);
        if (!p->fast_at || p->fast_saved > max_saved)
            p->fast_saved = max_saved;
        p->fast_saved = p->fast_saved > 0 ? p->fast_saved : 0;
        p->fast_at = s->now;
    }
    int64_t lane = p->fast_saved / (LANE_SPENDS_US / 1000) / MILLISLOTS * MILLISLOTS;
    return smaller(lane, p->capacity * MILLISLOTS);
}

// One round of ranking with p->set_aside as the assumption; returns the amount that was actually
// set aside.
static int64_t rank_round(struct sched *s, struct sched_pool *p, int64_t lane)
{
    int64_t left = p->capacity * MILLISLOTS - p->set_aside;
    p->beyond = 0;
    forget_marks(s, p);
    shares_divide(s, p, left > 0 ? left : 0);
    rank_team(s, p, SCHED_ROOT);
    p->fast_used = lane - cover_gangs(s, p, SCHED_ROOT, LEVEL_FIRST, ENTITLED_FAST, lane);
    return p->beyond + p->fast_used;
}

// Entitlements divide what the fast lane and the overdue gangs leave, and that amount follows from
// the entitlements. The rounds start with nothing set aside and end when the result exceeds the
// assumption by no more than the tolerance. Returns the result.
static int64_t rank_from_none(struct sched *s, struct sched_pool *p, int64_t lane)
{
    int64_t slack = p->capacity / SLACK_PART * MILLISLOTS, used = 0;
    for (int round = 0; round < ROUNDS; round++) {
        p->set_aside = used;
        used = rank_round(s, p, lane);
        if (used <= p->set_aside + slack)
            break;
    }
    return used;
}

// The first round assumes the result of the last pass, which nearly always saves the other rounds
// and most of the ranking. The assumption depends on time alone and never on the running gangs: at
// one moment the order must be fixed, or preemption could go in circles.
void order_rank(struct sched *s, struct sched_pool *p)
{
    if (p->policy != SCHED_POLICY_FAIR_SHARE) {
        rank_team(s, p, SCHED_ROOT);
        return;
    }
    shares_begin(s, p);
    int64_t lane = fast_lane_size(s, p), slack = p->capacity / SLACK_PART * MILLISLOTS;
    if (s->now > p->set_aside_at)
        p->set_aside_tried = p->set_aside;
    p->set_aside_at = s->now;
    p->set_aside = p->set_aside_tried;
    int64_t used = rank_round(s, p, lane);
    if (used > p->set_aside + slack || used < p->set_aside - slack)
        p->set_aside = rank_from_none(s, p, lane);
    if (p->fast_used && p->fast_at + LANE_LOOK_US < p->next)
        p->next = p->fast_at + LANE_LOOK_US;
}
