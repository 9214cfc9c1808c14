// Agents and their tasks: gangs over several machines, loss and return, rendezvous of ranks, and
// the settings of operators. test_core_cluster_restart.c restarts the master.
#include "tests/unit/master/support/core_fixture.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/limits.h"

static const char running_2[] = "{\"allocationId\":\"1.1.1\",\"state\":\"RUNNING\",\"ranks\":[]}";

// --- gangs over machines -------------------------------------------------------------------------

static void test_gang_over_two_agents(void **state)
{
    (void)state;
    submit_slots(3, "");
    report("agent-1", 2, "");
    json_t *answer = sync_agent("agent-2", "session", 2, "");
    json_t *task = desired_task(answer, "1.1.1");
    assert_non_null(task);
    assert_string_equal(jget_string(jget(task, "env"), "WORLD_SIZE", ""), "3");
    assert_string_equal(jget_string(jget(task, "env"), "MASTER_ADDR", ""), "10.0.0.1");
    assert_string_equal(jget_string(jget(task, "env"), "MUSTER_ADDRESS", ""), "10.0.0.2");
    json_t *rank = json_array_get(jget(task, "ranks"), 0);
    assert_int_equal(jget_int(rank, "rank", -1), 2); // ranks 0 and 1 are on agent-1
    assert_int_equal(jget_int(rank, "localRank", -1), 0);
    json_decref(answer);
    assert_stored("SELECT placement FROM allocations",
                  "[{\"agent\":\"agent-1\",\"slots\":[0,1],\"ranks\":[0,1]},"
                  "{\"agent\":\"agent-2\",\"slots\":[0],\"ranks\":[2]}]");
    report("agent-1", 2, task_in("1.1.1", "RUNNING", ""));
    assert_stored("SELECT state FROM allocations", "STARTING");
    report("agent-2", 2, task_in("1.1.1", "RUNNING", ""));
    assert_stored("SELECT state FROM allocations", "RUNNING");
    // One machine fails: the other is ended, and then the gang starts again.
    report("agent-2", 2, task_in("1.1.1", "EXITED", "{\"rank\":2,\"exitCode\":1}"));
    answer = sync_agent("agent-1", "session", 2, task_in("1.1.1", "RUNNING", ""));
    assert_string_equal(desired_action(answer, "1.1.1"), "KILL");
    assert_null(desired_task(answer, "1.1.2"));
    json_decref(answer);
    report("agent-1", 2, task_in("1.1.1", "EXITED", KILLED_9 "," KILLED_9));
    assert_stored("SELECT exit_reason FROM trials", "rank 2: exit 1");
    assert_stored("SELECT restarts FROM trials", "1");
    assert_stored("SELECT state FROM allocations WHERE epoch = 2", "ASSIGNED");
}

#define NATIVE                                                                                     \
    "name: native\nsearcher: {name: single, metric: validation_loss}\n"                            \
    "trainer: {model: {family: gpt, layers: 1, heads: 1, width: 8, context: 8}, "                  \
    "data: {format: bytes, path: x}, global_batch_size: 8, micro_batch_size: 1, steps: 1, "        \
    "optimizer: {name: sgd, learning_rate: 1.0}}\n"

static void test_native_gang_over_two_agents(void **state)
{
    (void)state;
    report("agent-1", 2, "");
    report("agent-2", 2, "");
    assert_int_equal(submit(NATIVE "resources: {slots_per_trial: 3, is_single_node: true}\n", true),
                     1);
    assert_int_equal(submit(NATIVE "resources: {slots_per_trial: 2}\n", true), 2);
    assert_int_equal(submit(NATIVE "resources: {slots_per_trial: 2}\n", true), 3);
    json_t *why = ask(core_experiment_why, as_user(OTHER, false), "1", NULL, NULL);
    assert_non_null(strstr(jget_string(why, "reason", ""), "3 slots on one machine"));
    json_decref(why);
    // A gang that fits on one machine is not spread.
    assert_stored("SELECT placement FROM allocations WHERE id = '3.3.1'",
                  "[{\"agent\":\"agent-2\",\"slots\":[0,1],\"ranks\":[0,1]}]");
    report("agent-3", 1, "");
    report("agent-4", 2, "");
    assert_int_equal(submit(NATIVE "resources: {slots_per_trial: 3}\n", true), 4);
    json_t *answer = sync_agent("agent-3", "session", 1, "");
    const json_t *env = jget(desired_task(answer, "4.4.1"), "env");
    assert_string_equal(jget_string(env, "MASTER_ADDR", ""), "10.0.0.4");
    assert_string_equal(jget_string(env, "MUSTER_ADDRESS", ""), "10.0.0.3");
    json_decref(answer);
}

#define EXIT_6 "EXITED", "{\"rank\":0,\"exitCode\":6}"

