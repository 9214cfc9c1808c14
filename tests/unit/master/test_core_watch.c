// The cluster's health in the core: alerts with their messages, also over restarts; counts.
#include "tests/unit/master/support/core_fixture.h"

#include <stdio.h>
#include <string.h>

#include "master/watch/module.h"

#define ALERTS                                                                                     \
    "SELECT group_concat(kind || ' ' || subject || iif(ended_at IS NULL, '', ' over'), ', ') FROM" \
    " (SELECT * FROM alerts ORDER BY id)"
#define EVENTS                                                                                     \
    "SELECT group_concat(json_extract(payload, '$.event_data.alert.subject') || ' ' || "           \
    "json_extract(payload, '$.event_data.alert.state'), ', ') FROM (SELECT * FROM webhook_outbox"  \
    " ORDER BY id)"
#define MAILS "SELECT group_concat(subject, ', ') FROM (SELECT * FROM mail_outbox ORDER BY id)"

static struct watch_input next_input;
static struct cluster_counts counted; // pools in the arena below
static struct arena counted_arena;

// Core thread: what the watch thread sends.
static int watch_now(struct core *c, struct request *rq, struct error *e)
{
    rq->input = &next_input;
    int rc = core_watch(c, rq, e);
    rq->input = NULL;
    if (rq->result)
        cluster_counts_copy(rq->result, &counted_arena, &counted);
    rq->result = NULL;
    return rc;
}

static void look(const struct trouble *list, size_t count)
{
    next_input = (struct watch_input){.troubles = list, .trouble_count = count, .counts = true};
    call_ok(watch_now, as_user(OWNER, true), NULL, NULL);
}

static void make_hook(const char *name, const char *more, int status)
{
    char body[512];
    snprintf(body, sizeof body,
             "{\"name\":\"%s\",\"url\":\"http://127.0.0.1:9/\",\"triggers\":[{\"triggerType\":"
             "\"TRIGGER_TYPE_CLUSTER_ALERT\"}]%s}",
             name, more);
    assert_int_equal(call_status(core_webhook_create, as_user(OWNER, true), NULL, body), status);
}

static void test_alerts(void **state)
{
    (void)state;
    cl.more.mail_alerts = true;
    restart_core();
    make_hook("pager", "", 200);
    make_hook("chat", ",\"webhookType\":\"WEBHOOK_TYPE_SLACK\"", 200);
    make_hook("team", ",\"workspaceId\":1", 400); // a team does not hear of the cluster
    assert_non_null(strstr(last_error, "leave out workspaceId"));
    assert_int_equal(call_status(core_webhook_create, as_user(OTHER, false), NULL,
                                 "{\"url\":\"http://127.0.0.1:9/\",\"triggers\":[{\"triggerType\":"
                                 "\"CLUSTER_ALERT\"}]}"),
                     403);
    const struct trouble slow = {ALERT_STORE_SLOW, "", "the store is <slow>"};
    look(NULL, 0);
    assert_stored(ALERTS, "(null)");
    look(&slow, 1);
    look(&slow, 1);
    assert_stored(ALERTS, "STORE_SLOW ");
    assert_stored("SELECT group_concat(webhook_id) FROM webhook_outbox", "1,2");
    assert_stored("SELECT json_extract(payload, '$.event_type') FROM webhook_outbox LIMIT 1",
                  "CLUSTER_ALERT");
    assert_stored("SELECT json_extract(payload, '$.blocks[0].text.text') FROM webhook_outbox WHERE"
                  " webhook_id = 2",
                  "test: the store is &lt;slow&gt;");
    assert_stored(MAILS, "STORE_SLOW");
    call_ok(core_webhook_delete, as_user(OWNER, true), "2", NULL);
    assert_int_equal(counted.alerts[ALERT_STORE_SLOW], 1);

    restart_core(); // nobody hears of it again
    look(&slow, 1);
    assert_stored(MAILS, "STORE_SLOW");
    advance(59 * SECOND);
    look(NULL, 0);
    assert_stored(ALERTS, "STORE_SLOW ");
    advance(2 * SECOND);
    look(NULL, 0);
    assert_stored(ALERTS, "STORE_SLOW  over");
    assert_stored(EVENTS, " BEGAN,  ENDED");
    assert_stored(MAILS, "STORE_SLOW, over: STORE_SLOW");
    assert_int_equal(counted.alerts[ALERT_STORE_SLOW], 0);
    restart_core(); // the next one has an id of its own
    look(&slow, 1);
    assert_stored("SELECT max(id) FROM alerts", "2");
    cl.more.mail_alerts = false;
}

