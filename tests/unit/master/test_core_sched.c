// The core and its scheduler: preemption and its reasons, elastic trials, moves in the queue, a
// restart of the master, and jobs that can never run.
#include "tests/unit/master/support/core_fixture.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MINUTE (60LL * SECOND)

static int64_t submit_as(int slots, int priority, const char *resources)
{
    char yaml[512];
    snprintf(yaml, sizeof yaml,
             "name: test\nentrypoint: sh x.sh\nlaunch: per_slot\n"
             "resources: {slots_per_trial: %d, priority: %d%s}\n"
             "searcher: {name: single, metric: loss}\nmax_restarts: 0\npreemption_timeout: 60\n",
             slots, priority, resources);
    int64_t id = submit(yaml, true);
    if (!id)
        fail_msg("status %d: %s", last_status, last_error);
    return id;
}

static bool is_asked_to_leave(const char *allocation)
{
    next_query_value = "0";
    json_t *answer = ask(core_allocation_preemption, as_task(allocation), allocation, NULL, NULL);
    bool preempt = jget_bool(answer, "preempt", false);
    assert_int_equal(last_status, 200);
    json_decref(answer);
    return preempt;
}

static void acknowledge(const char *allocation)
{
    assert_true(is_asked_to_leave(allocation));
    call_ok(core_allocation_ack_preemption, as_task(allocation), allocation, NULL);
}

// The entry of an experiment in the queue; borrowed from *answer.
static const json_t *job_of(json_t **answer, int64_t experiment)
{
    size_t i;
    json_t *job;
    *answer = ask(core_job_queue, as_user(OWNER, true), NULL, NULL, NULL);
    json_array_foreach(jget(*answer, "jobs"), i, job)
    {
        if (!strcmp(jget_string(jget(job, "full"), "entityId", ""), decimal(experiment)))
            return jget(job, "full");
    }
    return NULL;
}

static char *job_id(int64_t experiment)
{
    json_t *answer;
    char *id = strdup(jget_string(job_of(&answer, experiment), "jobId", ""));
    json_decref(answer);
    return id;
}

static const char *order_of_queue(void)
{
    static char text[256];
    size_t i, at = 0;
    json_t *job, *answer = ask(core_job_queue, as_user(OWNER, true), NULL, NULL, NULL);
    text[0] = '\0';
    json_array_foreach(jget(answer, "jobs"), i, job)
    {
        const json_t *full = jget(job, "full");
        assert_int_equal(jget_int(full, "place", -1), (int64_t)i);
        at += (size_t)snprintf(text + at, sizeof text - at, "%s%s", i ? " " : "",
                               jget_string(full, "entityId", ""));
    }
    json_decref(answer);
    return text;
}

static void assert_why(int64_t experiment, const char *code, const char *part)
{
    json_t *why = ask(core_experiment_why, as_user(OWNER, false), decimal(experiment), NULL, NULL);
    const json_t *first = json_array_get(jget(why, "waiting"), 0);
    assert_string_equal(jget_string(first, "code", "(none)"), code);
    if (!strstr(jget_string(first, "reason", ""), part))
        fail_msg("\"%s\" does not say \"%s\"", jget_string(first, "reason", ""), part);
    assert_string_equal(jget_string(first, "reason", ""), jget_string(why, "reason", "-"));
    json_decref(why);
}

// --- preemption ----------------------------------------------------------------------------------

static int restart_at; // the master restarts after this step; 0: it does not
static int step;

static void next_step(const char *running) // tasks
{
    if (++step != restart_at)
        return;
    restart_core();
    report("agent-1", 2, running);
}

// Experiment 1 runs on both slots; 2 comes with a higher priority, gets them, ends; 1 continues.
static void preempt_once(void)
{
    static const char saved[] =
        "{\"uuid\":\"11111111-1111-4111-8111-111111111111\",\"taskId\":\"1.1\","
        "\"allocationId\":\"1.1.1\",\"metadata\":{\"steps_completed\":7},\"state\":"
        "\"STATE_COMPLETED\"}";
    step = 0;
    report("agent-1", 2, "");
    submit_as(2, 60, "");
    next_step("");
    report("agent-1", 2, task_in("1.1.1", "RUNNING", ""));
    poll_once("1.1.1");
    next_step(task_in("1.1.1", "RUNNING", ""));
    submit_as(2, 50, "");
    next_step(task_in("1.1.1", "RUNNING", ""));
    assert_why(2, "DRAINING", "as soon as the jobs that make room for it have saved");
    assert_stored("SELECT cause || preempted_for FROM allocations WHERE id = '1.1.1'", "PRIORITY2");
    assert_non_null(strstr(logged("1.1"), ": makes room for experiment 2, which has priority 50 "
                                          "before its 60\n"));
    assert_int_equal(strncmp(logged("1.1"), "master INFO -1 ", 15), 0);
    next_step(task_in("1.1.1", "RUNNING", ""));
    report("agent-1", 2, task_in("1.1.1", "RUNNING", ""));
    acknowledge("1.1.1");
    next_step(task_in("1.1.1", "RUNNING", ""));
    call_ok(core_checkpoint_report, as_task("1.1.1"), NULL, saved);
    next_step(task_in("1.1.1", "RUNNING", ""));
    report("agent-1", 2, task_in("1.1.1", "EXITED", EXIT_0));
    next_step("");
    assert_stored("SELECT outcome || ': ' || exit_reason FROM allocations WHERE id = '1.1.1'",
                  "PREEMPTED: makes room for experiment 2, which has priority 50 before its 60");
    assert_stored("SELECT state || restarts FROM trials WHERE id = 1", "ACTIVE0");
    assert_stored("SELECT state FROM allocations WHERE id = '1.1.2'", "QUEUED");
    next_step("");
    report("agent-1", 2, task_in("2.2.1", "RUNNING", ""));
    next_step(task_in("2.2.1", "RUNNING", ""));
    assert_stored("SELECT state FROM allocations WHERE id = '1.1.2'", "QUEUED");
    report("agent-1", 2, task_in("2.2.1", "EXITED", EXIT_0));
    next_step("");
    json_t *answer = sync_agent("agent-1", "session", 2, "");
    const json_t *env = jget(desired_task(answer, "1.1.2"), "env");
    assert_string_equal(jget_string(env, "DET_STEPS_COMPLETED", ""), "7");
    json_decref(answer);
    report("agent-1", 2, task_in("1.1.2", "RUNNING", ""));
    next_step(task_in("1.1.2", "RUNNING", ""));
    report("agent-1", 2, task_in("1.1.2", "EXITED", EXIT_0));
    assert_stored("SELECT group_concat(state) FROM experiments", "COMPLETED,COMPLETED");
    assert_stored("SELECT count(*) FROM allocations", "3");
}

