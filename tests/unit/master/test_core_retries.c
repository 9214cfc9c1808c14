// Trials that fail: the reason, the program's last lines, and the time of the restart.
#include "tests/unit/master/support/core_fixture.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BASE = 8 * SECOND }; // much longer than a slow machine takes for a step of a test

#define UUID_1 "11111111-1111-4111-8111-111111111111"

static int setup(void **state)
{
    cluster_setup(state);
    cl.more.restart_backoff_us = BASE;
    restart_core();
    return 0;
}

// An entry of a report: an ended task, with its supervisor's account of the rank that was the
// cause.
static const char *failed_in(const char *allocation, const char *reason, const char *words)
{
    static char text[2][1024];
    static int turn;
    char *out = text[turn++ % 2];
    snprintf(out, sizeof text[0],
             "{\"allocationId\":\"%s\",\"state\":\"EXITED\",\"reason\":\"%s\",\"lastWords\":\"%s\","
             "\"cause\":0,\"lostPeer\":%s,\"ranks\":[{\"rank\":0,\"exitCode\":1,\"signal\":null}]}",
             allocation, reason, words, strstr(words, "NCCL") ? "true" : "false");
    return out;
}

static const char *name_of(int epoch)
{
    static char id[2][32];
    static int turn;
    char *out = id[turn++ % 2];
    snprintf(out, sizeof id[0], "1.1.%d", epoch);
    return out;
}

static void rank_fails(int epoch, const char *reason, const char *words)
{
    report("agent-1", 1, task_in(name_of(epoch), "RUNNING", ""));
    report("agent-1", 1, failed_in(name_of(epoch), reason, words));
}

// The agent keeps polling.
static void wait_for(int64_t us)
{
    for (; us > 0; us -= 4 * SECOND) {
        advance(us < 4 * SECOND ? us : 4 * SECOND);
        report("agent-1", 1, "");
    }
}

static void assert_starts(int64_t count)
{
    assert_stored("SELECT count(*) FROM allocations", decimal(count));
}

static char *why(void)
{
    json_t *answer = ask(core_experiment_why, as_user(OWNER, false), "1", NULL, NULL);
    char *text = strdup(jget_string(answer, "reason", ""));
    json_decref(answer);
    return text;
}

static void submit_restarts(int slots, int max_restarts)
{
    char yaml[256];
    snprintf(yaml, sizeof yaml,
             "name: x\nentrypoint: x\nsearcher: {name: single, metric: loss}\n"
             "max_restarts: %d\nresources: {slots_per_trial: %d}\n",
             max_restarts, slots);
    assert_int_equal(submit(yaml, true), 1);
}

static void run_one(int max_restarts)
{
    submit_restarts(1, max_restarts);
    report("agent-1", 1, "");
}

// The last lines of a program come after its end, while its trial waits for its restart.
static void fail_with_no_retries(void)
{
    assert_int_equal(submit("name: x\nentrypoint: x\nsearcher: {name: single, metric: loss}\n"
                            "max_restarts: 5\nresources: {slots_per_trial: 1}\n"
                            "log_policies: [{pattern: cannot find, action: cancel_retries}]\n",
                            true),
                     1);
    report("agent-1", 1, "");
    rank_fails(1, "rank 0: exit 1", "");
    call_ok(core_task_logs, as_agent(), NULL,
            "{\"logs\":[{\"taskId\":\"1.1\",\"allocationId\":\"1.1.1\",\"agentId\":\"agent-1\","
            "\"log\":\"cannot find its data\"}]}");
    assert_stored("SELECT state FROM trials", "ACTIVE");
}

static void assert_given_up(void)
{
    assert_starts(1);
    assert_stored("SELECT state || restarts FROM trials", "ERROR0"); // it was not restarted
    assert_non_null(
        strstr(logged("1.1"), "it is not started again: its log matched a don't retry policy"));
}

static void test_a_log_policy_ends_the_wait(void **state)
{
    (void)state;
    fail_with_no_retries();
    wait_for(2 * BASE);
    assert_given_up();
}

static void test_a_log_policy_ends_a_wait_that_passes_without_the_master(void **state)
{
    (void)state;
    fail_with_no_retries();
    struct db_batch *b = db_batch_new();
    struct error e = {0};
    DB_ADD(b, TRIAL_SET_RETRY, 1, 1, 1, 1); // the wait has been over for long
    assert_int_equal(db_commit_wait(cl.db, b, &e), 0);
    restart_core();
    advance(SECOND);
    assert_given_up();
}

