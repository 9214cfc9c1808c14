// The life of an experiment from its submission to its end and its deletion.
#include "tests/unit/master/support/core_fixture.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <semaphore.h>
#include <sys/wait.h>

#include "base/clock.h"
#include "base/hash.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/os/file.h"

#define UUID_1 "11111111-1111-4111-8111-111111111111"
#define UUID_2 "22222222-2222-4222-8222-222222222222"

static void post_metrics(const char *allocation, const char *group, int64_t steps, double loss)
{
    char body[256];
    snprintf(body, sizeof body,
             "{\"group\":\"%s\",\"metrics\":{\"trialId\":1,\"stepsCompleted\":%lld,"
             "\"metrics\":{\"avgMetrics\":{\"loss\":%g},\"batchMetrics\":null}}}",
             group, (long long)steps, loss);
    call_ok(core_trial_metrics, as_task(allocation), "1", body);
}

static void post_checkpoint(const char *allocation, const char *uuid, int64_t steps)
{
    char body[512];
    snprintf(body, sizeof body,
             "{\"uuid\":\"%s\",\"taskId\":\"1.1\",\"allocationId\":\"%s\","
             "\"metadata\":{\"steps_completed\":%lld},\"resources\":{\"a\":\"3\"},"
             "\"state\":\"STATE_COMPLETED\",\"training\":{}}",
             uuid, allocation, (long long)steps);
    call_ok(core_checkpoint_report, as_task(allocation), NULL, body);
}

static int try_checkpoint(const char *steps, const char *resources)
{
    char body[512];
    snprintf(body, sizeof body,
             "{\"uuid\":\"" UUID_1 "\",\"taskId\":\"1.1\",\"allocationId\":\"1.1.1\","
             "\"metadata\":{\"steps_completed\":%s},\"resources\":{%s},"
             "\"state\":\"STATE_COMPLETED\",\"training\":{}}",
             steps, resources);
    return call_status(core_checkpoint_report, as_task("1.1.1"), NULL, body);
}

static void refuse_progress(const char *allocation)
{
    static const char *const bad[] = {"{\"progress\":1.01}", "{\"progress\":-0.01}", "{}"};
    for (int i = 0; i < 3; i++)
        assert_int_equal(call_status(core_trial_progress, as_task(allocation), "1", bad[i]), 400);
}

static const char *env_of(const json_t *answer, const char *allocation, const char *name)
{
    return jget_string(jget(desired_task(answer, allocation), "env"), name, "(none)");
}

// Experiment 1, with one trial that runs on the only slot of an agent.
static void run_one(const char *more)
{
    submit_slots(1, more);
    report("agent-1", 1, "");
    report("agent-1", 1, task_in("1.1.1", "RUNNING", ""));
    poll_once("1.1.1");
}

static void test_whole_life(void **state)
{
    (void)state;
    assert_int_equal(submit_slots(2, ""), 1);
    assert_stored("SELECT state FROM experiments WHERE id = 1", "ACTIVE");
    assert_stored("SELECT state FROM allocations WHERE id = '1.1.1'", "QUEUED");
    json_t *why = ask(core_experiment_why, as_user(OTHER, false), "1", NULL, NULL);
    assert_non_null(strstr(jget_string(why, "reason", ""), "waits for an agent"));
    json_decref(why);

    json_t *answer = sync_agent("agent-1", "session", 4, "");
    assert_string_equal(desired_action(answer, "1.1.1"), "RUN");
    assert_string_equal(env_of(answer, "1.1.1", "DET_MASTER"), "http://master");
    assert_string_equal(env_of(answer, "1.1.1", "DET_TRIAL_RUN_ID"), "1");
    assert_string_equal(env_of(answer, "1.1.1", "WORLD_SIZE"), "2");
    assert_string_equal(env_of(answer, "1.1.1", "DET_LATEST_CHECKPOINT"), "(none)");
    assert_int_equal(json_array_size(jget(desired_task(answer, "1.1.1"), "ranks")), 2);
    json_t *config = parse_json(env_of(answer, "1.1.1", "DET_EXPERIMENT_CONFIG"));
    assert_string_equal(jget_string(jget(config, "checkpoint_storage"), "type", ""), "directory");
    json_decref(config);
    char hash[SHA256_HEX], sql[256];
    const char *token = env_of(answer, "1.1.1", "DET_SESSION_TOKEN");
    sha256_hex(token, strlen(token), hash);
    snprintf(sql, sizeof sql, "SELECT allocation_id FROM tokens WHERE hash = '%s'", hash);
    assert_stored(sql, full_id("1.1.1"));
    json_decref(answer);

    report("agent-1", 4, task_in("1.1.1", "STARTING", ""));
    assert_stored("SELECT state FROM allocations WHERE id = '1.1.1'", "STARTING");
    report("agent-1", 4, task_in("1.1.1", "RUNNING", ""));
    assert_stored("SELECT state FROM allocations WHERE id = '1.1.1'", "RUNNING");

    post_metrics("1.1.1", "training", 10, 4);
    post_metrics("1.1.1", "validation", 10, 3);
    post_checkpoint("1.1.1", UUID_1, 10);
    post_checkpoint("1.1.1", UUID_2, 5); // a late report of fewer steps is not the newest
    post_metrics("1.1.1", "validation", 20, 2);
    call_ok(core_trial_progress, as_task("1.1.1"), "1", "{\"progress\":0.5,\"is_raw\":true}");
    refuse_progress("1.1.1");
    assert_stored("SELECT progress FROM experiments", "0.5");
    assert_stored("SELECT latest_checkpoint FROM trials", UUID_1);
    assert_stored("SELECT validation FROM checkpoints WHERE uuid = '" UUID_1 "'",
                  "{\"avgMetrics\":{\"loss\":3}}");
    assert_stored("SELECT best_metric FROM experiments", "2.0");
    assert_stored("SELECT json_extract(best_validation, '$.totalBatches') FROM trials", "20");
    assert_stored("SELECT json_extract(summary_metrics, '$.validation_metrics.loss.count') "
                  "FROM trials",
                  "2");
    json_t *best = ask(core_experiment_best_metric, as_task("1.1.1"), "1", NULL, NULL);
    assert_true(jget_double(best, "metric", 0) == 2);
    json_decref(best);

    answer = sync_agent("agent-1", "session", 4, task_in("1.1.1", "EXITED", EXIT_0 "," EXIT_0));
    assert_true(forgotten(answer, "1.1.1"));
    assert_null(desired_task(answer, "1.1.1"));
    json_decref(answer);
    assert_stored("SELECT state FROM experiments", "COMPLETED");
    assert_stored("SELECT state FROM trials", "COMPLETED");
    assert_stored("SELECT outcome FROM allocations", "COMPLETED");
    assert_stored("SELECT count(*) FROM tokens WHERE allocation_id = '1.1.1'", "0");
    assert_stored("SELECT progress FROM experiments", "1.0");
    best = ask(core_experiment_best_metric, as_user(OTHER, false), "1", NULL, NULL);
    assert_true(jget_double(best, "metric", 0) == 2);
    json_decref(best);
    submit_slots(1, "");
    assert_int_equal(call_status(core_experiment_best_metric, as_user(OTHER, false), "2", NULL),
                     404);
    assert_int_equal(call_status(core_trial_metrics, as_task("1.1.1"), "1", "{}"), 403);
    assert_string_equal(last_error, "allocation has ended");
}