static void test_preemption_with_a_restart_at_every_step(void **state)
{
    (void)state;
    int steps = 1;
    for (restart_at = 0; restart_at <= steps; restart_at++) {
        void *nothing = NULL;
        cluster_setup(&nothing);
        preempt_once();
        steps = step;
        cluster_teardown(&nothing);
    }
    restart_at = 0;
    assert_true(steps > 8);
}

static void test_one_that_does_not_leave_is_killed(void **state)
{
    (void)state;
    report("agent-1", 1, "");
    submit_as(1, 60, "");
    report("agent-1", 1, task_in("1.1.1", "RUNNING", ""));
    poll_once("1.1.1");
    submit_as(1, 50, "");
    assert_true(is_asked_to_leave("1.1.1"));
    for (int i = 0; i < 8; i++) { // preemption_timeout: 60
        report("agent-1", 1, task_in("1.1.1", "RUNNING", ""));
        advance(8 * SECOND);
    }
    json_t *answer = sync_agent("agent-1", "session", 1, task_in("1.1.1", "RUNNING", ""));
    assert_string_equal(desired_action(answer, "1.1.1"), "KILL");
    json_decref(answer);
    report("agent-1", 1, task_in("1.1.1", "EXITED", KILLED_9));
    assert_stored("SELECT outcome FROM allocations WHERE id = '1.1.1'", "KILLED");
    assert_stored("SELECT state || restarts FROM trials WHERE id = 1", "ACTIVE0");
    assert_stored("SELECT state FROM allocations WHERE id = '1.1.2'", "QUEUED");
    assert_stored("SELECT state FROM allocations WHERE id = '2.2.1'", "ASSIGNED");
}

static void test_one_that_does_not_poll_is_ended_at_once(void **state)
{
    (void)state;
    report("agent-1", 1, "");
    submit_as(1, 60, "");
    report("agent-1", 1, task_in("1.1.1", "RUNNING", ""));
    submit_as(1, 50, "");
    json_t *answer = sync_agent("agent-1", "session", 1, task_in("1.1.1", "RUNNING", ""));
    assert_string_equal(desired_action(answer, "1.1.1"), "KILL");
    json_decref(answer);
    report("agent-1", 1, task_in("1.1.1", "EXITED", EXIT_0));
    assert_stored("SELECT outcome || ': ' || exit_reason FROM allocations WHERE id = '1.1.1'",
                  "PREEMPTED: makes room for experiment 2, which has priority 50 before its 60");
    assert_stored("SELECT state || restarts FROM trials WHERE id = 1", "ACTIVE0");
    assert_stored("SELECT state FROM allocations WHERE id = '1.1.2'", "QUEUED");
    assert_stored("SELECT state FROM allocations WHERE id = '2.2.1'", "ASSIGNED");
}

// An allocation that was placed and never began has no work to save.
static void test_one_that_never_ran_is_ended_at_once(void **state)
{
    (void)state;
    report("agent-1", 1, "");
    submit_as(1, 60, "");
    assert_stored("SELECT state FROM allocations", "ASSIGNED");
    submit_as(1, 50, "");
    assert_stored("SELECT state || cause FROM allocations WHERE id = '1.1.1'",
                  "TERMINATINGPRIORITY");
    report("agent-1", 1, task_in("1.1.1", "EXITED", KILLED_9));
    assert_stored("SELECT outcome FROM allocations WHERE id = '1.1.1'", "KILLED");
    assert_stored("SELECT state || restarts FROM trials WHERE id = 1", "ACTIVE0");
    assert_stored("SELECT state FROM allocations WHERE id = '2.2.1'", "ASSIGNED");
}

// --- elastic trials ------------------------------------------------------------------------------

static long world_of(const char *allocation, int slots)
{
    json_t *answer = sync_agent("agent-1", "session", slots, "");
    const char *text =
        jget_string(jget(desired_task(answer, allocation), "env"), "WORLD_SIZE", "0");
    long world = strtol(text, NULL, 10);
    json_decref(answer);
    return world;
}

static void run_until_asked(const char *allocation)
{
    for (int i = 0; i < 120 && !is_asked_to_leave(allocation); i++) {
        report("agent-1", 4, task_in(allocation, "RUNNING", ""));
        advance(8 * SECOND);
    }
}

