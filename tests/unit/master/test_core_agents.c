// The identity of agents: two agents with one id, and agents that restart.
#include "tests/unit/master/support/core_fixture.h"

#include <stdio.h>
#include <string.h>

static int status_of(const char *instance, const char *session, const char *tasks)
{
    next_instance = instance;
    json_decref(call_end(sync_start("agent-1", session, 1, -1, tasks)));
    next_instance = "";
    return last_status;
}

static void test_two_agents_of_one_id(void **state)
{
    (void)state;
    char runs[256];
    snprintf(runs, sizeof runs, "%s", task_in("1.1.1", "RUNNING", ""));
    submit_slots(1, "");
    assert_int_equal(status_of("a.1", "first", ""), 200);
    assert_int_equal(status_of("a.1", "first", runs), 200);
    // The refusal of the second agent names the connected agent; the second takes nothing from the
    // first.
    assert_int_equal(status_of("b.1", "second", ""), 409);
    assert_non_null(strstr(last_error, "is connected, from 10.0.0.1 (agent-1) since 20"));
    assert_int_equal(status_of("b.1", "third", ""), 409);
    assert_int_equal(status_of("a.2", "a copy of its folder", ""), 409);
    assert_int_equal(status_of("a.1", "first", runs), 200);
    assert_stored("SELECT state FROM allocations", "RUNNING");
    // The first agent restarts: it is accepted at once, however it ended, and its old process is
    // refused.
    next_instance = "a.1";
    json_t *answer = sync_agent("agent-1", "again", 1, runs);
    struct core_call *parked =
        sync_start("agent-1", "again", 1, jget_int(answer, "version", 0), runs);
    settle();
    assert_false(call_is_done(parked));
    json_decref(answer);
    assert_int_equal(status_of("a.1", "killed, and again", runs), 200);
    json_decref(call_end(parked));
    assert_int_equal(last_status, 409);
    assert_int_equal(status_of("b.1", "second", ""), 409);
    // The same after a restart of the master, and with another agent that calls first.
    restart_core();
    assert_int_equal(status_of("b.1", "second", ""), 409);
    assert_non_null(strstr(last_error, "has tasks and does not answer; its id is free in "));
    assert_int_equal(status_of("a.1", "killed, and again", runs), 200);
    // The machine is rebooted: its agent is accepted as soon as the old one has fallen silent.
    advance(15 * SECOND);
    assert_int_equal(status_of("b.1", "second", ""), 409);
    assert_int_equal(status_of("a.2", "after the boot", runs), 200);
    assert_stored("SELECT state FROM allocations", "RUNNING");
    // The second agent may take the id of one that was given up.
    for (int i = 0; i < 6; i++)
        advance(10 * SECOND);
    assert_stored("SELECT outcome FROM allocations WHERE epoch = 1", "LOST");
    assert_int_equal(status_of("b.1", "second", ""), 200);
    assert_int_equal(status_of("a.2", "after the boot", ""), 409);
    // Without tasks nothing is lost to another agent.
    report("agent-2", 1, "");
    call_ok(core_experiment_kill, as_user(OWNER, false), "1", NULL);
    assert_int_equal(status_of("b.1", "second", task_in("1.1.2", "EXITED", KILLED_9)), 200);
    advance(15 * SECOND);
    assert_int_equal(status_of("a.2", "its turn", ""), 200);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, cluster_setup, cluster_teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_two_agents_of_one_id),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
