// Webhooks in the core: who receives which events, which triggers fire once, also over restarts of
// the master. The tests look into the outbox.
#include "tests/unit/master/support/core_fixture.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define STATE_HOOK(name, state, more)                                                              \
    "{\"name\":\"" name "\",\"url\":\"http://127.0.0.1:9/\",\"webhookType\":"                      \
    "\"WEBHOOK_TYPE_DEFAULT\",\"triggers\":[{\"triggerType\":"                                     \
    "\"TRIGGER_TYPE_EXPERIMENT_STATE_CHANGE\",\"condition\":{\"state\":\"" state "\"}}]" more "}"

static int64_t make(struct principal who, const char *body)
{
    json_t *answer = ask(core_webhook_create, who, NULL, NULL, body);
    int64_t id = last_status == 200 ? jget_int(jget(answer, "webhook"), "id", 0) : 0;
    json_decref(answer);
    return id;
}

static void test_states(void **state)
{
    (void)state;
    assert_int_equal(make(as_user(OWNER, true), STATE_HOOK("all", "STATE_PAUSED", "")), 1);
    assert_int_equal(make(as_user(OWNER, true), STATE_HOOK("all", "STATE_PAUSED", "")),
                     1); // a repetition
    assert_int_equal(make(as_user(OWNER, true), STATE_HOOK("all", "ERROR", "")), 0);
    assert_int_equal(last_status, 409);
    assert_int_equal(make(as_user(OTHER, false), STATE_HOOK("mine", "PAUSED", "")), 0);
    assert_int_equal(last_status, 403);
    assert_int_equal(make(as_user(OWNER, true),
                          STATE_HOOK("named", "PAUSED", ",\"mode\":\"WEBHOOK_MODE_SPECIFIC\"")),
                     2);
    assert_int_equal(submit_slots(1, ""), 1);
    assert_int_equal(submit_slots(1, "integrations: {webhooks: {webhook_name: [named]}}\n"), 2);
    assert_int_equal(submit_slots(1, "integrations: {webhooks: {webhook_id: [2]}}\n"), 3);
    assert_int_equal(submit_slots(1, "integrations: {webhooks: {exclude: true}}\n"), 4);
    assert_stored("SELECT count(*) FROM webhook_outbox", "0");
    for (int i = 1; i <= 4; i++)
        call_ok(core_experiment_pause, as_user(OWNER, true), decimal(i), NULL);
    assert_stored("SELECT group_concat(webhook_id || ':' || json_extract(payload,"
                  " '$.event_data.experiment.id')) FROM (SELECT * FROM webhook_outbox ORDER BY id)",
                  "1:1,1:2,2:2,1:3,2:3");
    assert_stored("SELECT json_extract(payload, '$.event_type') || ' ' || json_extract(payload,"
                  " '$.condition.state') FROM webhook_outbox LIMIT 1",
                  "EXPERIMENT_STATE_CHANGE PAUSED");
    assert_stored("SELECT count(DISTINCT event_id) FROM webhook_outbox", "5");
    call_ok(core_experiment_activate, as_user(OWNER, true), "1", NULL);
    assert_stored("SELECT count(*) FROM webhook_outbox", "5");

    // Loaded again after a restart, with later ids.
    restart_core();
    call_ok(core_experiment_pause, as_user(OWNER, true), "1", NULL);
    assert_stored("SELECT count(*) FROM webhook_outbox", "6");
    assert_int_equal(make(as_user(OWNER, true), STATE_HOOK("third", "ERROR", "")), 3);
    assert_int_equal(call_status(core_webhook_delete, as_user(OTHER, false), "1", NULL), 404);
    call_ok(core_webhook_delete, as_user(OWNER, true), "1", NULL);
    assert_stored("SELECT count(*) FROM webhook_outbox WHERE webhook_id = 1", "0");
    call_ok(core_webhook_patch, as_user(OWNER, true), "3", "{\"url\":\"https://example.com/x\"}");
    assert_stored("SELECT url FROM webhooks WHERE id = 3", "https://example.com/x");
    assert_int_equal(
        call_status(core_webhook_patch, as_user(OWNER, true), "3", "{\"url\":\"gopher://x/\"}"),
        400);
}

