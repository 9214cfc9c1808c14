// Tests of preemption: who has to leave, who is protected, who leaves first; gangs that shrink,
// grow and move; promises while slots change hands.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/unit/master/support/scene.h"

#define FOUR_OF_X                                                                                  \
    "agents 4; team x; team y; gang x1 1 team=x; gang x2 1 team=x; gang x3 1 team=x;"              \
    "gang x4 1 team=x; pass x1 x2 x3 x4; wait 6m;"

static void test_who_may(void **state)
{
    static const struct scene scenes[] = {
        {"a higher priority of its own team, at once",
         "agents 2; gang a 2; pass a; gang b 2 priority=1; pass -a:priority:b; why b draining "
         "leaving=1; drain; pass b; queue a; why a busy"},
        {"a level below, after five minutes",
         "agents 1; gang a 1 service=200h; pass a; gang b 1; pass; why b busy; next 5m; wait 4m;"
         "pass; wait 1m; pass -a; drain; pass b"},
        {"a team below its share, after five minutes",
         "agents 4; team x; team y; gang x1 1 team=x; gang x2 1 team=x; gang x3 1 team=x;"
         "gang x4 1 team=x; pass x1 x2 x3 x4; gang y1 2 team=y; pass; next 5m; wait 5m;"
         "pass -x3:share:y1 -x4:share:y1; drain; pass y1; queue x3 x4; wait 10m; pass"},
        {"a team takes back no more than its share",
         FOUR_OF_X "gang y1 1 team=y; gang y2 1 team=y; gang y3 1 team=y;"
                   "pass -x4:share:y1 -x3:share:y2; drain; pass y1 y2; queue x3 x4 y3"},
        {"nobody his equals", "agents 2; gang a 2; pass a; gang b 2; wait 20m; pass; why b busy"},
        {"nor a later one of another team that is covered",
         "agents 2; team x; team y; gang a 1 team=x; gang b 1 team=x; pass a b; wait 6m;"
         "gang c 1 team=y; pass -b:share:c; drain; pass c; wait 6m; pass; queue b"},
        {"a priority is a matter of its own team",
         "agents 2; team x; team y; gang a 1 team=x priority=90; gang b 1 team=y; pass a b;"
         "wait 6m; gang c 1 team=y priority=1; pass -b:priority:c"},
        {"not the covered gangs of another team, whatever the priority",
         "agents 4; team x; team y; gang a 2 team=x priority=90 service=300h; gang y1 2 team=y;"
         "pass a y1; wait 6m; gang b 4 team=y priority=1; pass; why b busy"},
        {"who waits for too long does not wait for those five minutes",
         "pool priority; agents 2; pass; gang a 2 service=200h; pass a;"
         "gang b 1 waited=5d service=200h; pass -a;"
         "drain; pass b; queue a"},
        {"not gangs of its own job, not even of less",
         "agents 2; job j; gang a 1-2 job=j; pass a=0.0,0.1; wait 1h; gang b 1 job=j; pass"},
        {"who overtook it leaves when its turn comes",
         "agents 4; gang a 2; pass a; gang b 4; gang c 2; pass c; wait 6m; pass; end a;"
         "pass -c; drain; pass b; queue c"},
        {"who started before it came has not overtaken it, though it was moved ahead",
         "agents 2; gang a 2 order=9; pass a; wait 6m; gang b 2 order=1; pass; queue b"},
        {"what cannot be enough is not taken",
         "agents 4; gang a 2 priority=1; gang b 2 service=200h; pass a b; wait 6m; gang c 3; pass;"
         "why c busy"},
        {"what does not serve it is not taken",
         "agents 2 2; gang a 1 one priority=1; gang b 1 service=200h; pass a b;"
         "gang c 2 service=200h; pass c; wait 6m; gang d 2 one not=1; pass"},
    };
    (void)state;
    SCENES_RUN(scenes);
}