static void test_elastic(void **state)
{
    (void)state;
    report("agent-1", 4, "");
    submit_as(4, 42, ", min_slots: 2");
    assert_stored("SELECT slots || ' ' || least_slots FROM allocations WHERE id = '1.1.1'", "4 2");
    assert_int_equal(world_of("1.1.1", 4), 4);
    report("agent-1", 4, task_in("1.1.1", "RUNNING", ""));
    poll_once("1.1.1");
    advance(6 * MINUTE);
    report("agent-1", 4, task_in("1.1.1", "RUNNING", ""));
    submit_as(2, 42, "");
    assert_stored("SELECT cause FROM allocations WHERE id = '1.1.1'", "SHRINK");
    acknowledge("1.1.1");
    restart_core();
    report("agent-1", 4, task_in("1.1.1", "RUNNING", ""));
    report("agent-1", 4, task_in("1.1.1", "EXITED", EXIT_0));
    assert_stored("SELECT slots || state FROM allocations WHERE id = '1.1.2'", "2ASSIGNED");
    assert_stored("SELECT slots || state FROM allocations WHERE id = '2.2.1'", "2ASSIGNED");
    assert_int_equal(world_of("1.1.2", 4), 2);
    restart_core(); // it keeps its slots
    char both[4096];
    snprintf(both, sizeof both, "%s,%s", task_in("1.1.2", "RUNNING", ""),
             task_in("2.2.1", "RUNNING", ""));
    report("agent-1", 4, both);
    snprintf(both, sizeof both, "%s,%s", task_in("1.1.2", "RUNNING", ""),
             task_in("2.2.1", "EXITED", EXIT_0));
    report("agent-1", 4, both);
    run_until_asked("1.1.2");
    assert_stored("SELECT cause || coalesce(preempted_for, 0) FROM allocations WHERE id = '1.1.2'",
                  "GROW0");
    acknowledge("1.1.2");
    report("agent-1", 4, task_in("1.1.2", "EXITED", EXIT_0));
    assert_stored("SELECT slots || state FROM allocations WHERE id = '1.1.3'", "4ASSIGNED");
    assert_stored("SELECT restarts FROM trials WHERE id = 1", "0");
}

// --- moves ---------------------------------------------------------------------------------------

static int move(const struct principal who, int64_t experiment, const char *change)
{
    char body[512], *job = job_id(experiment);
    snprintf(body, sizeof body, "{\"updates\":[{\"jobId\":\"%s\",%s}]}", job, change);
    free(job);
    return call_status(core_job_queue_update, who, NULL, body);
}

static int move_beside(int64_t experiment, const char *where, int64_t other)
{
    char change[128], *job = job_id(other);
    snprintf(change, sizeof change, "\"%s\":\"%s\"", where, job);
    free(job);
    return move(as_user(OWNER, true), experiment, change);
}

static void test_moves(void **state)
{
    (void)state;
    for (int i = 0; i < 4; i++)
        submit_as(1, 50, "");
    assert_string_equal(order_of_queue(), "1 2 3 4");
    assert_int_equal(move_beside(4, "aheadOf", 2), 200);
    assert_string_equal(order_of_queue(), "1 4 2 3");
    assert_int_equal(move_beside(1, "behindOf", 3), 200);
    assert_string_equal(order_of_queue(), "4 2 3 1");
    assert_int_equal(move_beside(3, "aheadOf", 4), 200);
    assert_string_equal(order_of_queue(), "3 4 2 1");
    restart_core();
    assert_string_equal(order_of_queue(), "3 4 2 1");
    submit_as(1, 50, ""); // the last one stands behind all others
    assert_string_equal(order_of_queue(), "3 4 2 1 5");
    for (int i = 0; i < 30; i++) { // gaps between submissions do not last for ever
        assert_int_equal(move_beside(i % 2 ? 1 : 5, "aheadOf", 4), 200);
        assert_string_equal(order_of_queue(), i % 2 ? "3 5 1 4 2" : i ? "3 1 5 4 2" : "3 5 4 2 1");
    }
    submit_as(1, 50, "");
    assert_string_equal(order_of_queue(), "3 5 1 4 2 6");
    assert_int_equal(move(as_user(OWNER, false), 2, "\"priority\":45"), 200);
    assert_string_equal(order_of_queue(), "2 3 5 1 4 6");
    assert_stored("SELECT priority || ' ' || json_extract(config, '$.resources.priority') "
                  "FROM experiments WHERE id = 2",
                  "45 45");
    restart_core();
    assert_string_equal(order_of_queue(), "2 3 5 1 4 6");
    assert_int_equal(move_beside(6, "aheadOf", 2), 200); // and takes its priority
    assert_string_equal(order_of_queue(), "6 2 3 5 1 4");
    report("agent-1", 1, "");
    assert_stored("SELECT id FROM allocations WHERE state = 'ASSIGNED'", full_id("6.6.1"));
}

static void test_moves_refused(void **state)
{
    (void)state;
    struct principal other = as_user(OTHER, false), owner = as_user(OWNER, false);
    submit_as(1, 50, "");
    submit_as(1, 50, "");
    assert_int_equal(move(other, 1, "\"priority\":60"), 403);
    assert_int_equal(move(owner, 1, "\"priority\":0"), 400);
    assert_non_null(strstr(last_error, "updates.0.priority"));
    assert_int_equal(move(owner, 1, "\"weight\":-1"), 400);
    assert_int_equal(move(owner, 1, "\"resourcePool\":\"nowhere\""), 400);
    assert_non_null(strstr(last_error, "updates.0.resourcePool"));
    assert_non_null(strstr(last_error, "default"));
    assert_int_equal(move(owner, 1, "\"aheadOf\":\"x\""), 400);
    assert_non_null(strstr(last_error, "updates.0.aheadOf"));
    assert_int_equal(move_beside(1, "behindOf", 1), 400);
    assert_int_equal(
        call_status(core_job_queue_update, owner, NULL, "{\"updates\":[{\"jobId\":\"x\"}]}"), 400);
    assert_int_equal(call_status(core_job_queue_update, owner, NULL, "{}"), 400);
    // A call changes all of its jobs or none.
    char body[512], *first = job_id(1);
    snprintf(body, sizeof body,
             "{\"updates\":[{\"jobId\":\"%s\",\"priority\":70},{\"jobId\":\"x\",\"weight\":1}]}",
             first);
    free(first);
    assert_int_equal(call_status(core_job_queue_update, owner, NULL, body), 400);
    assert_non_null(strstr(last_error, "updates.1.jobId"));
    assert_stored("SELECT priority FROM experiments WHERE id = 1", "50");
    assert_int_equal(
        call_status(core_experiment_patch, owner, "1", "{\"resources\":{\"maxSlots\":1}}"), 200);
    submit_as(2, 50, "");
    assert_int_equal(
        call_status(core_experiment_patch, owner, "3", "{\"resources\":{\"maxSlots\":1}}"), 400);
}

