// The metrics of lists of experiments are written at once while there are few, later when there are
// many, at the latest at the end of the trial, and also after a restart.

#include "tests/unit/master/support/core_fixture.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/clock.h"
#include "master/ingest/experiment_metrics.h"

#define LISTED(what) "SELECT " what " FROM experiment_metrics WHERE experiment_id = 1"

static void run_two(void)
{
    report("agent-1", 2, "");
    submit_slots(1, "");
    submit_slots(1, "");
    report("agent-1", 2, task_in("1.1.1", "RUNNING", ""));
    settle();
}

// Reports `count` metrics: m0 with `value`, m1 with `value` + 1, and so on.
static void post(const char *allocation, const char *trial, int steps, int count, double value)
{
    struct buf body;
    buf_init(&body, 1 << 20);
    buf_printf(&body,
               "{\"group\":\"validation\",\"metrics\":{\"trialId\":%s,\"stepsCompleted\":%d,"
               "\"metrics\":{\"avgMetrics\":{",
               trial, steps);
    for (int i = 0; i < count; i++)
        buf_printf(&body, "%s\"m%d\":%g", i ? "," : "", i, value + i);
    buf_puts(&body, "}}}}");
    call_ok(core_trial_metrics, as_task(allocation), trial, buf_str(&body));
    buf_free(&body);
}

static void test_few_are_listed_at_once(void **state)
{
    (void)state;
    run_two();
    post("1.1.1", "1", 1, 3, 5);
    post("1.1.1", "1", 2, 3, 2);
    settle();
    assert_stored(LISTED("group_concat(name)"), "validation.m0,validation.m1,validation.m2");
    assert_stored(LISTED("last || ' ' || low || ' ' || high") " AND name = 'validation.m0'",
                  "2.0 2.0 5.0");
}

static void stored_last(char last[32])
{
    snprintf(last, 32, "%s", stored(LISTED("last") " AND name = 'validation.m0'"));
}

static void test_many_wait_for_their_turn(void **state)
{
    char last[32];
    (void)state;
    run_two();
    int64_t until = clock_mono_us() + SECOND; // the core's clock goes on: a slow machine sees less
    post("1.1.1", "1", 1, EXPERIMENT_METRICS_BURST + EXPERIMENT_METRICS_RATE,
         0); // more than a second's worth
    settle();
    assert_stored(LISTED("count(*)"), decimal(EXPERIMENT_METRICS_BURST + EXPERIMENT_METRICS_RATE));
    post("1.1.1", "1", 2, 1, 7);
    settle();
    stored_last(last);
    if (clock_mono_us() < until)
        assert_string_equal(last, "0.0");
    advance(SECOND / 2);
    stored_last(last);
    if (clock_mono_us() < until - SECOND / 2)
        assert_string_equal(last, "0.0");
    advance(SECOND);
    assert_stored(LISTED("last") " AND name = 'validation.m0'", "7.0");
}

static void test_the_end_does_not_wait(void **state)
{
    (void)state;
    run_two();
    post("1.1.1", "1", 1, EXPERIMENT_METRICS_BURST + EXPERIMENT_METRICS_RATE, 0);
    post("1.1.1", "1", 2, 1, 7);
    report("agent-1", 2, task_in("1.1.1", "EXITED", EXIT_0));
    settle();
    assert_stored("SELECT state FROM trials WHERE id = 1", "COMPLETED");
    assert_stored(LISTED("last") " AND name = 'validation.m0'", "7.0");
}

static void test_a_restart_makes_up_for_it(void **state)
{
    (void)state;
    run_two();
    post("1.1.1", "1", 1, EXPERIMENT_METRICS_BURST + EXPERIMENT_METRICS_RATE, 0);
    settle();
    post("1.1.1", "1", 2, 1, 7);
    settle();
    assert_stored(LISTED("last") " AND name = 'validation.m0'", "0.0");
    restart_core();
    settle();
    assert_stored(LISTED("last") " AND name = 'validation.m0'", "7.0");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_few_are_listed_at_once, cluster_setup,
                                        cluster_teardown),
        cmocka_unit_test_setup_teardown(test_many_wait_for_their_turn, cluster_setup,
                                        cluster_teardown),
        cmocka_unit_test_setup_teardown(test_the_end_does_not_wait, cluster_setup,
                                        cluster_teardown),
        cmocka_unit_test_setup_teardown(test_a_restart_makes_up_for_it, cluster_setup,
                                        cluster_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
