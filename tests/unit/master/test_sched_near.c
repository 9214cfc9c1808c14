// Tests which slots of an agent a gang gets: first as a pure function with tables, then through the
// scheduler.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "master/sched/nearness.h"
#include "tests/unit/master/support/scene.h"

enum { MOST = 16 };

// One character per slot. Groups: -: none. States: . free, o the gang's own, x another gang's.
struct near_choice {
    const char *what, *nvlink, *numa, *states;
    int wanted;
    const char *chosen; // + marks a chosen slot
};

static void read_groups(const char *text, int groups[MOST])
{
    for (int i = 0; text[i]; i++)
        groups[i] = text[i] == '-' ? -1 : text[i];
}

static int arrange(struct near_slot spots[MOST], const char *nvlink, const char *numa,
                   const char *model)
{
    int links[MOST], nodes[MOST], models[MOST] = {0}, count = (int)strlen(nvlink);
    assert_true(count <= MOST && strlen(numa) == strlen(nvlink));
    read_groups(nvlink, links);
    read_groups(numa, nodes);
    read_groups(model ? model : "", models);
    near_arrange(spots, count, links, nodes, models);
    return count;
}

static void check_choice(const struct near_choice *c, const char *model)
{
    struct near_slot spots[MOST];
    char chosen[MOST + 1] = "";
    int count = arrange(spots, c->nvlink, c->numa, model);
    for (int i = 0; i < count; i++)
        spots[i].state = c->states[i] == '.'   ? NEAR_SLOT_FREE
                         : c->states[i] == 'o' ? NEAR_SLOT_OWN
                                               : NEAR_SLOT_TAKEN;
    near_choose(spots, count, c->wanted);
    for (int i = 0; i < count; i++) {
        bool taken = spots[i].state == NEAR_SLOT_OWN && c->states[i] == '.';
        chosen[i] = taken ? '+' : c->states[i];
    }
    if (strcmp(chosen, c->chosen) != 0)
        fail_msg("%s: %s, not %s", c->what, chosen, c->chosen);
}

