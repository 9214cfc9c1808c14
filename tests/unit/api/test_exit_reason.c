// The error in the reason of a trial.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "api/exit_reason.h"

static void the_error_is_behind_rank_and_exit_code(void **state)
{
    (void)state;
    static const char *const pairs[][2] = {
        {"rank 0: exit 1: KeyError: 'lr'", "KeyError: 'lr'"},
        {"rank 12: killed by SIGKILL", "killed by SIGKILL"},
        {"exit 3: no data", "no data"},
        {"rank 0: exit 3", "exit 3"},
        {"rank 0", "rank 0"},
        {"rank x: exit 1: a", "rank x: exit 1: a"},
        {"invalid hyperparameters: lr", "invalid hyperparameters: lr"},
        {"", ""},
    };
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++)
        assert_string_equal(exit_reason_error(pairs[i][0]), pairs[i][1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(the_error_is_behind_rank_and_exit_code)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
