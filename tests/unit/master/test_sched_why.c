// Tests of explanations: why a gang waits, with the numbers for a sentence, its position in the
// queue, and its estimated start where that can be known.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/unit/master/support/scene.h"

static void test_reasons(void **state)
{
    static const struct scene scenes[] = {
        {"it does not wait", "agents 1; gang a 1; pass a; why a placed needs=1 free=0 total=1"},
        {"came after the last pass", "agents 1; gang a 1; pass a; gang b 1; why b not_considered;"
                                     "pass; why b busy"},
        {"no agents", "gang a 1; pass; why a no_agents total=0 largest=0; agents 1; lost 0; pass;"
                      "why a no_agents"},
        {"larger than any agent",
         "agents 2 3; gang a 4 one; pass; why a over_agent needs=4 largest=3 "
         "total=5 free=5 largest_free=3"},
        {"than any that it may use",
         "agents 2 3; gang a 3 one not=1; pass; why a over_pool; agents 2; pass; why a over_agent"},
        {"larger than the pool",
         "agents 2 3; gang a 6; pass; why a over_pool needs=6 total=5;"
         "off 0.0; gang b 5; pass; why b over_pool total=4; on 0.0; pass b"},
        {"its team may never hold so many",
         "agents 9; team x max=5; team x/u; gang a 6 team=x/u; pass; why a over_maximum team=x "
         "team_used=0 team_limit=5"},
        {"its job holds what it may",
         "agents 9; job j limit=3; gang a 2 job=j; gang b 2 job=j; pass a; why b over_limit "
         "job_used=2 job_limit=3 needs=2"},
        {"its team holds what it may: the lowest that is full",
         "agents 9; team x max=3; team x/u max=2; gang a 2 team=x/u; gang b 2 team=x/u; pass a;"
         "why b team_full team=x/u team_used=2 team_limit=2; team x/u max=9; pass; why b team_full "
         "team=x team_used=2 team_limit=3"},
        {"too few are free",
         "agents 4; gang a 3; pass a; gang b 2; pass; why b busy needs=2 free=1 "
         "largest_free=1 ahead=0"},
        {"enough are free, but not on one agent",
         "agents 3 3; gang a 2; gang b 2; adopt a 0.0,0.1 6m; adopt b 1.0,1.1 6m; gang c 2 one;"
         "pass; why c spread needs=2 free=2 largest_free=1 largest=3 total=6"},
        {"its slots are being handed over",
         "agents 2; gang a 1; gang b 1; pass a b; gang c 2 priority=1; pass -a -b; why c draining "
         "leaving=2; end a; why c draining leaving=1; end b; pass c; why c placed leaving=0"},
        {"kept for one before it",
         "agents 4; gang a 2; gang b 2; pass a b; gang c 4 priority=1; pass -a -b; end a; gang d 1;"
         "pass; why d behind behind=c ahead=1"},
        {"no slots, and no agent has room", "agents 1; lost 0; gang a 0; pass; why a no_agents;"
                                            "back 0; pass a; why a placed needs=0"},
    };
    (void)state;
    SCENES_RUN(scenes);
}

// The smaller size that would start now is reported only where it is true.
static void test_with_fewer(void **state)
{
    static const struct scene scenes[] = {
        {"what is free is enough for less",
         "agents 4; gang a 2; pass a; gang b 4; pass; why b busy free=2 could=2; gang c 2; pass c;"
         "why b busy free=0 could=0"},
        {"behind others that wait, too", "agents 4; gang a 3; pass a; gang b 4; gang c 3; pass;"
                                         "why c busy ahead=1 could=1; gang d 1; pass d"},
        {"an elastic one has a least that it waits for",
         "agents 4; gang a 3; pass a; gang b 2-4; pass; why b busy needs=2 could=1"},
        {"one that must be on one agent",
         "agents 3 3; gang a 2; gang b 2; adopt a 0.0,0.1 6m; adopt b 1.0,1.1 6m; gang c 2 one;"
         "pass; why c spread free=2 could=1; gang d 1 one; pass d"},
        {"nothing is free", "agents 1; gang a 1; pass a; gang b 1; pass; why b busy could=0"},
        {"what is free is kept for another",
         "agents 4; gang a 2; gang b 2; pass a b; gang c 4 priority=1; pass -a -b; end a; gang d 3;"
         "pass; why d busy could=0"},
        {"the first of a fifo pool holds up the rest",
         "pool fifo; agents 4; gang a 3; pass a; gang b 2; gang c 2; pass; why c busy could=0"},
    };
    (void)state;
    SCENES_RUN(scenes);
}