// The payload of a failed experiment says why.
static void test_failure(void **state)
{
    (void)state;
    assert_int_equal(make(as_user(OWNER, true), STATE_HOOK("errors", "ERROR", "")), 1);
    assert_int_equal(
        make(as_user(OWNER, true),
             "{\"name\":\"slack\",\"url\":\"http://127.0.0.1:9/\",\"webhookType\":"
             "\"WEBHOOK_TYPE_SLACK\",\"triggers\":[{\"triggerType\":"
             "\"TRIGGER_TYPE_EXPERIMENT_STATE_CHANGE\",\"condition\":{\"state\":\"ERROR\"}}]}"),
        2);
    submit_slots(1, "");
    report("agent-1", 1, "");
    report("agent-1", 1, task_in("1.1.1", "RUNNING", ""));
    poll_once("1.1.1");
    report("agent-1", 1, task_in("1.1.1", "EXITED", EXIT_3));
    report("agent-1", 1, task_in("1.1.2", "EXITED", EXIT_3));
    assert_stored("SELECT state FROM experiments", "ERROR");
    assert_stored("SELECT json_extract(payload, '$.event_data.experiment.failure') FROM"
                  " webhook_outbox WHERE webhook_id = 1",
                  "rank 0: exit 3 (2 times in the same way, right after its start)");
    assert_stored("SELECT payload LIKE '%*Reason*: rank 0: exit 3%' FROM webhook_outbox WHERE"
                  " webhook_id = 2",
                  "1");
}

static void validate(int steps, const char *loss)
{
    char body[256];
    snprintf(body, sizeof body,
             "{\"group\":\"validation\",\"metrics\":{\"trialId\":1,\"trialRunId\":1,"
             "\"stepsCompleted\":%d,\"metrics\":{\"avgMetrics\":{\"m\":%s}}}}",
             steps, loss);
    call_ok(core_trial_metrics, as_task("1.1.1"), "1", body);
}

static void test_once(void **state)
{
    (void)state;
    assert_int_equal(make(as_user(OWNER, true),
                          "{\"name\":\"m\",\"url\":\"http://127.0.0.1:9/\",\"triggers\":[{"
                          "\"triggerType\":\"TRIGGER_TYPE_METRIC_THRESHOLD_EXCEEDED\","
                          "\"condition\":{\"metric\":\"m\",\"below\":0.5}}]}"),
                     1);
    report("agent-1", 1, "");
    assert_int_equal(submit_slots(1, ""), 1);
    report("agent-1", 1, task_in("1.1.1", "RUNNING", ""));
    validate(1, "0.5");
    assert_stored("SELECT count(*) FROM webhook_outbox",
                  "0"); // a value at the limit is not below it
    validate(2, "0.25");
    validate(3, "0.125");
    assert_stored("SELECT count(*) FROM webhook_outbox", "1");
    assert_stored("SELECT json_extract(payload, '$.event_data.metric.value') FROM webhook_outbox",
                  "0.25");
    restart_core(); // the master has forgotten it; the store has not
    report("agent-1", 1, task_in("1.1.1", "RUNNING", ""));
    validate(4, "0.1");
    assert_stored("SELECT count(*) FROM webhook_outbox", "1");
    assert_stored("SELECT count(*) FROM webhook_fired", "1");
}

static void test_bad(void **state)
{
    static const char *const bad[] = {
        "{}",
        "{\"url\":\"http://x/\"}",
        "{\"url\":\"http://x/\",\"triggers\":[{}]}",
        "{\"url\":\"http://x/\",\"triggers\":[{\"triggerType\":\"TRIGGER_TYPE_CUSTOM\"}]}",
        "{\"url\":\"http://x/\",\"triggers\":[{\"triggerType\":\"TRIGGER_TYPE_TASK_LOG\"}]}",
        "{\"url\":\"http://x/\",\"triggers\":[{\"triggerType\":\"TRIGGER_TYPE_TASK_LOG\","
        "\"condition\":{\"regex\":\"(a)\\\\1\"}}]}",
        "{\"url\":\"http://x/\",\"triggers\":[{\"triggerType\":"
        "\"TRIGGER_TYPE_METRIC_THRESHOLD_EXCEEDED\",\"condition\":{\"metric\":\"m\",\"above\":1,"
        "\"below\":0}}]}",
        STATE_HOOK("x", "NOWHERE", ""),
        STATE_HOOK("x", "ERROR", ",\"mode\":\"ALWAYS\""),
    };
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        if (make(as_user(OWNER, true), bad[i]) || last_status != 400)
            fail_msg("%s: %d", bad[i], last_status);
    assert_int_equal(make(as_user(OWNER, true), STATE_HOOK("x", "ERROR", ",\"workspaceId\":77")),
                     0);
    assert_int_equal(last_status, 404);
}