// A rank dies: the trial starts again from its newest checkpoint, and reports beyond it are hidden.
static void test_restart(void **state)
{
    (void)state;
    run_one("");
    for (int step = 5; step <= 20; step += 5)
        post_metrics("1.1.1", "training", step, step);
    post_checkpoint("1.1.1", UUID_1, 10);
    post_metrics("1.1.1", "custom", -1, 1);
    json_t *answer = sync_agent("agent-1", "session", 1, task_in("1.1.1", "EXITED", KILLED_9));
    assert_true(forgotten(answer, "1.1.1"));
    assert_string_equal(desired_action(answer, "1.1.2"), "RUN");
    assert_string_equal(env_of(answer, "1.1.2", "DET_LATEST_CHECKPOINT"), UUID_1);
    assert_string_equal(env_of(answer, "1.1.2", "DET_STEPS_COMPLETED"), "10");
    assert_string_equal(env_of(answer, "1.1.2", "DET_TRIAL_RUN_ID"), "2");
    assert_string_equal(env_of(answer, "1.1.2", "MASTER_PORT"), "22001"); // 22000 may be taken
    json_decref(answer);
    assert_stored("SELECT restarts FROM trials", "1");
    assert_stored("SELECT exit_reason FROM trials", "rank 0: signal 9");
    assert_stored("SELECT outcome FROM allocations WHERE epoch = 1", "FAILED");
    assert_string_equal(reports_seen(1, "training"), "1:5 1:10");
    assert_stored("SELECT steps_completed FROM trials", "10");
    assert_int_equal(call_status(core_trial_metrics, as_task("1.1.1"), "1", "{}"), 403);

    report("agent-1", 1, task_in("1.1.2", "RUNNING", ""));
    post_metrics("1.1.2", "training", 10, 10); // reported again: the earlier row is hidden
    post_metrics("1.1.2", "training", 15, 15);
    for (int run = 1; run <= 3; run++) { // a report that names a run must name the current one
        char body[160];
        snprintf(body, sizeof body,
                 "{\"group\":\"training\",\"metrics\":{\"trialId\":1,\"trialRunId\":%d,"
                 "\"stepsCompleted\":16,\"metrics\":{\"avgMetrics\":{\"loss\":1}}}}",
                 run);
        assert_int_equal(call_status(core_trial_metrics, as_task("1.1.2"), "1", body),
                         run == 2 ? 200 : 403);
    }
    assert_string_equal(reports_seen(1, "training"), "1:5 2:10 2:15 2:16");
    assert_string_equal(reports_seen(1, "custom"), "1:-1");
    report("agent-1", 1, task_in("1.1.2", "EXITED", EXIT_3));
    assert_stored("SELECT state FROM experiments", "ERROR"); // max_restarts: 1
    assert_stored("SELECT state || restarts FROM trials", "ERROR1");
    assert_stored("SELECT exit_reason FROM trials", "rank 0: exit 3");
}

