// Unmanaged experiments: their trials report their own state, also after a restart of the master,
// and a silent trial has failed.
#include "tests/unit/master/support/core_fixture.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/limits.h"

#define UUID_1 "11111111-1111-4111-8111-111111111111"
#define CONFIG                                                                                     \
    "name: far\\ndata: null\\ndescription: null\\nlabels: null\\nworkspace: null\\n"               \
    "project: null\\nsearcher: {name: single, metric: loss, max_length: 100000000}\\n"             \
    "checkpoint_storage: {type: shared_fs, host_path: /tmp/far}\\n"

static struct principal owner(void)
{
    return as_user(OWNER, false);
}

static int64_t make_experiment(const char *more)
{
    char body[1024];
    snprintf(body, sizeof body, "{\"config\": \"%s\", \"unmanaged\": true, \"projectId\": null%s}",
             CONFIG, more);
    json_decref(ask(core_experiment_create, owner(), NULL, NULL, body));
    if (last_status != 200)
        fail_msg("status %d: %s", last_status, last_error);
    return last_id;
}

static int64_t make_trial(int64_t experiment)
{
    char body[256];
    snprintf(body, sizeof body,
             "{\"experimentId\": %lld, \"hparams\": {\"lr\": 0.5}, \"unmanaged\": true}",
             (long long)experiment);
    call_ok(core_trial_create, owner(), NULL, body);
    return last_id;
}

static json_t *start(int64_t trial, bool resume)
{
    return ask(core_trial_start, owner(), decimal(trial), NULL,
               resume ? "{\"resume\": true}" : "{\"resume\": false}");
}

static void begin(int64_t trial)
{
    json_decref(start(trial, true));
    assert_int_equal(last_status, 200);
}

static void report_loss(int64_t trial, int64_t run, int64_t steps, double loss)
{
    char body[256];
    snprintf(body, sizeof body,
             "{\"group\":\"validation\",\"metrics\":{\"trialId\":%lld,\"trialRunId\":%lld,"
             "\"stepsCompleted\":%lld,\"metrics\":{\"avgMetrics\":{\"loss\":%g}}}}",
             (long long)trial, (long long)run, (long long)steps, loss);
    call_ok(core_trial_metrics, owner(), decimal(trial), body);
}

static void report_checkpoint(const char *task, int64_t steps)
{
    char body[512];
    snprintf(body, sizeof body,
             "{\"uuid\":\"" UUID_1 "\",\"taskId\":\"%s\",\"allocationId\":null,"
             "\"metadata\":{\"steps_completed\":%lld},\"resources\":{},"
             "\"state\":\"STATE_COMPLETED\"}",
             task, (long long)steps);
    call_ok(core_checkpoint_report, owner(), NULL, body);
}

static void test_a_run_from_start_to_end(void **state)
{
    (void)state;
    assert_int_equal(make_experiment(""), 1);
    assert_stored("SELECT state || unmanaged FROM experiments", "PAUSED1");
    assert_int_equal(make_trial(1), 1);
    assert_stored("SELECT state || hparams FROM trials", "PAUSED{\"lr\":0.5}");
    assert_stored("SELECT task_id FROM trials", full_id("1.1"));
    json_t *started = start(1, true);
    assert_int_equal(jget_int(started, "trialRunId", 0), 1);
    assert_int_equal(jget_int(started, "stepsCompleted", -1), 0);
    assert_null(jget(started, "latestCheckpoint"));
    json_decref(started);
    assert_stored("SELECT e.state || t.state FROM experiments e, trials t", "RUNNINGRUNNING");
    call_ok(core_run_start, owner(), NULL, "{\"runId\": 1, \"checkpointStorage\": {}}");
    call_ok(core_trial_patch, owner(), "1", "{\"trialId\": 1, \"state\": \"STATE_RUNNING\"}");
    report_loss(1, 1, 10, 3);
    report_loss(1, 1, 20, 2);
    report_loss(1, 1, 30, 4);
    call_ok(core_trial_progress, owner(), "1", "{\"progress\": 0.25, \"is_raw\": true}");
    call_ok(core_trial_runner_metadata, owner(), "1", "{\"state\": \"training\"}");
    report_checkpoint("1.1", 20);
    assert_stored("SELECT best_metric FROM experiments", "2.0");
    assert_stored("SELECT progress FROM experiments", "0.25");
    assert_stored("SELECT group_concat(value) FROM validation_history", "3.0,2.0");
    assert_stored("SELECT latest_checkpoint FROM trials", UUID_1);
    assert_stored("SELECT allocation_id FROM checkpoints", "");
    call_ok(core_trial_patch, owner(), "1", "{\"trial_id\": 1, \"state\": \"STATE_COMPLETED\"}");
    assert_stored("SELECT state || (ended_at > 0) FROM trials", "COMPLETED1");
    assert_stored("SELECT state || (ended_at > 0) FROM experiments", "COMPLETED1");
    assert_stored("SELECT count(*) FROM allocations", "0");
    call_ok(core_experiment_delete, owner(), "1", NULL);
    for (int i = 0; i < 1000 && strcmp(stored("SELECT count(*) FROM experiments"), "0"); i++)
        settle();
    assert_stored("SELECT count(*) FROM experiments", "0");
}

