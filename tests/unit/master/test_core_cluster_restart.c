// Repeated and late reports, and a restart of the master at every step of a training.
#include "master/modules.h"
#include "tests/unit/master/support/core_fixture.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char running_2[] = "{\"allocationId\":\"1.1.1\",\"state\":\"RUNNING\",\"ranks\":[]}";

// Every report comes again later and changes nothing.
static void test_repeated_and_late_reports(void **state)
{
    (void)state;
    char reports[3][1024];
    snprintf(reports[0], sizeof reports[0], "%s", task_in("1.1.1", "STARTING", ""));
    snprintf(reports[1], sizeof reports[1], "%s", task_in("1.1.1", "RUNNING", ""));
    snprintf(reports[2], sizeof reports[2], "%s", task_in("1.1.1", "EXITED", KILLED_9));
    submit_slots(1, "");
    report("agent-1", 1, "");
    for (int now = 0; now < 3; now++) {
        report("agent-1", 1, reports[now]);
        for (int late = 0; late <= now; late++)
            report("agent-1", 1, reports[late]);
        report("agent-1", 1, "");
    }
    assert_stored("SELECT restarts FROM trials", "1");
    assert_stored("SELECT group_concat(state) FROM allocations", "TERMINATED,ASSIGNED");
    report("agent-1", 1, task_in("1.1.2", "RUNNING", ""));
    report("agent-1", 1, reports[2]);
    report("agent-1", 1, reports[1]); // late: it belongs to the first start, not to the second
    assert_stored("SELECT state FROM allocations WHERE epoch = 2", "RUNNING");
    report("agent-1", 1, task_in("1.1.2", "EXITED", EXIT_0));
    report("agent-1", 1, task_in("1.1.2", "RUNNING", ""));
    assert_stored("SELECT state FROM experiments", "COMPLETED");
}

static void steps_checkpoint(void)
{
    call_ok(core_checkpoint_report, as_task("1.1.1"), NULL,
            "{\"uuid\":\"33333333-3333-4333-8333-333333333333\",\"metadata\":"
            "{\"steps_completed\":4}}");
}

static void steps_metrics(void)
{
    call_ok(core_trial_metrics, as_task("1.1.1"), "1",
            "{\"group\":\"validation\",\"metrics\":{\"steps_completed\":4,\"metrics\":"
            "{\"avg_metrics\":{\"loss\":1.5}}}}");
}

static void both(const char *one, const char *two)
{
    report("agent-1", 1, one);
    report("agent-2", 1, two);
}

// The first start, up to its end by a crashing rank.
static void first_start(int number)
{
    static void (*const without_agents[])(void) = {steps_metrics, steps_checkpoint};
    if (number == 0)
        submit_slots(2, "");
    else if (number == 1)
        both("", "");
    else if (number == 2)
        report("agent-1", 1, task_in("1.1.1", "STARTING", ""));
    else if (number == 3)
        both(running_2, running_2);
    else if (number <= 5)
        without_agents[number - 4]();
    else if (number == 6)
        report("agent-2", 1, task_in("1.1.1", "EXITED", "{\"rank\":1,\"signal\":11}"));
    else
        report("agent-1", 1, task_in("1.1.1", "EXITED", KILLED_9));
}

// A later start, up to its end by a drain that `verb` orders.
static void later_start(int number, const char *id, core_handler *verb, bool acknowledges)
{
    if (number == 0)
        both("", "");
    else if (number == 1)
        both(task_in(id, "RUNNING", ""), task_in(id, "RUNNING", ""));
    else if (number == 2)
        call_ok(verb, as_user(OWNER, false), "1", NULL);
    else if (number == 3 && acknowledges)
        call_ok(core_allocation_ack_preemption, as_task(id), id, NULL);
    else
        report(number == 4 ? "agent-1" : "agent-2", 1, task_in(id, "EXITED", EXIT_0));
}

static void step(int number)
{
    if (number <= 7)
        first_start(number);
    else if (number <= 13)
        later_start(number - 8, "1.1.2", core_experiment_pause, true);
    else if (number == 14)
        call_ok(core_experiment_activate, as_user(OWNER, false), "1", NULL);
    else if (number <= 17)
        later_start(number - 15, "1.1.3", core_experiment_cancel, false);
    else
        later_start(number - 14, "1.1.3", core_experiment_cancel, false);
}

