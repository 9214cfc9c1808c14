// Tests of the scheduler: placement of gangs, limits, and changes of agents and slots.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/unit/master/support/scene.h"

static void test_placement(void **state)
{
    static const struct scene scenes[] = {
        {"best fit takes the fullest agent that has room",
         "agents 4 2 3; gang a 2 one; gang b 3; pass a=1.0,1.1 b=2.0,2.1,2.2"},
        {"the first of equals",
         "agents 4 4; gang a 2; pass a=0.0,0.1; gang b 2; pass b=0.2,0.3; gang c 1; pass c=1.0"},
        {"larger than any agent: the largest piece first, the rest best fit",
         "agents 3 8 4; gang a 11; pass a=1.0,1.1,1.2,1.3,1.4,1.5,1.6,1.7,0.0,0.1,0.2"},
        {"any split: two slots here, one there",
         "agents 4 4; gang a 2; gang b 3; pass a b; gang c 3; pass c=0.2,0.3,1.3"},
        {"a gang that must be on one agent is not split",
         "agents 2 2; gang a 3 one; pass; why a over_agent largest=2 needs=3; gang b 3; pass b"},
        {"all or nothing", "agents 2 2; gang a 3; gang b 2; pass a=0.0,0.1,1.0; why b busy free=1"},
        {"a gang that fits into a rack stays in it, in the one with the least room",
         "agents 4/0 4/1 4/1 4/0 4/0; gang a 8; pass a=1.0,1.1,1.2,1.3,2.0,2.1,2.2,2.3"},
        {"a refused agent counts neither for its rack nor against it",
         "agents 4/1 4/0 4/0 4/0; gang a 8 not=1; pass a=2.0,2.1,2.2,2.3,3.0,3.1,3.2,3.3"},
        {"a gang that fits on one agent does not care for racks",
         "agents 8/0 4/1 4/1; gang a 8; pass a=0.0,0.1,0.2,0.3,0.4,0.5,0.6,0.7"},
        {"racks are no limit", "agents 4/0 4/1 4; gang a 12; pass a"},
        {"whole agents first when a gang is spread",
         "agents 2 4 2 4; gang a 10; pass a=1.0,1.1,1.2,1.3,3.0,3.1,3.2,3.3,0.0,0.1"},
        {"an agent that a gang refuses",
         "agents 2 2 4; gang a 2 not=0; pass a=1.0,1.1; gang b 6 not=1; pass b;"
         "gang c 1 not=0 not=2; pass; why c busy; end a; pass c=1.0"},
        {"a gang that refuses too many",
         "agents 2 2; gang a 3 not=0; pass; why a over_pool; gang b 2 one not=0 not=1; pass;"
         "why b over_pool; agents 4; pass a=2.0,2.1,2.2; end a; pass b=2.0,2.1"},
        {"an agent that comes under the handle of a refused one is not refused",
         "agents 2 2; gang a 2 not=0; gang b 2 not=0; pass a=1.0,1.1; gone 0; agents 2;"
         "pass b=0.0,0.1"},
    };
    (void)state;
    SCENES_RUN(scenes);
}

static void test_gangs_of_no_slots(void **state)
{
    static const struct scene scenes[] = {
        {"any agent, the one with the fewest such gangs",
         "agents 1 1; gang a 0; gang b 0; gang c 0; gang d 1; pass a=0.-1 b=1.-1 c=0.-1 d=0.0;"
         "gang e 0; pass e=1.-1; end a c; gang f 0; pass f=0.-1; look free=1 running=4 slots=2"},
        {"no agents", "gang a 0; pass; why a no_agents; agents 1; lost 0; pass; why a no_agents;"
                      "back 0; pass a=0.-1"},
        {"agents without slots serve for them", "agents 0; gang a 0; pass a=0.-1"},
        {"they wait for nobody", "agents 1; gang a 1; pass a; gang b 1; gang c 0; pass c"},
        {"they are nobody's victims and count against no maximum",
         "agents 1; team t max=1; team u; gang a 0 team=t; gang b 1 team=t; pass a b; wait 1h;"
         "gang c 1 team=t priority=1; gang d 0 team=t priority=1; pass d; why c team_full;"
         "team t max=9; pass -b:priority:c; drain; pass c"},
    };
    (void)state;
    SCENES_RUN(scenes);
}

static void test_agents_and_slots(void **state)
{
    static const struct scene scenes[] = {
        {"no agents", "gang a 1; pass; why a no_agents; agents 1; pass a=0.0"},
        {"a disabled slot is not used; under a gang it goes on",
         "agents 2; off 0.0; gang a 1; pass a=0.1; gang b 1; off 0.1; pass; why b over_pool;"
         "end a; pass; on 0.1; pass b=0.1;"},
        {"an agent that is lost is not used; what runs there keeps its slots",
         "agents 2 1; gang a 2; pass a=0.0,0.1; lost 0; gang b 1; gang c 1; pass b=1.0;"
         "why c busy total=1; look agents=1 slots=1 free=0 running=2; back 0; pass; end a; pass c"},
        {"an agent comes and goes", "agents 2; gang a 2; pass a; end a; gone 0; gang b 2; pass;"
                                    "why b no_agents; agents 3; pass b=0.0,0.1; look slots=3"},
    };
    (void)state;
    SCENES_RUN(scenes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_placement),
        cmocka_unit_test(test_gangs_of_no_slots),
        cmocka_unit_test(test_agents_and_slots),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