static void commit(struct db_batch *b)
{
    struct error e = {0};
    if (db_commit_wait(cl.db, b, &e))
        fail_msg("%s", e.text);
}

// The outbox keeps the newest events of a receiver that never takes them, and the audit trail its
// newest rows.
static void test_kept(void **state)
{
    (void)state;
    const int64_t day = 86400LL * 1000000, now = 20000 * day;
    make(as_user(OWNER, true), STATE_HOOK("all", "PAUSED", ""));
    struct db_batch *b = db_batch_new();
    for (int64_t i = 0; i < 1005; i++)
        DB_ADD(b, OUTBOX_INSERT, 1, "event", "{}", i);
    commit(b);
    assert_stored("SELECT count(*) || ' ' || min(created_at) FROM webhook_outbox", "1000 5");

    b = db_batch_new();
    for (int64_t i = 0; i < 1000; i++)
        DB_ADD(b, AUDIT_INSERT, i < 10 ? now - 500 * day : now, NULL, "u", "", "POST", "/", 200,
               "");
    commit(b);
    assert_stored("SELECT count(*) > 900 AND min(time) > 19000 * 86400 * 1000000 FROM audit", "1");
}

static void test_alerts(void **state)
{
    static const char alert[] = "{\"experimentId\":1,\"trialId\":1,\"data\":{\"title\":\"t\","
                                "\"description\":\"d\",\"level\":\"LOG_LEVEL_ERROR\"}}";
    (void)state;
    assert_int_equal(make(as_user(OWNER, true),
                          "{\"name\":\"a\",\"url\":\"http://127.0.0.1:9/\",\"mode\":"
                          "\"WEBHOOK_MODE_SPECIFIC\",\"webhookType\":\"WEBHOOK_TYPE_SLACK\","
                          "\"triggers\":[{\"triggerType\":\"TRIGGER_TYPE_CUSTOM\"}]}"),
                     1);
    assert_int_equal(submit_slots(1, "integrations: {webhooks: {webhook_name: [a]}}\n"), 1);
    call_ok(core_webhook_custom, as_user(OWNER, true), NULL, alert);
    call_ok(core_webhook_custom, as_user(OWNER, true), NULL, alert);
    assert_stored("SELECT count(*) FROM webhook_outbox", "1");
    advance(11 * SECOND);
    call_ok(core_webhook_custom, as_user(OWNER, true), NULL, alert);
    assert_stored("SELECT count(*) FROM webhook_outbox", "2");
    assert_stored("SELECT json_extract(payload, '$.blocks[0].text.text') FROM webhook_outbox",
                  "ERROR: t\nd");
    assert_int_equal(call_status(core_webhook_custom, as_user(OTHER, false), NULL, alert), 403);
    assert_int_equal(
        call_status(core_webhook_custom, as_user(OWNER, true), NULL, "{\"experimentId\":9}"), 404);
    call_ok(core_experiment_kill, as_user(OWNER, true), "1", NULL);
    assert_int_equal(call_code(core_webhook_custom, as_user(OWNER, true), NULL, alert), ERR_STATE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_states, cluster_setup, cluster_teardown),
        cmocka_unit_test_setup_teardown(test_failure, cluster_setup, cluster_teardown),
        cmocka_unit_test_setup_teardown(test_once, cluster_setup, cluster_teardown),
        cmocka_unit_test_setup_teardown(test_bad, cluster_setup, cluster_teardown),
        cmocka_unit_test_setup_teardown(test_kept, cluster_setup, cluster_teardown),
        cmocka_unit_test_setup_teardown(test_alerts, cluster_setup, cluster_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