// The second run begins at the checkpoint, and reports of the first run beyond it are hidden.
static void test_resume(void **state)
{
    (void)state;
    make_experiment("");
    make_trial(1);
    begin(1);
    report_loss(1, 1, 10, 3);
    report_checkpoint("1.1", 10);
    report_loss(1, 1, 20, 2);
    assert_int_equal(call_status(core_trial_start, owner(), "1", "{\"resume\": false}"), 409);
    call_ok(core_trial_patch, owner(), "1", "{\"state\": \"STATE_ERROR\"}");
    assert_stored("SELECT e.state || t.state FROM experiments e, trials t", "ERRORERROR");
    advance((int64_t)(LIMIT_UNMANAGED_SILENCE_S + 1) *
            SECOND); // its active part is freed meanwhile
    json_t *started = start(1, true);
    assert_int_equal(jget_int(started, "trialRunId", 0), 2);
    assert_int_equal(jget_int(started, "stepsCompleted", -1), 10);
    assert_string_equal(jget_string(started, "latestCheckpoint", ""), UUID_1);
    json_decref(started);
    assert_stored("SELECT e.state || coalesce(e.ended_at, '-') || t.state || "
                  "coalesce(t.ended_at, '-') || t.exit_reason FROM experiments e, trials t",
                  "RUNNING-RUNNING-");
    assert_string_equal(reports_seen(1, "validation"), "1:10");
    report_loss(1, 2, 10, 2.5);
    assert_string_equal(reports_seen(1, "validation"), "2:10");
    assert_int_equal(call_status(core_trial_metrics, owner(), "1",
                                 "{\"group\":\"training\",\"metrics\":{\"trialRunId\":1,"
                                 "\"metrics\":{\"avgMetrics\":{}}}}"),
                     403);
}