static void test_numbers_of_checkpoints_have_a_limit(void **state)
{
    (void)state;
    run_one("");
    assert_int_equal(try_checkpoint("9223372036854775807", ""), 400);
    assert_int_equal(try_checkpoint("9007199254740993", ""), 400);
    assert_int_equal(try_checkpoint("1", "\"a\":\"-1\""), 400);
    assert_int_equal(try_checkpoint("1", "\"a\":9223372036854775807,\"b\":1"), 400);
    assert_int_equal(try_checkpoint("1", "\"a\":\"9007199254740992\",\"b\":\"1\""), 400);
    assert_stored("SELECT count(*) FROM checkpoints", "0");
    assert_int_equal(try_checkpoint("9007199254740992", "\"a\":\"9007199254740991\",\"b\":\"1\""),
                     200);
    assert_int_equal(call_status(core_trial_metrics, as_task("1.1.1"), "1",
                                 "{\"group\":\"training\",\"metrics\":{\"trialId\":1,"
                                 "\"stepsCompleted\":9007199254740993,"
                                 "\"metrics\":{\"avgMetrics\":{\"loss\":1}}}}"),
                     400);
}

static void test_failures_of_the_cluster_do_not_count(void **state)
{
    (void)state;
    run_one("");
    report("agent-1", 1,
           task_in("1.1.1", "EXITED", EXIT_80 ",{\"rank\":1,\"exitCode\":143}," KILLED_9));
    assert_stored("SELECT outcome FROM allocations WHERE epoch = 1", "LOST");
    report("agent-1", 1, task_in("1.1.2", "RUNNING", ""));
    report("agent-1", 1,
           "{\"allocationId\":\"1.1.2\",\"state\":\"EXITED\",\"ranks\":[],"
           "\"reason\":\"supervisor lost: its processes were ended\"}");
    assert_stored("SELECT outcome FROM allocations WHERE epoch = 2", "LOST");
    assert_stored("SELECT restarts FROM trials", "0");
    assert_stored("SELECT state FROM allocations WHERE epoch = 3", "ASSIGNED");
    report("agent-1", 1,
           "{\"allocationId\":\"1.1.3\",\"state\":\"EXITED\",\"ranks\":[],"
           "\"reason\":\"cannot unpack the files\"}");
    assert_stored("SELECT restarts FROM trials", "1"); // restarts do not go on for ever
    assert_stored("SELECT exit_reason FROM trials", "cannot unpack the files");
}

static json_t *preemption(const char *allocation)
{
    return ask(core_allocation_preemption, as_task(allocation), allocation, NULL, NULL);
}

static void test_pause_and_activate(void **state)
{
    (void)state;
    run_one("");
    struct core_call *poll =
        call_start(core_allocation_preemption, as_task("1.1.1"), "1.1.1", NULL, NULL);
    settle();
    assert_false(call_is_done(poll));
    call_ok(core_experiment_pause, as_user(OWNER, false), "1", NULL);
    json_t *answer = call_end(poll);
    assert_true(jget_bool(answer, "preempt", false));
    json_decref(answer);
    answer = preemption("1.1.1"); // a repeated call is answered at once
    assert_true(jget_bool(answer, "preempt", false));
    json_decref(answer);
    post_checkpoint("1.1.1", UUID_1, 7);
    call_ok(core_allocation_ack_preemption, as_task("1.1.1"), "1.1.1", NULL);
    call_ok(core_allocation_ack_preemption, as_task("1.1.1"), "1.1.1", NULL);
    report("agent-1", 1, task_in("1.1.1", "EXITED", EXIT_0));
    assert_stored("SELECT state FROM experiments", "PAUSED");
    assert_stored("SELECT outcome FROM allocations", "PREEMPTED");
    call_ok(core_experiment_pause, as_user(OWNER, false), "1", NULL);
    call_ok(core_experiment_activate, as_user(OWNER, false), "1", NULL);
    answer = sync_agent("agent-1", "session", 1, "");
    assert_string_equal(env_of(answer, "1.1.2", "DET_LATEST_CHECKPOINT"), UUID_1);
    json_decref(answer);
    assert_stored("SELECT restarts FROM trials", "0");
}

// Paused, and activated again before the program has left: it leaves, and starts again.
static void test_pause_is_taken_back(void **state)
{
    (void)state;
    run_one("");
    call_ok(core_experiment_pause, as_user(OWNER, false), "1", NULL);
    call_ok(core_allocation_ack_preemption, as_task("1.1.1"), "1.1.1", NULL);
    call_ok(core_experiment_activate, as_user(OWNER, false), "1", NULL);
    restart_core(); // the acknowledgement is not lost
    report("agent-1", 1, task_in("1.1.1", "RUNNING", ""));
    report("agent-1", 1, task_in("1.1.1", "EXITED", EXIT_0));
    assert_stored("SELECT state FROM experiments", "ACTIVE");
    assert_stored("SELECT state FROM allocations WHERE epoch = 2", "ASSIGNED");
}

static void test_failure_after_acknowledging_counts(void **state)
{
    (void)state;
    run_one("");
    call_ok(core_experiment_pause, as_user(OWNER, false), "1", NULL);
    call_ok(core_allocation_ack_preemption, as_task("1.1.1"), "1.1.1", NULL);
    report("agent-1", 1, task_in("1.1.1", "EXITED", EXIT_3));
    assert_stored("SELECT state || restarts FROM trials", "PAUSED1");
    assert_stored("SELECT outcome FROM allocations", "FAILED");
}

