// Commands and generic tasks: they start once, end with their machine, and obey together with the
// tasks below them; also after a restart of the master.
#include "tests/unit/master/support/core_fixture.h"

#include <stdio.h>
#include <string.h>

static struct principal owner(void)
{
    return as_user(OWNER, false);
}

// The id of the newest task, for SQL; valid for three calls.
static const char *newest(void)
{
    static char ids[4][80];
    static int next;
    char *id = ids[next++ % 4];
    snprintf(id, sizeof ids[0], "%s",
             stored("SELECT task_id FROM trials ORDER BY id DESC LIMIT 1"));
    return id;
}

static const char *start_of(const char *task, int epoch)
{
    static char ids[4][88];
    static int next;
    char *id = ids[next++ % 4];
    snprintf(id, sizeof ids[0], "%s.%d", task, epoch);
    return id;
}

static const char *run_command(int slots)
{
    char body[256];
    snprintf(body, sizeof body,
             "{\"config\":{\"entrypoint\":[\"sleep\",\"9\"],\"resources\":{\"slots\":%d}}}", slots);
    call_ok(core_command_create, owner(), NULL, body);
    return newest();
}

static const char *run_task(const char *more)
{
    char body[512];
    snprintf(body, sizeof body, "{\"config\":\"entrypoint: sleep 9\\nresources: {slots: 1}\\n\"%s}",
             more);
    call_ok(core_generic_create, owner(), NULL, body);
    return newest();
}

static const char *below(const char *parent, const char *more)
{
    char text[256];
    snprintf(text, sizeof text, ", \"parentId\": \"%s\"%s", parent, more);
    return run_task(text);
}

static void runs(const char *task, int epoch)
{
    report("agent-1", 4, "");
    report("agent-1", 4, task_in(start_of(task, epoch), "RUNNING", ""));
}

static void test_a_command_runs_once(void **state)
{
    (void)state;
    const char *task = run_command(2);
    assert_stored("SELECT kind || state FROM experiments", "COMMANDACTIVE");
    json_t *answer = sync_agent("agent-1", "session", 4, "");
    const json_t *wants = desired_task(answer, start_of(task, 1));
    const json_t *env = jget(wants, "env");
    assert_string_equal(jget_string(env, "DET_TASK_TYPE", ""), "COMMAND");
    assert_null(jget(env, "DET_TRIAL_ID"));
    assert_int_equal(json_array_size(jget(wants, "argv")), 2);
    json_decref(answer);
    report("agent-1", 4, task_in(start_of(task, 1), "RUNNING", ""));
    report("agent-1", 4, task_in(start_of(task, 1), "EXITED", EXIT_3));
    assert_stored("SELECT e.state || t.state || t.restarts FROM experiments e, trials t",
                  "ERRORERROR0");
    assert_stored("SELECT exit_code || outcome FROM allocations", "3FAILED");
    assert_stored("SELECT count(*) FROM allocations", "1");
}

static void test_its_machine_is_lost(void **state)
{
    (void)state;
    runs(run_command(1), 1);
    advance(20LL * SECOND);
    advance(60LL * SECOND);
    assert_stored("SELECT state FROM experiments", "ERROR");
    assert_stored("SELECT count(*) FROM allocations", "1");
    assert_stored("SELECT exit_reason LIKE 'agent agent-1 was lost%' FROM trials", "1");
}

#define FAULT(grade) ",\"fault\":{\"grade\":\"" grade "\",\"reason\":\"Xid 79, bad\"}"
#define UNSTARTED    "{\"rank\":0,\"pid\":0,\"exitCode\":null,\"signal\":null}"
#define FORKED       "{\"rank\":0,\"pid\":77,\"exitCode\":null,\"signal\":null}"

// Slot 0 reports a fault while the command is in that state; returns the command's end.
static void strike(const char *task, const char *fault, const char *in_state, const char *ranks)
{
    next_slot_0 = fault;
    report("agent-1", 4, task_in(start_of(task, 1), in_state, ""));
    if (ranks)
        report("agent-1", 4, task_in(start_of(task, 1), "EXITED", ranks));
    next_slot_0 = "";
}

static void test_a_fault_ends_it(void **state)
{
    (void)state;
    const char *task = run_command(1);
    runs(task, 1);
    strike(task, FAULT("ends"), "RUNNING", EXIT_3);
    assert_stored("SELECT state FROM experiments", "ERROR");
    assert_stored("SELECT count(*) FROM allocations", "1");
    assert_stored("SELECT exit_reason LIKE 'slot 0 of agent agent-1 (u0): Xid 79, bad; %it is not "
                  "started again%' FROM trials",
                  "1");
}