// The lost machine is the cause, although the peers of its ranks notice the loss first.
static void test_native_ranks_that_lost_their_peers(void **state)
{
    (void)state;
    report("agent-1", 1, "");
    report("agent-2", 1, "");
    assert_int_equal(submit(NATIVE "resources: {slots_per_trial: 2}\n", true), 1);
    report("agent-1", 1, task_in("1.1.1", EXIT_6));
    report("agent-2", 1, task_in("1.1.1", "EXITED", "{\"rank\":1,\"signal\":11}"));
    assert_stored("SELECT outcome || restarts || trials.exit_reason FROM allocations, trials "
                  "WHERE epoch = 1",
                  "FAILED1rank 1: signal 11");
    report("agent-1", 1, task_in("1.1.2", EXIT_6));
    for (int i = 0; i < 6; i++) { // agent-2 is silent, and is given up
        report("agent-1", 1, "");
        advance(8 * SECOND);
    }
    assert_stored("SELECT outcome || restarts FROM allocations, trials WHERE epoch = 2", "LOST1");
    report("agent-2", 1, "");
    report("agent-1", 1, task_in("1.1.3", EXIT_6));
    report("agent-2", 1, task_in("1.1.3", "EXITED", "{\"rank\":1,\"exitCode\":6}"));
    assert_stored("SELECT outcome || restarts FROM allocations, trials WHERE epoch = 3", "PEER2");
}

static void test_one_process_per_machine(void **state)
{
    (void)state;
    assert_int_equal(
        submit("name: x\nentrypoint: [prog, arg]\nsearcher: {name: single, metric: m}\n"
               "resources: {slots_per_trial: 2}\nenvironment: "
               "{environment_variables: [A=b=c, DET_TRIAL_ID=9]}\n",
               true),
        1);
    json_t *answer = sync_agent("agent-1", "session", 2, "");
    json_t *task = desired_task(answer, "1.1.1");
    assert_int_equal(json_array_size(jget(task, "ranks")), 1);
    json_t *rank = json_array_get(jget(task, "ranks"), 0);
    assert_int_equal(json_array_size(jget(rank, "slots")), 2);
    assert_string_equal(json_string_value(json_array_get(jget(task, "argv"), 1)), "arg");
    assert_string_equal(jget_string(jget(task, "env"), "A", ""), "b=c");
    assert_string_equal(jget_string(jget(task, "env"), "DET_TRIAL_ID", ""),
                        "1"); // set by the master
    assert_string_equal(jget_string(jget(task, "env"), "WORLD_SIZE", ""), "1");
    json_decref(answer);
}

static void test_files_are_fetched_where_there_are_any(void **state)
{
    (void)state;
    static const char none[] = "{\"activate\": true, \"config\": \"name: n\\nentrypoint: prog\\n"
                               "searcher: {name: single, metric: m}\"}";
    submit_slots(1, "");
    json_decref(ask(core_experiment_create, as_user(OWNER, false), NULL, NULL, none));
    json_t *answer = sync_agent("agent-1", "session", 2, "");
    const char *from = jget_string(desired_task(answer, "1.1.1"), "contextUrl", "");
    char url[128];
    snprintf(url, sizeof url, "/api/v1/tasks/%s/context_directory", full_id("1.1"));
    assert_string_equal(from, url);
    assert_string_equal(jget_string(desired_task(answer, "2.2.1"), "contextUrl", "none"), "none");
    json_decref(answer);
}

static void test_no_slots(void **state)
{
    (void)state;
    submit_slots(0, "");
    json_t *answer = sync_agent("agent-1", "session", 1, "");
    assert_int_equal(json_array_size(jget(desired_task(answer, "1.1.1"), "ranks")), 1);
    json_decref(answer);
    restart_core();
    report("agent-1", 1, task_in("1.1.1", "RUNNING", ""));
    report("agent-1", 1, task_in("1.1.1", "EXITED", EXIT_0));
    assert_stored("SELECT state FROM experiments", "COMPLETED");
}

// --- loss and return -----------------------------------------------------------------------------

static void test_agent_lost(void **state)
{
    (void)state;
    submit_slots(1, "");
    report("agent-1", 1, "");
    report("agent-1", 1, task_in("1.1.1", "RUNNING", ""));
    report("agent-2", 1, "");
    advance(11 * SECOND); // agent-2 falls silent
    report("agent-2", 1, "");
    json_t *answer = ask(core_agent, as_user(OTHER, false), "agent-1", NULL, NULL);
    assert_false(jget_bool(jget(answer, "agent"), "connected", true));
    json_decref(answer);
    assert_stored("SELECT state FROM allocations", "RUNNING");
    for (int i = 0; i < 4; i++) {
        advance(8 * SECOND);
        report("agent-2", 1, "");
    }
    assert_stored("SELECT outcome FROM allocations WHERE epoch = 1", "LOST");
    assert_stored("SELECT restarts FROM trials", "0");
    assert_stored("SELECT json_extract(placement, '$[0].agent') FROM allocations WHERE epoch = 2",
                  "agent-2");
    // The agent comes back with the old task, which must end before another task gets its slot.
    submit_slots(1, "");
    answer = sync_agent("agent-1", "session", 1, task_in("1.1.1", "RUNNING", ""));
    assert_null(desired_task(answer, "1.1.1"));
    assert_null(desired_task(answer, "2.2.1"));
    assert_false(forgotten(answer, "1.1.1"));
    json_decref(answer);
    answer = sync_agent("agent-1", "session", 1, task_in("1.1.1", "EXITED", KILLED_9));
    assert_true(forgotten(answer, "1.1.1"));
    assert_string_equal(desired_action(answer, "2.2.1"), "RUN");
    json_decref(answer);
    assert_int_equal(call_status(core_trial_metrics, as_task("1.1.1"), "1", "{}"), 403);
}

