// Tests the scheduler with random walks of events. A ledger of holders, kept from the commands
// alone, must satisfy the invariants after each event. A seed replays its walk exactly.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/arena.h"
#include "base/hash.h"
#include "base/rng.h"
#include "master/sched/explain.h"
#include "master/sched/sched.h"

enum { POOLS = 3, AGENTS = 8, SLOTS = 6, TEAMS = 12, JOBS = 16, GANGS = 48 };
enum { SETTLE_MOST = 24, PASSES_MOST = 6, EVENTS = 1500 };

#define SECOND  1000000LL
#define MINUTE  (60 * SECOND)
#define HOUR    (60 * MINUTE)
#define OVERDUE (30 * HOUR) // sched_default_rules.overdue_large

struct sched_walk {
    uint64_t seed;
    struct rng rng;
    struct sched *s;
    int64_t now, orders;
    enum sched_policy policies[POOLS];
    struct walk_agent {
        bool used, usable;
        int handle, pool, rack, slots, zero;
        bool enabled[SLOTS];
        int owner[SLOTS]; // tag
    } agents[AGENTS];
    struct walk_team { // [0] is the root
        bool used;
        int handle, parent, depth; // index
        struct sched_team_spec spec;
    } teams[TEAMS];
    struct walk_job {
        bool used;
        int handle, team; // index
        struct sched_job_spec spec;
        int64_t held, service;
    } jobs[JOBS];
    struct walk_gang {
        bool used, placed, leaving;
        int handle, job, slots, pool; // index
        struct sched_gang_spec spec;
        int next_min, next_max; // its range when it waits again; 0: unchanged
        int64_t since;
    } gangs[GANGS];
    uint64_t digest;
    size_t drains;
};