// In a pool with the policy `priority` no gang is covered, so the rest of the order shows.
static void test_who_stays(void **state)
{
    static const struct scene scenes[] = {
        {"not for a higher priority",
         "agents 2; gang a 2 stays; pass a; wait 1h; gang b 2 priority=1;"
         "pass; why b busy; end a; pass b"},
        {"another is taken in its place",
         "agents 2; gang a 1 stays priority=90; gang b 1 priority=80; pass a b;"
         "gang c 1 priority=1; pass -b:priority:c; drain; pass c; queue b"},
        {"not for a team below its share",
         "agents 2; team x; team y; gang a 1 team=x stays; gang b 1 team=x stays; pass a b;"
         "wait 1h; gang c 1 team=y; pass; why c busy"},
        {"nor to make room on one agent",
         "agents 2 2; gang a 1 stays; gang b 1 stays not=0; pass a=0.0 b=1.0; wait 1h;"
         "gang c 2 one; pass; why c spread"},
        {"nor because its job was moved to another pool",
         "pool fair_share; pool fair_share; agents 1; agents 1 pool=1; job j;"
         "gang a 1 job=j stays; pass a=0.0;"
         "wait 1h; job j pool=1; pass"},
    };
    (void)state;
    SCENES_RUN(scenes);
}

static void test_who_first(void **state)
{
    static const struct scene scenes[] = {
        {"the lowest priority",
         "pool priority; agents 4; gang a 1; gang b 1 priority=50; gang c 1 priority=43;"
         "gang d 1 priority=50; pass a b c d; wait 6m; gang e 1; pass -d:priority:e"},
        {"the most service",
         "pool priority; agents 3; gang a 1; gang b 1 service=200h; gang c 1 service=20h;"
         "pass a b c; wait 6m; gang d 1 priority=1; pass -b:priority:d"},
        {"the least unsaved work",
         "pool priority; agents 3; gang a 1 service=50h; gang b 1 service=50h;"
         "gang c 1 service=50h; pass a b c; wait 3h; saved b; gang d 1 priority=1;"
         "pass -b:priority:d"},
        {"who came last",
         "pool priority; agents 3; gang a 1; gang b 1 order=9; gang c 1; pass a b c;"
         "wait 6m; gang d 1 priority=1; pass -b:priority:d"},
        {"the least covered before the lowest priority",
         "agents 4; team x; team y; gang x1 1 team=x priority=90; gang y1 1 team=y;"
         "gang y2 1 team=y; gang y3 1 team=y; pass x1 y1 y2 y3; wait 6m; gang x2 1 team=x;"
         "pass -y3:share:x2"},
        {"who turns out not to be needed stays",
         "pool priority; agents 4; gang a 3; gang b 1; pass a b; wait 6m; gang c 3 priority=1;"
         "pass -a:priority:c; drain; pass c; queue a"},
        {"on one agent if there is one",
         "pool priority; agents 2 2; gang a 1; gang b 1; gang c 1; gang d 1; pass a=0.0 b=0.1 "
         "c=1.0 d=1.1; wait 6m; gang e 2 priority=1; pass -c -d; drain; pass e=1.0,1.1"},
        {"spread if there is none",
         "pool priority; agents 2 2; gang a 1 priority=1; gang b 1; gang c 1 priority=1; gang d 1;"
         "adopt a 0.0; adopt b 0.1; adopt c 1.0; adopt d 1.1; gang e 2 priority=2; pass -b -d;"
         "drain; pass e=0.1,1.1; queue b d"},
        {"who is not needed stays, though the gang is spread and gets just what it needs",
         "pool priority; agents 4 4; gang a 4 priority=70; gang b 2 priority=80;"
         "gang c 2 priority=90; pass a b c; wait 6m; gang d 6 priority=1;"
         "pass -c:priority:d -a:priority:d; drain; pass d; queue a c"},
        {"what is free counts", "pool priority; agents 4; gang a 1; gang b 1; pass a b;"
                                "gang c 3 priority=1; pass -b:priority:c; drain; pass c; queue b"},
        {"only on agents and slots that it may use",
         "pool priority; agents 1 1 2; gang a 1; gang b 1; gang c 2; pass a=0.0 b=1.0 c; off 2.0;"
         "gang d 1 priority=1 not=1; pass -c; end c; pass d=2.1"},
    };
    (void)state;
    SCENES_RUN(scenes);
}