static int64_t shown(const char *lost) // number of agents in a list
{
    next_query_value = lost;
    json_t *answer = ask(core_agents, as_user(OTHER, false), NULL, NULL, NULL);
    int64_t total = jget_int(jget(answer, "pagination"), "total", -1);
    json_decref(answer);
    return total;
}

static json_t *agent_1(void)
{
    json_t *answer = ask(core_agent, as_user(OTHER, false), "agent-1", NULL, NULL);
    json_t *agent = json_incref(json_object_get(answer, "agent"));
    json_decref(answer);
    return agent;
}

// A lost agent is listed with its tasks until it comes back, is forgotten, or three days are over;
// also after a restart of the master.
static void test_lost_agent_stays_to_be_seen(void **state)
{
    (void)state;
    submit_slots(1, "");
    report("agent-1", 2, "");
    report("agent-1", 2, task_in("1.1.1", "RUNNING", ""));
    assert_int_equal(call_status(core_agent_forget, as_user(OWNER, true), "agent-1", NULL), 409);
    advance(11 * SECOND);
    assert_int_equal(shown(NULL), 1); // it may still come back
    assert_int_equal(call_status(core_agent_forget, as_user(OWNER, true), "agent-1", NULL), 409);
    advance(31 * SECOND);
    assert_int_equal(shown(NULL), 0);
    assert_int_equal(shown("1"), 1);
    for (int round = 0; round < 2; round++, restart_core()) {
        json_t *agent = agent_1(), *run = json_array_get(json_object_get(agent, "ran"), 0);
        assert_true(jget_bool(agent, "lost", false));
        assert_string_equal(jget_string(run, "allocationId", ""), full_id("1.1.1"));
        assert_int_equal(json_array_size(json_object_get(run, "slots")), 1);
        json_decref(agent);
    }
    report("agent-1", 2, ""); // it is back
    json_t *agent = agent_1();
    assert_false(jget_bool(agent, "lost", true));
    assert_null(json_object_get(agent, "ran"));
    json_decref(agent);
    for (int i = 0; i < 2; i++)
        advance(31 * SECOND);
    assert_int_equal(shown("1"), 1);
    advance((int64_t)LIMIT_LOST_AGENT_H * 3600 * SECOND);
    assert_int_equal(shown("1"), 0);
    assert_int_equal(call_status(core_agent_forget, as_user(OTHER, false), "agent-1", NULL), 403);
    call_ok(core_agent_forget, as_user(OWNER, true), "agent-1", NULL);
    assert_int_equal(call_status(core_agent_forget, as_user(OWNER, true), "agent-1", NULL), 404);
    assert_stored("SELECT count(*) FROM agents", "0");
    restart_core();
    report("agent-1", 1, ""); // a new agent with its name
    assert_int_equal(shown(NULL), 1);
}

static void test_short_absence(void **state)
{
    (void)state;
    submit_slots(1, "");
    report("agent-1", 1, "");
    report("agent-1", 1, task_in("1.1.1", "RUNNING", ""));
    advance(25 * SECOND);
    report("agent-1", 1, task_in("1.1.1", "RUNNING", ""));
    advance(9 * SECOND);
    report("agent-1", 1, task_in("1.1.1", "RUNNING", ""));
    advance(9 * SECOND);
    assert_stored("SELECT group_concat(state) FROM allocations", "RUNNING");
}

static void assert_agent(bool connected, bool enabled, bool draining)
{
    json_t *answer = ask(core_agent, as_user(OWNER, false), "agent-1", NULL, NULL);
    const json_t *agent = jget(answer, "agent"), *slot = jget_path(agent, "slots.0");
    assert_int_equal(jget_bool(agent, "connected", !connected), connected);
    assert_int_equal(jget_bool(agent, "enabled", !enabled), enabled);
    assert_int_equal(jget_bool(agent, "draining", !draining), draining);
    assert_int_equal(jget_bool(slot, "enabled", !enabled), enabled);
    assert_int_equal(jget_bool(slot, "draining", !draining), draining);
    json_decref(answer);
}

static void test_connection_closed(void **state)
{
    (void)state;
    json_t *answer = sync_agent("agent-1", "session", 1, "");
    int64_t version = jget_int(answer, "version", 0);
    json_decref(answer);
    struct core_call *poll = sync_start("agent-1", "session", 1, version, "");
    settle();
    assert_false(call_is_done(poll));
    atomic_store(&poll->rq.client_gone, true);
    core_client_gone(cl.core, &poll->rq);
    json_decref(call_end(poll));
    core_client_gone(cl.core, (struct request *)&poll); // of a call that ended long ago
    assert_agent(true, false, true);                    // shown at once
    advance(SECOND / 2);
    assert_agent(true, false, true);
    advance(SECOND); // a live agent would have called again
    assert_agent(false, false, true);
    report("agent-1", 1, "");
    assert_agent(true, true, false);
}