static void test_a_fault_before_it_began(void **state)
{
    (void)state;
    const char *task = run_command(1);
    report("agent-1", 4, "");
    strike(task, FAULT("ends"), "STARTING", UNSTARTED);
    assert_stored("SELECT state FROM experiments", "ACTIVE");
    assert_stored("SELECT state || ' ' || (placement LIKE '%\"slots\":[0]%') FROM allocations "
                  "WHERE epoch = 2",
                  "ASSIGNED 0");
    report("agent-1", 4, task_in(start_of(task, 2), "RUNNING", ""));
    report("agent-1", 4, task_in(start_of(task, 2), "EXITED", EXIT_0));
    assert_stored("SELECT state FROM experiments", "COMPLETED");
}

// Nobody knows what a lost rank has done that had been started.
static void test_a_fault_when_it_may_have_begun(void **state)
{
    (void)state;
    const char *task = run_command(1);
    report("agent-1", 4, "");
    strike(task, FAULT("ends"), "STARTING", FORKED);
    assert_stored("SELECT state FROM experiments", "ERROR");
}

static void test_a_fault_that_would_drain(void **state)
{
    (void)state;
    const char *task = run_command(1);
    runs(task, 1);
    strike(task, FAULT("drains"), "RUNNING", NULL);
    advance(7200LL * SECOND);
    runs(task, 1);
    assert_stored("SELECT state FROM allocations", "RUNNING");
}

// The program of this task drained itself and acknowledged it, so that was its end.
static void test_it_leaves_by_itself(void **state)
{
    (void)state;
    const char *task = run_command(1);
    runs(task, 1);
    struct principal program = as_task(start_of(task, 1));
    call_ok(core_allocation_pending_preemption, program, start_of(task, 1), "{}");
    call_ok(core_allocation_ack_preemption, program, start_of(task, 1), "{}");
    report("agent-1", 4, task_in(start_of(task, 1), "EXITED", EXIT_0));
    assert_stored("SELECT state FROM experiments", "COMPLETED");
    assert_stored("SELECT exit_code FROM allocations", "0");
}

static void test_a_restart_of_the_master(void **state)
{
    (void)state;
    const char *task = run_command(1);
    runs(task, 1);
    restart_core();
    report("agent-1", 4, task_in(start_of(task, 1), "RUNNING", ""));
    assert_int_equal(call_status(core_command_set_priority, owner(), task, "{\"priority\": 60}"),
                     200);
    assert_stored("SELECT priority FROM experiments", "60");
    assert_int_equal(call_code(core_task_delete, owner(), task, NULL), ERR_STATE);
    report("agent-1", 4, task_in(start_of(task, 1), "EXITED", EXIT_0));
    assert_stored("SELECT state FROM experiments", "COMPLETED");
    restart_core();
    assert_int_equal(call_status(core_experiment_kill, owner(), "1", NULL), 404);
    call_ok(core_command_kill, owner(), task, NULL); // a repetition
    assert_int_equal(call_code(core_command_set_priority, owner(), task, "{\"priority\": 50}"),
                     ERR_STATE);
    call_ok(core_task_delete, owner(), task, NULL);
    for (int i = 0; i < 1000 && strcmp(stored("SELECT count(*) FROM experiments"), "0"); i++)
        settle();
    assert_stored("SELECT count(*) FROM experiments", "0");
}

static void test_pause_and_go_on(void **state)
{
    (void)state;
    const char *task = run_task("");
    assert_int_equal(call_status(core_command_kill, owner(), task, NULL), 404);
    runs(task, 1);
    call_ok(core_task_pause, owner(), task, NULL);
    advance(1);
    call_ok(core_task_pause, owner(), task, NULL);
    json_t *answer = sync_agent("agent-1", "session", 4, task_in(start_of(task, 1), "RUNNING", ""));
    assert_string_equal(desired_action(answer, start_of(task, 1)), "KILL");
    json_decref(answer);
    report("agent-1", 4, task_in(start_of(task, 1), "EXITED", KILLED_9));
    assert_stored("SELECT e.state || t.state FROM experiments e, trials t", "PAUSEDPAUSED");
    restart_core();
    call_ok(core_task_unpause, owner(), task, NULL);
    runs(task, 2);
    assert_stored("SELECT group_concat(state) FROM allocations", "TERMINATED,RUNNING");
    report("agent-1", 4, task_in(start_of(task, 2), "EXITED", EXIT_0));
    assert_stored("SELECT state FROM experiments", "COMPLETED");
    assert_int_equal(call_code(core_task_unpause, owner(), task, NULL), ERR_STATE);
}