static void test_waits_double(void **state)
{
    (void)state;
    run_one(20);
    int64_t wait = BASE;
    for (int epoch = 1; epoch < 12; epoch++) {
        rank_fails(epoch, epoch % 2 ? "rank 0: exit 1" : "rank 0: exit 2", "");
        assert_starts(epoch);
        assert_stored("SELECT state FROM trials", "ACTIVE");
        assert_stored("SELECT restart_at > 0 FROM trials", "1");
        wait_for(wait - BASE / 2);
        assert_starts(epoch);
        wait_for(BASE);
        assert_starts(epoch + 1);
        assert_stored("SELECT restart_at FROM trials", "0");
        wait = 2 * wait < 300LL * SECOND ? 2 * wait : 300LL * SECOND;
    }
    // A checkpoint ends the row of failures.
    report("agent-1", 1, task_in("1.1.12", "RUNNING", ""));
    call_ok(core_checkpoint_report, as_task("1.1.12"), NULL,
            "{\"uuid\":\"" UUID_1 "\",\"taskId\":\"1.1\",\"allocationId\":\"1.1.12\","
            "\"metadata\":{\"steps_completed\":10},\"resources\":{\"a\":\"3\"},"
            "\"state\":\"STATE_COMPLETED\",\"training\":{}}");
    rank_fails(12, "rank 0: exit 1", "");
    wait_for(3 * BASE / 2);
    assert_starts(13);
}

static void test_a_lost_machine_does_not_wait(void **state)
{
    (void)state;
    run_one(9);
    rank_fails(1, "rank 0: exit 1", "");
    wait_for(3 * BASE / 2);
    assert_starts(2);
    report("agent-1", 1, task_in("1.1.2", "RUNNING", ""));
    report("agent-1", 1,
           "{\"allocationId\":\"1.1.2\",\"state\":\"EXITED\",\"ranks\":[],"
           "\"reason\":\"supervisor lost: it was killed\"}");
    assert_starts(3);
    assert_stored("SELECT failures FROM trials", "1");
}

static void test_people_do_not_wait(void **state)
{
    (void)state;
    run_one(9);
    rank_fails(1, "rank 0: exit 1", "");
    call_ok(core_experiment_pause, as_user(OWNER, false), "1", NULL);
    assert_stored("SELECT state || restart_at FROM trials", "PAUSED0");
    wait_for(2 * BASE);
    assert_starts(1);
    call_ok(core_experiment_activate, as_user(OWNER, false), "1", NULL);
    assert_starts(2);
    report("agent-1", 1, "");
    rank_fails(2, "rank 0: exit 1", "");
    assert_starts(2);
    call_ok(core_experiment_kill, as_user(OWNER, false), "1", NULL);
    assert_stored("SELECT state FROM experiments", "CANCELED");
    wait_for(4 * BASE);
    assert_starts(2);
}

static void test_the_wait_outlives_the_master(void **state)
{
    (void)state;
    run_one(9);
    for (int epoch = 1; epoch < 4; epoch++) {
        rank_fails(epoch, "rank 0: exit 1", "");
        restart_core();
        report("agent-1", 1, "");
        assert_starts(epoch);
        wait_for((1LL << (epoch - 1)) * BASE - BASE / 2);
        assert_starts(epoch);
        wait_for(BASE);
        assert_starts(epoch + 1);
    }
}

static void test_reasons(void **state)
{
    (void)state;
    run_one(1);
    rank_fails(1, "rank 0: exit 1: ValueError: x", "Traceback:\\nValueError: x");
    assert_stored("SELECT exit_reason FROM trials", "rank 0: exit 1: ValueError: x");
    assert_stored("SELECT last_words FROM trials", "Traceback:\nValueError: x");
    char *text = why();
    assert_non_null(strstr(text, "starts again in "));
    assert_non_null(strstr(text, "(restart 1 of 1) after rank 0: exit 1: ValueError: x"));
    free(text);
    assert_non_null(strstr(
        logged("1.1"), "rank 0: exit 1: ValueError: x; starts again in 8.0 s (restart 1 of 1)"));
    wait_for(2 * BASE);
    rank_fails(2, "rank 0: exit 1: ValueError: y", "ValueError: y");
    assert_stored("SELECT state || exit_reason FROM trials", "ERRORrank 0: exit 1: ValueError: y");
    assert_stored("SELECT last_words FROM trials", "ValueError: y");
    assert_non_null(strstr(logged("1.1"), "ValueError: y; it is not started again: it has failed 2 "
                                          "times (max_restarts: 1)"));
}

