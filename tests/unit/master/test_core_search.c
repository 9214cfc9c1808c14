// Searchers that start trials from others: a copy of population based training starts from the
// checkpoint of its source, and a trial of Hyperband runs again after its rung.
#include "tests/unit/master/support/core_fixture.h"

#include <stdio.h>
#include <string.h>

#define UUID_1 "11111111-1111-4111-8111-111111111111"
#define UUID_2 "22222222-2222-4222-8222-222222222222"
#define UUID_3 "33333333-3333-4333-8333-333333333333"

static void validate(const char *trial, const char *allocation, int64_t steps, double loss)
{
    char body[256];
    snprintf(body, sizeof body,
             "{\"group\":\"validation\",\"metrics\":{\"trialId\":%s,\"stepsCompleted\":%lld,"
             "\"metrics\":{\"avgMetrics\":{\"loss\":%g},\"batchMetrics\":null}}}",
             trial, (long long)steps, loss);
    call_ok(core_trial_metrics, as_task(allocation), trial, body);
}

static void save(const char *allocation, const char *uuid, int64_t steps)
{
    char body[512];
    snprintf(body, sizeof body,
             "{\"uuid\":\"%s\",\"allocationId\":\"%s\",\"metadata\":{\"steps_completed\":%lld},"
             "\"resources\":{\"a\":\"3\"},\"state\":\"STATE_COMPLETED\"}",
             uuid, allocation, (long long)steps);
    call_ok(core_checkpoint_report, as_task(allocation), NULL, body);
}

static void expect_start(const char *allocation, const char *checkpoint, const char *steps)
{
    json_t *answer = sync_agent("agent-1", "session", 2, "");
    const json_t *env = jget(desired_task(answer, allocation), "env");
    assert_string_equal(jget_string(env, "DET_LATEST_CHECKPOINT", "(none)"), checkpoint);
    assert_string_equal(jget_string(env, "DET_STEPS_COMPLETED", ""), steps);
    json_decref(answer);
}

static void begin_pbt(void)
{
    assert_int_equal(submit("entrypoint: x\n"
                            "searcher: {name: pbt, metric: loss, population_size: 2, num_rounds: 3,"
                            " length_per_round: {batches: 10},"
                            " replace_function: {truncate_fraction: 0.5}}\n"
                            "hyperparameters: {lr: {type: double, minval: 0, maxval: 1}}\n"
                            "max_restarts: 1\n",
                            true),
                     1);
    report("agent-1", 2, "");
    report("agent-1", 2, task_in("1.1.1", "RUNNING", ""));
    validate("1", "1.1.1", 10, 1);
}

// Trial 2 is worse than trial 1, so a copy of trial 1 replaces it.
static void replace_the_second(void)
{
    validate("2", "1.2.1", 10, 5);
    assert_stored("SELECT state FROM trials WHERE id = 2", "STOPPING_COMPLETED");
    report("agent-1", 2, task_in("1.2.1", "EXITED", EXIT_0));
    assert_stored("SELECT group_concat(state, ' ') FROM (SELECT state FROM trials ORDER BY id)",
                  "ACTIVE COMPLETED ACTIVE");
}

static int delete_first(void)
{
    return call_status(core_checkpoints_delete, as_user(OWNER, false), NULL,
                       "{\"checkpointUuids\":[\"" UUID_1 "\"]}");
}

static void test_copy(void **state)
{
    (void)state;
    begin_pbt();
    save("1.1.1", UUID_1, 10);
    replace_the_second();
    assert_stored("SELECT source_trial || ' ' || source_checkpoint || ' ' || source_steps FROM "
                  "trials WHERE id = 3",
                  "1 " UUID_1 " 10");
    expect_start("1.3.1", UUID_1, "10");
    assert_non_null(strstr(logged("1.3"), "from step 10 of trial 1"));

    // The copy needs the checkpoint until it has one of its own, also after a failure and a restart
    // of the master.
    save("1.1.1", UUID_2, 15);
    assert_int_equal(delete_first(), 400);
    assert_non_null(strstr(last_error, "trial 3 starts from it"));
    report("agent-1", 2, task_in("1.3.1", "EXITED", EXIT_3));
    restart_core();
    assert_int_equal(delete_first(), 400);
    expect_start("1.3.2", UUID_1, "10");
    save("1.3.2", UUID_3, 20);
    assert_int_equal(delete_first(), 200);
    report("agent-1", 2, task_in("1.3.2", "RUNNING", ""));
    validate("3", "1.3.2", 20, 0.5);
    assert_stored("SELECT state FROM trials WHERE id = 3", "ACTIVE");
}

static void test_source_without_checkpoint(void **state)
{
    (void)state;
    begin_pbt();
    replace_the_second();
    assert_stored("SELECT source_trial || coalesce(source_checkpoint, ' none') FROM trials WHERE "
                  "id = 3",
                  "1 none");
    expect_start("1.3.1", "(none)", "0");
    assert_non_null(strstr(logged("1.3"), "starts from the beginning"));
}

// Three trials reach the first rung, and the best of them trains on from its checkpoint.
static void test_hyperband(void **state)
{
    (void)state;
    assert_int_equal(submit("entrypoint: x\n"
                            "searcher: {name: hyperband, metric: loss, max_time: 30, max_rungs: 2,"
                            " max_concurrent_trials: 1}\n"
                            "hyperparameters: {lr: {type: double, minval: 0, maxval: 1}}\n"
                            "checkpoint_storage: {save_trial_latest: 0, save_trial_best: 0}\n",
                            true),
                     1);
    report("agent-1", 2, "");
    static const char *const trials[] = {"1", "2", "3"};
    static const char *const uuids[] = {UUID_1, UUID_2, UUID_3};
    static const double losses[] = {3, 1, 2};
    for (int i = 0; i < 3; i++) {
        char allocation[16];
        snprintf(allocation, sizeof allocation, "1.%s.1", trials[i]);
        validate(trials[i], allocation, 10, losses[i]);
        save(allocation, uuids[i], 10);
        report("agent-1", 2, task_in(allocation, "EXITED", EXIT_0));
    }
    assert_stored("SELECT group_concat(state, ' ') FROM (SELECT state FROM trials ORDER BY id)",
                  "COMPLETED ACTIVE COMPLETED");
    expect_start("1.2-1.2", UUID_2, "10");
    restart_core();
    validate("2", "1.2-1.2", 30, 0.5);
    report("agent-1", 2, task_in("1.2-1.2", "EXITED", EXIT_0));
    assert_stored("SELECT state || (SELECT count(*) FROM trials) FROM trials WHERE id = 2",
                  "COMPLETED4");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_copy, cluster_setup, cluster_teardown),
        cmocka_unit_test_setup_teardown(test_source_without_checkpoint, cluster_setup,
                                        cluster_teardown),
        cmocka_unit_test_setup_teardown(test_hyperband, cluster_setup, cluster_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