// Answers may be lost: a repeated call creates nothing twice.
static void test_repeated_calls(void **state)
{
    (void)state;
    assert_int_equal(make_experiment(", \"externalExperimentId\": \"mine\""), 1);
    assert_int_equal(make_experiment(", \"external_experiment_id\": \"mine\""), 1);
    restart_core();
    assert_int_equal(make_experiment(", \"externalExperimentId\": \"mine\""), 1);
    assert_int_equal(make_experiment(""), 2);
    char body[1024];
    snprintf(body, sizeof body, "{\"config\": \"%s\", \"unmanaged\": true}", CONFIG);
    json_decref(ask(core_experiment_put, owner(), "mine", NULL, body));
    assert_int_equal(last_id, 1);
    json_decref(ask(core_experiment_put, owner(), "other", NULL, body));
    assert_int_equal(last_id, 3);
    json_decref(ask(core_experiment_put, as_user(OTHER, false), "mine", NULL, body));
    assert_int_equal(last_status, 409);

    static const char put[] = "{\"createTrialRequest\": {\"experimentId\": 1, \"unmanaged\": true},"
                              " \"externalTrialId\": \"first\"}";
    call_ok(core_trial_put, owner(), NULL, put);
    assert_int_equal(last_id, 1);
    call_ok(core_trial_put, owner(), NULL, put);
    assert_int_equal(last_id, 1);
    restart_core();
    call_ok(core_trial_put, owner(), NULL, put);
    assert_int_equal(last_id, 1);
    assert_int_equal(make_trial(1), 2);
    assert_stored("SELECT group_concat(coalesce(external_id, '-')) FROM trials", "first,-");
    for (int i = 0; i < 2; i++) {
        json_t *started = start(1, false);
        assert_int_equal(jget_int(started, "trialRunId", 0), 1);
        json_decref(started);
    }
    assert_int_equal(call_status(core_trial_put, owner(), NULL, "{\"createTrialRequest\": {}}"),
                     400);
    assert_int_equal(call_status(core_trial_early_exit, owner(), "1",
                                 "{\"reason\": \"EXITED_REASON_USER_REQUESTED_STOP\"}"),
                     200);
    assert_stored("SELECT state FROM trials WHERE id = 1", "COMPLETED");
    assert_int_equal(call_status(core_trial_early_exit, owner(), "1",
                                 "{\"reason\": \"EXITED_REASON_USER_REQUESTED_STOP\"}"),
                     400);
}

static void test_silence(void **state)
{
    (void)state;
    make_experiment("");
    make_trial(1);
    advance((int64_t)(LIMIT_UNMANAGED_SILENCE_S + 1) *
            SECOND); // a trial that has not started need not report
    assert_stored("SELECT state FROM trials", "PAUSED");
    begin(1);
    for (int minute = 0; minute < 10; minute++) {
        advance((int64_t)60 * SECOND);
        call_ok(core_trial_patch, owner(), "1", "{\"trialId\": 1}");
    }
    assert_stored("SELECT state FROM trials", "RUNNING");
    advance((int64_t)(LIMIT_UNMANAGED_SILENCE_S - 10) * SECOND);
    report_loss(1, 1, 10, 3); // also a sign of life
    advance((int64_t)(LIMIT_UNMANAGED_SILENCE_S - 10) * SECOND);
    assert_stored("SELECT state FROM trials", "RUNNING");
    restart_core(); // the wait begins again
    advance((int64_t)(LIMIT_UNMANAGED_SILENCE_S - 10) * SECOND);
    assert_stored("SELECT state FROM trials", "RUNNING");
    advance((int64_t)20 * SECOND);
    assert_stored("SELECT state || exit_reason FROM trials",
                  "ERRORits program has not reported for 300 s");
    assert_stored("SELECT state FROM experiments", "ERROR");
    call_ok(core_trial_patch, owner(), "1", "{}"); // a heartbeat comes too late
    assert_stored("SELECT state FROM trials", "ERROR");
    call_ok(core_trial_patch, owner(), "1",
            "{\"state\": \"STATE_RUNNING\"}"); // but its program lives
    assert_stored("SELECT state || exit_reason FROM trials", "RUNNING");
    assert_stored("SELECT state FROM experiments", "RUNNING");
}

static void test_several_trials(void **state)
{
    (void)state;
    make_experiment("");
    for (int i = 1; i <= 3; i++)
        assert_int_equal(make_trial(1), i);
    begin(1);
    begin(2);
    call_ok(core_trial_patch, owner(), "1", "{\"state\": \"STATE_COMPLETED\"}");
    assert_stored("SELECT state FROM experiments", "RUNNING");
    call_ok(core_trial_patch, owner(), "2", "{\"state\": \"STATE_ERROR\"}");
    assert_stored("SELECT state FROM experiments", "COMPLETED");
    restart_core();
    begin(3);
    assert_stored("SELECT state FROM experiments", "RUNNING");
    call_ok(core_trial_kill, owner(), "3", NULL);
    assert_stored("SELECT group_concat(state) FROM trials", "COMPLETED,ERROR,CANCELED");
    assert_stored("SELECT state FROM experiments", "COMPLETED");
}