static void test_failing_alike(void **state)
{
    (void)state;
    run_one(3);
    rank_fails(1, "rank 0: exit 1: no such file", "no such file");
    assert_null(strstr(logged("1.1"), "in the same way"));
    wait_for(3 * BASE / 2);
    rank_fails(2, "rank 0: exit 1: no such file", "no such file");
    assert_non_null(strstr(logged("1.1"),
                           "it has failed 2 times in the same way, right after its "
                           "start: rank 0: exit 1: no such file; starts again in 16"));
    assert_non_null(strstr(logged("1.1"), "muster experiment kill 1"));
    restart_core();
    report("agent-1", 1, "");
    char *text = why();
    assert_non_null(strstr(text, "2 times in the same way"));
    free(text);
    wait_for(5 * BASE / 2);
    // After more than ten seconds a failure does not come right after the start.
    report("agent-1", 1, task_in("1.1.3", "RUNNING", ""));
    for (int i = 0; i < 3; i++) {
        advance(4 * SECOND);
        report("agent-1", 1, task_in("1.1.3", "RUNNING", ""));
    }
    rank_fails(3, "rank 0: exit 1: no such file", "no such file");
    assert_stored("SELECT failed_alike || '/' || failures FROM trials", "0/3");
    wait_for(9 * BASE / 2);
    rank_fails(4, "rank 0: exit 1: no such file", "no such file");
    assert_stored("SELECT state || exit_reason FROM trials", "ERRORrank 0: exit 1: no such file");
}

static void test_failing_alike_to_the_end(void **state)
{
    (void)state;
    run_one(2);
    for (int epoch = 1; epoch <= 3; epoch++) {
        rank_fails(epoch, "rank 0: exit 2: usage", "usage");
        wait_for(3 * BASE);
    }
    assert_stored("SELECT exit_reason FROM trials",
                  "rank 0: exit 2: usage (3 times in the same way, right after its start)");
}

// A gang on two machines: the first report only says that a peer has gone.
static void test_the_cause_and_what_followed(void **state)
{
    (void)state;
    submit_restarts(2, 9);
    report("agent-1", 1, "");
    report("agent-2", 1, "");
    report("agent-1", 1, task_in("1.1.1", "RUNNING", ""));
    report("agent-2", 1, task_in("1.1.1", "RUNNING", ""));
    report("agent-1", 1, failed_in("1.1.1", "rank 0: exit 1: NCCL error", "NCCL error"));
    assert_stored("SELECT exit_reason FROM allocations", "rank 0: exit 1: NCCL error");
    report("agent-2", 1, failed_in("1.1.1", "rank 1: exit 1: KeyError", "KeyError: 'lr'"));
    assert_stored("SELECT exit_reason FROM trials", "rank 1: exit 1: KeyError");
    assert_stored("SELECT last_words FROM trials", "KeyError: 'lr'");
    wait_for(3 * BASE / 2);
    report("agent-2", 1, "");
    report("agent-1", 1, task_in("1.1.2", "RUNNING", ""));
    report("agent-2", 1, task_in("1.1.2", "RUNNING", ""));
    report("agent-2", 1, failed_in("1.1.2", "rank 1: exit 1: KeyError", "KeyError: 'lr'"));
    report("agent-1", 1, failed_in("1.1.2", "rank 0: exit 1: NCCL error", "NCCL error"));
    assert_stored("SELECT exit_reason FROM trials", "rank 1: exit 1: KeyError");
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, cluster_teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_a_log_policy_ends_the_wait),
        TEST(test_a_log_policy_ends_a_wait_that_passes_without_the_master),
        TEST(test_waits_double),
        TEST(test_a_lost_machine_does_not_wait),
        TEST(test_people_do_not_wait),
        TEST(test_the_wait_outlives_the_master),
        TEST(test_reasons),
        TEST(test_failing_alike),
        TEST(test_failing_alike_to_the_end),
        TEST(test_the_cause_and_what_followed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