// A running trial saves its work and continues in the other pool; a waiting one is there at once.
static void test_move_to_another_pool(void **state)
{
    (void)state;
    report("agent-1", 1, "");
    next_agent_pool = "second";
    report("agent-2", 1, "");
    submit_as(1, 50, "");
    submit_as(1, 50, "");
    next_agent_pool = "default";
    report("agent-1", 1, task_in("1.1.1", "RUNNING", ""));
    poll_once("1.1.1");
    assert_int_equal(move(as_user(OWNER, false), 1, "\"resourcePool\":\"second\""), 200);
    assert_stored("SELECT resource_pool || json_extract(config, '$.resources.resource_pool') "
                  "FROM experiments WHERE id = 1",
                  "secondsecond");
    assert_stored("SELECT cause FROM allocations WHERE id = '1.1.1'", "MOVE");
    acknowledge("1.1.1");
    restart_core();
    report("agent-1", 1, task_in("1.1.1", "RUNNING", ""));
    next_agent_pool = "second";
    report("agent-2", 1, "");
    next_agent_pool = "default";
    report("agent-1", 1, task_in("1.1.1", "EXITED", EXIT_0));
    assert_stored("SELECT pool || state || json_extract(placement, '$[0].agent') "
                  "FROM allocations WHERE id = '1.1.2'",
                  "secondASSIGNEDagent-2");
    assert_stored("SELECT state FROM allocations WHERE id = '2.2.1'", "ASSIGNED");
    submit_as(1, 50, "");
    assert_int_equal(move(as_user(OWNER, false), 3, "\"resourcePool\":\"second\""), 200);
    assert_stored("SELECT pool || state FROM allocations WHERE id = '3.3.1'", "secondQUEUED");
}

// --- resizing ------------------------------------------------------------------------------------

static int resize(struct principal who, int64_t experiment, const char *resources)
{
    char body[256];
    snprintf(body, sizeof body, "{\"resources\":{%s}}", resources);
    return call_status(core_experiment_patch, who, decimal(experiment), body);
}

static void assert_range(int slots, int min_slots) // 0: rigid
{
    char expected[64];
    snprintf(expected, sizeof expected, "%d %d", slots, min_slots);
    assert_stored("SELECT json_extract(config, '$.resources.slots_per_trial') || ' ' ||"
                  " coalesce(json_extract(config, '$.resources.min_slots'), 0)"
                  " FROM experiments WHERE id = 1",
                  expected);
}

// A running trial saves its work and continues with the new number, also when the master restarts
// while it leaves, or before it is asked.
static void test_resize_of_a_running_trial(void **state)
{
    (void)state;
    report("agent-1", 4, "");
    submit_as(2, 50, "");
    report("agent-1", 4, task_in("1.1.1", "RUNNING", ""));
    poll_once("1.1.1");
    assert_int_equal(resize(as_user(OWNER, false), 1, "\"slotsPerTrial\":3"), 200);
    assert_range(3, 0);
    assert_stored("SELECT cause || slots FROM allocations WHERE id = '1.1.1'", "RESIZE2");
    assert_true(is_asked_to_leave("1.1.1"));
    restart_core();
    report("agent-1", 4, task_in("1.1.1", "RUNNING", ""));
    acknowledge("1.1.1");
    report("agent-1", 4, task_in("1.1.1", "EXITED", EXIT_0));
    assert_stored("SELECT outcome || ': ' || exit_reason FROM allocations WHERE id = '1.1.1'",
                  "PREEMPTED: continues with another number of slots: its experiment was resized");
    assert_stored("SELECT state || slots FROM allocations WHERE id = '1.1.2'", "ASSIGNED3");
    assert_stored("SELECT state || restarts FROM trials", "ACTIVE0");
}

static void test_resize_of_an_elastic_trial(void **state)
{
    (void)state;
    report("agent-1", 4, "");
    submit_as(2, 50, "");
    report("agent-1", 4, task_in("1.1.1", "RUNNING", ""));
    poll_once("1.1.1");
    assert_int_equal(resize(as_user(OWNER, false), 1, "\"minSlots\":1"), 200);
    assert_range(2, 1);
    assert_int_equal(resize(as_user(OWNER, false), 1, "\"slotsPerTrial\":4"), 200);
    assert_range(4, 1);
    assert_false(is_asked_to_leave("1.1.1")); // two slots are within the range
    run_until_asked("1.1.1");                 // it grows
    assert_stored("SELECT cause FROM allocations WHERE id = '1.1.1'", "GROW");
    assert_int_equal(resize(as_user(OWNER, false), 1, "\"minSlots\":3"), 200);
    assert_int_equal(resize(as_user(OWNER, false), 1, "\"slotsPerTrial\":2"), 200);
    assert_range(2, 2); // fewer slots lower the minimum
    assert_int_equal(resize(as_user(OWNER, false), 1, "\"slotsPerTrial\":4,\"minSlots\":0"), 200);
    assert_range(4, 0);
}