static void test_drain_and_kill_outlive_the_master(void **state)
{
    (void)state;
    submit_slots(1, "");
    submit_slots(1, "");
    report("agent-1", 2, "");
    char both[512];
    snprintf(both, sizeof both, "%s,%s", task_in("1.1.1", "RUNNING", ""),
             task_in("2.2.1", "RUNNING", ""));
    report("agent-1", 2, both);
    poll_once("1.1.1");
    call_ok(core_experiment_pause, as_user(OWNER, false), "1", NULL);
    call_ok(core_experiment_kill, as_user(OWNER, false), "2", NULL);
    restart_core();
    json_t *answer = preemption("1.1.1");
    assert_true(jget_bool(answer, "preempt", false));
    json_decref(answer);
    answer = sync_agent("agent-1", "session", 2, both);
    assert_string_equal(desired_action(answer, "1.1.1"), "RUN");
    assert_string_equal(desired_action(answer, "2.2.1"), "KILL");
    json_decref(answer);
}

static void test_exit_without_acknowledging_is_the_end(void **state)
{
    (void)state;
    run_one("");
    call_ok(core_experiment_pause, as_user(OWNER, false), "1", NULL);
    report("agent-1", 1, task_in("1.1.1", "EXITED", EXIT_0));
    assert_stored("SELECT state FROM experiments", "COMPLETED");
}

static void test_drain_that_is_not_followed(void **state)
{
    (void)state;
    run_one("preemption_timeout: 5\n");
    call_ok(core_experiment_pause, as_user(OWNER, false), "1", NULL);
    advance(4 * SECOND);
    json_t *answer = sync_agent("agent-1", "session", 1, task_in("1.1.1", "RUNNING", ""));
    assert_string_equal(desired_action(answer, "1.1.1"), "RUN");
    json_decref(answer);
    advance(2 * SECOND);
    answer = sync_agent("agent-1", "session", 1, task_in("1.1.1", "RUNNING", ""));
    assert_string_equal(desired_action(answer, "1.1.1"), "KILL");
    assert_int_equal(jget_int(desired_task(answer, "1.1.1"), "graceSeconds", 0), 10);
    json_decref(answer);
    report("agent-1", 1, task_in("1.1.1", "EXITED", KILLED_9));
    assert_stored("SELECT state || restarts FROM trials", "PAUSED0");
    assert_non_null(strstr(stored("SELECT exit_reason FROM trials"), "preemption_timeout"));
}

static void run_deaf(void)
{
    submit_slots(1, "");
    report("agent-1", 1, "");
    report("agent-1", 1, task_in("1.1.1", "RUNNING", ""));
}

static void assert_ended_at_once(void)
{
    json_t *answer = sync_agent("agent-1", "session", 1, task_in("1.1.1", "RUNNING", ""));
    assert_string_equal(desired_action(answer, "1.1.1"), "KILL");
    assert_int_equal(jget_int(desired_task(answer, "1.1.1"), "graceSeconds", 0), 10);
    json_decref(answer);
    assert_non_null(strstr(logged("1.1"), "has not polled for preemption yet, so it is ended: "
                                          "SIGTERM now, SIGKILL after 10.0 s"));
}

// However a program exits that was ended because it does not poll, it is paused. It has not failed,
// and it is not complete.
static void test_pause_ends_a_program_that_does_not_poll(void **state)
{
    static const char *const exits[] = {EXIT_0, EXIT_3, KILLED_9};
    static const char *const losses[2][2] = {
        {"has reported no step yet: if it had not begun to train, nothing is lost",
         "has reported no step after its newest checkpoint, of step 10,"},
        {"the trial has no checkpoint, so all its work is lost unless the program saves one",
         "work since its last checkpoint, of step 10, is lost unless"},
    };
    for (int i = 0; i < 6; i++) {
        cluster_teardown(state);
        cluster_setup(state);
        run_deaf();
        if (i % 2)
            post_checkpoint("1.1.1", UUID_1, 10);
        if (i >= 2)
            post_metrics("1.1.1", "training", 12, 0.5);
        call_ok(core_experiment_pause, as_user(OWNER, false), "1", NULL);
        assert_ended_at_once();
        assert_non_null(strstr(logged("1.1"), losses[i >= 2][i % 2]));
        if (i >= 3)
            restart_core();
        report("agent-1", 1, task_in("1.1.1", "EXITED", exits[i % 3]));
        assert_stored("SELECT e.state || t.state || restarts FROM experiments e, trials t",
                      "PAUSEDPAUSED0");
        assert_stored("SELECT outcome || exit_reason FROM allocations", "PREEMPTEDpaused");
        assert_stored("SELECT coalesce(exit_reason, '') FROM trials", "");
        submit_slots(1, ""); // its slots are free
        assert_stored("SELECT state FROM allocations WHERE trial_id = 2", "ASSIGNED");
    }
}