static void test_what_people_can_do(void **state)
{
    (void)state;
    make_experiment("");
    make_trial(1);
    begin(1);
    assert_int_equal(call_code(core_experiment_pause, owner(), "1", NULL), ERR_STATE);
    assert_int_equal(call_code(core_experiment_activate, owner(), "1", NULL), ERR_STATE);
    assert_int_equal(call_code(core_experiment_delete, owner(), "1", NULL), ERR_STATE);
    assert_int_equal(
        call_code(core_experiment_patch, owner(), "1", "{\"resources\":{\"weight\":2}}"),
        ERR_STATE);
    call_ok(core_experiment_patch, owner(), "1", "{\"name\":\"near\",\"resources\":null}");
    json_t *why = ask(core_experiment_why, owner(), "1", NULL, NULL);
    assert_non_null(strstr(jget_string(why, "reason", ""), "run elsewhere"));
    json_decref(why);
    call_ok(core_shares, owner(), NULL, NULL);
    call_ok(core_experiment_kill, owner(), "1", NULL);
    assert_stored("SELECT e.state || t.state || e.name FROM experiments e, trials t",
                  "CANCELEDCANCELEDnear");
    call_ok(core_trial_patch, owner(), "1", "{\"state\": \"STATE_RUNNING\"}");
    assert_stored("SELECT state FROM trials", "CANCELED");
    assert_int_equal(call_status(core_experiment_continue, owner(), NULL, "{\"id\": 1}"), 400);
    assert_int_equal(make_experiment(""), 2);
    call_ok(core_experiment_cancel, owner(), "2", NULL);
    assert_stored("SELECT state FROM experiments WHERE id = 2", "CANCELED");
}

// The reports of an import, when it ends.
static void test_history(void **state)
{
    static const char *const bad[] = {
        "{\"startTime\": \"soon\"}",
        "{\"startTime\": \"2026-01-01T00:00:00Z\", \"progress\": 2}",
        "{\"startTime\": \"2026-01-01T00:00:00Z\", \"progress\": \"much\"}",
        "{\"startTime\": \"2026-01-01T00:00:00Z\", \"trials\": [{\"id\": 1, \"seed\": -1, "
        "\"startTime\": \"2026-01-01T00:00:00Z\"}]}",
        "{\"startTime\": \"2026-01-01T00:00:00Z\", \"trials\": [{\"id\": 1, \"progress\": -1, "
        "\"startTime\": \"2026-01-01T00:00:00Z\"}]}",
    };
    (void)state;
    make_experiment("");
    make_trial(1);
    make_trial(1);
    call_ok(core_trial_patch, owner(), "1", "{\"state\": \"STATE_ERROR\"}");
    call_ok(core_trial_patch, owner(), "2", "{\"state\": \"STATE_CANCELED\"}");
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_int_equal(call_status(core_experiment_history, owner(), "1", bad[i]), 400);
    const char *body =
        "{\"startTime\": \"2026-01-01T00:00:00Z\", \"endTime\": \"2026-01-01T01:00:00Z\", "
        "\"progress\": 0.75, \"trials\": [{\"id\": 1, \"seed\": 77, \"restarts\": 2, "
        "\"progress\": 0.5, \"startTime\": \"2026-01-01T00:00:00Z\"}]}";
    call_ok(core_experiment_history, owner(), "1", body);
    assert_stored("SELECT e.progress || ' ' || t.progress || ' ' || t.seed || ' ' || t.restarts"
                  " FROM experiments e, trials t WHERE t.id = 1",
                  "0.75 0.5 77 2");
    // A completed trial has reached its end.
    call_ok(core_trial_patch, owner(), "1", "{\"state\": \"STATE_COMPLETED\"}");
    call_ok(core_experiment_history, owner(), "1", body);
    assert_stored("SELECT e.state || e.progress || t.progress FROM experiments e, trials t"
                  " WHERE t.id = 1",
                  "COMPLETED1.01.0");
}