static void test_elastic(void **state)
{
    static const struct scene scenes[] = {
        {"starts with what is free", "agents 4; gang a 2-8; pass a=0.0,0.1,0.2,0.3"},
        {"not below its least", "agents 4; gang a 2; gang b 3-4; pass a; why b busy needs=3"},
        {"its least while others wait, the rest when all were considered",
         "agents 8; gang a 2-8; gang b 2-8; gang c 2; pass a=0.0,0.1,0.6,0.7 b=0.2,0.3 "
         "c=0.4,0.5"},
        {"spread over agents, in order", "agents 2 2; gang a 1-4; pass a=0.0,0.1,1.0,1.1"},
        {"on one agent only", "agents 2 2; gang a 1-4 one; pass a=0.0,0.1; look free=2"},
        {"as much as its job and its team may hold",
         "agents 8; team x max=5; job j limit=3 team=x; gang a 1-8 job=j; gang b 1-8 team=x;"
         "pass a=0.0,0.2,0.3 b=0.1,0.4"},
        {"what it has beyond its least goes to whoever waits, after five minutes",
         "agents 4; gang a 2-4; pass a; gang b 2; pass; wait 4m; pass; wait 1m; pass -a:shrink:b;"
         "why b draining leaving=1; drain; pass a=0.0,0.1 b=0.2,0.3"},
        {"the pass at which it can is asked for", "agents 4; gang a 2-4; pass a; gang b 2; pass;"
                                                  "next 5m; wait 5m; pass -a:shrink:b"},
        {"it is covered by its least, whether it waits or runs",
         "agents 5 1; team t weight=2000; team u; gang x 1 team=t priority=41; gang y 1 team=u;"
         "adopt x 1.0; lost 1; gang e 1-7 team=t; gang p 4 team=t priority=41 one not=1; pass e y;"
         "wait 1m; pass"},
        {"shrinking comes before stopping",
         "pool priority; agents 6; gang a 2-4; gang b 2 priority=90; pass a b; wait 6m;"
         "gang c 2; pass -a:shrink:c; drain; pass a c"},
        {"not without need", "agents 8; gang a 2-4; pass a; wait 6m; gang b 4; pass b"},
        {"it grows into what nobody wants, ten minutes after its start",
         "agents 4; gang b 2; gang a 2-4; pass a b; end b; pass; next 10m; wait 9m; pass; wait 1m;"
         "pass -a:grow; drain; pass a=0.0,0.1,0.2,0.3"},
        {"not for less than a quarter more",
         "agents 9; gang b 1; gang a 2-9; pass a b; end b; wait 1h; pass"},
        {"not when somebody waits who can use it",
         "agents 4; gang b 2; gang a 2-4; pass a b; wait 11m; end b; gang c 2; pass c"},
        {"nor when less than that is free, however much it wants",
         "agents 11; gang b 2; gang a 8-16; pass a b; wait 11m; end b; pass"},
        {"what it grows by is kept for it",
         "agents 4; gang b 2; gang a 2-4; pass a b; wait 11m; end b; pass -a:grow; drain;"
         "pass a=0.0,0.1,0.2,0.3"},
        {"not in several steps at once: those that leave grow no more",
         "agents 4; gang b 2; gang a 2-4; pass a b; wait 11m; end b; pass -a:grow; wait 1h; pass;"
         "drain; pass a"},
    };
    (void)state;
    SCENES_RUN(scenes);
}