static void test_cancel_ends_a_program_that_does_not_poll(void **state)
{
    (void)state;
    run_deaf();
    call_ok(core_experiment_cancel, as_user(OWNER, false), "1", NULL);
    assert_ended_at_once();
    assert_null(strstr(logged("1.1"), "lost")); // it does not start again
    report("agent-1", 1, task_in("1.1.1", "EXITED", KILLED_9));
    assert_stored("SELECT state FROM experiments", "CANCELED");
}

// The searcher stops a trial, or the program reports its own end: it exits soon by itself.
static void test_stop_does_not_end_a_program_that_does_not_poll(void **state)
{
    (void)state;
    run_deaf();
    call_ok(core_trial_early_exit, as_task("1.1.1"), "1",
            "{\"reason\":\"EXITED_REASON_USER_REQUESTED_STOP\"}");
    json_t *answer = sync_agent("agent-1", "session", 1, task_in("1.1.1", "RUNNING", ""));
    assert_string_equal(desired_action(answer, "1.1.1"), "RUN");
    json_decref(answer);
    call_ok(core_experiment_cancel, as_user(OWNER, false), "1", NULL);
    assert_ended_at_once();
}

// A poll is not forgotten when the master starts again, nor when the program only tells its peers.
static void test_a_program_that_has_polled_once_is_asked(void **state)
{
    (void)state;
    run_one("");
    restart_core();
    report("agent-1", 1, task_in("1.1.1", "RUNNING", ""));
    call_ok(core_experiment_pause, as_user(OWNER, false), "1", NULL);
    json_t *answer = sync_agent("agent-1", "session", 1, task_in("1.1.1", "RUNNING", ""));
    assert_string_equal(desired_action(answer, "1.1.1"), "RUN");
    json_decref(answer);
}

static void test_a_program_that_leaves_by_itself_is_not_ended(void **state)
{
    (void)state;
    run_deaf();
    call_ok(core_allocation_pending_preemption, as_task("1.1.1"), "1.1.1", NULL);
    json_t *answer = sync_agent("agent-1", "session", 1, task_in("1.1.1", "RUNNING", ""));
    assert_string_equal(desired_action(answer, "1.1.1"), "RUN");
    json_decref(answer);
}

static void assert_killed_after(int64_t seconds)
{
    call_ok(core_experiment_pause, as_user(OWNER, false), "1", NULL);
    for (int64_t at = 0; at <= seconds; at += 8) {
        json_t *answer = sync_agent("agent-1", "session", 1, task_in("1.1.1", "RUNNING", ""));
        assert_string_equal(desired_action(answer, "1.1.1"), "RUN");
        json_decref(answer);
        advance(8 * SECOND);
    }
    json_t *answer = sync_agent("agent-1", "session", 1, task_in("1.1.1", "RUNNING", ""));
    assert_string_equal(desired_action(answer, "1.1.1"), "KILL");
    json_decref(answer);
}

static void test_preemption_timeout_of_the_pool(void **state)
{
    static const struct core_pool_option pools[] = {
        {.name = "default", .as_default = true, .preemption_timeout_us = 20LL * SECOND}};
    (void)state;
    cl.more.pools = pools;
    cl.more.pool_count = 1;
    restart_core();
    run_one("");
    assert_killed_after(20);
}

static void test_preemption_timeout_of_the_experiment_comes_first(void **state)
{
    static const struct core_pool_option pools[] = {
        {.name = "default", .as_default = true, .preemption_timeout_us = 20LL * SECOND}};
    (void)state;
    cl.more.pools = pools;
    cl.more.pool_count = 1;
    restart_core();
    run_one("preemption_timeout: 60\n");
    assert_killed_after(60);
}

static void test_pause_while_it_waits(void **state)
{
    (void)state;
    submit_slots(1, "");
    call_ok(core_experiment_pause, as_user(OWNER, false), "1", NULL);
    assert_stored("SELECT state FROM allocations", "TERMINATED");
    report("agent-1", 1, "");
    assert_stored("SELECT count(*) FROM allocations", "1");
    call_ok(core_experiment_activate, as_user(OWNER, false), "1", NULL);
    assert_stored("SELECT state FROM allocations WHERE epoch = 2", "ASSIGNED");
    call_ok(core_experiment_pause, as_user(OWNER, false), "1", NULL); // nothing runs yet
    json_t *answer = sync_agent("agent-1", "session", 1, "");
    assert_string_equal(desired_action(answer, "1.1.2"), "KILL");
    json_decref(answer);
    report("agent-1", 1, task_in("1.1.2", "EXITED", ""));
    assert_stored("SELECT state FROM experiments", "PAUSED");
    assert_stored("SELECT restarts FROM trials", "0");
}

static void test_cancel(void **state)
{
    (void)state;
    submit_slots(1, "");
    run_one("");
    call_ok(core_experiment_cancel, as_user(OWNER, false), "2", NULL); // it is in the queue
    assert_stored("SELECT state FROM experiments WHERE id = 2", "CANCELED");
    assert_stored("SELECT progress FROM experiments WHERE id = 2", "0.0");
    call_ok(core_experiment_cancel, as_user(OWNER, false), "1", NULL);
    assert_stored("SELECT state FROM experiments WHERE id = 1", "STOPPING_CANCELED");
    json_t *answer = preemption("1.1.1");
    assert_true(jget_bool(answer, "preempt", false));
    json_decref(answer);
    report("agent-1", 1, task_in("1.1.1", "EXITED", EXIT_0));
    assert_stored("SELECT state FROM experiments WHERE id = 1", "CANCELED");
    call_ok(core_experiment_cancel, as_user(OWNER, false), "1", NULL); // a repetition
    assert_int_equal(call_code(core_experiment_activate, as_user(OWNER, false), "1", NULL),
                     ERR_STATE);
}