static void test_resize_of_a_waiting_trial(void **state)
{
    (void)state;
    report("agent-1", 2, "");
    submit_as(4, 50, "");
    assert_why(1, "OVER_POOL", "asks for 4 slots");
    assert_int_equal(resize(as_user(OWNER, false), 1, "\"slotsPerTrial\":3,\"minSlots\":2"), 200);
    assert_stored("SELECT state || slots FROM allocations WHERE id = '1.1.1'", "ASSIGNED2");
    submit_as(8, 50, "");
    assert_int_equal(resize(as_user(OWNER, false), 2, "\"slotsPerTrial\":7,\"minSlots\":6"), 200);
    assert_stored("SELECT state || slots || least_slots FROM allocations WHERE trial_id = 2",
                  "QUEUED76");
    call_ok(core_experiment_pause, as_user(OWNER, false), "2", NULL);
    assert_int_equal(resize(as_user(OWNER, false), 2, "\"slotsPerTrial\":1,\"minSlots\":0"), 200);
    call_ok(core_experiment_activate, as_user(OWNER, false), "2", NULL);
    assert_stored("SELECT state || slots || least_slots FROM allocations WHERE trial_id = 2"
                  " ORDER BY epoch DESC",
                  "QUEUED10");
}

// A program that does not poll cannot save its work, and is ended.
static void test_resize_without_polls(void **state)
{
    (void)state;
    report("agent-1", 4, "");
    submit_as(2, 50, "");
    report("agent-1", 4, task_in("1.1.1", "RUNNING", ""));
    assert_int_equal(resize(as_user(OWNER, false), 1, "\"slotsPerTrial\":1"), 200);
    assert_stored("SELECT state FROM allocations WHERE id = '1.1.1'", "TERMINATING");
    assert_non_null(
        strstr(logged("1.1"), "its experiment was resized: the program has not polled"));
    report("agent-1", 4, task_in("1.1.1", "EXITED", KILLED_9));
    assert_stored("SELECT state || slots FROM allocations WHERE id = '1.1.2'", "ASSIGNED1");
}

static void assert_resize_refused(int64_t experiment, const char *resources, const char *part)
{
    int status = resize(as_user(OWNER, false), experiment, resources);
    if (status != 400 || !strstr(last_error, part))
        fail_msg("%d \"%s\" for %s", status, last_error, resources);
}

static void test_resize_refused(void **state)
{
    (void)state;
    submit_as(2, 50, "");
    assert_int_equal(resize(as_user(OTHER, false), 1, "\"slotsPerTrial\":3"), 403);
    assert_resize_refused(1, "\"slotsPerTrial\":0", "resources.slotsPerTrial: not a number from 1");
    assert_resize_refused(1, "\"slotsPerTrial\":8193", "from 1 to 8192");
    assert_int_equal(resize(as_user(OWNER, false), 1, "\"slotsPerTrial\":8192"), 200);
    assert_resize_refused(1, "\"slotsPerTrial\":2,\"minSlots\":3",
                          "resources.minSlots: 3; give a number from 1 to 2");
    assert_resize_refused(1, "\"minSlots\":-1", "resources.minSlots: -1; give a number from 1 ");
    assert_int_equal(resize(as_user(OWNER, false), 1, "\"slotsPerTrial\":1,\"maxSlots\":1"), 400);
    assert_int_equal(resize(as_user(OWNER, false), 1, "\"slotsPerTrial\":2"), 200);
    assert_int_equal(resize(as_user(OWNER, false), 1, "\"maxSlots\":2"), 200);
    assert_resize_refused(1, "\"slotsPerTrial\":3", "the experiment may hold 2");
    assert_int_equal(resize(as_user(OWNER, false), 1, "\"maxSlots\":0"), 200);
    json_decref(ask(core_workspace_patch, as_user(OWNER, true), "1", NULL, "{\"maxSlots\":3}"));
    assert_resize_refused(1, "\"slotsPerTrial\":4", "may never hold more than 3");
    assert_range(2, 0);
    submit_as(0, 50, "");
    assert_resize_refused(2, "\"slotsPerTrial\":2", "use no slots");
    submit_as(1, 50, ", is_single_node: true");
    assert_resize_refused(3, "\"slotsPerTrial\":8000", "is_single_node");
    call_ok(core_experiment_kill, as_user(OWNER, false), "1", NULL);
    assert_resize_refused(1, "\"slotsPerTrial\":2", "has ended");
}

// --- restart of the master -----------------------------------------------------------------------

static double number(const char *sql)
{
    return strtod(stored(sql), NULL);
}

static double usage_hours(void)
{
    json_t *answer = ask(core_shares, as_user(OWNER, false), NULL, NULL, NULL);
    double hours = jget_double(json_array_get(jget(answer, "shares"), 0), "usageSlotHours", -1);
    json_decref(answer);
    return hours;
}

static void run_for(int64_t us)
{
    for (int64_t t = 0; t < us; t += 8 * SECOND) {
        report("agent-1", 2, task_in("1.1.1", "RUNNING", ""));
        advance(8 * SECOND);
    }
}

static void test_service_and_usage_are_kept(void **state)
{
    (void)state;
    report("agent-1", 2, "");
    submit_as(2, 50, "");
    run_for(10 * MINUTE); // a third of a slot-hour
    double before = usage_hours();
    assert_true(before > .32 && before < .36);
    restart_core();
    assert_true(usage_hours() > before - .01 && usage_hours() < before + .01);
    run_for(10 * MINUTE);
    report("agent-1", 2, task_in("1.1.1", "EXITED", EXIT_0));
    double service = number("SELECT service FROM experiments");
    assert_true(service > 2350 && service < 2500);
    double used = number("SELECT usage FROM workspaces");
    assert_true(used > 2350 && used < 2500);
    assert_true(number("SELECT usage FROM workspace_members WHERE user_id = 1") > 2350);
    restart_core();
    assert_true(usage_hours() > .64 && usage_hours() < .70);
}