// Lets the agent fall silent and be given up.
static void lose(void)
{
    for (int i = 0; i < 5; i++)
        advance(10 * SECOND);
}

static void test_lost_agents(void **state)
{
    (void)state;
    json_decref(sync_agent("a", "session", 2, ""));
    json_decref(sync_agent("b", "session", 1, ""));
    call_ok(core_agent_disable, as_user(OWNER, true), "b", "{}"); // before it is switched off
    look(NULL, 0);
    assert_stored(ALERTS, "(null)");
    assert_int_equal(counted.pools[0].agents[AGENT_CONNECTED], 2);
    assert_int_equal(counted.pools[0].slots[SLOTS_FREE], 2);
    assert_int_equal(counted.pools[0].slots[SLOTS_DISABLED], 1);
    lose();
    look(NULL, 0);
    assert_stored(ALERTS, "AGENT_LOST a");
    assert_int_equal(counted.pools[0].agents[AGENT_LOST], 2);
    assert_int_equal(counted.pools[0].slots[SLOTS_UNREACHABLE], 3);
    assert_stored(MAILS, "(null)"); // nobody asked for e-mails
    restart_core();
    look(NULL, 0);
    assert_stored("SELECT count(*) FROM alerts", "1");
    call_ok(core_agent_forget, as_user(OWNER, true), "a", NULL);
    advance(61 * SECOND);
    look(NULL, 0);
    assert_stored(ALERTS, "AGENT_LOST a over");
}

static void test_counts_and_meters(void **state)
{
    (void)state;
    cl.more.meters = meters_new(0);
    restart_core();
    json_decref(sync_agent("a", "session", 2, ""));
    submit_slots(1, "");
    submit_slots(1, "");
    submit_slots(2, "");
    report("a", 2, "");
    look(NULL, 0);
    assert_int_equal(counted.pools[0].jobs[JOBS_RUNNING], 2);
    assert_int_equal(counted.pools[0].jobs[JOBS_QUEUED], 1);
    assert_int_equal(counted.pools[0].waiting_gangs, 1);
    assert_int_equal(counted.pools[0].slots[SLOTS_ALLOCATED], 2);
    call_ok(core_experiment_pause, as_user(OWNER, true), "3", NULL);
    look(NULL, 0);
    assert_int_equal(counted.pools[0].jobs[JOBS_PAUSED], 1);
    assert_int_equal(counted.pools[0].jobs[JOBS_QUEUED], 0);
    struct histogram_figures passes;
    histogram_read(meters_decisions(cl.more.meters), &passes);
    assert_true(passes.count > 0);
    assert_int_equal(meters_counted(cl.more.meters, METER_AGENTS_LOST), 0);
    lose();
    assert_int_equal(meters_counted(cl.more.meters, METER_AGENTS_LOST), 1);
    stop_core();
    meters_free(cl.more.meters);
    cl.more.meters = NULL;
    start_core();
}

// The waiting of a long poll is not the master's time.
static void test_parked_time(void **state)
{
    (void)state;
    json_t *answer = sync_agent("a", "session", 1, "");
    struct core_call *poll = sync_start("a", "session", 1, jget_int(answer, "version", 0), "");
    advance(3 * SECOND);
    assert_false(call_is_done(poll));
    submit_slots(1, ""); // ends the poll
    while (!call_is_done(poll))
        settle();
    assert_true(poll->rq.parked_us >= 3 * SECOND);
    assert_true(poll->rq.worked_us >= 0 && poll->rq.worked_us < 3 * SECOND);
    json_decref(call_end(poll));
    json_decref(answer);
}

static void test_a_row_proves_that_the_store_commits(void **state)
{
    (void)state;
    next_input = (struct watch_input){.writes = true};
    assert_stored("SELECT count(*) FROM meta WHERE key = 'alive_at'", "0");
    call_ok(watch_now, as_user(OWNER, true), NULL, NULL);
    assert_stored("SELECT count(*) FROM meta WHERE key = 'alive_at'", "1");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_alerts, cluster_setup, cluster_teardown),
        cmocka_unit_test_setup_teardown(test_lost_agents, cluster_setup, cluster_teardown),
        cmocka_unit_test_setup_teardown(test_counts_and_meters, cluster_setup, cluster_teardown),
        cmocka_unit_test_setup_teardown(test_parked_time, cluster_setup, cluster_teardown),
        cmocka_unit_test_setup_teardown(test_a_row_proves_that_the_store_commits, cluster_setup,
                                        cluster_teardown),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    arena_free(&counted_arena);
    return failed;
}
