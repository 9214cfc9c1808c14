// Tests of entitlements: the tree of teams, guarantees and maxima; what a day of virtual time gives
// to each team, and how long large gangs wait behind a stream of small ones.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/arena.h"
#include "master/sched/explain.h"
#include "master/sched/sched.h"
#include "tests/unit/master/support/scene.h"

static void test_entitlements(void **state)
{
    static const struct scene scenes[] = {
        {"by weight",
         "agents 8; team x weight=3000; team y; gang a 8 team=x; gang b 8 team=y; pass a;"
         "share x entitled=6 wanted=8 used=8; share y entitled=2"},
        {"nobody gets more than it wants; the others share the rest",
         "agents 9; team x; team y; team z; gang a 1 team=x; gang b 9 team=y; gang c 9 team=z;"
         "pass a; share x entitled=1 wanted=1 used=1; share y entitled=4 wanted=9 used=0;"
         "share z entitled=4; share all used=1 wanted=19 entitled=9"},
        {"guarantees first, then weights",
         "agents 8; team x guarantee=6; team y; gang a 8 team=x; gang b 8 team=y; pass a; share x "
         "entitled=7; share y entitled=1"},
        {"a guarantee that is not wanted is nobody's loss",
         "agents 8; team x guarantee=6; team y; gang a 1 team=x; gang b 8 team=y; pass a;"
         "share x entitled=1; share y entitled=7"},
        {"more guarantees than slots are cut in proportion",
         "agents 6; team x guarantee=8; team y guarantee=4; gang a 8 team=x; gang b 6 team=y;"
         "pass b; share x entitled=4; share y entitled=2"},
        {"three levels: users share what their workspace is entitled to",
         "agents 8; team eng; team eng/ann; team eng/bob weight=3000; team ops; team ops/cat;"
         "gang a 8 team=eng/ann; gang b 8 team=eng/bob; gang c 8 team=ops/cat; pass a;"
         "share eng entitled=4 wanted=16; share eng/ann entitled=1; share eng/bob entitled=3;"
         "share ops/cat entitled=4; share all entitled=8 wanted=24"},
        {"a guarantee holds among siblings alone",
         "agents 8; team eng; team eng/ann guarantee=8; team eng/bob; team ops; gang a 8 "
         "team=eng/ann; gang b 8 team=eng/bob; gang c 8 team=ops; pass a; share eng/ann entitled=4;"
         "share eng/bob entitled=0; share ops entitled=4"},
        {"a maximum ends what a team wants",
         "agents 8; team x max=3; team y; gang a 2 team=x; gang b 2 team=x; gang c 8 team=y; pass "
         "a;"
         "share x wanted=3 entitled=3; share y entitled=5; why b team_full team=x team_used=2 "
         "team_limit=3"},
        {"in each pool for itself",
         "pool fair_share; pool fair_share; agents 4; agents 2 pool=1; team x; team y;"
         "gang a 4 team=x; gang b 4 team=y; gang c 2 team=y pool=1; pass a c; share x entitled=2;"
         "share y entitled=2; share y entitled=2 pool=1; share x entitled=0 pool=1"},
        {"changed while they run",
         "agents 4; team x; team y; gang a 4 team=x; gang b 4 team=y; pass a; share x entitled=2;"
         "team y weight=3000; pass; share x entitled=1; share y entitled=3"},
    };
    (void)state;
    SCENES_RUN(scenes);
}