// --- jobs that can never run ---------------------------------------------------------------------

static void refused(const char *resources, int status, const char *part)
{
    char yaml[512];
    snprintf(yaml, sizeof yaml,
             "name: test\nentrypoint: sh x.sh\nresources: {%s}\n"
             "searcher: {name: single, metric: loss}\n",
             resources);
    if (submit(yaml, true) || last_status != status || !strstr(last_error, part))
        fail_msg("%d \"%s\" for %s", last_status, last_error, resources);
}

static void test_what_can_never_run_is_refused(void **state)
{
    (void)state;
    refused("slots_per_trial: 2, max_slots: 1", 400, "resources.max_slots");
    refused("slots_per_trial: 4, min_slots: 2, max_slots: 1", 400, "resources.max_slots");
    refused("slots_per_trial: 1, resource_pool: nowhere", 400,
            "resources.resource_pool: there is no resource pool \"nowhere\": name one of default");
    json_decref(ask(core_workspace_patch, as_user(OWNER, true), "1", NULL, "{\"maxSlots\":3}"));
    assert_int_equal(last_status, 200);
    refused("slots_per_trial: 4", 400,
            "request unfulfillable: a trial needs 4 slots, and workspace \"w\" may never hold more "
            "than 3");
    assert_true(submit_as(4, 50, ", min_slots: 3") > 0);
    assert_stored("SELECT count(*) FROM experiments", "1");
}

static void test_too_large_for_now_is_told(void **state)
{
    (void)state;
    report("agent-1", 2, "");
    report("agent-2", 2, "");
    submit_as(8, 50, "");
    assert_why(1, "OVER_POOL", "asks for 8 slots, and resource pool default has 4 in all");
    submit_as(3, 50, ", is_single_node: true");
    assert_why(2, "OVER_AGENT", "asks for 3 slots on one machine, and the largest");
    json_t *why = ask(core_experiment_why, as_user(OWNER, false), "2", NULL, NULL);
    assert_string_equal(jget_string(json_array_get(jget(why, "waiting"), 0), "resource", ""),
                        "agent of 3 slots");
    json_decref(why);
    json_t *preview =
        ask(core_experiment_create, as_user(OWNER, false), NULL, NULL,
            "{\"validateOnly\":true,\"modelDefinition\":[],\"config\":\"entrypoint: x\\n"
            "resources: {slots_per_trial: 9}\\nsearcher: {name: single, metric: m}\\n\"}");
    assert_string_equal(json_string_value(json_array_get(jget(preview, "warnings"), 0)),
                        "LAUNCH_WARNING_CURRENT_SLOTS_EXCEEDED");
    assert_non_null(strstr(json_string_value(json_array_get(jget(preview, "warningTexts"), 0)),
                           "needs 9 slots, and resource pool default has 4 in all"));
    json_decref(preview);
    submit_as(3, 50, ""); // on two slots
    assert_stored("SELECT state FROM allocations WHERE trial_id = 3", "ASSIGNED");
    report("agent-3", 3, "");
    assert_stored("SELECT state FROM allocations WHERE trial_id = 2", "ASSIGNED");
}

// The warnings of a submission that would be created with these lines.
static json_t *warnings_of(const char *lines)
{
    char *body =
        xasprintf("{\"validateOnly\":true,\"modelDefinition\":[],\"config\":\"%s\"}", lines);
    json_t *preview = ask(core_experiment_create, as_user(OWNER, false), NULL, NULL, body);
    json_t *texts = json_incref(jget(preview, "warningTexts"));
    assert_int_equal(last_status, 200);
    json_decref(preview);
    free(body);
    return texts;
}

static void assert_warning(const char *lines, const char *text)
{
    json_t *texts = warnings_of(lines);
    const char *first = json_string_value(json_array_get(texts, 0));
    if (!text && json_array_size(texts))
        fail_msg("%s: a warning: %s", lines, first);
    if (text && (json_array_size(texts) != 1 || !strstr(first, text)))
        fail_msg("%s: not \"%s\": %s", lines, text, first ? first : "none");
    json_decref(texts);
}

#define SINGLE "searcher: {name: single, metric: m}\\n"

static void test_one_process_for_several_slots(void **state)
{
    (void)state;
    static const char *const warned[] = {"python3 train.py", "python train.py --lr 1",
                                         "A=1 B=2 /usr/bin/python3.11 -u -O sub/train.py",
                                         "[python3, train.py]"};
    static const char *const silent[] = {"torchrun train.py",
                                         "python3 -m torch.distributed.run train.py",
                                         "python3 -c 1",
                                         "python3",
                                         "./train.sh",
                                         "python3 a.py && python3 b.py",
                                         "mpirun python3 train.py",
                                         "pythonic train.py"};
    char lines[400];
    report("agent-1", 4, "");
    for (size_t i = 0; i < sizeof warned / sizeof *warned; i++) {
        snprintf(lines, sizeof lines, "entrypoint: %s\\nresources: {slots_per_trial: 2}\\n" SINGLE,
                 warned[i]);
        assert_warning(lines, "a trial has 2 slots, but only one process");
    }
    for (size_t i = 0; i < sizeof silent / sizeof *silent; i++) {
        snprintf(lines, sizeof lines, "entrypoint: %s\\nresources: {slots_per_trial: 2}\\n" SINGLE,
                 silent[i]);
        assert_warning(lines, NULL);
    }
    assert_warning("entrypoint: python3 a.py\\nresources: {slots_per_trial: 1}\\n" SINGLE, NULL);
    for (int i = 0; i < 2; i++) {
        snprintf(
            lines, sizeof lines,
            "entrypoint: python3 a.py\\nlaunch: %s\\nresources: {slots_per_trial: 2}\\n" SINGLE,
            i ? "per_slot" : "per_machine");
        assert_warning(lines, NULL);
    }
}

