// Tests of the scheduler's order: priority, service, submission and age within a team, the fast
// lane, the policies of pools, and changes of jobs.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/unit/master/support/scene.h"

static void test_inside_a_team(void **state)
{
    static const struct scene scenes[] = {
        {"the smaller priority goes first, whenever it came",
         "agents 2; gang a 2; gang b 2 priority=7; pass b; queue a"},
        {"then who came first", "agents 1; gang a 1; gang b 1; gang c 1; pass a; queue b c"},
        {"or was put there", "agents 1; gang a 1 order=5; gang b 1 order=3; pass b"},
        {"gangs of one job by age; who comes again is the youngest",
         "agents 1; job j; gang a 1 job=j; gang b 1 job=j; pass a; again a; pass b; queue a"},
        {"who has had less goes before who came first",
         "agents 1; gang a 1 service=2h; gang b 1; pass b; queue a"},
        {"but not before a higher priority",
         "agents 1; gang a 1 service=500h priority=41; gang b 1; pass a; queue b"},
        {"levels begin at 1, 10 and 100 slot-hours",
         "agents 1; gang a 1 service=100h; gang b 1 service=99h; gang c 1 service=10h;"
         "gang d 1 service=9h; gang e 1 service=1h; gang f 1; pass f; queue d e b c a"},
        {"inside a level submission counts",
         "agents 1; gang a 1 service=90h; gang b 1 service=11h; pass a"},
        {"service counts by the weight of the job",
         "agents 1; gang a 1 service=2h weight=3000; gang b 1; pass a"},
        {"a lighter job crosses sooner",
         "agents 1; gang a 1 weight=500 service=1h; gang b 1 service=1h; gang c 1; pass c;"
         "queue a b"},
        {"what can never run keeps nothing from others",
         "agents 2 2; gang a 64; gang b 3 one; gang c 2 one; pass c; why a over_pool;"
         "why b over_agent"},
        {"small agents are no use to a gang on one agent, so others may have them",
         "agents 4 1; gang a 3 one; pass a; wait 6m; gang b 2 one; gang c 1 one; pass c; why b "
         "busy"},
    };
    (void)state;
    SCENES_RUN(scenes);
}

// The time at which a job reaches the next level is known in advance; the scheduler asks for a pass
// at that time.
static void test_levels_in_time(void **state)
{
    static const struct scene scenes[] = {
        {"one slot crosses the first level after an hour",
         "agents 1; gang a 1; pass a; gang b 1; pass; next 1h; wait 59m; pass; next 1m; wait 2m;"
         "pass -a:service:b; drain; pass b; queue a"},
        {"four slots after a quarter of it",
         "agents 4; gang a 4; pass a; gang b 4; pass; next 15m; wait 16m; pass -a"},
        {"what it had before counts",
         "agents 1; gang a 1 service=8h; pass a; gang b 1 service=1h; pass; next 2h; wait 121m;"
         "pass -a"},
        {"its weight counts",
         "agents 1; gang a 1 weight=2000; pass a; gang b 1; pass; next 2h; wait 1h; pass"},
        {"nobody waits: no hurry", "agents 1; gang a 1; pass a; next never"},
    };
    (void)state;
    SCENES_RUN(scenes);
}

static void test_age(void **state)
{
    static const struct scene scenes[] = {
        {"after five days it goes before all levels",
         "pool priority; agents 2; pass; gang a 1 waited=5d service=200h; gang b 2; pass a; queue "
         "b"},
        {"before the first pass too",
         "pool priority; agents 2; gang a 1 waited=5d service=200h; gang b 2; pass a; queue b"},
        {"not sooner", "pool priority; agents 2; pass; gang a 1 waited=4d service=200h; gang b 2; "
                       "pass b; queue a;"
                       "next 30m"},
        {"larger than any agent: after thirty hours",
         "agents 2 2 2 2; pass; gang a 4 waited=30h service=200h; gang b 8; pass a; queue b"},
        {"not sooner, nor one that fits on an agent",
         "agents 2 2 2 2; pass; gang a 4 waited=29h service=200h; gang b 2 one waited=30h "
         "service=200h;"
         "gang c 8; pass c"},
        {"they hold at most half of the pool",
         "pool priority; agents 2 2; pass; gang a 1 waited=5d service=200h;"
         "gang b 1 waited=5d service=200h;"
         "gang c 1 waited=5d service=200h; gang d 2; pass a b d; queue c"},
        {"a higher priority still goes before",
         "agents 2; pass; gang a 1 waited=5d; gang b 2 priority=41;"
         "pass b; queue a"},
        {"the wait before counts together with the one now",
         "pool priority; agents 2; pass; gang a 1 waited=119h service=200h;"
         "gang x 2 service=200h order=0; pass x;"
         "wait 1h; pass -x; drain; pass a; queue x"},
        {"once first it keeps its place while it runs",
         "pool priority; agents 2; pass; gang a 1 waited=5d service=200h; pass a; wait 1h;"
         "gang b 2; pass; queue b"},
    };
    (void)state;
    SCENES_RUN(scenes);
}