enum { STEPS = 20 };

// Agents repeat their reports to a new master, as in their first call.
static void after_restart(int done)
{
    const char *one = "", *two = "";
    if (done >= 2 && done <= 6)
        one = done == 2 ? task_in("1.1.1", "STARTING", "") : running_2;
    if (done >= 3 && done <= 5)
        two = running_2;
    if (done == 6)
        two = task_in("1.1.1", "EXITED", "{\"rank\":1,\"signal\":11}");
    if (done >= 9 && done <= 11)
        one = two = task_in("1.1.2", "RUNNING", "");
    if (done == 12) {
        one = task_in("1.1.2", "EXITED", EXIT_0);
        two = task_in("1.1.2", "RUNNING", "");
    }
    if (done >= 16 && done <= 18)
        one = two = task_in("1.1.3", "RUNNING", "");
    if (done == 18)
        one = task_in("1.1.3", "EXITED", EXIT_0);
    if (done >= 1)
        both(one, two);
}

static const char summary[] =
    "SELECT (SELECT state || best_metric FROM experiments) || ' ' || "
    "(SELECT state || restarts || latest_checkpoint || exit_reason FROM trials) || ' ' || "
    "(SELECT group_concat(epoch || state || outcome || exit_reason) FROM allocations) || ' ' || "
    "(SELECT count(*) FROM metrics) || ' ' || "
    "(SELECT group_concat(run_id || ' from ' || from_steps) FROM metric_cuts) || ' ' || "
    "(SELECT summary_metrics FROM trials) || ' ' || "
    "(SELECT count(*) FROM tokens)";

static void run_steps(int restart_after, char out[8192])
{
    void *nothing = NULL;
    cluster_setup(&nothing);
    for (int i = 0; i < STEPS; i++) {
        step(i);
        if (i == restart_after) {
            restart_core();
            after_restart(i);
        }
    }
    snprintf(out, 8192, "%s", stored(summary));
    cluster_teardown(&nothing);
}

static void test_restart_of_the_master_at_every_step(void **state)
{
    (void)state;
    char undisturbed[8192], disturbed[8192];
    run_steps(-1, undisturbed);
    assert_non_null(strstr(undisturbed, "CANCELED1.5"));
    assert_non_null(strstr(undisturbed, "rank 1: signal 11"));
    for (int i = 0; i < STEPS; i++) {
        run_steps(i, disturbed);
        if (strcmp(undisturbed, disturbed))
            fail_msg("restart after step %d:\n%s\nnot\n%s", i, disturbed, undisturbed);
    }
}

// The agent of a running task does not come back after the master's restart.
static void test_agent_gone_with_the_master(void **state)
{
    (void)state;
    submit_slots(1, "");
    report("agent-1", 1, "");
    report("agent-1", 1, task_in("1.1.1", "RUNNING", ""));
    restart_core();
    advance(29 * SECOND);
    assert_stored("SELECT group_concat(state) FROM allocations", "RUNNING");
    advance(2 * SECOND);
    assert_stored("SELECT group_concat(state) FROM allocations", "TERMINATED,QUEUED");
    assert_stored("SELECT outcome || restarts FROM allocations, trials WHERE epoch = 1", "LOST0");
}

// A start that fails early gives its reason and leaves nothing behind.
static void test_store_that_cannot_be_opened(void **state)
{
    (void)state;
    char aside[512];
    const char *path = db_path(cl.db);
    struct core *core = NULL;
    struct error e = {0};
    const struct core_options options = {
        .modules = master_modules, .cluster_id = "cluster", .storage = cl.places};
    stop_core();
    snprintf(aside, sizeof aside, "%s.aside", path);
    assert_int_equal(rename(path, aside), 0);
    assert_true(core_new(cl.db, &options, &core, &e) < 0);
    assert_null(core);
    assert_non_null(strstr(e.text, path));
    assert_int_equal(rename(aside, path), 0);
    start_core();
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, cluster_setup, cluster_teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_repeated_and_late_reports),
        cmocka_unit_test(test_restart_of_the_master_at_every_step),
        TEST(test_agent_gone_with_the_master),
        TEST(test_store_that_cannot_be_opened),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
