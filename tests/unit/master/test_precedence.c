// Each role may or may not put its own and others' jobs ahead, depending on who loses by it.

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "master/teams/precedence.h"

// The answer for each role and loser (nobody, a teammate, another team): g granted, - no change, a
// above, o other team, t teammate.
static const struct {
    enum role role;
    bool own, above;
    const char *answers;
} table[] = {
    {ROLE_NONE, false, false, "---"},          {ROLE_NONE, false, true, "---"},
    {ROLE_NONE, true, false, "---"},           {ROLE_NONE, true, true, "---"},
    {ROLE_VIEWER, false, false, "---"},        {ROLE_VIEWER, false, true, "---"},
    {ROLE_VIEWER, true, false, "---"},         {ROLE_VIEWER, true, true, "---"},
    {ROLE_EDITOR, false, false, "---"},        {ROLE_EDITOR, false, true, "---"},
    {ROLE_EDITOR, true, false, "gto"},         {ROLE_EDITOR, true, true, "aaa"},
    {ROLE_ADMIN, false, false, "ggo"},         {ROLE_ADMIN, false, true, "aaa"},
    {ROLE_ADMIN, true, false, "ggo"},          {ROLE_ADMIN, true, true, "aaa"},
    {ROLE_CLUSTER_ADMIN, false, false, "ggg"}, {ROLE_CLUSTER_ADMIN, false, true, "ggg"},
    {ROLE_CLUSTER_ADMIN, true, false, "ggg"},  {ROLE_CLUSTER_ADMIN, true, true, "ggg"},
};

static void test_every_role_and_loser(void **state)
{
    (void)state;
    static const char words[] = {[PRECEDENCE_GRANTED] = 'g',
                                 [PRECEDENCE_NO_CHANGE] = '-',
                                 [PRECEDENCE_ABOVE] = 'a',
                                 [PRECEDENCE_OTHER_TEAM] = 'o',
                                 [PRECEDENCE_TEAMMATE] = 't'};
    assert_int_equal(sizeof table / sizeof *table, ROLES * 4);
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        for (int loser = 0; loser < DISPLACED_COUNT; loser++)
            for (int unlimited = 0; unlimited < 2; unlimited++) {
                const struct precedence_claim claim = {.role = table[i].role,
                                                       .own = table[i].own,
                                                       .above = table[i].above,
                                                       .unlimited = unlimited,
                                                       .displaces = (enum displaced)loser};
                char want = table[i].answers[loser], got = words[precedence_judge(&claim)];
                if (unlimited && want != '-')
                    want = 'g';
                if (got != want)
                    fail_msg("%s, own %d, above %d, unlimited %d, loser %d: %c, not %c",
                             role_words[claim.role], claim.own, claim.above, unlimited, loser, got,
                             want);
            }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_every_role_and_loser)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