static void test_kill(void **state)
{
    (void)state;
    submit_slots(1, "");
    submit_slots(1, "");
    report("agent-1", 2, "");
    report("agent-1", 2, task_in("1.1.1", "RUNNING", ""));
    call_ok(core_experiment_kill, as_user(OWNER, false), "1", NULL);
    call_ok(core_trial_kill, as_user(OWNER, false), "2", NULL);
    json_t *answer = sync_agent("agent-1", "session", 2, task_in("1.1.1", "RUNNING", ""));
    assert_string_equal(desired_action(answer, "1.1.1"), "KILL");
    assert_string_equal(desired_action(answer, "2.2.1"), "KILL");
    json_decref(answer);
    assert_stored("SELECT state FROM experiments WHERE id = 1", "STOPPING_KILLED");
    report("agent-1", 2, task_in("1.1.1", "EXITED", KILLED_9));
    report("agent-1", 2, task_in("2.2.1", "EXITED", ""));
    assert_stored("SELECT group_concat(state) FROM experiments", "CANCELED,CANCELED");
    assert_stored("SELECT group_concat(restarts) FROM trials", "0,0");
    call_ok(core_trial_kill, as_user(OWNER, false), "1", NULL);
    assert_int_equal(call_status(core_trial_kill, as_user(OWNER, false), "99", NULL), 404);
}

static void test_early_exit(void **state)
{
    (void)state;
    run_one("");
    assert_int_equal(
        call_status(core_trial_early_exit, as_task("1.1.1"), "1", "{\"reason\":\"x\"}"), 400);
    call_ok(core_trial_early_exit, as_task("1.1.1"), "1",
            "{\"reason\":\"EXITED_REASON_INVALID_HP\"}");
    assert_int_equal(call_status(core_trial_early_exit, as_task("1.1.1"), "1",
                                 "{\"reason\":\"EXITED_REASON_INVALID_HP\"}"),
                     400);
    json_t *answer = sync_agent("agent-1", "session", 1, task_in("1.1.1", "RUNNING", ""));
    assert_string_equal(desired_action(answer, "1.1.1"), "RUN"); // it leaves by itself
    json_decref(answer);
    report("agent-1", 1, task_in("1.1.1", "EXITED", EXIT_3));
    assert_stored("SELECT state FROM experiments", "ERROR");
    assert_stored("SELECT state || restarts FROM trials", "ERROR0");
    assert_non_null(strstr(stored("SELECT exit_reason FROM trials"), "no restart can help"));
}

// The program's own words are the reason, on one line, and its later exit does not replace them.
static void test_early_exit_with_a_text(void **state)
{
    (void)state;
    char *text = xcalloc(LIMIT_EXIT_TEXT + 2, 1), *body;
    run_one("");
    memset(text, 'x', LIMIT_EXIT_TEXT + 1);
    body = xasprintf("{\"reason\":\"EXITED_REASON_INVALID_HP\",\"text\":\"%s\"}", text);
    assert_int_equal(call_status(core_trial_early_exit, as_task("1.1.1"), "1", body), 400);
    free(body);
    call_ok(core_trial_early_exit, as_task("1.1.1"), "1",
            "{\"reason\":\"EXITED_REASON_INVALID_HP\",\"text\":\"width\\nis negative\"}");
    assert_stored("SELECT exit_reason FROM trials", "invalid hyperparameters: width is negative");
    restart_core();
    report("agent-1", 1, task_in("1.1.1", "EXITED", EXIT_3));
    assert_stored("SELECT state || restarts FROM trials", "ERROR0");
    assert_stored("SELECT exit_reason FROM trials", "invalid hyperparameters: width is negative");
    free(text);
}

static void test_early_exit_that_does_not_leave(void **state)
{
    (void)state;
    run_one("");
    call_ok(core_trial_early_exit, as_task("1.1.1"), "1",
            "{\"reason\":\"EXITED_REASON_INVALID_HP\"}");
    advance(11 * SECOND);
    json_t *answer = sync_agent("agent-1", "session", 1, task_in("1.1.1", "RUNNING", ""));
    assert_string_equal(desired_action(answer, "1.1.1"), "KILL");
    json_decref(answer);
}