#define SCATTERED                                                                                  \
    "agents 4 4; gang w 2; gang x 2; gang y 2; gang z 2; pass w=0.0,0.1 x=0.2,0.3 y=1.0,1.1 "      \
    "z=1.2,1.3; end w y;"

static void test_moving(void **state)
{
    static const struct scene scenes[] = {
        {"a gang on one agent has others moved when enough is free",
         SCATTERED "wait 6m; gang a 4 one; pass -x:move:a; why a draining leaving=1; drain;"
                   "pass x=1.0,1.1 a=0.0,0.1,0.2,0.3"},
        {"after their five minutes",
         SCATTERED "gang a 4 one; pass; next 5m; wait 5m; pass -x:move:a"},
        {"not a gang that may be spread", SCATTERED "gang a 4; pass a"},
        {"not when they have no other place",
         "agents 4 4; gang a 3; gang b 3; pass a=0.0,0.1,0.2 b=1.0,1.1,1.2; wait 6m;"
         "gang c 2 one; pass; why c spread free=2 largest_free=1"},

        {"nor their new place",
         SCATTERED "wait 6m; gang a 4 one; pass -x:move:a; gang b 2; pass; why b behind behind=a;"
                   "drain; pass x=1.0,1.1 a=0.0,0.1,0.2,0.3"},
        {"the smallest are moved", "agents 4 4; gang p 1; gang q 2; gang r 1; gang s 3; gang t 1;"
                                   "pass p=0.0 q=0.1,0.2 r=0.3 s t; end p t; wait 6m; gang a 2 one;"
                                   "pass -r:move:a; drain; pass r=1.3 a=0.0,0.3"},
    };
    (void)state;
    SCENES_RUN(scenes);
}

static void test_resizing(void **state)
{
    static const struct scene scenes[] = {
        {"a running gang leaves and comes back with its new number",
         "agents 4; gang a 2; pass a=0.0,0.1; resize a 3; pass -a:resize; pass; drain;"
         "pass a=0.0,0.1,0.2; look free=1"},
        {"one that shrinks keeps what it will need",
         "agents 4; gang a 4; pass a; gang b 2; gang c 1; pass; resize a 2; pass -a:resize;"
         "why b draining; drain; pass a=0.0,0.1 b=0.2,0.3; queue c"},
        {"a waiting gang waits for its new number",
         "agents 4; gang a 4; pass a; gang b 4; pass; resize b 2; why b busy needs=2; end a;"
         "pass b=0.0,0.1"},
        {"what could never run can",
         "agents 2; gang a 3; pass; why a over_pool needs=3; resize a 2; pass a"},
        {"a number within the new range stays",
         "agents 4; gang a 2; pass a; resize a 1-2; pass; resize a 2-4; pass; share someone "
         "wanted=4 used=2; wait 11m; pass -a:grow; drain; pass a=0.0,0.1,0.2,0.3"},
        {"an elastic gang without room leaves at once",
         "agents 8; gang a 2-8; pass a; resize a 1-4; pass -a:resize; drain; "
         "pass a=0.0,0.1,0.2,0.3"},
        {"back to the old number before the pass: nothing happens",
         "agents 4; gang a 2; pass a; resize a 3; resize a 2; pass"},
        {"a gang that leaves already is not asked twice",
         "agents 4; gang a 2; pass a; leave a; pass; resize a 1; pass; drain; pass a=0.0"},
        {"also in a pool without preemption",
         "pool fifo; agents 4; gang a 2; pass a; resize a 4; pass -a:resize; drain; pass a"},
        {"the agent that was cleared for it is free again",
         SCATTERED "wait 6m; gang a 4 one; pass -x:move:a; resize a 1; pass a=1.0"},
    };
    (void)state;
    SCENES_RUN(scenes);
}