static void test_idle_poll(void **state)
{
    (void)state;
    json_t *answer = sync_agent("agent-1", "session", 1, "");
    int64_t version = jget_int(answer, "version", 0);
    json_decref(answer);
    struct core_call *poll = sync_start("agent-1", "session", 1, version, "");
    advance(3 * SECOND);
    assert_false(call_is_done(poll));
    advance(2 * SECOND);
    answer = call_end(poll);
    assert_int_equal(jget_int(answer, "version", 0), version); // nothing new
    json_decref(answer);
    poll = sync_start("agent-1", "session", 1, version, "");
    submit_slots(1, "");
    answer = call_end(poll); // answered when it gets a task
    assert_int_not_equal(jget_int(answer, "version", 0), version);
    assert_non_null(desired_task(answer, "1.1.1"));
    json_decref(answer);
    struct core_call *first = sync_start("agent-1", "session", 1, version + 100, "");
    struct core_call *second = sync_start("agent-1", "session", 1, version, "");
    json_decref(call_end(first)); // each gets some answer
    json_decref(call_end(second));
}

// A new process of the agent: reported tasks run on, missing tasks are gone.
static void test_new_session(void **state)
{
    (void)state;
    submit_slots(1, "");
    submit_slots(1, "");
    submit_slots(1, "");
    report("agent-1", 3, "");
    char both[512];
    snprintf(both, sizeof both, "%s,%s", task_in("1.1.1", "RUNNING", ""),
             task_in("2.2.1", "RUNNING", ""));
    report("agent-1", 3, both);
    json_t *answer = sync_agent("agent-1", "other", 3, task_in("1.1.1", "RUNNING", ""));
    assert_string_equal(desired_action(answer, "1.1.1"), "RUN");
    assert_string_equal(desired_action(answer, "2.2.2"), "RUN"); // once more
    assert_string_equal(desired_action(answer, "3.3.1"), "RUN"); // not begun: it stays desired
    json_decref(answer);
    assert_stored("SELECT outcome FROM allocations WHERE id = '2.2.1'", "LOST");
    assert_stored("SELECT restarts FROM trials WHERE id = 2", "0");
    // The old process is refused while the new one lives.
    json_decref(call_end(sync_start("agent-1", "session", 3, -1, both)));
    assert_int_equal(last_status, 409);
    advance(15 * SECOND);
    json_decref(call_end(sync_start("agent-1", "session", 3, -1, both)));
    assert_int_equal(last_status, 200);
}

static void test_other_slots(void **state)
{
    (void)state;
    submit_slots(2, "");
    report("agent-1", 2, "");
    report("agent-1", 2, task_in("1.1.1", "RUNNING", ""));
    json_t *answer = sync_agent("agent-1", "other", 1, task_in("1.1.1", "RUNNING", ""));
    assert_null(desired_task(answer, "1.1.1")); // it must end: the slots have changed
    json_decref(answer);
    assert_stored("SELECT outcome FROM allocations WHERE epoch = 1", "LOST");
    json_t *why = ask(core_experiment_why, as_user(OWNER, false), "1", NULL, NULL);
    json_decref(why);
    json_decref(sync_agent("agent-1", "other", 1, task_in("1.1.1", "EXITED", KILLED_9)));
    why = ask(core_experiment_why, as_user(OWNER, false), "1", NULL, NULL);
    assert_non_null(strstr(jget_string(why, "reason", ""), "asks for 2 slots"));
    assert_non_null(strstr(jget_string(why, "reason", ""), "1 in all"));
    json_decref(why);
}

static void test_bad_syncs(void **state)
{
    (void)state;
    assert_int_equal(call_status(core_agent_poll, as_agent(), "a b", "{\"session\":\"x\"}"), 400);
    assert_int_equal(call_status(core_agent_poll, as_agent(), "a", "{}"), 400);
    assert_int_equal(call_status(core_agent_poll, as_agent(), "a", "{\"session\":\"x\"}"), 400);
    assert_int_equal(
        call_status(core_agent_poll, as_agent(), "a", "{\"session\":\"x\",\"slots\":[{\"id\":1}]}"),
        400);
    report("agent-1", 1, "{\"allocationId\":\"9.9.9\",\"state\":\"DREAMING\"},{}");
}

// The agent is lost while its gang is still ending elsewhere: its slot is free when its own process
// has ended, not when the gang has.
static void test_part_comes_back_before_the_gang_has_ended(void **state)
{
    (void)state;
    submit_slots(2, "");
    report("agent-1", 1, "");
    report("agent-2", 1, "");
    report("agent-1", 1, running_2);
    report("agent-2", 1, running_2);
    for (int i = 0; i < 6; i++) {
        advance(8 * SECOND);
        report("agent-2", 1, running_2);
    }
    assert_stored("SELECT outcome FROM allocations", "LOST");
    json_t *answer = sync_agent("agent-1", "session", 1, running_2);
    assert_string_equal(desired_action(answer, "1.1.1"), "KILL");
    json_decref(answer);
    report("agent-2", 1, task_in("1.1.1", "EXITED", KILLED_9));
    assert_stored("SELECT state FROM allocations WHERE epoch = 2", "QUEUED");
    report("agent-1", 1, task_in("1.1.1", "EXITED", KILLED_9));
    assert_stored("SELECT state FROM allocations WHERE epoch = 2", "ASSIGNED");
}