static void test_delete(void **state)
{
    (void)state;
    char folder[300], file[310];
    struct error e = {0};
    submit_slots(1, "");
    assert_int_equal(call_code(core_experiment_delete, as_user(OWNER, false), "1", NULL),
                     ERR_STATE);
    report("agent-1", 1, "");
    report("agent-1", 1, task_in("1.1.1", "RUNNING", ""));
    post_metrics("1.1.1", "training", 1, 1);
    post_checkpoint("1.1.1", UUID_1, 1);
    post_checkpoint("1.1.1", UUID_2, 2); // its folder is elsewhere
    snprintf(folder, sizeof folder, "%s/" UUID_1, cl.checkpoints);
    snprintf(file, sizeof file, "%s/weights", folder);
    assert_int_equal(dir_make(folder, 0700, &e), 0);
    assert_int_equal(file_write_durable(file, "x", 1, 0600, &e), 0);
    report("agent-1", 1, task_in("1.1.1", "EXITED", EXIT_0));
    assert_int_equal(call_status(core_experiment_delete, as_user(OTHER, false), "1", NULL), 403);
    call_ok(core_experiment_delete, as_user(OWNER, false), "1", NULL);
    for (int i = 0; i < 1000 && strcmp(stored("SELECT count(*) FROM experiments"), "0"); i++)
        clock_sleep_us(10000);
    assert_stored("SELECT (SELECT count(*) FROM experiments) + (SELECT count(*) FROM trials) + "
                  "(SELECT count(*) FROM metrics) + (SELECT count(*) FROM metric_cuts) + (SELECT "
                  "count(*) FROM checkpoints) + "
                  "(SELECT count(*) FROM allocations) + (SELECT count(*) FROM model_definitions)",
                  "0");
    assert_false(path_exists(folder));
    assert_true(path_exists(cl.checkpoints));
    assert_int_equal(call_status(core_experiment_why, as_user(OWNER, false), "1", NULL), 404);
    restart_core();
    assert_int_equal(submit_slots(1, ""), 2); // ids are not reused
    assert_stored("SELECT task_id FROM trials", full_id("2.2"));
}

static void test_archive_and_patch(void **state)
{
    (void)state;
    submit_slots(1, "");
    assert_int_equal(call_code(core_experiment_archive, as_user(OWNER, false), "1", NULL),
                     ERR_STATE);
    call_ok(core_experiment_patch, as_user(OWNER, false), "1",
            "{\"name\":\"new\",\"labels\":[\"a\"],\"resources\":{\"priority\":77}}");
    assert_stored("SELECT name || labels || priority FROM experiments", "new[\"a\"]77");
    assert_stored("SELECT json_extract(config, '$.resources.priority') FROM experiments", "77");
    assert_int_equal(call_status(core_experiment_patch, as_user(OWNER, false), "1",
                                 "{\"resources\":{\"priority\":100}}"),
                     400);
    call_ok(core_experiment_kill, as_user(OWNER, false), "1", NULL);
    call_ok(core_experiment_archive, as_user(OWNER, false), "1", NULL);
    assert_stored("SELECT archived FROM experiments", "1");
    call_ok(core_experiment_unarchive, as_user(OWNER, true), "1", NULL);
    call_ok(core_experiment_patch, as_user(OWNER, false), "1", "{\"notes\":\"done\"}");
    assert_stored("SELECT archived || notes || name FROM experiments", "0donenew");
    assert_int_equal(call_status(core_experiment_patch, as_user(OWNER, false), "1",
                                 "{\"resources\":{\"priority\":1}}"),
                     400);
}

static void test_only_owner_and_administrators(void **state)
{
    (void)state;
    submit_slots(1, "");
    assert_int_equal(call_status(core_experiment_pause, as_user(OTHER, false), "1", NULL), 403);
    assert_int_equal(call_status(core_experiment_kill, as_task("1.1.1"), "1", NULL), 404);
    assert_int_equal(call_status(core_trial_kill, as_user(OTHER, false), "1", NULL), 403);
    assert_int_equal(call_status(core_experiment_create, as_agent(), NULL, "{}"), 403);
    assert_int_equal(call_status(core_agent_poll, as_user(OWNER, true), "a", "{}"), 403);
    call_ok(core_experiment_pause, as_user(OTHER, true), "1", NULL);
    assert_stored("SELECT state FROM experiments", "PAUSED");
    assert_int_equal(call_status(core_experiment_pause, as_user(OWNER, false), "9", NULL), 404);
    assert_int_equal(call_status(core_experiment_pause, as_user(OWNER, false), "x", NULL), 400);
}

static void refused(const char *yaml, int status, const char *text)
{
    assert_int_equal(submit(yaml, true), 0);
    if (last_status != status || !strstr(last_error, text))
        fail_msg("status %d: %s", last_status, last_error);
}

#define BASE "name: x\nentrypoint: [a, b]\nsearcher: {name: single, metric: m}\n"

static void test_submissions_that_are_refused(void **state)
{
    (void)state;
    refused("name: [", 400, "config:2");
    refused("name: x\nentrypoint: x\nsearcher: {name: custom, metric: m}\n", 400, "single");
    refused(BASE "resources: {slots_per_trial: 4, max_slots: 2}\n", 400, "max_slots");
    refused("name: x\nentrypoint: x\nsearcher: {name: single, metric: m, source_trial_id: 9}\n",
            400, "source_trial_id");
}