// In a pool with shares, age lifts a gang that fits on one agent by levels within its team.
static void test_lift(void **state)
{
    static const struct scene scenes[] = {
        {"five days are one level",
         "agents 1; pass; gang a 1 waited=5d service=20h; gang b 1 service=2h; pass a; queue b"},
        {"and no more than one",
         "agents 1; pass; gang a 1 waited=239h service=20h; gang b 1; pass b; queue a"},
        {"ten days are two",
         "agents 1; pass; gang a 1 waited=10d service=20h; gang b 1; pass a; queue b"},
        {"not sooner",
         "agents 1; pass; gang a 1 waited=119h service=20h; gang b 1 service=2h; pass b; queue a"},
        {"the level changes while it waits",
         "agents 1; gang z 1 stays; pass z; gang a 1 waited=119h service=20h; gang b 1 service=2h;"
         "pass; queue b a; next 1h; wait 1h; pass; queue a b"},
        {"what it has waited counts while it runs",
         "agents 1; gang z 1 stays; pass z; gang a 1 service=20h; wait 5d; end z; pass a;"
         "gang b 1 service=2h; wait 10m; pass; queue b"},
        {"other teams do not leave for it",
         "agents 2; team x; team y; pass; gang x1 1 team=x service=200h;"
         "gang y1 1 team=y; pass x1 y1; gang y2 1 team=y waited=50d service=200h;"
         "wait 10m; pass; queue y2"},
        {"a gang larger than any agent is not lifted before thirty hours are over",
         "agents 1 1; pass; gang a 2 waited=29h service=20h; gang b 2 service=2h; pass b; queue a"},
    };
    (void)state;
    SCENES_RUN(scenes);
}

// The other teams hold their shares; a short job uses the savings of the fast lane, whatever the
// order of its team.
static void test_fast_lane(void **state)
{
    static const struct scene scenes[] = {
        {"beyond the share of its team",
         "lane; agents 10; team x; team y; gang x1 1 team=x priority=9 service=5h;"
         "gang x2 1 team=x priority=9 service=5h; gang x3 1 team=x priority=9 service=5h;"
         "gang x4 1 team=x priority=9 service=5h; gang x5 1 team=x priority=9 service=5h;"
         "gang y1 1 team=y service=5h; gang y2 1 team=y service=5h; gang y3 1 team=y service=5h;"
         "gang y4 1 team=y service=5h; gang y5 1 team=y service=5h;"
         "pass x1 x2 x3 x4 x5 y1 y2 y3 y4 y5; wait 10m; gang c 1 team=x; pass -y5:share:c; drain;"
         "pass c; queue y5; gang d 1 team=x; pass -y4:share:d; drain; pass d -x5:share:y4; drain; "
         "pass y4"},
        {"no larger than what it has left",
         "lane 1; agents 10; team x; team y; gang x1 1 team=x priority=9 service=5h;"
         "gang x2 4 team=x priority=9 service=5h; gang y1 1 team=y service=5h;"
         "gang y2 4 team=y service=5h; pass x1 x2 y1 y2; wait 10m; gang c 2 team=x; pass;"
         "why c busy; gang d 1 team=x order=0; pass -y2:share:d"},
        {"users take turns in it",
         "lane 3; agents 9; team x; team w; team z;"
         "gang x1 1 team=x priority=9 service=5h; gang x2 1 team=x priority=9 service=5h;"
         "gang x3 1 team=x priority=9 service=5h; gang w1 1 team=w priority=9 service=5h;"
         "gang w2 1 team=w priority=9 service=5h; gang w3 1 team=w priority=9 service=5h;"
         "gang z1 1 team=z service=5h; gang z2 1 team=z service=5h; gang z3 1 team=z service=5h;"
         "pass x1 x2 x3 w1 w2 w3 z1 z2 z3; wait 10m; gang a 1 team=x; gang b 1 team=x;"
         "gang c 1 team=w; pass -z3:share:a -x3:share:c"},
        {"not for who has had an hour",
         "lane; agents 10; team x; team y; gang a 5 team=x priority=9 service=5h;"
         "gang b 5 team=y priority=9 service=5h; pass a b; wait 10m; gang c 1 team=x service=1h;"
         "pass; why c busy"},
    };
    (void)state;
    SCENES_RUN(scenes);
}