static void test_two_groups_of_four(void **state)
{
    static const struct near_choice choices[] = {
        {"the first of equals", "00001111", "00001111", "........", 4, "++++...."},
        {"one group, not two halves", "00001111", "00001111", "xx......", 4, "xx..++++"},
        {"what is partly used, not a whole group", "00001111", "00001111", "....xx..", 2,
         "....xx++"},
        {"one slot too", "00001111", "00001111", "....x...", 1, "....x+.."},
        {"the fullest of those in use", "00001111", "00001111", "x...xx..", 2, "x...xx++"},
        {"nothing is left over", "00001111", "00001111", "x...xx..", 3, "x+++xx.."},
        {"no group has room: the larger piece first", "00001111", "00001111", "x...xx..", 4,
         "x+++xx+."},
        {"a whole group, and the rest beside it", "00001111", "00001111", "........", 6,
         "++++++.."},
        {"a slot out of use makes its group a used one", "00001111", "00001111", "....x...", 2,
         "....x++."},
        {"all that are free", "00001111", "00001111", "x.x.x.x.", 4, "x+x+x+x+"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof choices / sizeof *choices; i++)
        check_choice(&choices[i], NULL);
}

static void test_pairs_at_two_nodes(void **state)
{
    static const struct near_choice choices[] = {
        {"a pair", "00112233", "00001111", "........", 2, "++......"},
        {"a pair at a node in use", "00112233", "00001111", "....xx..", 2, "....xx++"},
        {"a broken pair before a whole one", "00112233", "00001111", "...x....", 1, "..+x...."},
        {"a broken pair at another node", "00112233", "00001111", "xx.....x", 1, "xx....+x"},
        {"a node for three", "00112233", "00001111", "x.......", 3, "x+++...."},
        {"a node for four", "00112233", "00001111", "xx......", 4, "xx..++++"},
        {"a whole pair and half of one: the broken pair's half", "00112233", "00001111", "x......x",
         3, "x+++...x"},
        {"no node has room: a node, then a pair", "00112233", "00001111", "........", 6,
         "++++++.."},
        {"no node has room: the node that has most", "00112233", "00001111", "x.......", 6,
         "x.++++++"},
        {"pairs whose slots lie apart", "01230123", "00110011", "x.......", 2, "x+...+.."},
    };
    (void)state;
    for (size_t i = 0; i < sizeof choices / sizeof *choices; i++)
        check_choice(&choices[i], NULL);
}

static void test_a_switch_over_two_nodes(void **state)
{
    static const struct near_choice choices[] = {
        {"one node of the switch", "00000000", "00001111", "x.......", 4, "x...++++"},
        {"the node in use", "00000000", "00001111", "x.......", 2, "x++....."},
        {"both nodes when one is too small", "00000000", "00001111", "xx......", 5, "xx+.++++"},
        {"one of two switches before one of four nodes", "0000000011111111", "0000111122223333",
         "................", 6, "++++++.........."},
        {"a whole switch, then a node of the other", "0000000011111111", "0000111122223333",
         "................", 10, "++++++++++......"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof choices / sizeof *choices; i++)
        check_choice(&choices[i], NULL);
}

static void test_nodes_alone_and_nothing(void **state)
{
    static const struct near_choice choices[] = {
        {"nodes without NVLink", "--------", "00001111", "....x...", 2, "....x++."},
        {"a node for all", "--------", "00001111", "x.......", 4, "x...++++"},
        {"one at a node in use", "--------", "00001111", "....xxx.", 1, "....xxx+"},
        {"nothing is known", "--------", "--------", "x.......", 3, "x+++...."},
        {"nodes are not known", "00001111", "--------", "x.......", 4, "x...++++"},
        {"one that is linked to none, for one", "00-", "000", "...", 1, "..+"},
        {"linked ones for two", "-00", "000", "...", 2, ".++"},
        {"instances of one GPU", "----", "0011", "x...", 2, "x.++"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof choices / sizeof *choices; i++)
        check_choice(&choices[i], NULL);
}

static void test_models(void **state)
{
    static const struct near_choice machine[] = {
        // one of its GPUs is divided into two instances
        {"GPUs of two groups before an instance of their node", "0000111--", "000011111",
         "x........", 4, "x++++...."},
        {"the larger piece first", "0000111--", "000011111", "xx.......", 4, "xx+.+++.."},
        {"a group in use", "0000111--", "000011111", "....x....", 2, "....x++.."},
        {"instances", "0000111--", "000011111", "xxxxxxx..", 2, "xxxxxxx++"},
        {"one instance before a group is broken up", "0000111--", "000011111", ".........", 1,
         ".......+."},
        {"all there is", "0000111--", "000011111", "xxxx.....", 5, "xxxx+++++"},
    };
    static const struct near_choice others[] = {
        {"models alone", "------", "------", "x..x..", 2, "x++x.."},
        {"no model has room", "------", "------", "..xx..", 3, "++xx+."},
    };
    (void)state;
    for (size_t i = 0; i < sizeof machine / sizeof *machine; i++)
        check_choice(&machine[i], "aaaaaaabb");
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        check_choice(&others[i], "aaabbb");
}

static void test_more_for_a_gang_that_has_some(void **state)
{
    static const struct near_choice choices[] = {
        {"beside its own", "00001111", "00001111", "xx..oo..", 2, "xx..oo++"},
        {"its own before the fuller one", "00001111", "00001111", "xxx.o...", 1, "xxx.o+.."},
        {"at its own node", "00112233", "00001111", "x.xxoox.", 1, "x.xxoox+"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof choices / sizeof *choices; i++)
        check_choice(&choices[i], NULL);
}

// The most slots in that state that one group of the kind has.
static int most_in_a_group(const struct near_slot spots[MOST], int count, int kind, unsigned bits)
{
    int held[MOST] = {0}, most = 0;
    for (int i = 0; i < count; i++) {
        int *here = &held[spots[i].first[kind]];
        *here += (int)(bits >> i & 1);
        most = *here > most ? *here : most;
    }
    return most;
}

static void check_any_choice(const char *const machine[3], unsigned open, int wanted)
{
    struct near_slot spots[MOST];
    int count = arrange(spots, machine[0], machine[1], machine[2]);
    unsigned chosen = 0;
    for (int i = 0; i < count; i++)
        spots[i].state = open >> i & 1 ? NEAR_SLOT_FREE : NEAR_SLOT_TAKEN;
    near_choose(spots, count, wanted);
    for (int i = 0; i < count; i++)
        chosen |= (unsigned)(spots[i].state == NEAR_SLOT_OWN) << i;
    assert_int_equal(chosen & ~open, 0);
    assert_int_equal(__builtin_popcount(chosen), wanted);
    for (int kind = 0; kind < NEAR_KINDS; kind++)
        if (most_in_a_group(spots, count, kind, open) >= wanted) {
            assert_int_equal(most_in_a_group(spots, count, kind, chosen), wanted);
            break; // the closest kind decides
        }
}

// For every set of free slots and every size: exactly that many slots, within one group whenever a
// group has room.
static void test_all_choices_of_a_machine(void **state)
{
    static const char *const machines[][3] = {{"00112233", "00001111"},
                                              {"00000000", "00001111"},
                                              {"01230123", "00110011"},
                                              {"00-1122-", "0101010-"},
                                              {"0000111-", "00001111", "aaaaaaab"}};
    (void)state;
    for (size_t m = 0; m < sizeof machines / sizeof *machines; m++)
        for (unsigned open = 0; open < 256; open++)
            for (int wanted = 0; wanted <= __builtin_popcount(open); wanted++)
                check_any_choice(machines[m], open, wanted);
}

static void check_order(const char *nvlink, const char *numa, const char *order)
{
    struct near_slot spots[MOST];
    char turns[MOST + 1] = "";
    int count = arrange(spots, nvlink, numa, NULL);
    for (int i = 0; i < count; i++)
        turns[spots[i].position] = "0123456789abcdef"[i];
    assert_string_equal(turns, order);
}

static void test_the_order_of_slots(void **state)
{
    (void)state;
    check_order("--------", "--------", "01234567");
    check_order("00001111", "00001111", "01234567");
    check_order("01010101", "--------", "02461357");
    check_order("01230123", "00110011", "04152637");
    check_order("01230123", "01010101", "04261537");
    check_order("00000000", "01010101", "02461357");
    check_order("0-0-1-1-", "00000000", "02134657");
}

static void test_gangs(void **state)
{
    static const struct scene scenes[] = {
        {"gangs of one machine go to groups of their size",
         "agents 8; near 0 00001111 00000000; gang a 2; pass a=0.0,0.1; gang b 4;"
         "pass b=0.4,0.5,0.6,0.7; gang c 2; pass c=0.2,0.3; end a b c; gang d 6;"
         "pass d=0.0,0.1,0.2,0.3,0.4,0.5; gang e 1; pass e=0.6"},
        {"ranks of a group are neighbours",
         "agents 4; near 0 0101 0000; gang a 4; pass a=0.0,0.2,0.1,0.3; end a; gang b 1;"
         "pass b=0.0; gang c 2; pass c=0.1,0.3"},
        {"a slot that is out of use",
         "agents 8; near 0 00001111 00001111; off 0.5; gang a 4; pass a=0.0,0.1,0.2,0.3; end a;"
         "gang b 2; pass b=0.4,0.6"},
        {"what is spread over machines is cut as ever, and takes groups of each",
         "agents 4 4; near 0 0101 0000; near 1 0101 0000; gang a 6; pass "
         "a=0.0,0.2,0.1,0.3,1.0,1.2"},
        {"groups that change hold for what comes",
         "agents 4; near 0 0011 0000; gang a 1; pass a=0.0; near 0 0101 0000; gang b 1; pass b=0.2;"
         "near 0 ---- ----; gang c 1; pass c=0.1; end a b c; gang d 2; pass d=0.0,0.1; end d; gone "
         "0"},
        {"an elastic gang grows beside what it has",
         "agents 8; near 0 01010101 00000000; gang a 2-4; gang b 3;"
         "pass a=0.0,0.2,0.4,0.6 b=0.1,0.3,0.5"},
    };
    (void)state;
    SCENES_RUN(scenes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_two_groups_of_four),
        cmocka_unit_test(test_pairs_at_two_nodes),
        cmocka_unit_test(test_a_switch_over_two_nodes),
        cmocka_unit_test(test_nodes_alone_and_nothing),
        cmocka_unit_test(test_models),
        cmocka_unit_test(test_more_for_a_gang_that_has_some),
        cmocka_unit_test(test_all_choices_of_a_machine),
        cmocka_unit_test(test_the_order_of_slots),
        cmocka_unit_test(test_gangs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