static void test_who_may(void **state)
{
    (void)state;
    make_experiment("");
    make_trial(1);
    struct principal other = as_user(OTHER, false);
    assert_int_equal(call_status(core_trial_start, other, "1", "{}"), 403);
    assert_int_equal(call_status(core_trial_create, other, NULL, "{\"experimentId\": 1}"), 403);
    assert_int_equal(call_status(core_trial_patch, other, "1", "{}"), 403);
    assert_int_equal(call_status(core_trial_start, owner(), "7", "{}"), 404);
    assert_int_equal(call_status(core_trial_create, owner(), NULL, "{\"experimentId\": 9}"), 404);
    assert_int_equal(
        call_status(core_trial_create, owner(), NULL, "{\"experimentId\": 1, \"hparams\": []}"),
        400);
    assert_int_equal(call_status(core_trial_patch, owner(), "1", "{\"state\": \"STATE_ASLEEP\"}"),
                     400);

    assert_int_equal(submit_slots(1, ""), 2); // managed by the master
    assert_int_equal(call_status(core_trial_start, owner(), "2", "{}"), 403);
    assert_int_equal(call_status(core_trial_create, owner(), NULL, "{\"experimentId\": 2}"), 400);
    assert_int_equal(call_status(core_trial_metrics, owner(), "2",
                                 "{\"group\":\"x\",\"metrics\":{\"metrics\":{\"avgMetrics\":{}}}}"),
                     200); // of all reports, users may add metrics
    assert_int_equal(call_status(core_trial_progress, owner(), "2", "{\"progress\": 0.5}"), 403);
    assert_int_equal(call_status(core_trial_metrics, owner(), "2",
                                 "{\"group\":\"x\",\"metrics\":{\"trialRunId\":9,"
                                 "\"metrics\":{\"avgMetrics\":{}}}}"),
                     400);
    call_ok(core_experiment_kill, owner(), "2", NULL);
    assert_int_equal(call_status(core_trial_create, owner(), NULL, "{\"experimentId\": 2}"), 400);
    assert_int_equal(call_status(core_trial_start, owner(), "2", "{}"), 403);
}

static void test_metadata(void **state)
{
    (void)state;
    make_experiment("");
    make_trial(1);
    call_ok(core_run_metadata, owner(), "1", "{\"metadata\": {\"a\": {\"b\": [1, \"x\", {}]}}}");
    assert_stored("SELECT metadata FROM trials", "{\"a\":{\"b\":[1,\"x\",{}]}}");
    call_ok(core_run_metadata, owner(), "1",
            "{\"metadata\": {\"c\": null}}"); // replaces all of it
    assert_stored("SELECT metadata FROM trials", "{\"c\":null}");
    assert_int_equal(call_status(core_run_metadata, owner(), "1", "{}"), 400);
    assert_int_equal(call_status(core_run_metadata, owner(), "1", "{\"metadata\": {\"a.b\": 1}}"),
                     400);
    assert_int_equal(call_status(core_run_metadata, owner(), "2", "{\"metadata\": {}}"), 404);
    assert_int_equal(
        call_status(core_run_metadata, as_user(OTHER, false), "1", "{\"metadata\": {}}"), 403);
    struct buf deep;
    buf_init(&deep, 1024);
    for (int over = 0; over < 2; over++) { // at the limit of depth, and one beyond
        buf_reset(&deep);
        buf_puts(&deep, "{\"metadata\": ");
        for (int i = 0; i < LIMIT_METADATA_DEPTH + over; i++)
            buf_puts(&deep, "{\"k\": ");
        buf_puts(&deep, "1");
        for (int i = 0; i <= LIMIT_METADATA_DEPTH + over; i++)
            buf_puts(&deep, "}");
        assert_int_equal(call_status(core_run_metadata, owner(), "1", buf_str(&deep)),
                         over ? 400 : 200);
    }
    buf_free(&deep);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, cluster_setup, cluster_teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_a_run_from_start_to_end),
        TEST(test_resume),
        TEST(test_repeated_calls),
        TEST(test_silence),
        TEST(test_several_trials),
        TEST(test_what_people_can_do),
        TEST(test_history),
        TEST(test_who_may),
        TEST(test_metadata),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