static void test_policies(void **state)
{
    static const struct scene scenes[] = {
        {"fifo: the first that has to wait blocks the rest",
         "pool fifo; agents 4; gang a 3; pass a; gang b 2; gang c 1 priority=1; pass;"
         "why c behind behind=b ahead=1; why b busy; queue b c; end a; pass b c"},
        {"fifo: service and wait do not count",
         "pool fifo; agents 2; gang a 2 service=500h; gang b 1 waited=9d; pass a; wait 9d; pass;"
         "queue b; next never"},
        {"fifo: nobody leaves for anybody",
         "pool fifo; agents 2; team x; team y; gang a 1 team=x; gang b 1 team=x; pass a b; wait 9h;"
         "gang c 1 team=y priority=1; pass"},
        {"fifo: nothing grows into what the first waits for",
         "pool fifo; agents 8; gang c 4; gang a 2-8; pass c a; gang b 6; wait 11m; end c; pass"},
        {"fifo: what cannot run blocks nobody",
         "pool fifo; agents 2; job j limit=1; gang a 3; gang b 2 job=j; gang c 1; pass c;"
         "why a over_pool; why b over_limit"},
        {"easy: others go first when they have ended by then",
         "pool easy; agents 4; gang a 3; expect a 2h; pass a; gang b 4; gang c 1; expect c 3h;"
         "gang d 1; expect d 1h; gang e 1; pass d; queue b c e; end d; wait 1h; pass; end a;"
         "pass b"},
        {"easy: or take what it leaves",
         "pool easy; agents 4; gang a 3; expect a 2h; pass a; gang b 3; gang c 1; gang d 1; pass c;"
         "queue b d"},
        {"easy: the expectation of what runs can change",
         "pool easy; agents 4; gang a 3; pass a; gang b 4; gang c 1; expect c 2h; expect a 1h; "
         "pass;"
         "expect a 3h; pass c"},
        {"priority: teams do not count",
         "pool priority; agents 2; team x; team y; gang a 1 team=x; gang b 1 team=x; pass a b;"
         "wait 10m; gang c 1 team=y; pass; gang d 1 team=y priority=41; pass -b:priority:d"},
        {"fair_share: teams do", "pool fair_share; agents 2; team x; team y; gang a 1 team=x;"
                                 "gang b 1 team=x; pass a b; wait 10m; gang c 1 team=y;"
                                 "pass -b:share:c"},
        {"the policy changes under what waits and runs",
         "pool fifo; agents 2; gang a 2; pass a; gang b 2 priority=1; pass; pool priority is=0;"
         "pass -a:priority:b; drain; pool fifo is=0; pass a; queue b"},
        {"each pool has its own",
         "pool fifo; pool fair_share; agents 1; agents 1 pool=1; gang a 1; gang b 1 pool=1;"
         "pass a=0.0 b=1.0; gang c 1 priority=1; gang d 1 priority=1 pool=1;"
         "pass -b:priority:d; queue c; queue d pool=1"},
    };
    (void)state;
    SCENES_RUN(scenes);
}

static void test_changed_jobs(void **state)
{
    static const struct scene scenes[] = {
        {"priority", "agents 1; gang a 1; gang b 1; job b priority=1; pass b; queue a"},
        {"of what runs: it gives way", "agents 1; gang a 1; pass a; gang b 1; pass;"
                                       "job a priority=50; pass -a:priority:b"},
        {"order: before another", "agents 1; gang a 1; gang b 1; gang c 1; job c order=1;"
                                  "job a order=2; job b order=3; pass c; queue a b"},
        {"limit", "agents 4; job j limit=1; gang a 1 job=j; gang b 2 job=j; pass a;"
                  "why b over_limit job_used=1 job_limit=1 needs=2; job j limit=3; pass b;"
                  "job j limit=1; pass; gang c 1 job=j; pass; why c over_limit job_used=3"},
        {"team: of what waits and what runs",
         "agents 4; team x max=2; team y; job j team=x; gang a 2 job=j; gang b 2 job=j; pass a;"
         "why b team_full team=x team_used=2 team_limit=2; job j team=y; pass b; share x used=0;"
         "share y used=4"},
        {"pool: what waits moves at once",
         "pool fair_share; pool fair_share; agents 1; agents 1 pool=1; gang a 1; gang b 1; pass a;"
         "job b pool=1; pass b=1.0"},
        {"pool: what runs leaves and comes back there",
         "pool fair_share; pool fair_share; agents 1; agents 1 pool=1; gang a 1; pass a=0.0;"
         "job a pool=1; pass -a:move; gang b 1; pass; drain; pass a=1.0 b=0.0"},
        {"weight", "agents 1; gang a 1 service=2h; gang b 1; job a weight=9000; pass a"},
        {"service is not read again", "agents 1; gang a 1 service=2h; gang b 1; job a service=0;"
                                      "pass b"},
    };
    (void)state;
    SCENES_RUN(scenes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_inside_a_team), cmocka_unit_test(test_levels_in_time),
        cmocka_unit_test(test_age),           cmocka_unit_test(test_lift),
        cmocka_unit_test(test_fast_lane),     cmocka_unit_test(test_policies),
        cmocka_unit_test(test_changed_jobs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