#define EXPECT(w, condition)                                                                       \
    do {                                                                                           \
        if (!(condition))                                                                          \
            fail_msg("seed %llu, %lld s: %s", (unsigned long long)(w)->seed,                       \
                     (long long)((w)->now / SECOND), #condition);                                  \
    } while (0)

static int below(struct sched_walk *w, int bound)
{
    return (int)rng_below(&w->rng, (uint32_t)bound);
}

static bool one_in(struct sched_walk *w, int n)
{
    return !below(w, n);
}

// --- the book ------------------------------------------------------------------------------------

static struct walk_agent *agent_of(struct sched_walk *w, int handle)
{
    for (int i = 0; i < AGENTS; i++)
        if (w->agents[i].used && w->agents[i].handle == handle)
            return &w->agents[i];
    fail_msg("no agent has handle %d", handle);
    return NULL;
}

static int64_t team_held(const struct sched_walk *w, int team)
{
    int64_t sum = 0;
    for (int g = 0; g < GANGS; g++)
        for (int t = w->jobs[w->gangs[g].job].team; t >= 0 && w->gangs[g].placed;
             t = t ? w->teams[t].parent : -1)
            sum += t == team ? w->gangs[g].slots : 0;
    return sum;
}

static int64_t job_held(const struct sched_walk *w, int job)
{
    int64_t sum = 0;
    for (int g = 0; g < GANGS; g++)
        sum += w->gangs[g].placed && w->gangs[g].job == job ? w->gangs[g].slots : 0;
    return sum;
}

static void mix(struct sched_walk *w, int64_t a, int64_t b, int64_t c)
{
    int64_t mixed[] = {(int64_t)w->digest, a, b, c};
    w->digest = hash64(mixed, sizeof mixed);
}

static bool refuses(const struct walk_gang *g, int agent)
{
    for (int i = 0; i < g->spec.excluded_count; i++)
        if (g->spec.excluded[i] == agent)
            return true;
    return false;
}

// Takes places for a gang: each must be free, allowed for the gang, and used once.
static void take(struct sched_walk *w, int tag, const struct sched_place *places, size_t count)
{
    struct walk_gang *g = &w->gangs[tag];
    EXPECT(w, !g->placed);
    if (!g->spec.max_slots)
        EXPECT(w, count == 1);
    else
        EXPECT(w, count >= (size_t)g->spec.min_slots && count <= (size_t)g->spec.max_slots);
    for (size_t i = 0; i < count; i++) {
        struct walk_agent *a = agent_of(w, places[i].agent);
        int slot = places[i].slot;
        EXPECT(w, a->usable && a->pool == g->pool && !(g->spec.max_slots && refuses(g, a->handle)));
        EXPECT(w, !g->spec.one_agent || places[i].agent == places[0].agent);
        mix(w, tag, places[i].agent, slot);
        if (!g->spec.max_slots) {
            a->zero++;
            EXPECT(w, slot == SCHED_NONE && a->zero <= SCHED_ZERO_SLOT_GANGS);
            continue;
        }
        EXPECT(w, slot >= 0 && slot < a->slots && a->enabled[slot]);
        EXPECT(w, a->owner[slot] == SCHED_NONE);
        a->owner[slot] = tag;
    }
    g->placed = true;
    g->slots = g->spec.max_slots ? (int)count : 0;
    g->spec.waited += w->now - g->since;
    g->since = w->now;
    w->jobs[g->job].held += g->slots;
}

static void give_back(struct sched_walk *w, int tag)
{
    struct walk_gang *g = &w->gangs[tag];
    bool zero = g->placed && !g->spec.max_slots;
    for (int i = 0; i < AGENTS; i++) {
        struct walk_agent *a = &w->agents[i];
        for (int k = 0; a->used && k < a->slots; k++)
            if (a->owner[k] == tag)
                a->owner[k] = SCHED_NONE;
        if (zero && a->used && a->zero && a->handle == g->spec.excluded[0])
            a->zero--;
    }
    w->jobs[g->job].held -= g->placed ? g->slots : 0;
    g->placed = g->leaving = false;
    g->slots = 0;
}

static void book_start(struct sched_walk *w, const struct sched_command *c)
{
    struct walk_gang *g = &w->gangs[c->tag];
    const struct walk_job *j = &w->jobs[g->job];
    EXPECT(w, g->used && c->gang == g->handle && g->pool == j->spec.pool);
    take(w, (int)c->tag, c->places, c->count);
    if (!g->spec.max_slots) {
        g->spec.excluded[0] = c->places[0].agent; // the gang's present agent; it excludes none
        return;
    }
    EXPECT(w, !j->spec.limit || job_held(w, g->job) <= j->spec.limit);
    for (int t = j->team; t >= 0; t = t ? w->teams[t].parent : -1)
        EXPECT(w, !w->teams[t].spec.maximum || team_held(w, t) <= w->teams[t].spec.maximum);
}

static bool is_strict(const struct sched_walk *w, int pool)
{
    return w->policies[pool] == SCHED_POLICY_FIFO || w->policies[pool] == SCHED_POLICY_EASY;
}

static void book_drain(struct sched_walk *w, const struct sched_command *c)
{
    struct walk_gang *g = &w->gangs[c->tag];
    const struct walk_job *j = &w->jobs[g->job];
    bool follows = g->pool != j->spec.pool;
    int64_t ran = w->now - g->since;
    EXPECT(w, g->used && g->placed && !g->leaving && g->slots && !g->spec.non_preemptible);
    g->leaving = true;
    w->drains++;
    mix(w, c->tag, c->cause, c->beneficiary);
    if (follows || g->next_min) {
        EXPECT(w, c->cause == (follows ? SCHED_TO_MOVE : SCHED_TO_RESIZE));
        EXPECT(w, c->beneficiary == SCHED_NONE);
        return;
    }
    EXPECT(w, c->cause != SCHED_TO_RESIZE);
    EXPECT(w, !is_strict(w, g->pool) || c->cause == SCHED_TO_GROW);
    if (c->cause == SCHED_TO_GROW) {
        EXPECT(w,
               ran >= 10 * MINUTE && g->slots < g->spec.max_slots && c->beneficiary == SCHED_NONE);
        return;
    }
    const struct walk_gang *f = &w->gangs[c->beneficiary];
    EXPECT(w, f->used && !f->placed && f->pool == g->pool && f->job != g->job);
    const struct sched_job_spec *fj = &w->jobs[f->job].spec;
    bool is_first = fj->priority < j->spec.priority &&
                    (fj->team == j->spec.team || w->policies[g->pool] == SCHED_POLICY_PRIORITY);
    bool is_overdue = f->spec.waited + w->now - f->since >= OVERDUE;
    EXPECT(w, is_first || is_overdue || ran >= 5 * MINUTE);
    EXPECT(w, c->cause != SCHED_TO_SHRINK || g->slots > g->spec.min_slots);
    EXPECT(w, c->cause != SCHED_FOR_PRIORITY || is_first);
}

static size_t book(struct sched_walk *w)
{
    const struct sched_command *commands;
    size_t count = sched_pass(w->s, w->now, &commands);
    for (size_t i = 0; i < count; i++)
        if (commands[i].kind == SCHED_START)
            book_start(w, &commands[i]);
        else
            book_drain(w, &commands[i]);
    sched_check(w->s);
    return count;
}

// --- the ledger agrees with the scheduler --------------------------------------------------------

static int64_t free_slots(const struct sched_walk *w, const struct walk_gang *g, int pool,
                          int *largest)
{
    int64_t sum = 0;
    *largest = 0;
    for (int i = 0; i < AGENTS; i++) {
        const struct walk_agent *a = &w->agents[i];
        int here = 0;
        if (!a->used || !a->usable || a->pool != pool || (g && refuses(g, a->handle)))
            continue;
        for (int k = 0; k < a->slots; k++)
            here += a->enabled[k] && a->owner[k] == SCHED_NONE;
        sum += here;
        *largest = here > *largest ? here : *largest;
    }
    return sum;
}

static bool may_hold(const struct sched_walk *w, const struct walk_gang *g)
{
    const struct walk_job *j = &w->jobs[g->job];
    if (j->spec.limit && job_held(w, g->job) + g->spec.min_slots > j->spec.limit)
        return false;
    for (int t = j->team; t >= 0; t = t ? w->teams[t].parent : -1) {
        int64_t maximum = w->teams[t].spec.maximum;
        if (maximum && team_held(w, t) + g->spec.min_slots > maximum)
            return false;
    }
    return true;
}

static void check_reason(struct sched_walk *w, int tag)
{
    const struct walk_gang *g = &w->gangs[tag];
    struct sched_reason r;
    int largest;
    sched_explain_gang(w->s, g->handle, w->now, &r);
    if (g->placed) {
        EXPECT(w, r.code == SCHED_PLACED);
        return;
    }
    EXPECT(w, r.code != SCHED_PLACED && r.code != SCHED_NOT_CONSIDERED);
    EXPECT(w, r.free == free_slots(w, NULL, g->pool, &largest) && r.largest_free == largest);
    EXPECT(w, r.start == 0 || r.start >= w->now);
    if (!g->spec.max_slots)
        return;
    EXPECT(w, r.needs == g->spec.min_slots && r.job_used == job_held(w, g->job));
    EXPECT(w, (r.code == SCHED_BEHIND) == (r.behind != SCHED_NONE) && r.behind != tag);
    if (r.code >= SCHED_BUSY)
        EXPECT(w, may_hold(w, g));
    if (r.code == SCHED_OVER_LIMIT || r.code == SCHED_TEAM_FULL || r.code == SCHED_OVER_MAXIMUM)
        EXPECT(w, !may_hold(w, g));
}

// Every waiting gang with slots is in the queue once, at the position that the scheduler reports.
static void check_queue(struct sched_walk *w, int pool)
{
    int64_t tags[GANGS];
    bool seen[GANGS] = {false};
    size_t count = sched_waiting_gangs(w->s, pool, w->now, tags, GANGS), waiting = 0;
    for (int g = 0; g < GANGS; g++)
        waiting += w->gangs[g].used && !w->gangs[g].placed && w->gangs[g].spec.max_slots &&
                   w->gangs[g].pool == pool;
    EXPECT(w, count == waiting);
    for (size_t i = 0; i < count; i++) {
        struct sched_reason r;
        EXPECT(w, !seen[tags[i]]);
        seen[tags[i]] = true;
        sched_explain_gang(w->s, w->gangs[tags[i]].handle, w->now, &r);
        EXPECT(w, r.ahead == (int)i);
    }
}

static int64_t team_in_pool(const struct sched_walk *w, int team, int pool, bool waits)
{
    int64_t sum = 0;
    for (int g = 0; g < GANGS; g++) {
        const struct walk_gang *one = &w->gangs[g];
        if (!one->used || one->pool != pool)
            continue;
        for (int t = w->jobs[one->job].team; t >= 0; t = t ? w->teams[t].parent : -1)
            if (t == team)
                sum += waits ? one->spec.max_slots - one->slots : one->slots;
    }
    return sum;
}

static void check_shares(struct sched_walk *w, int pool)
{
    int64_t children[TEAMS] = {0};
    int members[TEAMS] = {0};
    for (int t = TEAMS; t-- > 0;) {
        struct sched_share share;
        if (!w->teams[t].used)
            continue;
        sched_team_share(w->s, w->teams[t].handle, pool, w->now, &share);
        int64_t held = team_in_pool(w, t, pool, false);
        int64_t wanted = held + team_in_pool(w, t, pool, true), max = w->teams[t].spec.maximum;
        EXPECT(w, share.used == held);
        EXPECT(w, share.wanted == (max && wanted > max ? max : wanted));
        EXPECT(w, share.entitled >= 0 && share.usage >= 0 && share.debt >= 0);
        EXPECT(w, share.entitled <= share.wanted);
        EXPECT(w, children[t] <= share.entitled + members[t]);
        if (t) {
            children[w->teams[t].parent] += share.entitled;
            members[w->teams[t].parent]++;
        }
    }
}

static void check_all(struct sched_walk *w)
{
    for (int g = 0; g < GANGS; g++)
        if (w->gangs[g].used)
            check_reason(w, g);
    for (int p = 0; p < POOLS; p++) {
        check_queue(w, p);
        check_shares(w, p);
    }
    for (int j = 0; j < JOBS; j++)
        if (w->jobs[j].used)
            EXPECT(w, sched_job_service(w->s, w->jobs[j].handle, w->now) == w->jobs[j].service);
    for (int i = 0; i < AGENTS; i++)
        for (int k = 0; w->agents[i].used && k < w->agents[i].slots; k++)
            EXPECT(w, sched_slot_gang(w->s, w->agents[i].handle, k) == w->agents[i].owner[k]);
}

// --- events --------------------------------------------------------------------------------------

static void advance(struct sched_walk *w, int64_t by)
{
    w->now += by;
    for (int j = 0; j < JOBS; j++)
        w->jobs[j].service += w->jobs[j].held * by;
}

static void add_agent(struct sched_walk *w, int i)
{
    struct walk_agent *a = &w->agents[i];
    *a = (struct walk_agent){.used = true,
                             .pool = below(w, POOLS),
                             .rack = below(w, 3) - 1,
                             .slots = below(w, SLOTS + 1)};
    for (int k = 0; k < SLOTS; k++) {
        a->owner[k] = SCHED_NONE;
        a->enabled[k] = true;
    }
    a->handle = sched_agent_add(w->s, a->pool, a->slots, a->rack);
    sched_agent_set(w->s, a->handle, a->usable = !one_in(w, 8));
}

static void change_agent(struct sched_walk *w, int i)
{
    struct walk_agent *a = &w->agents[i];
    if (!a->used) {
        add_agent(w, i);
        return;
    }
    bool empty = !a->zero;
    for (int k = 0; k < a->slots; k++)
        empty &= a->owner[k] == SCHED_NONE;
    if (empty && one_in(w, 4)) {
        sched_agent_remove(w->s, a->handle);
        a->used = false;
        for (int g = 0; g < GANGS; g++) {
            struct sched_gang_spec *spec = &w->gangs[g].spec;
            for (int k = spec->excluded_count; k-- > 0;)
                if (spec->excluded[k] == a->handle)
                    spec->excluded[k] = spec->excluded[--spec->excluded_count];
        }
    } else if (!a->slots || one_in(w, 2)) {
        sched_agent_set(w->s, a->handle, a->usable = !one_in(w, 3));
    } else {
        int slot = below(w, a->slots);
        sched_slot_set(w->s, a->handle, slot, a->enabled[slot] = !one_in(w, 3));
    }
}

static bool is_leaf(const struct sched_walk *w, int team)
{
    for (int t = 1; t < TEAMS; t++)
        if (w->teams[t].used && w->teams[t].parent == team)
            return false;
    return team > 0 && w->teams[team].used;
}

static bool has_jobs(const struct sched_walk *w, int team)
{
    for (int j = 0; j < JOBS; j++)
        if (w->jobs[j].used && w->jobs[j].team == team)
            return true;
    return false;
}

static int any_leaf(struct sched_walk *w)
{
    for (int i = 0, t = below(w, TEAMS); i < TEAMS; i++, t = (t + 1) % TEAMS)
        if (is_leaf(w, t))
            return t;
    return -1;
}

static void change_team(struct sched_walk *w, int t)
{
    struct walk_team *team = &w->teams[t];
    struct sched_team_spec spec = {1 + below(w, 3000), one_in(w, 3) ? below(w, 10) : 0,
                                   one_in(w, 3) ? 1 + below(w, 12) : 0};
    int parent = below(w, t ? t : 1); // a smaller index
    if (t == SCHED_ROOT || (team->used && !one_in(w, 4))) {
        team->spec = spec;
        sched_team_set(w->s, team->handle, &spec);
    } else if (team->used && is_leaf(w, t) && !has_jobs(w, t)) {
        sched_team_remove(w->s, team->handle);
        team->used = false;
    } else if (!team->used && w->teams[parent].used && w->teams[parent].depth < 3 &&
               !has_jobs(w, parent)) {
        *team = (struct walk_team){true, sched_team_add(w->s, w->teams[parent].handle, &spec),
                                   parent, w->teams[parent].depth + 1, spec};
    }
}

static struct sched_job_spec any_job(struct sched_walk *w, int team)
{
    int64_t nth = ++w->orders, place = one_in(w, 6) ? below(w, 100) : 100 + nth;
    return (struct sched_job_spec){.pool = below(w, POOLS),
                                   .team = w->teams[team].handle,
                                   .priority = 41 + below(w, 3),
                                   .order = place * 100000 + nth, // unique
                                   .limit = one_in(w, 4) ? 1 + below(w, 12) : 0,
                                   .weight = one_in(w, 4) ? 1 + below(w, 4000) : SCHED_WEIGHT_ONE,
                                   .service = one_in(w, 3) ? below(w, 200) * HOUR : 0};
}

static bool job_has_gangs(const struct sched_walk *w, int j)
{
    for (int g = 0; g < GANGS; g++)
        if (w->gangs[g].used && w->gangs[g].job == j)
            return true;
    return false;
}

static void change_job(struct sched_walk *w, int j)
{
    struct walk_job *job = &w->jobs[j];
    int team = any_leaf(w);
    if (team < 0)
        return;
    struct sched_job_spec spec = any_job(w, team);
    if (!job->used) {
        *job = (struct walk_job){.used = true, .team = team, .spec = spec, .service = spec.service};
        job->handle = sched_job_add(w->s, &spec);
    } else if (!job_has_gangs(w, j)) {
        sched_job_remove(w->s, job->handle);
        job->used = false;
    } else if (one_in(w, 3)) {
        if (!one_in(w, 3)) { // the others rarely move
            spec.pool = job->spec.pool;
            spec.team = job->spec.team;
            team = job->team;
        }
        job->spec = spec;
        job->team = team;
        sched_job_set(w->s, job->handle, &spec);
        for (int g = 0; g < GANGS; g++)
            if (w->gangs[g].used && w->gangs[g].job == j && !w->gangs[g].placed)
                w->gangs[g].pool = spec.pool;
    }
}

static void add_gang(struct sched_walk *w, int tag)
{
    struct walk_gang *g = &w->gangs[tag];
    int j = below(w, JOBS), least = below(w, 9);
    if (!w->jobs[j].used)
        return;
    *g = (struct walk_gang){.used = true, .job = j, .pool = w->jobs[j].spec.pool, .since = w->now};
    g->spec =
        (struct sched_gang_spec){.job = w->jobs[j].handle,
                                 .min_slots = least,
                                 .max_slots = least + (least && one_in(w, 3) ? below(w, 8) : 0),
                                 .one_agent = one_in(w, 2),
                                 .non_preemptible = one_in(w, 8),
                                 .tag = tag,
                                 .waited = one_in(w, 8) ? below(w, 150) * HOUR : 0};
    for (int i = 0; least && i < AGENTS && g->spec.excluded_count < SCHED_EXCLUDED_MAX; i++)
        if (w->agents[i].used && one_in(w, 16))
            g->spec.excluded[g->spec.excluded_count++] = w->agents[i].handle;
    if (g->spec.non_preemptible)
        g->spec.max_slots = least; // rigid
    g->handle = sched_gang_add(w->s, &g->spec, w->now);
}

static void end_gang(struct sched_walk *w, int tag)
{
    sched_gang_remove(w->s, w->gangs[tag].handle, w->now);
    give_back(w, tag);
    w->gangs[tag].used = false;
}

static void set_range(struct walk_gang *g, int min, int max)
{
    g->spec.min_slots = min;
    g->spec.max_slots = max;
    g->next_min = g->next_max = 0;
}

// A running gang whose slots are outside the new range has it when it waits again.
static void resize_gang(struct sched_walk *w, struct walk_gang *g)
{
    int min = 1 + below(w, 9), max = min + (one_in(w, 3) ? below(w, 8) : 0);
    sched_gang_resize(w->s, g->handle, min, max);
    if (!g->placed || (g->slots >= min && g->slots <= max)) {
        set_range(g, min, max);
        return;
    }
    g->next_min = min;
    g->next_max = max;
}

// It left and waits again.
static void leave(struct sched_walk *w, int tag)
{
    struct walk_gang *g = &w->gangs[tag];
    sched_gang_remove(w->s, g->handle, w->now);
    give_back(w, tag);
    if (g->next_min)
        set_range(g, g->next_min, g->next_max);
    g->pool = w->jobs[g->job].spec.pool;
    g->since = w->now;
    g->handle = sched_gang_add(w->s, &g->spec, w->now);
}

static void change_gang(struct sched_walk *w, int tag)
{
    struct walk_gang *g = &w->gangs[tag];
    if (!g->used) {
        add_gang(w, tag);
    } else if (g->leaving) {
        leave(w, tag);
    } else if (!one_in(w, 3)) {
        return;
    } else if (g->placed && one_in(w, 4)) {
        sched_gang_set_saved(w->s, g->handle, w->now);
    } else if (g->placed && g->slots && one_in(w, 6)) {
        sched_gang_set_leaving(w->s, g->handle);
        g->leaving = true;
    } else if (g->spec.max_slots && !g->spec.non_preemptible && one_in(w, 6)) {
        resize_gang(w, g);
    } else if (one_in(w, 6)) {
        sched_gang_set_expected_end(w->s, g->handle,
                                    (g->placed ? w->now : 0) + (1 + below(w, 9)) * HOUR);
    } else {
        end_gang(w, tag);
    }
}

static void event(struct sched_walk *w)
{
    static const int64_t steps[] = {0, 0, SECOND, MINUTE, 6 * MINUTE, 11 * MINUTE, HOUR, 7 * HOUR};
    int kind = below(w, 32);
    if (kind < 3)
        change_agent(w, below(w, AGENTS));
    else if (kind < 5)
        change_team(w, below(w, TEAMS));
    else if (kind < 8)
        change_job(w, below(w, JOBS));
    else if (kind < 9 && one_in(w, 8)) {
        int pool = below(w, POOLS);
        w->policies[pool] = (enum sched_policy)below(w, SCHED_POLICIES);
        sched_pool_set(w->s, pool, w->policies[pool]);
    } else if (kind < 24)
        change_gang(w, below(w, GANGS));
    else
        advance(w, steps[below(w, (int)(sizeof steps / sizeof *steps))]);
}

// --- properties ----------------------------------------------------------------------------------

// Executes all drains at once until no decision is left; returns the number of starts and drains.
static size_t settle(struct sched_walk *w)
{
    size_t total = 0;
    for (int round = 0;; round++) {
        EXPECT(w, round < SETTLE_MOST);
        bool left = false;
        size_t count = book(w);
        total += count;
        for (int g = 0; g < GANGS; g++)
            if (w->gangs[g].used && w->gangs[g].leaving) {
                leave(w, g);
                left = true;
            }
        if (!count && !left)
            return total;
    }
}

// If no gang leaves, none is protected by min_runtime and none starts, then no waiting gang that
// may hold more slots fits into the free ones.
static void check_no_waste(struct sched_walk *w)
{
    size_t done = 1;
    for (int i = 0; done; i++) {
        if (i == 6)
            return; // levels and debts change continuously
        advance(w, 11 * MINUTE);
        done = settle(w);
    }
    for (int tag = 0; tag < GANGS; tag++) {
        const struct walk_gang *g = &w->gangs[tag];
        int largest;
        if (!g->used || g->placed || !g->spec.max_slots || is_strict(w, g->pool) || !may_hold(w, g))
            continue;
        int64_t free = free_slots(w, g, g->pool, &largest);
        bool fits = (g->spec.one_agent ? largest : free) >= g->spec.min_slots;
        if (fits)
            fail_msg("seed %llu: gang %d could run", (unsigned long long)w->seed, tag);
    }
}

static struct sched_walk *walk_new(uint64_t seed)
{
    struct sched_walk *w = xcalloc(1, sizeof *w);
    w->seed = seed;
    rng_seed(&w->rng, seed, 1);
    w->now = 1000 * HOUR;
    w->s = sched_new(NULL);
    w->teams[0] = (struct walk_team){.used = true, .parent = -1, .spec = {.weight = 1000}};
    for (int p = 0; p < POOLS; p++) {
        w->policies[p] =
            seed % 4 && p ? (enum sched_policy)below(w, SCHED_POLICIES) : SCHED_POLICY_FAIR_SHARE;
        assert_int_equal(sched_pool_add(w->s, w->policies[p]), p);
    }
    return w;
}

static uint64_t walk(uint64_t seed, int events, size_t *drains)
{
    struct sched_walk *w = walk_new(seed);
    for (int i = 0; i < events; i++) {
        event(w);
        sched_check(w->s);
        if (one_in(w, 3))
            continue;
        for (int passes = 0; book(w);
             passes++) // the decisions of a pass may change ranks, but not endlessly
            EXPECT(w, passes < PASSES_MOST);
        EXPECT(w, sched_next_pass(w->s) > w->now);
        check_all(w);
        if (one_in(w, 16))
            settle(w);
        if (one_in(w, 32))
            check_no_waste(w);
    }
    uint64_t digest = w->digest;
    *drains += w->drains;
    sched_free(w->s);
    free(w);
    return digest;
}

// The environment variables SCHED_SEED and SCHED_WALKS choose another walk, or more of them.
static void test_walk(void **state)
{
    (void)state;
    const char *first = getenv("SCHED_SEED"), *many = getenv("SCHED_WALKS");
    uint64_t seed = first ? strtoull(first, NULL, 10) : 0,
             left = many ? strtoull(many, NULL, 10) : 40;
    size_t drains = 0;
    for (; left--; seed++)
        walk(seed, EVENTS, &drains);
    assert_true(drains > 0);
}

static void test_replay(void **state)
{
    (void)state;
    size_t drains = 0;
    for (uint64_t seed = 1000; seed < 1004; seed++)
        assert_int_equal(walk(seed, EVENTS, &drains), walk(seed, EVENTS, &drains));
    assert_int_not_equal(walk(1000, EVENTS, &drains), walk(1001, EVENTS, &drains));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_walk),
        cmocka_unit_test(test_replay),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