static void test_slots_of_a_command(void **state)
{
    (void)state;
    report("agent-1", 4, "");
    assert_warning("entrypoint: x\\nresources: {slots: 2}\\n" SINGLE,
                   "resources.slots has no effect on an experiment; each trial gets the number of "
                   "resources.slots_per_trial, which is 1");
    assert_warning("entrypoint: x\\nresources: {slots: null}\\n" SINGLE, NULL);
}

static void test_population_larger_than_the_pool(void **state)
{
    (void)state;
    static const struct {
        int members, slots;
        const char *resources, *searcher, *text;
    } cases[] = {
        {4, 1, "", "", NULL},
        {5, 1, "", "",
         "5 members need 5 slots to train at the same time, and resource pool default "
         "has 4 slots, so at most 4 train together"},
        {2, 2, "", "", NULL},
        {3, 2, "", "", "3 members need 6 slots"},
        {4, 1, ", max_slots: 3", "", "resources.max_slots is 3, so at most 3 train together"},
        {4, 1, "", ", max_concurrent_trials: 2", "max_concurrent_trials is 2, so at most 2"},
    };
    char lines[500];
    report("agent-1", 4, "");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        snprintf(
            lines, sizeof lines,
            "entrypoint: x\\nresources: {slots_per_trial: %d%s}\\nhyperparameters: {x: {type: "
            "double, minval: 0, maxval: 1}}\\nsearcher: {name: pbt, metric: m, population_size: "
            "%d, num_rounds: 2, length_per_round: {batches: 10}%s}\\n",
            cases[i].slots, cases[i].resources, cases[i].members, cases[i].searcher);
        assert_warning(lines, cases[i].text);
    }
}

// --- operators, pools, passes --------------------------------------------------------------------

static bool slot_flag(const char *flag)
{
    json_t *answer = ask(core_slot, as_user(OWNER, false), "agent-1", "0", NULL);
    bool value = jget_bool(jget(answer, "slot"), flag, false);
    json_decref(answer);
    return value;
}

static void test_slots_taken_away(void **state)
{
    (void)state;
    report("agent-1", 2, "");
    submit_as(1, 50, "");
    report("agent-1", 2, task_in("1.1.1", "RUNNING", ""));
    json_decref(ask(core_slot_disable, as_user(OWNER, true), "agent-1", "0", "{\"drain\":true}"));
    for (int i = 0; i < 2; i++) {
        assert_true(slot_flag("draining"));
        assert_false(slot_flag("enabled"));
        assert_false(is_asked_to_leave("1.1.1")); // it may end by itself
        restart_core();
        report("agent-1", 2, task_in("1.1.1", "RUNNING", ""));
    }
    json_decref(ask(core_slot_disable, as_user(OWNER, true), "agent-1", "0", "{}"));
    restart_core();
    report("agent-1", 2, task_in("1.1.1", "RUNNING", ""));
    assert_false(slot_flag("draining"));
    json_t *answer = sync_agent("agent-1", "session", 2, task_in("1.1.1", "RUNNING", ""));
    assert_string_equal(desired_action(answer, "1.1.1"), "KILL"); // nobody waits for its work
    json_decref(answer);
    report("agent-1", 2, task_in("1.1.1", "EXITED", EXIT_0));
    assert_stored("SELECT json_extract(placement, '$[0].slots[0]') FROM allocations "
                  "WHERE id = '1.1.2'",
                  "1");
}

static void test_pools_of_the_configuration(void **state)
{
    static const struct core_pool_option pools[] = {{.name = "strict", .policy = SCHED_POLICY_FIFO},
                                                    {.name = "plain", .as_default = true}};
    (void)state;
    cl.more.scheduler = SCHED_POLICY_PRIORITY;
    cl.more.pools = pools;
    cl.more.pool_count = 2;
    restart_core();
    json_t *answer = ask(core_resource_pools, as_user(OWNER, false), NULL, NULL, NULL);
    const json_t *list = jget(answer, "resourcePools");
    assert_int_equal(json_array_size(list), 3);
    assert_string_equal(jget_string(json_array_get(list, 0), "scheduler", ""), "priority");
    assert_string_equal(jget_string(json_array_get(list, 0), "schedulerType", ""),
                        "SCHEDULER_TYPE_PRIORITY");
    assert_string_equal(jget_string(json_array_get(list, 1), "scheduler", ""), "fifo");
    assert_false(jget_bool(json_array_get(list, 1), "preemptible", true));
    assert_string_equal(jget_string(json_array_get(list, 2), "scheduler", ""), "priority");
    json_decref(answer);
    submit_as(1, 50, ", resource_pool: strict");
    assert_why(1, "NO_AGENTS", "resource pool strict");
    submit_as(0, 50, "");
    report("agent-1", 1, ""); // a place for a gang without slots
    assert_stored("SELECT state FROM allocations WHERE trial_id = 2", "ASSIGNED");
}

// There is a least time between passes; events meanwhile are decided in the next pass.
static void test_passes_are_coalesced(void **state)
{
    (void)state;
    cl.more.schedule_gap_us = 5 * SECOND;
    restart_core(); // makes a pass
    report("agent-1", 2, "");
    submit_as(1, 50, "");
    submit_as(1, 50, "");
    settle();
    assert_stored("SELECT count(*) FROM allocations WHERE state = 'QUEUED'", "2");
    assert_why(2, "NOT_CONSIDERED", "just been queued");
    advance(6 * SECOND);
    assert_stored("SELECT count(*) FROM allocations WHERE state = 'ASSIGNED'", "2");
}

// --- log policies --------------------------------------------------------------------------------