// A report from before the agent had begun a task says nothing about that task.
static void test_late_report_frees_nothing(void **state)
{
    (void)state;
    submit_slots(1, "");
    json_t *answer = sync_agent("agent-1", "session", 1, "");
    int64_t version = jget_int(answer, "version", 0);
    json_decref(answer);
    advance(11 * SECOND);
    advance(31 * SECOND);
    assert_stored("SELECT outcome FROM allocations WHERE epoch = 1", "LOST");
    json_decref(call_end(sync_start("agent-1", "session", 1, version, running_2)));
    assert_stored("SELECT state FROM allocations WHERE epoch = 2", "QUEUED");
    json_decref(call_end(sync_start("agent-1", "session", 1, version - 1, "")));
    assert_stored("SELECT state FROM allocations WHERE epoch = 2", "QUEUED");
    json_decref(call_end(
        sync_start("agent-1", "session", 1, version, task_in("1.1.1", "EXITED", KILLED_9))));
    assert_stored("SELECT state FROM allocations WHERE epoch = 2", "ASSIGNED");
}

// --- rendezvous ----------------------------------------------------------------------------------

static struct core_call *gather(const char *name, int peers, const char *data)
{
    char body[256];
    snprintf(body, sizeof body, "{\"requestUuid\":\"%s\",\"numPeers\":%d,\"data\":%s}", name, peers,
             data);
    return call_start(core_allocation_all_gather, as_task("1.1.1"), "1.1.1", NULL, body);
}

static void gathered(struct core_call *call, const char *expected)
{
    json_t *answer = call_end(call);
    char *text = json_text(answer);
    assert_string_equal(text, expected);
    free(text);
    json_decref(answer);
}

static void test_all_gather(void **state)
{
    (void)state;
    submit_slots(2, "");
    report("agent-1", 2, "");
    report("agent-1", 2, running_2);
    struct core_call *one = gather("0:10", 3, "\"ten\""), *two = gather("0:9", 3, "{\"a\":9}");
    settle();
    assert_false(call_is_done(one));
    advance(21 * SECOND);
    json_decref(call_end(one));
    assert_int_equal(last_status, 504);
    json_decref(call_end(two));
    report("agent-1", 2, running_2);
    one = gather("0:10", 3, "\"ten\""); // a repetition
    two = gather("0:9", 3, "{\"a\":9}");
    struct core_call *twice = gather("0:9", 3, "{\"a\":9}");
    struct core_call *three = gather("0:0", 3, "null");
    static const char all[] = "{\"data\":[null,{\"a\":9},\"ten\"]}"; // sorted by rank
    gathered(one, all);
    gathered(two, all);
    gathered(twice, all);
    gathered(three, all);
    gathered(gather("0:9", 3, "{\"a\":9}"), all); // its answer was lost
    one = gather("1:1", 2, "1");
    two = gather("1:0", 2, "0"); // the next round
    gathered(one, "{\"data\":[0,1]}");
    gathered(two, "{\"data\":[0,1]}");
    one = gather("b-uuid", 2, "2"); // names in the style of Determined's library
    two = gather("a-uuid", 2, "1");
    gathered(one, "{\"data\":[1,2]}");
    gathered(two, "{\"data\":[1,2]}");
    one = gather("c-uuid", 2, "3"); // an unknown name begins the next round
    two = gather("d-uuid", 2, "4");
    gathered(one, "{\"data\":[3,4]}");
    gathered(two, "{\"data\":[3,4]}");
    one = gather("9:0", 2, "0");
    report("agent-1", 2, task_in("1.1.1", "EXITED", EXIT_3));
    json_decref(call_end(one));
    assert_int_equal(last_status, 403);
    json_decref(call_end(gather("9:0", 2, "0")));
    assert_string_equal(last_error, "allocation has ended");
}

// The master ends when one rank has its answer and the other has not; the first goes on and never
// asks again.
static void test_all_gather_cut_in_two(void **state)
{
    (void)state;
    submit_slots(2, "");
    report("agent-1", 2, "");
    report("agent-1", 2, running_2);
    struct core_call *one = gather("0:0", 2, "0"), *two = gather("0:1", 2, "1");
    gathered(one, "{\"data\":[0,1]}");
    gathered(two, "{\"data\":[0,1]}");
    restart_core();
    report("agent-1", 2, running_2);
    one = gather("1:0", 2, "0");
    two = gather("0:1", 2, "1");
    advance(21 * SECOND);
    json_decref(call_end(one));
    json_decref(call_end(two));
    json_t *answer = sync_agent("agent-1", "session", 2, running_2);
    assert_string_equal(desired_action(answer, "1.1.1"), "KILL");
    json_decref(answer);
    report("agent-1", 2, task_in("1.1.1", "EXITED", EXIT_3));
    assert_stored("SELECT outcome || restarts FROM allocations, trials WHERE epoch = 1", "LOST0");
}

static void test_gather_limits(void **state)
{
    (void)state;
    submit_slots(1, "");
    report("agent-1", 1, "");
    json_decref(call_end(gather("", 1, "0")));
    assert_int_equal(last_status, 400);
    json_decref(call_end(gather("x", 0, "0")));
    assert_int_equal(last_status, 400);
    char *large = xcalloc(70000, 1);
    snprintf(large, 70000, "{\"requestUuid\":\"x\",\"numPeers\":1,\"data\":\"%*s\"}", 66000, "");
    assert_int_equal(call_status(core_allocation_all_gather, as_task("1.1.1"), "1.1.1", large),
                     413);
    free(large);
}