// A task that may start again is preempted in favour of another.
static void test_only_what_may_start_again_makes_room(void **state)
{
    (void)state;
    const char *once = run_task(", \"noPause\": true"), *again = run_task("");
    json_decref(sync_agent("agent-1", "session", 2, ""));
    advance(3600LL * SECOND);
    char tasks[512];
    snprintf(tasks, sizeof tasks, "%s,%s", task_in(start_of(once, 1), "RUNNING", ""),
             task_in(start_of(again, 1), "RUNNING", ""));
    json_decref(sync_agent("agent-1", "session-2", 2, tasks));
    struct principal admin = as_user(OWNER, true);
    call_ok(core_command_create, admin, NULL,
            "{\"config\":{\"entrypoint\":\"x\",\"resources\":{\"slots\":1,\"priority\":1}}}");
    advance(1);
    assert_stored("SELECT group_concat(coalesce(cause, '')) FROM allocations", ",PRIORITY,");
    assert_int_equal(call_code(core_task_pause, owner(), once, NULL), ERR_STATE);
}

#define STATES "SELECT group_concat(state) FROM (SELECT state FROM experiments ORDER BY id)"

static void test_trees(void **state)
{
    (void)state;
    const char *root = run_task("");
    const char *child = below(root, ", \"noPause\": true");
    const char *leaf = below(child, "");
    assert_stored("SELECT group_concat(length(ancestors) - length(replace(ancestors, '/', '')))"
                  " FROM experiments",
                  "0,1,2");
    restart_core();
    call_ok(core_task_pause, owner(), root, NULL);
    assert_stored(STATES, "PAUSED,ACTIVE,PAUSED");
    call_ok(core_task_unpause, owner(), root, NULL);
    call_ok(core_task_kill, owner(), child, "{}");
    assert_stored(STATES, "ACTIVE,CANCELED,CANCELED");
    leaf = below(root, "");
    assert_int_equal(call_status(core_task_kill, as_user(OTHER, false), leaf, NULL), 403);
    call_ok(core_task_kill, owner(), leaf, "{\"kill_from_root\": true}");
    assert_stored(STATES, "CANCELED,CANCELED,CANCELED,CANCELED");
    char body[256];
    snprintf(body, sizeof body, "{\"config\":\"entrypoint: x\",\"parentId\":\"%s\"}", root);
    assert_int_equal(call_status(core_generic_create, owner(), NULL, body), 409);
    assert_int_equal(call_status(core_generic_create, owner(), NULL,
                                 "{\"config\":\"entrypoint: x\",\"parentId\":\"1.1\"}"),
                     404);
    assert_int_equal(call_status(core_generic_create, owner(), NULL,
                                 "{\"config\":\"entrypoint: x\",\"inheritContext\":true}"),
                     400);
}

static void test_how_deep_tasks_lie(void **state)
{
    (void)state;
    const char *task = run_task("");
    for (int depth = 1; depth < 32; depth++)
        task = below(task, "");
    char body[256];
    snprintf(body, sizeof body, "{\"config\":\"entrypoint: x\",\"parentId\":\"%s\"}", task);
    assert_int_equal(call_status(core_generic_create, owner(), NULL, body), 413);
    assert_non_null(strstr(last_error, "32"));
}

static void test_logs_after_the_end(void **state)
{
    (void)state;
    const char *task = run_command(1);
    char body[512];
    runs(task, 1);
    report("agent-1", 4, task_in(start_of(task, 1), "EXITED", EXIT_0));
    for (int i = 0; i < 2; i++) { // also for a task that the master must look up
        snprintf(body, sizeof body, "{\"logs\":[{\"task_id\":\"%s\",\"log\":\"line %d\"}]}", task,
                 i);
        call_ok(core_task_logs, as_agent(), NULL, body);
        assert_non_null(strstr(logged(task), i ? "line 1" : "line 0"));
        restart_core();
    }
    assert_non_null(strstr(logged(task), "line 0"));
    snprintf(body, sizeof body, "{\"logs\":[{\"task_id\":\"%.12s\",\"log\":\"lost\"}]}", task);
    call_ok(core_task_logs, as_agent(), NULL, body); // of no task
    assert_null(strstr(logged(task), "lost"));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, cluster_setup, cluster_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_a_command_runs_once),
        TEST(test_its_machine_is_lost),
        TEST(test_a_fault_ends_it),
        TEST(test_a_fault_before_it_began),
        TEST(test_a_fault_when_it_may_have_begun),
        TEST(test_a_fault_that_would_drain),
        TEST(test_it_leaves_by_itself),
        TEST(test_a_restart_of_the_master),
        TEST(test_pause_and_go_on),
        TEST(test_only_what_may_start_again_makes_room),
        TEST(test_trees),
        TEST(test_how_deep_tasks_lie),
        TEST(test_logs_after_the_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
