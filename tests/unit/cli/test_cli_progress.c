#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <string.h>

#include "cli/output/progress.h"

static struct progress training(void)
{
    return (struct progress){.state = "RUNNING",
                             .fraction = 0.5,
                             .steps = 750,
                             .total = 1500,
                             .loss = 2.13391,
                             .validation = NAN,
                             .samples_per_second = 512.4,
                             .step_ms = 20};
}

static void shows_step_loss_speed_and_time_left(void **state)
{
    (void)state;
    struct progress p = training();
    char line[256];
    assert_string_equal(progress_line(&p, 120, line, sizeof(line)),
                        "running [############............]  50%  step 750/1500  loss 2.1339  "
                        "512 samples/s  ETA 15.0 s");
}

static void leaves_out_what_does_not_fit(void **state)
{
    (void)state;
    struct progress p = training();
    char line[256];
    for (int width = 42; width < 120; width++) {
        progress_line(&p, width, line, sizeof(line));
        assert_true((int)strlen(line) <= width);
    }
}

static void counts_the_trials_of_a_search(void **state)
{
    (void)state;
    struct progress p = training();
    char line[256];
    p.search = true;
    p.trials_ended = 3;
    p.trials_total = 12;
    p.trials_running = 2;
    p.best = 0.01234;
    assert_string_equal(progress_line(&p, 120, line, sizeof(line)),
                        "running [############............]  50%  3 of 12 trials  2 running  "
                        "best 0.01234");
    p.trials_failed = 1;
    assert_string_equal(progress_line(&p, 120, line, sizeof(line)),
                        "running [############............]  50%  3 of 12 trials  1 failed  "
                        "2 running  best 0.01234");
    p.trials_failed = 0;
    p.trials_waiting = 7;
    assert_string_equal(progress_line(&p, 120, line, sizeof(line)),
                        "running [############............]  50%  3 of 12 trials  2 running  "
                        "7 waiting  best 0.01234");
    p.trials_waiting = 0;
    p.trials_total = 0;
    p.trials_running = 0;
    p.best = NAN;
    assert_string_equal(progress_line(&p, 120, line, sizeof(line)),
                        "running [############............]  50%  3 trials ended");
}

static void says_why_it_waits(void **state)
{
    (void)state;
    struct progress p = training();
    p.state = "QUEUED";
    p.reason = "needs 64 slots, the pool has 2";
    char line[256];
    assert_string_equal(progress_line(&p, 100, line, sizeof(line)),
                        "queued: needs 64 slots, the pool has 2");
    progress_line(&p, 20, line, sizeof(line));
    assert_int_equal(strlen(line), 20);
}

static void bar_stays_inside_its_cells(void **state)
{
    (void)state;
    struct progress p = training();
    char line[256];
    p.fraction = 1.7;
    assert_non_null(
        strstr(progress_line(&p, 120, line, sizeof(line)), "[########################]"));
    p.fraction = -1;
    assert_non_null(
        strstr(progress_line(&p, 120, line, sizeof(line)), "[........................]"));
}

static void a_program_without_steps_has_none(void **state)
{
    (void)state;
    struct progress p = {.state = "STARTING",
                         .loss = NAN,
                         .validation = NAN,
                         .samples_per_second = NAN,
                         .step_ms = NAN,
                         .restarts = 2};
    char line[256];
    assert_string_equal(progress_line(&p, 100, line, sizeof(line)),
                        "starting [........................]   0%  restarts 2");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shows_step_loss_speed_and_time_left),
        cmocka_unit_test(leaves_out_what_does_not_fit),
        cmocka_unit_test(counts_the_trials_of_a_search),
        cmocka_unit_test(says_why_it_waits),
        cmocka_unit_test(bar_stays_inside_its_cells),
        cmocka_unit_test(a_program_without_steps_has_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