static void print_line(const char *allocation, const char *agent, const char *line)
{
    char body[512];
    snprintf(body, sizeof body,
             "{\"logs\":[{\"taskId\":\"1.1\",\"allocationId\":\"%s\",\"agentId\":\"%s\","
             "\"log\":\"%s\"}]}",
             allocation, agent, line);
    call_ok(core_task_logs, as_agent(), NULL, body);
}

static void test_log_policies(void **state)
{
    (void)state;
    report("agent-1", 1, "");
    submit_slots(1, "log_policies: [{name: oom, pattern: out of mem, action: cancel_retries},"
                    " {pattern: 'ECC error [0-9]+', action: {type: exclude_node}}]\n");
    assert_stored("SELECT json_extract(placement, '$[0].agent') FROM allocations", "agent-1");
    print_line("1.1.1", "agent-1", "an uncorrectable ECC error 5 was seen");
    print_line("1.1.1", "agent-1", "ECC error 6");
    assert_non_null(strstr(logged("1.1"), ": ECC error 6\n"));
    const char *warning = strstr(logged("1.1"), "master WARNING");
    assert_non_null(warning);
    assert_null(strstr(warning + 1, "master")); // once
    assert_non_null(strstr(
        warning, ": log policy \"ECC error [0-9]+\" matched: the scheduler therefore will not "
                 "schedule on agent-1 again"));
    for (int i = 0; i < 2; i++) {
        report("agent-1", 1, i ? "" : task_in("1.1.1", "EXITED", EXIT_3));
        assert_stored("SELECT state FROM allocations WHERE id = '1.1.2'", "QUEUED");
        restart_core(); // known from the rows alone
    }
    report("agent-1", 1, "");
    assert_stored("SELECT state FROM allocations WHERE id = '1.1.2'", "QUEUED");
    report("agent-2", 1, "");
    assert_stored("SELECT json_extract(placement, '$[0].agent') FROM allocations WHERE epoch = 2",
                  "agent-2");
    assert_stored("SELECT restarts || state FROM trials", "1ACTIVE");
}

// The number of its trial alone does not make a text a task's id.
static void test_lines_of_another_task(void **state)
{
    (void)state;
    report("agent-1", 1, "");
    submit_slots(1, "log_policies: [{name: oom, pattern: out of mem, action: cancel_retries}]\n");
    call_ok(core_task_logs, as_agent(), NULL,
            "{\"logs\":[{\"taskId\":\"1.00000000-0000-8000-8000-000000000001\","
            "\"allocationId\":\"1.1.1\",\"agentId\":\"agent-1\",\"log\":\"out of memory\"}]}");
    assert_string_equal(logged("1.1"), "");
    report("agent-1", 1, task_in("1.1.1", "EXITED", EXIT_3));
    assert_stored("SELECT restarts || state FROM trials", "1ACTIVE");
    print_line("1.1.2", "agent-1", "out of memory");
    report("agent-1", 1, task_in("1.1.2", "EXITED", EXIT_3));
    assert_stored("SELECT restarts || state FROM trials", "1ERROR");
}

static void test_no_retries(void **state)
{
    (void)state;
    report("agent-1", 1, "");
    submit_slots(1, "log_policies: [{name: oom, pattern: out of mem, action: cancel_retries}]\n");
    print_line("1.1.1", "agent-1", "CUDA: out of memory");
    restart_core();
    report("agent-1", 1, task_in("1.1.1", "EXITED", EXIT_3));
    assert_stored("SELECT restarts || state FROM trials", "0ERROR"); // max_restarts: 1
    assert_int_equal(submit("name: x\nentrypoint: x\nsearcher: {name: single, metric: m}\n"
                            "log_policies: [{pattern: '[', action: cancel_retries}]\n",
                            true),
                     0);
    assert_int_equal(last_status, 400);
    assert_non_null(strstr(last_error, "config:4:26: log_policies.0.pattern: column 1 of the "
                                       "pattern, at [: this [ is not closed"));
    assert_int_equal(submit("name: x\nentrypoint: x\nsearcher: {name: single, metric: m}\n"
                            "log_policies: [{pattern: '(a{99}){99}', action: cancel_retries}]\n",
                            true),
                     0); // would take all memory
    assert_int_equal(last_status, 400);
}

static void test_rack(void **state)
{
    (void)state;
    next_agent_rack = "r7";
    report("agent-1", 1, "");
    restart_core();
    report("agent-1", 1, "");
    next_agent_rack = "";
    assert_stored("SELECT rack FROM agents", "r7");
    json_t *answer = ask(core_agent, as_user(OWNER, false), "agent-1", NULL, NULL);
    assert_string_equal(jget_string(jget(answer, "agent"), "rack", ""), "r7");
    json_decref(answer);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, cluster_setup, cluster_teardown)
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_preemption_with_a_restart_at_every_step),
        TEST(test_one_that_does_not_leave_is_killed),
        TEST(test_one_that_does_not_poll_is_ended_at_once),
        TEST(test_one_that_never_ran_is_ended_at_once),
        TEST(test_elastic),
        TEST(test_moves),
        TEST(test_moves_refused),
        TEST(test_move_to_another_pool),
        TEST(test_resize_of_a_running_trial),
        TEST(test_resize_of_an_elastic_trial),
        TEST(test_resize_of_a_waiting_trial),
        TEST(test_resize_without_polls),
        TEST(test_resize_refused),
        TEST(test_service_and_usage_are_kept),
        TEST(test_what_can_never_run_is_refused),
        TEST(test_too_large_for_now_is_told),
        TEST(test_one_process_for_several_slots),
        TEST(test_slots_of_a_command),
        TEST(test_population_larger_than_the_pool),
        TEST(test_slots_taken_away),
        TEST(test_pools_of_the_configuration),
        TEST(test_passes_are_coalesced),
        TEST(test_log_policies),
        TEST(test_lines_of_another_task),
        TEST(test_no_retries),
        TEST(test_rack),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