static void test_maxima(void **state)
{
    static const struct scene scenes[] = {
        {"of a user", "agents 8; team a; team a/u max=2; gang g 2 team=a/u; gang h 1 team=a/u;"
                      "gang i 3 team=a/u; pass g; why h team_full team=a/u; why i over_maximum "
                      "team=a/u team_limit=2"},
        {"of a workspace", "agents 8; team a max=3; team a/u; team a/v; gang g 2 team=a/u;"
                           "gang h 2 team=a/v; gang i 1 team=a/v; pass g i; why h team_full team=a "
                           "team_used=3 team_limit=3"},
        {"over all pools together",
         "pool fair_share; pool fair_share; agents 4; agents 4 pool=1; team a max=4;"
         "gang g 3 team=a; gang h 3 team=a pool=1; gang i 1 team=a pool=1; pass g i;"
         "why h team_full team_used=4; end g; pass h"},
        {"taken away: what runs goes on", "agents 8; team a max=4; gang g 4 team=a; pass g;"
                                          "team a max=1; pass; gang h 1 team=a; pass; end g;"
                                          "pass h"},
        {"who is held up by it holds up nobody",
         "agents 4; team a max=2; team b; gang g 2 team=a; gang h 2 team=a; gang i 2 team=b;"
         "pass g i; why h team_full"},
        {"in pools without teams too",
         "pool priority; pool fifo; agents 4; agents 4 pool=1; team a max=1; gang g 1 team=a;"
         "gang h 1 team=a; gang i 1 team=a pool=1; pass g; why h team_full; why i team_full"},
    };
    (void)state;
    SCENES_RUN(scenes);
}

static void test_whole_gangs(void **state)
{
    static const struct scene scenes[] = {
        {"what is covered goes before what is not, whoever came first",
         "agents 8; team a; team b; gang b1 7 team=b; gang a1 6 team=a; gang a2 2 team=a;"
         "pass a2 a1; queue b1"},
        {"what a user cannot use covers gangs of its workspace",
         "agents 8; team eng; team eng/ann; team eng/bob; team ops; team ops/cat;"
         "gang a 3 team=eng/ann; gang b1 1 team=eng/bob; gang b2 1 team=eng/bob;"
         "gang b3 1 team=eng/bob; gang b4 1 team=eng/bob; gang c1 1 team=ops/cat;"
         "gang c2 1 team=ops/cat; gang c3 1 team=ops/cat; gang c4 1 team=ops/cat;"
         "gang c5 1 team=ops/cat order=-1; pass b1 b2 b3 b4 c1 c2 c3 c5; queue a c4"},
        {"what a team is owed: what it wants, is entitled to and does not have",
         "agents 8; team x; team y; gang a 4 team=x; gang b 4 team=x; pass a b; gang c 8 team=y;"
         "pass; wait 15m; pass; share y debt=1h used=0 entitled=4; share x debt=0h"},
        {"a gang larger than its team's share takes its turn when enough is owed",
         "agents 8; team x; team y; gang a 4 team=x service=200h; gang b 4 team=x service=200h;"
         "pass a b; gang c 6 team=y service=200h; pass; wait 15m; pass; wait 50m;"
         "pass -b -a; drain; pass c; queue a b"},

    };
    (void)state;
    SCENES_RUN(scenes);
}

static void test_usage(void **state)
{
    static const struct scene scenes[] = {
        {"of the team and all above it",
         "agents 4; team x; team x/u; gang a 4 team=x/u; pass a; wait 3h; share x/u usage=12h;"
         "share x usage=12h; share all usage=12h; end a; share x/u used=0 wanted=0"},
        {"restored", "team x; restore x 10h; share x usage=10h"},
    };
    (void)state;
    SCENES_RUN(scenes);
}

// --- days ----------------------------------------------------------------------------------------

#define MINUTE 60000000LL
#define HOUR   (60 * MINUTE)

enum { TEAMS = 6, WORK = 512 };

// A team that always has `pending` gangs of one size and one runtime, running or waiting.
struct demand {
    int64_t weight, guaranteed;
    int slots, pending;
    int64_t length;
    int priority;
};

struct team_work {
    bool used, placed, leaving;
    int team, gang, job, slots;
    int64_t left, since; // of its runtime
    int64_t came;        // submission, or begin of the current wait
};

struct day {
    struct sched *s;
    int64_t now, orders;
    const struct demand *demands;
    int team_count, teams[TEAMS];
    struct team_work work[WORK];
    int64_t held[TEAMS], entitled[TEAMS]; // slot-microseconds
    int64_t waited[TEAMS];                // the longest single wait
    size_t drains;
};