static void test_rendezvous(void **state)
{
    (void)state;
    submit_slots(2, "");
    report("agent-1", 1, "");
    json_t *answer = sync_agent("agent-2", "session", 1, "");
    char *id =
        xstrdup(jget_string(jget(desired_task(answer, "1.1.1"), "env"), "DET_RESOURCES_ID", ""));
    json_decref(answer);
    struct core_call *waits =
        call_start(core_allocation_rendezvous, as_task("1.1.1"), "1.1.1", id, NULL);
    report("agent-2", 1, running_2);
    assert_false(call_is_done(waits));
    report("agent-1", 1, running_2);
    answer = call_end(waits);
    const json_t *info = jget(answer, "rendezvousInfo");
    assert_int_equal(jget_int(info, "rank", -1), 1);
    assert_string_equal(json_string_value(json_array_get(jget(info, "addresses"), 0)), "10.0.0.1");
    assert_int_equal(json_integer_value(json_array_get(jget(info, "slots"), 1)), 1);
    json_decref(answer);
    json_decref(ask(core_allocation_rendezvous, as_task("1.1.1"), "1.1.1", "none", NULL));
    assert_int_equal(last_status, 404);
    json_decref(ask(core_allocation_rendezvous, as_task("7.7.7"), "7.7.7", id, NULL));
    assert_int_equal(last_status, 403);
    free(id);
}

static void assert_rendezvous(const json_t *answer, const char *expected)
{
    char *text = json_text(jget(desired_task(answer, "1.1.1"), "rendezvous"));
    assert_string_equal(text, expected);
    free(text);
}

static void test_every_machine_gets_the_rendezvous(void **state)
{
    (void)state;
    submit_slots(3, "");
    report("agent-1", 2, "");
    report("agent-2", 1, "");
    restart_core(); // forgets the addresses
    json_t *answer = sync_agent("agent-2", "session", 1, "");
    assert_null(desired_task(answer, "1.1.1"));
    int64_t seen = jget_int(answer, "version", 0);
    json_decref(answer);
    struct core_call *waits = sync_start("agent-2", "session", 1, seen, "");
    settle();
    assert_false(call_is_done(waits));
    answer = sync_agent("agent-1", "session", 2, "");
    assert_rendezvous(answer,
                      "{\"addresses\":[\"10.0.0.1\",\"10.0.0.2\"],\"rank\":0,\"slots\":[2,1]}");
    json_decref(answer);
    answer = call_end(waits);
    assert_rendezvous(answer,
                      "{\"addresses\":[\"10.0.0.1\",\"10.0.0.2\"],\"rank\":1,\"slots\":[2,1]}");
    json_decref(answer);
}

// It never tells its address, and its peer does not wait for that for ever.
static void test_a_machine_that_never_calls_again(void **state)
{
    (void)state;
    submit_slots(3, "");
    report("agent-1", 2, "");
    report("agent-2", 1, "");
    restart_core();
    for (int i = 0; i < 5; i++) { // agent-2 is given up
        report("agent-1", 2, "");
        advance(8 * SECOND);
    }
    json_t *answer = sync_agent("agent-1", "session", 2, "");
    assert_string_equal(desired_action(answer, "1.1.1"), "KILL");
    json_decref(answer);
    report("agent-1", 2, task_in("1.1.1", "EXITED", ""));
    assert_stored("SELECT group_concat(state) FROM allocations", "TERMINATED,QUEUED");
    assert_stored("SELECT outcome || restarts FROM allocations, trials WHERE epoch = 1", "LOST0");
}

static void test_preemption_poll_ends(void **state)
{
    (void)state;
    submit_slots(1, "");
    report("agent-1", 1, "");
    struct core_call *poll =
        call_start(core_allocation_preemption, as_task("1.1.1"), "1.1.1", NULL, NULL);
    advance(26 * SECOND); // LIMIT_LONG_POLL_S
    json_t *answer = call_end(poll);
    assert_false(jget_bool(answer, "preempt", true));
    json_decref(answer);
}

// --- operators -----------------------------------------------------------------------------------

static void test_disable(void **state)
{
    (void)state;
    submit_slots(1, "");
    report("agent-1", 2, "");
    report("agent-1", 2, task_in("1.1.1", "RUNNING", ""));
    assert_int_equal(call_status(core_agent_disable, as_user(OWNER, false), "agent-1", "{}"), 403);
    call_ok(core_agent_disable, as_user(OWNER, true), "agent-1", "{\"drain\":true}");
    struct core_call *poll =
        call_start(core_allocation_preemption, as_task("1.1.1"), "1.1.1", NULL, NULL);
    assert_int_equal(submit_slots(1, ""), 2);
    assert_false(call_is_done(poll)); // a running task may end by itself
    assert_stored("SELECT state FROM allocations WHERE trial_id = 2", "QUEUED");
    restart_core();
    json_decref(call_end(poll));
    assert_int_equal(last_status, 503);
    report("agent-1", 2, task_in("1.1.1", "RUNNING", ""));
    assert_stored("SELECT state FROM allocations WHERE trial_id = 2", "QUEUED");
    for (int i = 0; i < 2; i++) // a repetition changes nothing
        call_ok(core_agent_disable, as_user(OWNER, true), "agent-1", "{}");
    json_t *answer = sync_agent("agent-1", "session", 2, task_in("1.1.1", "RUNNING", ""));
    assert_string_equal(desired_action(answer, "1.1.1"), "KILL");
    json_decref(answer);
    const char *said = strstr(logged("1.1"), ": agent agent-1 was disabled: SIGTERM now, SIGKILL");
    assert_non_null(said);
    assert_null(strstr(strchr(said, '\n'), "was disabled"));
    report("agent-1", 2, task_in("1.1.1", "EXITED", EXIT_0));
    assert_stored("SELECT state || restarts FROM trials WHERE id = 1", "ACTIVE0");
    json_decref(ask(core_slot_disable, as_user(OWNER, true), "agent-1", "0", "{}"));
    assert_stored("SELECT disabled_slots FROM agents", "[0]");
    call_ok(core_agent_enable, as_user(OWNER, true), "agent-1", NULL);
    assert_stored("SELECT count(*) FROM allocations WHERE state = 'ASSIGNED'", "1");
    assert_stored("SELECT json_extract(placement, '$[0].slots[0]') FROM allocations "
                  "WHERE state = 'ASSIGNED'",
                  "1");
    json_decref(ask(core_slot_enable, as_user(OWNER, true), "agent-1", "0", "{}"));
    assert_stored("SELECT count(*) FROM allocations WHERE state = 'ASSIGNED'", "2");
    json_decref(ask(core_slot_enable, as_user(OWNER, true), "agent-1", "2", "{}"));
    assert_int_equal(last_status, 404);
}

