// Polls of running tasks for preemption are answered at once, and a task may only report for
// itself.
#include "tests/unit/master/support/core_fixture.h"

#include <stdio.h>
#include <string.h>

#include "base/limits.h"

enum { LATE = (LIMIT_LONG_POLL_S - 10) * SECOND };

static struct core_call *poll_start(const char *allocation)
{
    next_query_value = "60";
    struct core_call *call =
        call_start(core_allocation_preemption, as_task(allocation), allocation, NULL, NULL);
    settle();
    assert_false(call_is_done(call));
    return call;
}

// The clock stands still from the order to the answer.
static void assert_told_at_once(struct core_call *call)
{
    settle();
    settle();
    assert_true(call_is_done(call));
    json_t *answer = call_end(call);
    assert_int_equal(last_status, 200);
    assert_true(jget_bool(answer, "preempt", false));
    json_decref(answer);
}

static void run_one(void)
{
    submit_slots(1, "");
    report("agent-1", 1, "");
    report("agent-1", 1, task_in("1.1.1", "RUNNING", ""));
    poll_once("1.1.1");
}

static void test_a_parked_poll_is_answered_by_the_pause(void **state)
{
    (void)state;
    run_one();
    struct core_call *first = poll_start("1.1.1"), *second = poll_start("1.1.1");
    call_ok(core_experiment_pause, as_user(OWNER, false), "1", NULL);
    assert_told_at_once(first);
    assert_told_at_once(second);
}

static void test_a_parked_poll_is_answered_by_a_cancel(void **state)
{
    (void)state;
    run_one();
    struct core_call *call = poll_start("1.1.1");
    call_ok(core_experiment_cancel, as_user(OWNER, false), "1", NULL);
    assert_told_at_once(call);
}

// A poll that comes after the drain began does not wait for its deadline.
static void test_a_late_poll_is_answered_at_once(void **state)
{
    (void)state;
    run_one();
    call_ok(core_experiment_pause, as_user(OWNER, false), "1", NULL);
    next_query_value = "60";
    assert_told_at_once(
        call_start(core_allocation_preemption, as_task("1.1.1"), "1.1.1", NULL, NULL));
}

// Without a drain the poll is answered at its deadline, not before.
static void test_a_parked_poll_waits_for_its_deadline(void **state)
{
    (void)state;
    run_one();
    struct core_call *call = poll_start("1.1.1");
    for (int64_t us = 0; us < LATE; us += 5LL * SECOND) {
        advance(5 * SECOND);
        report("agent-1", 1, task_in("1.1.1", "RUNNING", ""));
        assert_false(call_is_done(call));
    }
    advance(15 * SECOND);
    json_t *answer = call_end(call);
    assert_false(jget_bool(answer, "preempt", true));
    json_decref(answer);
}

// An allocation's id begins with the id of an earlier one, whose reports are refused.
static void test_one_of_ten(void **state)
{
    (void)state;
    char id[16];
    assert_int_equal(submit("name: x\nentrypoint: x\nsearcher: {name: single, metric: loss}\n"
                            "max_restarts: 20\n",
                            true),
                     1);
    report("agent-1", 1, "");
    for (int epoch = 1; epoch < 10; epoch++) {
        snprintf(id, sizeof id, "1.1.%d", epoch);
        report("agent-1", 1, task_in(id, "RUNNING", ""));
        report("agent-1", 1, task_in(id, "EXITED", EXIT_3));
    }
    report("agent-1", 1, task_in("1.1.10", "RUNNING", ""));
    assert_stored("SELECT state FROM allocations WHERE id = '1.1.10'", "RUNNING");
    static const char *const strangers[] = {"1.1.1",  "1.1.1 ", "1.1.01", "1.1.100",
                                            "1.1.1x", "1.1.",   "1.1",    "1.1.010"};
    for (size_t i = 0; i < sizeof strangers / sizeof *strangers; i++) {
        const char *stranger = strangers[i];
        int status = call_status(core_trial_progress, as_task(stranger), "1", "{\"progress\":0.5}");
        if (status != 403)
            fail_msg("%s reports, and gets %d", stranger, status);
        status = call_status(core_allocation_ack_preemption, as_task(stranger), "1.1.10", NULL);
        if (status != 403)
            fail_msg("%s speaks for 1.1.10, and gets %d", stranger, status);
        status = call_status(core_allocation_ack_preemption, as_task("1.1.10"), stranger, NULL);
        if (status != 403)
            fail_msg("1.1.10 speaks for %s, and gets %d", stranger, status);
    }
    // A late report of the first allocation's agent ends only that allocation.
    json_t *answer = sync_agent("agent-1", "session", 1, task_in("1.1.1", "EXITED", EXIT_3));
    assert_true(forgotten(answer, "1.1.1"));
    assert_string_equal(desired_action(answer, "1.1.10"), "RUN");
    json_decref(answer);
    assert_int_equal(call_status(core_trial_progress, as_task("1.1.10"), "1", "{\"progress\":0.5}"),
                     200);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, cluster_setup, cluster_teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_a_parked_poll_is_answered_by_the_pause),
        TEST(test_a_parked_poll_is_answered_by_a_cancel),
        TEST(test_a_late_poll_is_answered_at_once),
        TEST(test_a_parked_poll_waits_for_its_deadline),
        TEST(test_one_of_ten),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