static void test_hand_over(void **state)
{
    static const struct scene scenes[] = {
        {"nobody behind takes what is promised",
         "agents 4; gang a 2; gang b 2; pass a b; gang c 4 priority=1; pass -a:priority "
         "-b:priority;"
         "gang d 2 priority=42; end a; pass; why d behind behind=c ahead=1; why c draining "
         "leaving=1; end b; pass c; queue d"},
        {"somebody in front of it does",
         "agents 4; gang a 4; pass a; gang b 4 priority=2; pass -a:priority:b;"
         "gang c 4 priority=1; drain; pass c; queue b a"},
        {"slots of who leaves are not given twice",
         "agents 2; gang a 2; pass a; leave a; gang b 2; gang c 2; pass; why b draining;"
         "end a; pass b; queue c"},
        {"who is behind may use what it cannot",
         "agents 4 1; gang a 4; pass a=0.0,0.1,0.2,0.3; gang b 4 priority=1 one; gang c 1;"
         "pass -a:priority:b c=1.0"},
        {"what is free is kept for who only waits for the five minutes of others",
         "agents 4; gang a 2 service=200h; pass a; gang b 4; gang c 1; pass; next 5m; wait 5m;"
         "pass -a:service:b; why b draining; drain; pass b; queue c a"},
        {"a stream of small ones does not hold it up",
         "agents 4; gang a 1 service=200h; gang b 1 service=200h; pass a b; gang g 4; pass;"
         "gang c 1; gang d 1; wait 2m; pass; gang e 1; wait 3m; pass -a -b; drain; pass g;"
         "queue c d e a b"},
        {"but only what it can use", "agents 4 1; gang a 3 one; pass a; gang b 2 one; gang c 1 one;"
                                     "pass c; why b busy"},
        {"whom it was for has gone: it goes to others",
         "agents 2; gang a 2; pass a; gang b 2 priority=1; pass -a; end b; drain; pass a"},
        {"whom it was for has gone before it left: nobody else leaves for that",
         "agents 2 2; gang a 2; gang b 2; pass a b; gang c 2 priority=1; pass -b; end c;"
         "gang d 2 priority=1; pass; drain; pass d; queue b"},
        {"one that leaves by itself counts too",
         "agents 2; gang a 1; gang b 1; pass a b; leave a; gang c 1 priority=1; pass;"
         "end a; pass c; look running=2"},
    };
    (void)state;
    SCENES_RUN(scenes);
}

static void test_adopted(void **state)
{
    static const struct scene scenes[] = {
        {"takes its places without a pass",
         "agents 2 2; gang a 3; gang b 0; adopt a 1.0,0.1,1.1; adopt b 1.-1; look free=1 running=2;"
         "why a placed; pass; gang c 2; pass; end a; pass c=0.0,0.1; end b; look running=1"},
        {"an elastic one with what it had",
         "agents 4; gang a 2-4; adopt a 0.1,0.2,0.3 1h; gang b 2; pass -a:shrink:b; drain;"
         "pass a b; queue"},
        {"its start is when it began, so it may be asked to leave at once",
         "agents 1; gang a 1 service=200h; adopt a 0.0 5m; gang b 1; pass -a; drain; pass b"},
        {"or later", "agents 1; gang a 1 service=200h; adopt a 0.0 4m; gang b 1; pass; next 1m;"
                     "wait 1m; pass -a"},
        {"on a slot that is out of use",
         "agents 2; off 0.0; gang a 1; adopt a 0.0; gang b 1; pass b=0.1; end a; gang c 1; pass"},
    };
    (void)state;
    SCENES_RUN(scenes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_who_may),   cmocka_unit_test(test_who_first),
        cmocka_unit_test(test_who_stays), cmocka_unit_test(test_elastic),
        cmocka_unit_test(test_moving),    cmocka_unit_test(test_resizing),
        cmocka_unit_test(test_hand_over), cmocka_unit_test(test_adopted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