// --- faults --------------------------------------------------------------------------------------

#define FAULT(grade, time)                                                                         \
    ",\"fault\":{\"grade\":\"" grade "\",\"reason\":\"Xid 64, bad\",\"time\":\"" time "\"}"
#define ONE_TIME     "2026-11-22T01:00:00Z"
#define ANOTHER_TIME "2026-11-22T02:00:00Z"

static bool slot_0_is_enabled(void)
{
    json_t *answer = ask(core_slot, as_user(OWNER, true), "agent-1", "0", NULL);
    bool enabled = jget_bool(jget(answer, "slot"), "enabled", false);
    json_decref(answer);
    return enabled;
}

static void run_one_on_slot_0(void)
{
    submit_slots(1, "");
    report("agent-1", 1, "");
    report("agent-1", 1, task_in("1.1.1", "RUNNING", ""));
    poll_once("1.1.1");
}

static void test_a_noted_fault(void **state)
{
    (void)state;
    run_one_on_slot_0();
    next_slot_0 = FAULT("noted", ONE_TIME);
    report("agent-1", 1, task_in("1.1.1", "RUNNING", ""));
    assert_true(slot_0_is_enabled());
    assert_stored("SELECT state FROM allocations", "RUNNING");
    next_slot_0 = "";
}

static void test_a_fault_that_drains(void **state)
{
    (void)state;
    run_one_on_slot_0();
    next_slot_0 = FAULT("drains", ONE_TIME);
    report("agent-1", 1, task_in("1.1.1", "RUNNING", ""));
    assert_false(slot_0_is_enabled());
    json_t *answer = ask(core_allocation_preemption, as_task("1.1.1"), "1.1.1", NULL, NULL);
    assert_true(jget_bool(answer, "preempt", false));
    json_decref(answer);
    call_ok(core_allocation_ack_preemption, as_task("1.1.1"), "1.1.1", NULL);
    report("agent-1", 1, task_in("1.1.1", "EXITED", EXIT_0));
    assert_stored("SELECT exit_reason FROM allocations WHERE id = '1.1.1'",
                  "slot 0 of agent agent-1 (u0): Xid 64, bad");
    assert_stored("SELECT state FROM allocations WHERE id = '1.1.2'", "QUEUED");
    next_slot_0 = "";
    report("agent-1", 1, ""); // repaired
    assert_true(slot_0_is_enabled());
    assert_stored("SELECT state FROM allocations WHERE id = '1.1.2'", "ASSIGNED");
}

// This is nobody's failure: the trial has no restart left.
static void test_a_fault_that_ends(void **state)
{
    (void)state;
    run_one_on_slot_0();
    next_slot_0 = FAULT("ends", ONE_TIME);
    report("agent-1", 1, task_in("1.1.1", "RUNNING", ""));
    assert_stored("SELECT state || ' ' || outcome FROM allocations", "TERMINATING LOST");
    report("agent-1", 1, task_in("1.1.1", "EXITED", EXIT_3));
    assert_stored("SELECT state || ' ' || restarts FROM trials", "ACTIVE 0");
    next_slot_0 = "";
}

// The fault stays overruled over a restart, until the slot reports another fault.
static void test_an_overruled_fault(void **state)
{
    (void)state;
    next_slot_0 = FAULT("drains", ONE_TIME);
    report("agent-1", 1, "");
    assert_false(slot_0_is_enabled());
    json_decref(ask(core_slot_enable, as_user(OWNER, true), "agent-1", "0", "{}"));
    assert_true(slot_0_is_enabled());
    report("agent-1", 1, "");
    assert_true(slot_0_is_enabled());
    restart_core();
    assert_false(slot_0_is_enabled()); // its agent has not called yet
    report("agent-1", 1, "");
    assert_true(slot_0_is_enabled());
    next_slot_0 = FAULT("drains", ANOTHER_TIME);
    report("agent-1", 1, "");
    assert_false(slot_0_is_enabled());
    next_slot_0 = "";
}