static void test_places(void **state)
{
    static const struct scene scenes[] = {
        {"as many before it as will be decided before it",
         "agents 1; gang a 1; pass a; gang b 1 priority=50; gang c 1; gang d 1 service=2h; pass;"
         "queue c d b; why c busy ahead=0; why d busy ahead=1; why b busy ahead=2"},
        {"of all teams of the pool",
         "agents 2; team x; team y; gang x1 1 team=x; gang x2 1 team=x; pass x1 x2;"
         "gang x3 1 team=x; gang y1 1 team=y; gang y2 1 team=y; pass; queue y1 x3 y2;"
         "why y1 busy ahead=0; why y2 busy ahead=2"},
        {"those of other pools do not count",
         "pool fair_share; pool fair_share; agents 1; agents 1 pool=1; gang a 1; gang b 1 pool=1;"
         "pass a b; gang c 1; gang d 1 pool=1; gang e 1 pool=1; pass; queue c; queue d e pool=1;"
         "why e busy ahead=1"},
        {"a look at the pool",
         "agents 4 2; lost 1; gang a 3; gang b 2; gang c 0; pass a c; look agents=1 slots=4 free=1 "
         "waiting=1 running=2"},
    };
    (void)state;
    SCENES_RUN(scenes);
}

static void test_estimates(void **state)
{
    static const struct scene scenes[] = {
        {"when what runs is expected to end",
         "agents 2; gang a 2; expect a 3h; pass a; gang b 2; pass; why b busy start=3h; wait 20m;"
         "why b busy start=160m"},
        {"the first that gives enough", "agents 4; gang a 2; expect a 3h; gang b 2; expect b 1h; "
                                        "pass a b; gang c 2; gang d 4; pass;"
                                        "why c busy start=1h"},
        {"one after the other",
         "agents 2; gang a 2; expect a 1h; pass a; gang b 2; expect b 2h; gang c 2; expect c 1h;"
         "gang d 2; pass; why b busy start=1h; why c busy start=3h; why d busy start=4h"},
        {"those that leave are gone at once",
         "agents 2; gang a 2; expect a 5h; pass a; gang b 2 priority=1; pass -a; why b draining "
         "start=0s"},
        {"about as long again as it has run, when nothing is known",
         "agents 2; gang a 2; pass a; gang b 2 priority=90; wait 2h; pass; why b busy start=2h"},
        {"what cannot run has none",
         "agents 2; gang a 3; pass; why a over_pool start=none;"
         "job j limit=1; gang b 2 job=j; pass; why b over_limit start=none"},
        {"what cannot run holds up nobody",
         "agents 2; gang a 2; expect a 1h; pass a; gang b 3; gang c 2; pass; why c busy start=1h"},
        {"in fifo too", "pool fifo; agents 2; gang a 2; expect a 1h; pass a; gang b 2; expect b 1h;"
                        "gang c 1; pass; why b busy start=1h; why c busy start=2h"},
    };
    (void)state;
    SCENES_RUN(scenes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_reasons),
        cmocka_unit_test(test_with_fewer),
        cmocka_unit_test(test_places),
        cmocka_unit_test(test_estimates),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