static void submit(struct day *d, int team)
{
    int i = 0;
    while (d->work[i].used)
        assert_true(++i < WORK);
    const struct demand *demand = &d->demands[team];
    struct sched_job_spec job = {.team = d->teams[team],
                                 .priority = demand->priority ? demand->priority : 42,
                                 .order = ++d->orders,
                                 .weight = SCHED_WEIGHT_ONE};
    struct team_work *w = &d->work[i];
    *w = (struct team_work){
        .used = true, .team = team, .slots = demand->slots, .left = demand->length};
    w->job = sched_job_add(d->s, &job);
    struct sched_gang_spec gang = {w->job, w->slots, w->slots, false, false, i, 0, {0}, 0};
    w->gang = sched_gang_add(d->s, &gang, d->now);
    w->came = d->now;
}

static void stop(struct day *d, int i, bool again)
{
    struct team_work *w = &d->work[i];
    sched_gang_remove(d->s, w->gang, d->now);
    w->placed = w->leaving = false;
    if (again) {
        w->left -= d->now - w->since;
        struct sched_gang_spec gang = {w->job, w->slots, w->slots, false, false, i, 0, {0}, 0};
        w->gang = sched_gang_add(d->s, &gang, d->now);
        w->came = d->now;
        return;
    }
    sched_job_remove(d->s, w->job);
    w->used = false;
}

// Executes the commands of passes; drains end at once.
static void settle(struct day *d)
{
    const struct sched_command *commands;
    for (size_t count, round = 0; (count = sched_pass(d->s, d->now, &commands)); round++) {
        assert_true(round < 50);
        for (size_t i = 0; i < count; i++) {
            struct team_work *w = &d->work[commands[i].tag];
            if (commands[i].kind == SCHED_DRAIN) {
                w->leaving = true;
                d->drains++;
                continue;
            }
            if (d->waited[w->team] < d->now - w->came)
                d->waited[w->team] = d->now - w->came;
            w->placed = true;
            w->since = d->now;
        }
        for (int i = 0; i < WORK; i++)
            if (d->work[i].used && d->work[i].leaving)
                stop(d, i, true);
    }
    sched_check(d->s);
}

// Advances to the next end of a gang or the scheduler's next pass.
static void step(struct day *d, int64_t until)
{
    int64_t next = sched_next_pass(d->s);
    next = next < until ? next : until;
    for (int i = 0; i < WORK; i++) {
        int64_t end = d->work[i].since + d->work[i].left;
        if (d->work[i].placed && end < next)
            next = end;
    }
    assert_true(next > d->now || d->now == until);
    for (int t = 0; t < d->team_count; t++) {
        struct sched_share share;
        sched_team_share(d->s, d->teams[t], 0, d->now, &share);
        d->held[t] += share.used * (next - d->now);
        d->entitled[t] += share.entitled * (next - d->now);
    }
    d->now = next;
    for (int i = 0; i < WORK; i++)
        if (d->work[i].placed && d->work[i].since + d->work[i].left <= d->now) {
            int team = d->work[i].team;
            stop(d, i, false);
            submit(d, team);
        }
}

static void run(struct day *d, int64_t length)
{
    int64_t until = d->now + length;
    for (int t = 0; t < TEAMS; t++)
        d->held[t] = d->entitled[t] = 0;
    do {
        settle(d);
        step(d, until);
    } while (d->now < until);
}

static struct day *day_new(const int *agents, const struct demand *demands, int count)
{
    struct day *d = xcalloc(1, sizeof *d);
    d->s = sched_new(NULL);
    d->now = 1000 * HOUR;
    d->demands = demands;
    d->team_count = count;
    sched_pool_add(d->s, SCHED_POLICY_FAIR_SHARE);
    for (int i = 0; agents[i]; i++)
        sched_agent_set(d->s, sched_agent_add(d->s, 0, agents[i], SCHED_NONE), true);
    for (int t = 0; t < count; t++) {
        struct sched_team_spec team = {demands[t].weight, demands[t].guaranteed, 0};
        d->teams[t] = sched_team_add(d->s, SCHED_ROOT, &team);
        for (int i = 0; i < demands[t].pending; i++)
            submit(d, t);
    }
    return d;
}