// A repeated call brings the same sample.
static void test_use_of_slots(void **state)
{
    (void)state;
    run_one_on_slot_0();
    next_use = "{\"group\":\"gpu\",\"time\":\"" ONE_TIME "\",\"slots\":[{\"gpu_util\":7}]}";
    report("agent-1", 1, task_in("1.1.1", "RUNNING", ""));
    report("agent-1", 1, task_in("1.1.1", "RUNNING", ""));
    next_use = "null";
    json_t *answer = ask(core_slot, as_user(OWNER, true), "agent-1", "0", NULL);
    assert_int_equal(jget_int(jget_path(answer, "slot.use"), "gpu_util", -1), 7);
    json_decref(answer);
    assert_stored("SELECT sum(reports) FROM metrics WHERE grp = 'gpu'", "1");
}

// The machine comes back without the slot that an operator disabled, and later with it.
static void test_a_disabled_slot_that_was_away(void **state)
{
    (void)state;
    report("agent-1", 2, "");
    json_decref(ask(core_slot_disable, as_user(OWNER, true), "agent-1", "1", "{}"));
    report("agent-1", 1, "");
    assert_stored("SELECT disabled_slots FROM agents", "[1]");
    restart_core();
    report("agent-1", 1, "");
    report("agent-1", 2, "");
    submit_slots(2, "");
    assert_stored("SELECT state FROM allocations", "QUEUED");
    json_decref(ask(core_slot_enable, as_user(OWNER, true), "agent-1", "1", "{}"));
    assert_stored("SELECT state FROM allocations", "ASSIGNED");
}

static void test_views(void **state)
{
    (void)state;
    submit_slots(2, "");
    submit_slots(64, "");
    report("agent-1", 2, "");
    report("agent-1", 2, running_2);
    json_t *answer = ask(core_job_queue, as_user(OTHER, false), NULL, NULL, NULL);
    assert_int_equal(json_array_size(jget(answer, "jobs")), 2);
    const json_t *second = jget(json_array_get(jget(answer, "jobs"), 1), "full");
    assert_string_equal(jget_string(jget(second, "summary"), "state", ""), "STATE_QUEUED");
    assert_non_null(strstr(jget_string(second, "reason", ""), "64"));
    assert_int_equal(jget_int(jget(answer, "pagination"), "total", 0), 2);
    json_decref(answer);
    answer = ask(core_tasks, as_user(OTHER, false), NULL, NULL, NULL);
    const json_t *task = jget(jget(answer, "allocationIdToSummary"), full_id("1.1.1"));
    assert_int_equal(json_array_size(jget(task, "resources")), 1);
    json_decref(answer);
    answer = ask(core_agents, as_user(OTHER, false), NULL, NULL, NULL);
    const json_t *agent = json_array_get(jget(answer, "agents"), 0);
    const json_t *slot = jget(jget(agent, "slots"), "1");
    assert_string_equal(jget_string(jget(slot, "container"), "state", ""), "STATE_RUNNING");
    assert_string_equal(jget_string(jget(slot, "device"), "type", ""), "TYPE_CPU");
    assert_true(jget_bool(slot, "enabled", false));
    json_decref(answer);
    answer = ask(core_resource_pools, as_user(OTHER, false), NULL, NULL, NULL);
    const json_t *pool = json_array_get(jget(answer, "resourcePools"), 0);
    assert_int_equal(jget_int(pool, "slotsAvailable", 0), 2);
    assert_int_equal(jget_int(pool, "slotsUsed", 0), 2);
    assert_true(jget_bool(pool, "defaultComputePool", false));
    json_decref(answer);
    json_decref(ask(core_slots, as_user(OTHER, false), "agent-1", NULL, NULL));
    assert_int_equal(last_status, 200);
    json_decref(ask(core_slot, as_user(OTHER, false), "agent-1", "5", NULL));
    assert_int_equal(last_status, 404);
    json_decref(ask(core_agent, as_user(OTHER, false), "agent-9", NULL, NULL));
    assert_int_equal(last_status, 404);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, cluster_setup, cluster_teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_gang_over_two_agents),
        TEST(test_native_gang_over_two_agents),
        TEST(test_native_ranks_that_lost_their_peers),
        TEST(test_one_process_per_machine),
        TEST(test_files_are_fetched_where_there_are_any),
        TEST(test_no_slots),
        TEST(test_agent_lost),
        TEST(test_lost_agent_stays_to_be_seen),
        TEST(test_short_absence),
        TEST(test_connection_closed),
        TEST(test_idle_poll),
        TEST(test_new_session),
        TEST(test_other_slots),
        TEST(test_bad_syncs),
        TEST(test_part_comes_back_before_the_gang_has_ended),
        TEST(test_late_report_frees_nothing),
        TEST(test_all_gather),
        TEST(test_all_gather_cut_in_two),
        TEST(test_gather_limits),
        TEST(test_rendezvous),
        TEST(test_every_machine_gets_the_rendezvous),
        TEST(test_a_machine_that_never_calls_again),
        TEST(test_preemption_poll_ends),
        TEST(test_disable),
        TEST(test_a_noted_fault),
        TEST(test_a_fault_that_drains),
        TEST(test_a_fault_that_ends),
        TEST(test_an_overruled_fault),
        TEST(test_use_of_slots),
        TEST(test_a_disabled_slot_that_was_away),
        TEST(test_views),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