static void test_submissions_by_hand(void **state)
{
    (void)state;
    struct principal me = as_user(OWNER, false);
    assert_int_equal(call_status(core_experiment_create, me, NULL, "{}"), 400);
    assert_int_equal(call_status(core_experiment_create, me, NULL,
                                 "{\"config\":\"name: x\\nentrypoint: x\\nsearcher: {name: single, "
                                 "metric: m}\\n\",\"projectId\":77}"),
                     404);
    json_t *answer = ask(core_experiment_create, me, NULL, NULL,
                         "{\"config\":\"name: x\\nentrypoint: x\\nsearcher: {name: single, metric: "
                         "m}\\nreproducibility: {experiment_seed: 9}\\n\",\"validateOnly\":true}");
    assert_int_equal(last_status, 200);
    assert_int_equal(
        jget_int(jget(jget(answer, "config"), "reproducibility"), "experiment_seed", 0), 9);
    assert_string_equal(jget_string(jget(answer, "experiment"), "name", ""), "x");
    json_decref(answer);
    assert_stored("SELECT count(*) FROM experiments", "0");
    call_ok(core_experiment_create, me, NULL,
            "{\"config\":\"name: x\\nentrypoint: x\\nsearcher: {name: single, metric: m}\\n\"}");
    assert_stored("SELECT state || count(*) FROM experiments", "PAUSED1"); // not activated
    assert_stored("SELECT count(*) FROM allocations", "0");
    call_ok(core_experiment_activate, me, "1", NULL);
    assert_stored("SELECT count(*) FROM allocations", "1");
}

// --- commit before acting ------------------------------------------------------------------------

struct commit_gate {
    sem_t entered, open;
};

static void hold_writer(void *ctx, int err)
{
    struct commit_gate *gate = ctx;
    must(!err);
    sem_post(&gate->entered);
    sem_wait(&gate->open);
}

// The writer is held between two groups: no answer leaves before its rows are on disk.
static void test_no_answer_before_its_commit(void **state)
{
    (void)state;
    struct commit_gate gate;
    submit_slots(1, "");
    report("agent-1", 1, "");
    sem_init(&gate.entered, 0, 0);
    sem_init(&gate.open, 0, 0);
    struct db_batch *b = db_batch_new();
    DB_ADD(b, META_SET, "gate", "held");
    db_commit(cl.db, b, hold_writer, &gate);
    sem_wait(&gate.entered);
    struct core_call *calls[3];
    calls[0] = call_start(core_trial_progress, as_task("1.1.1"), "1", NULL, "{\"progress\":0.25}");
    calls[1] = call_start(core_experiment_why, as_user(OWNER, false), "1", NULL, NULL);
    calls[2] = sync_start("agent-1", "session", 1, -1, "");
    clock_sleep_us(SECOND / 5);
    int answered = 0;
    for (int i = 0; i < 3; i++) // the second answer may depend on rows that are not on disk yet
        answered += call_is_done(calls[i]);
    char progress[16];
    snprintf(progress, sizeof progress, "%.15s", stored("SELECT progress FROM trials"));
    sem_post(&gate.open);
    for (int i = 0; i < 3; i++)
        json_decref(call_end(calls[i]));
    assert_int_equal(answered, 0);
    assert_string_equal(progress, "0.0");
    assert_stored("SELECT progress FROM trials", "0.25");
    sem_destroy(&gate.entered);
    sem_destroy(&gate.open);
}

// The store refuses a row: the core and the store would disagree, so the process ends.
static void test_a_store_that_refuses_ends_the_master(void **state)
{
    (void)state;
    fflush(NULL);
    pid_t child = fork();
    assert_true(child >= 0);
    if (!child) {
        void *nothing = NULL;
        cluster_setup(&nothing);
        log_set_level(LOG_LEVEL_ERROR);
        struct principal nobody = as_user(77, false); // not in the store
        call_status(
            core_experiment_create, nobody, NULL,
            "{\"config\":\"name: x\\nentrypoint: x\\nsearcher: {name: single, metric: m}\\n\"}");
        _exit(0); // never reached
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), EXIT_FAILURE);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, cluster_setup, cluster_teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_whole_life),
        TEST(test_restart),
        TEST(test_failures_of_the_cluster_do_not_count),
        TEST(test_numbers_of_checkpoints_have_a_limit),
        TEST(test_pause_and_activate),
        TEST(test_pause_is_taken_back),
        TEST(test_failure_after_acknowledging_counts),
        TEST(test_drain_and_kill_outlive_the_master),
        TEST(test_exit_without_acknowledging_is_the_end),
        TEST(test_drain_that_is_not_followed),
        TEST(test_pause_ends_a_program_that_does_not_poll),
        TEST(test_cancel_ends_a_program_that_does_not_poll),
        TEST(test_stop_does_not_end_a_program_that_does_not_poll),
        TEST(test_a_program_that_has_polled_once_is_asked),
        TEST(test_a_program_that_leaves_by_itself_is_not_ended),
        TEST(test_preemption_timeout_of_the_pool),
        TEST(test_preemption_timeout_of_the_experiment_comes_first),
        TEST(test_pause_while_it_waits),
        TEST(test_cancel),
        TEST(test_kill),
        TEST(test_early_exit),
        TEST(test_early_exit_with_a_text),
        TEST(test_early_exit_that_does_not_leave),
        TEST(test_delete),
        TEST(test_archive_and_patch),
        TEST(test_only_owner_and_administrators),
        TEST(test_submissions_that_are_refused),
        TEST(test_submissions_by_hand),
        TEST(test_no_answer_before_its_commit),
        cmocka_unit_test(test_a_store_that_refuses_ends_the_master),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