// The smallest part of its entitlement that a team got in any day of a week, in percent.
static void test_days(void **state)
{
    static const struct {
        const char *what;
        int agents[8];
        struct demand demands[TEAMS];
        int percent;
    } cases[] = {
        {"small gangs", {8, 8}, {{1000, 0, 1, 20, HOUR / 2, 0}, {1000, 0, 1, 20, HOUR / 2, 0}}, 95},
        {"too large gangs take turns",
         {8, 8},
         {{1000, 0, 12, 2, 3 * HOUR, 0}, {1000, 0, 12, 2, 3 * HOUR, 0}},
         75},
        {"a guarantee", {8, 8}, {{1000, 12, 4, 8, 2 * HOUR, 0}, {1000, 0, 2, 20, HOUR, 0}}, 95},
        {"by weight", {8, 8}, {{3000, 0, 1, 20, HOUR / 2, 0}, {1000, 0, 2, 20, 3 * HOUR, 0}}, 95},
        {"a too large one and small ones",
         {8, 8},
         {{1000, 0, 12, 1, 20 * HOUR, 0}, {1000, 0, 1, 20, HOUR / 2, 0}},
         95},
        {"three, of which one is small",
         {8, 8, 8, 8},
         {{1000, 0, 16, 3, 6 * HOUR, 0}, {1000, 0, 12, 3, 9 * HOUR, 0}, {1000, 0, 2, 20, HOUR, 0}},
         85},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        int count = 0;
        while (cases[i].demands[count].weight)
            count++;
        struct day *d = day_new(cases[i].agents, cases[i].demands, count);
        run(d, 24 * HOUR);
        for (int day = 0; day < 7; day++) {
            run(d, 24 * HOUR);
            for (int t = 0; t < count; t++)
                if (d->held[t] * 100 < d->entitled[t] * cases[i].percent)
                    fail_msg("%s: team %d had %lld of %lld slot-hours", cases[i].what, t,
                             (long long)(d->held[t] / HOUR), (long long)(d->entitled[t] / HOUR));
        }
        sched_free(d->s);
        free(d);
    }
}

// The longest wait of a gang as large as the pool, or half of it, behind a stream of small gangs.
static void test_streams(void **state)
{
    static const struct {
        const char *what;
        int agents[8];
        struct demand demands[TEAMS];
        int64_t longest;
    } cases[] = {
        {"the whole pool, other teams",
         {8, 8},
         {{1000, 0, 16, 1, 2 * HOUR, 0}, {1000, 0, 1, 64, HOUR / 6, 0}},
         30 * HOUR},
        {"the whole pool for long, other teams",
         {8, 8},
         {{1000, 0, 16, 1, 200 * HOUR, 0}, {1000, 0, 1, 64, HOUR / 6, 0}},
         30 * HOUR},
        {"half of the pool, other teams: an hour, and the first burst of the fast lane",
         {8, 8},
         {{1000, 0, 8, 1, 2 * HOUR, 0}, {1000, 0, 1, 64, HOUR / 6, 0}},
         2 * HOUR},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        int count = 0;
        while (cases[i].demands[count].weight)
            count++;
        struct day *d = day_new(cases[i].agents, cases[i].demands, count);
        run(d, 14 * 24 * HOUR);
        if (d->waited[0] > cases[i].longest || !d->waited[0])
            fail_msg("%s: %lld minutes", cases[i].what, (long long)(d->waited[0] / MINUTE));
        sched_free(d->s);
        free(d);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_entitlements), cmocka_unit_test(test_maxima),
        cmocka_unit_test(test_whole_gangs),  cmocka_unit_test(test_usage),
        cmocka_unit_test(test_days),         cmocka_unit_test(test_streams),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
