// Changes to experiments by people: forks, continuation, moves, labels, calls on many experiments.
#include "tests/unit/master/support/core_fixture.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/clock.h"
#include "base/hash.h"
#include "base/limits.h"
#include "base/rng.h"
#include "master/kernel/changes.h"

#define UUID_1 "11111111-1111-4111-8111-111111111111"

static struct principal owner(void)
{
    return as_user(OWNER, false);
}

static void run_to_the_end(const char *allocation)
{
    report("agent-1", 1, "");
    report("agent-1", 1, task_in(allocation, "RUNNING", ""));
    report("agent-1", 1, task_in(allocation, "EXITED", EXIT_0));
    report("agent-1", 1, "");
}

static int create(const char *body)
{
    json_decref(ask(core_experiment_create, owner(), NULL, NULL, body));
    return last_status;
}

static void test_fork(void **state)
{
    (void)state;
    submit_slots(1, "description: the first\n");
    assert_int_equal(create("{\"parentId\": 1}"), 200);
    assert_stored("SELECT parent_id || description || (SELECT model_definition_hash = "
                  "e.model_definition_hash FROM experiments WHERE id = 1) FROM experiments e"
                  " WHERE id = 2",
                  "1the first1");
    assert_int_equal(create("{\"parent_id\": 1, \"config\": \"{entrypoint: other, searcher: "
                            "{name: single, metric: loss}}\"}"),
                     200);
    assert_stored("SELECT json_extract(config, '$.entrypoint') FROM experiments WHERE id = 3",
                  "other");
    assert_stored("SELECT count(DISTINCT model_definition_hash) FROM experiments", "1");
    assert_int_equal(create("{\"parentId\": 3, \"modelDefinition\": [{\"path\": \"y\", \"type\": "
                            "48, \"content\": \"eA==\", \"mode\": 420}]}"),
                     200);
    assert_stored("SELECT count(DISTINCT model_definition_hash) FROM experiments", "2");
    assert_int_equal(create("{\"parentId\": 99}"), 404);
    assert_int_equal(create("{\"parentId\": 1, \"unmanaged\": true}"), 400);
}

// Submits a paused experiment with 2 MB of files that do not compress; returns the status.
static int create_large(uint64_t seed)
{
    enum { BYTES = 2 << 20 };
    struct rng rng;
    char *data = xcalloc(1, BYTES);
    rng_seed(&rng, seed, 1);
    for (size_t i = 0; i < BYTES; i++)
        data[i] = (char)rng_below(&rng, 256);
    char *content = base64_encode(data, BYTES);
    char *body =
        xasprintf("{\"config\": \"{entrypoint: a, searcher: {name: single, metric: loss}}\", "
                  "\"modelDefinition\": [{\"path\": \"x\", \"content\": \"%s\"}]}",
                  content);
    int status = create(body);
    free(body);
    free(content);
    free(data);
    return status;
}

static void wait_for(const char *sql, const char *value)
{
    for (int i = 0; i < 1000 && strcmp(stored(sql), value); i++)
        clock_sleep_us(10000);
    assert_stored(sql, value);
}

static const char owned[] = "SELECT group_concat(DISTINCT archive) FROM model_parts";

// A large archive is stored in parts, once, as long as an experiment has it.
static void test_parts_of_files(void **state)
{
    (void)state;
    assert_int_equal(create_large(1), 200);
    assert_stored("SELECT sum(length(archive)) || ' ' || (SELECT count(*) FROM model_parts) || ' ' "
                  "|| (SELECT max(length(data)) FROM model_parts) FROM model_definitions",
                  "0 3 786432");
    char *first = xstrdup(stored(owned));
    assert_int_equal(create_large(1), 200); // the same files: nothing more is stored
    assert_int_equal(create("{\"parentId\": 1}"), 200);
    wait_for(owned, first);
    assert_stored(
        "SELECT count(*) || ' ' || count(DISTINCT model_definition_hash) FROM experiments", "3 1");
    assert_int_equal(create_large(2), 200);
    for (int id = 1; id <= 3; id++) {
        call_ok(core_experiment_kill, owner(), decimal(id), NULL);
        call_ok(core_experiment_delete, owner(), decimal(id), NULL);
        if (id < 3)
            assert_stored("SELECT count(DISTINCT archive) FROM model_parts", "2");
    }
    wait_for("SELECT count(DISTINCT archive) FROM model_parts", "1");
    assert_stored("SELECT count(*) FROM model_parts p JOIN model_definitions d ON d.parts = "
                  "p.archive",
                  "3");
    free(first);
}

// The next start removes the parts of an upload that the master's end interrupted.
static void test_parts_of_nobody(void **state)
{
    (void)state;
    assert_int_equal(create_large(1), 200);
    char *first = xstrdup(stored(owned));
    struct db_batch *b = db_batch_new();
    for (int64_t part = 0; part < 20; part++)
        DB_ADD(b, MODEL_PART_INSERT, 1000, part, DB_BLOB("x", 1));
    assert_int_equal(db_commit_wait(cl.db, b, NULL), 0);
    restart_core();
    wait_for(owned, first);
    assert_stored("SELECT count(*) FROM model_parts", "3");
    assert_int_equal(create_large(2), 200);
    assert_stored("SELECT count(*) FROM model_parts", "6");
    free(first);
}

static void test_made_once(void **state)
{
    (void)state;
    static const char body[] = "{\"config\": \"{entrypoint: a, searcher: {name: single, metric: "
                               "loss}}\", \"externalExperimentId\": \"key-1\"}";
    assert_int_equal(create(body), 200);
    assert_int_equal(create(body), 200);
    assert_int_equal(last_id, 1);
    call_ok(core_experiment_kill, owner(), "1", NULL);
    assert_int_equal(create(body), 200); // also for an ended experiment
    assert_stored("SELECT count(*) || max(external_id) FROM experiments", "1key-1");
}

static int64_t make_project(const char *workspace_name)
{
    char body[128];
    snprintf(body, sizeof body, "{\"name\": \"%s\"}", workspace_name);
    call_ok(core_workspace_create, as_user(OTHER, false), NULL, body);
    int64_t workspace = last_id;
    call_ok(core_project_create, as_user(OTHER, false), decimal(workspace),
            "{\"name\": \"its project\"}");
    return last_id;
}

// External ids of other teams do not collide, and no refusal reveals them.
static void test_external_ids_of_a_workspace_and_kind(void **state)
{
    (void)state;
    char body[512];
    int64_t theirs = make_project("theirs");
    call_ok(core_workspace_patch, as_user(OTHER, false), "2", "{\"defaultRole\":\"none\"}");
    static const char config[] = "{entrypoint: a, searcher: {name: single, metric: loss}}";
    snprintf(body, sizeof body,
             "{\"config\":\"%s\",\"projectId\":%lld,\"externalExperimentId\":\"key\"}", config,
             (long long)theirs);
    call_ok(core_experiment_create, as_user(OTHER, false), NULL, body); // 1
    assert_int_equal(call_status(core_experiment_create, owner(), NULL, body), 404);
    assert_null(strstr(last_error, "key"));

    snprintf(body, sizeof body, "{\"config\":\"%s\",\"externalExperimentId\":\"key\"}", config);
    assert_int_equal(create(body), 200); // 2
    assert_int_equal(last_id, 2);
    assert_int_equal(create(body), 200);
    assert_int_equal(last_id, 2);
    assert_int_equal(call_status(core_experiment_create, as_user(OTHER, false), NULL, body), 409);
    restart_core();
    assert_int_equal(create(body), 200);
    assert_int_equal(last_id, 2);

    static const char command[] =
        "{\"config\":{\"entrypoint\":[\"x\"]},\"externalTaskId\":\"key\"}";
    static const char generic[] = "{\"config\":\"entrypoint: x\",\"externalTaskId\":\"key\"}";
    for (int i = 0; i < 2; i++) {
        call_ok(core_command_create, owner(), NULL, command);
        assert_int_equal(last_id, 3);
        call_ok(core_generic_create, owner(), NULL, generic);
        assert_int_equal(last_id, 4);
    }
    assert_stored("SELECT group_concat(kind) FROM (SELECT kind FROM experiments ORDER BY id)",
                  "EXPERIMENT,EXPERIMENT,COMMAND,GENERIC");

    // Names of workspaces that the caller does not see do not collide either.
    call_ok(core_workspace_create, owner(), NULL, "{\"name\":\"theirs\"}");
    assert_int_equal(call_status(core_workspace_create, owner(), NULL, "{\"name\":\"theirs\"}"),
                     409);

    // Two experiments with one external id do not come into one workspace, neither alone nor with
    // their project.
    snprintf(body, sizeof body, "{\"destinationProjectId\":%lld}", (long long)theirs);
    assert_int_equal(call_status(core_experiment_move, as_user(OWNER, true), "2", body), 409);
    assert_non_null(strstr(last_error, "experiment 1"));
    assert_int_equal(call_status(core_project_move, as_user(OWNER, true), decimal(theirs),
                                 "{\"destinationWorkspaceId\":1}"),
                     409);
    call_ok(core_experiment_kill, as_user(OTHER, false), "1", NULL);
    call_ok(core_experiment_delete, as_user(OTHER, false), "1", NULL);
    for (int i = 0; i < 100; i++) {
        settle();
        if (call_status(core_experiment_move, as_user(OWNER, true), "2", body) == 200)
            break;
    }
    assert_int_equal(last_status, 200); // once the other is gone
}

static void test_continue(void **state)
{
    (void)state;
    submit_slots(1, "hyperparameters: {lr: 0.5}\n");
    assert_int_equal(call_code(core_experiment_continue, owner(), NULL, "{\"id\": 1}"), ERR_STATE);
    report("agent-1", 1, "");
    call_ok(core_checkpoint_report, as_task("1.1.1"), NULL,
            "{\"uuid\":\"" UUID_1 "\",\"allocationId\":\"1.1.1\",\"metadata\":"
            "{\"steps_completed\":10},\"resources\":{},\"state\":\"STATE_COMPLETED\"}");
    run_to_the_end("1.1.1");
    assert_stored("SELECT state FROM experiments", "COMPLETED");
    call_ok(core_experiment_continue, owner(), NULL,
            "{\"id\": 1, \"overrideConfig\": \"max_restarts: 3\\nhyperparameters: {lr: 0.1}\"}");
    assert_int_equal(last_id, 1);
    assert_stored("SELECT state || coalesce(ended_at, '-') || progress FROM experiments",
                  "ACTIVE-0.0");
    assert_stored("SELECT json_extract(config, '$.max_restarts') FROM experiments", "3");
    assert_stored("SELECT original_config NOT LIKE '%restarts: 3%' FROM experiments", "1");
    assert_stored("SELECT state || hparams || restarts || coalesce(ended_at, '-') FROM trials",
                  "ACTIVE{\"lr\":0.1}0-");
    json_t *answer = sync_agent("agent-1", "session", 1, "");
    const json_t *env = jget(desired_task(answer, "1.1-1.2"), "env");
    assert_string_equal(jget_string(env, "DET_LATEST_CHECKPOINT", ""), UUID_1);
    assert_string_equal(jget_string(env, "DET_HPARAMS", ""), "{\"lr\":0.1}");
    json_decref(answer);
    restart_core();
    report("agent-1", 1, task_in("1.1-1.2", "RUNNING", ""));
    report("agent-1", 1, task_in("1.1-1.2", "EXITED", EXIT_0));
    assert_stored("SELECT state FROM experiments", "COMPLETED");
    assert_stored("SELECT count(*) FROM trials", "1");
}

// A search continues with the trials that have not completed; the others stay.
static void test_continue_a_search(void **state)
{
    (void)state;
    static const char random[] =
        "entrypoint: x\nsearcher: {name: random, metric: m, max_trials: 4, "
        "max_concurrent_trials: 3}\n"
        "hyperparameters: {lr: {type: double, minval: 0, maxval: 1}}\n"
        "max_restarts: 0\n";
    assert_int_equal(submit(random, true), 1);
    report("agent-1", 3, "");
    call_ok(core_checkpoint_report, as_task("1.2.1"), NULL,
            "{\"uuid\":\"" UUID_1 "\",\"allocationId\":\"1.2.1\",\"metadata\":"
            "{\"steps_completed\":10},\"resources\":{},\"state\":\"STATE_COMPLETED\"}");
    report("agent-1", 3, task_in("1.1.1", "EXITED", EXIT_0));
    report("agent-1", 3, task_in("1.2.1", "EXITED", EXIT_3));
    call_ok(core_experiment_kill, owner(), "1", NULL);
    report("agent-1", 3, task_in("1.3.1", "EXITED", KILLED_9));
    report("agent-1", 3, task_in("1.4.1", "EXITED", KILLED_9));
    report("agent-1", 3, "");
    static const char states[] = "SELECT group_concat(state, ' ') FROM (SELECT state FROM trials "
                                 "ORDER BY id)";
    assert_stored("SELECT state FROM experiments", "CANCELED");
    assert_stored(states, "COMPLETED ERROR CANCELED CANCELED");
    char *values = xstrdup(stored("SELECT group_concat(hparams) FROM trials"));
    static const char *const bad[] = {"hyperparameters: {lr: 1}", "searcher: {metric: other}",
                                      "searcher: {max_trials: 3}",
                                      "reproducibility: {experiment_seed: 7}"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        char *body = xasprintf("{\"id\": 1, \"overrideConfig\": \"%s\"}", bad[i]);
        assert_int_equal(call_status(core_experiment_continue, owner(), NULL, body), 400);
        assert_non_null(strstr(last_error, "overrideConfig: "));
        free(body);
    }
    call_ok(core_experiment_continue, owner(), NULL,
            "{\"id\": 1, \"overrideConfig\": \"max_restarts: 0\"}");
    assert_stored("SELECT state FROM experiments", "ACTIVE");
    assert_stored("SELECT progress FROM experiments", "0.25");
    assert_stored(states, "COMPLETED ACTIVE ACTIVE ACTIVE");
    assert_stored("SELECT group_concat(hparams) FROM trials", values);
    free(values);
    json_t *answer = sync_agent("agent-1", "session", 3, "");
    const json_t *env = jget(desired_task(answer, "1.2-1.2"), "env");
    assert_string_equal(jget_string(env, "DET_LATEST_CHECKPOINT", ""), UUID_1);
    json_decref(answer);
    restart_core();
    for (int i = 2; i <= 4; i++)
        report("agent-1", 3,
               task_in((const char *[]){"1.2-1.2", "1.3-1.2", "1.4-1.2"}[i - 2], "EXITED", EXIT_0));
    assert_stored("SELECT state FROM experiments", "COMPLETED");
    assert_stored(states, "COMPLETED COMPLETED COMPLETED COMPLETED");
    report("agent-1", 3, "");
    assert_int_equal(call_status(core_experiment_continue, owner(), NULL, "{\"id\": 1}"), 400);
    assert_non_null(strstr(last_error, "has been completed"));
    call_ok(core_experiment_continue, owner(), NULL, // more trials
            "{\"id\": 1, \"overrideConfig\": \"searcher: {max_trials: 5}\"}");
    assert_stored(states, "COMPLETED COMPLETED COMPLETED COMPLETED ACTIVE");
    report("agent-1", 3, task_in("1.5.1", "EXITED", EXIT_0));
    assert_stored("SELECT state FROM experiments", "COMPLETED");
}

// A search that compares trials goes on from its rungs.
static void test_continue_a_halving(void **state)
{
    (void)state;
    static const char asha[] =
        "entrypoint: x\nsearcher: {name: async_halving, metric: m, num_rungs: 2, "
        "max_trials: 3, max_length: 8, max_concurrent_trials: 2}\nmax_restarts: 0\n";
    static const char marks[] = "SELECT json_extract(searcher_state, '$.method.brackets[0].rungs') "
                                "FROM experiments";
    assert_int_equal(submit(asha, true), 1);
    report("agent-1", 2, "");
    call_ok(core_trial_metrics, as_task("1.1.1"), "1",
            "{\"group\":\"validation\",\"metrics\":{\"steps_completed\":2,\"metrics\":"
            "{\"avg_metrics\":{\"m\":0.5}}}}");
    assert_stored(marks, "[[[0.5,1]],[]]");
    call_ok(core_experiment_kill, owner(), "1", NULL);
    report("agent-1", 2, task_in("1.1.1", "EXITED", KILLED_9));
    report("agent-1", 2, task_in("1.2.1", "EXITED", KILLED_9));
    report("agent-1", 2, "");
    assert_stored("SELECT state FROM experiments", "CANCELED");
    assert_stored("SELECT count(*) FROM trials", "2"); // none is created in a search that ends
    assert_stored(marks, "[[[0.5,1]],[]]");
    call_ok(core_experiment_continue, owner(), NULL, "{\"id\": 1}");
    assert_stored(marks, "[[[0.5,1]],[]]");
    assert_stored("SELECT group_concat(state, ' ') FROM trials", "ACTIVE ACTIVE");
    restart_core();
    report("agent-1", 2, task_in("1.1-1.2", "EXITED", EXIT_0));
    report("agent-1", 2, task_in("1.2-1.2", "EXITED", EXIT_0));
    report("agent-1", 2, "");
    report("agent-1", 2, task_in("1.3.1", "EXITED", EXIT_0));
    assert_stored("SELECT state FROM experiments", "COMPLETED");
    assert_stored("SELECT group_concat(state, ' ') FROM trials", "COMPLETED COMPLETED COMPLETED");
}

static void test_continue_refused(void **state)
{
    (void)state;
    submit_slots(1, "");
    call_ok(core_experiment_kill, owner(), "1", NULL);
    static const char *const bad[] = {
        "{\"id\": 1, \"overrideConfig\": \"[1]\"}",
        "{\"id\": 1, \"overrideConfig\": \"project: other\"}",
        "{\"id\": 1, \"overrideConfig\": \"resources: {slots_per_trial: many}\"}",
        "{\"id\": 1, \"overrideConfig\": \"searcher: {name: grid}\"}",
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_int_equal(call_status(core_experiment_continue, owner(), NULL, bad[i]), 400);
    assert_int_equal(call_status(core_experiment_continue, owner(), NULL, "{\"id\": 7}"), 404);
    assert_int_equal(
        call_status(core_experiment_continue, as_user(OTHER, false), NULL, "{\"id\": 1}"), 403);
    assert_int_equal(call_status(core_experiment_continue, as_user(OTHER, true), NULL,
                                 "{\"id\": 1, \"overrideConfig\": \"max_restarts: 1\"}"),
                     403); // not on behalf of another user
    assert_stored("SELECT state FROM experiments", "CANCELED");
    call_ok(core_experiment_archive, owner(), "1", NULL);
    assert_int_equal(call_code(core_experiment_continue, owner(), NULL, "{\"id\": 1}"), ERR_STATE);
    call_ok(core_experiment_unarchive, owner(), "1", NULL);
    call_ok(core_experiment_continue, as_user(OTHER, true), NULL, "{\"id\": 1}");
    assert_stored("SELECT state || user_id FROM experiments", "ACTIVE1");
    assert_int_equal(call_code(core_experiment_continue, owner(), NULL, "{\"id\": 1}"), ERR_STATE);
}

// The changes of an experiment for followers, "WORKSPACE:DATA " for each; WORKSPACE: whose members
// see it.
static pthread_mutex_t told_lock = PTHREAD_MUTEX_INITIALIZER;
static char received[1024];

static void keep_told(void *ctx, struct changes *notes)
{
    (void)ctx;
    pthread_mutex_lock(&told_lock);
    for (size_t i = 0; i < notes->count; i++) {
        const struct change *n = &notes->items[i];
        size_t len = strlen(received);
        if (n->topic == EVENT_EXPERIMENT)
            snprintf(received + len, sizeof received - len, "%lld:%s ", (long long)n->workspace_id,
                     n->data ? n->data : "stored");
    }
    pthread_mutex_unlock(&told_lock);
    changes_free(notes);
}

static void test_a_move_is_told_to_those_it_leaves(void **state)
{
    char body[64];
    (void)state;
    cl.more.events_committed = keep_told;
    restart_core();
    int64_t to = make_project("theirs");
    snprintf(body, sizeof body, "{\"destinationProjectId\": %lld}", (long long)to);
    submit_slots(1, "");
    settle();
    received[0] = '\0';
    call_ok(core_experiment_move, owner(), "1", body);
    settle();
    assert_string_equal(received, "1:{\"id\":1,\"workspaceId\":1,\"moved\":true} 2:stored ");
    received[0] = '\0';
    call_ok(core_project_create, as_user(OTHER, false), "2", "{\"name\": \"another\"}");
    snprintf(body, sizeof body, "{\"destinationProjectId\": %lld}", (long long)last_id);
    call_ok(core_experiment_move, owner(), "1", body);
    settle();
    assert_string_equal(received, "2:stored "); // still visible
    stop_core();
    cl.more.events_committed = NULL;
    start_core();
}

static void test_a_project_moves_with_all_in_it(void **state)
{
    const struct principal other = as_user(OTHER, false);
    char body[80], from[24];
    (void)state;
    cl.more.events_committed = keep_told;
    restart_core();
    snprintf(from, sizeof from, "%s", decimal(make_project("small")));
    call_ok(core_workspace_patch, as_user(OWNER, true), "2", "{\"maxSlots\": 1}");
    call_ok(core_workspace_create, other, NULL, "{\"name\": \"large\"}");
    submit_slots(2, "");
    snprintf(body, sizeof body, "{\"destinationProjectId\": %s}", from);
    assert_int_equal(call_status(core_experiment_move, owner(), "1", body),
                     400); // too large for it
    call_ok(core_project_move, other, from, "{\"destinationWorkspaceId\": 3}");
    call_ok(core_experiment_move, owner(), "1", body);
    settle();
    received[0] = '\0';
    const char *back = "{\"destinationWorkspaceId\": 2}";
    assert_int_equal(call_status(core_project_move, other, from, back), 400); // so is its project
    call_ok(core_workspace_patch, as_user(OWNER, true), "2", "{\"maxSlots\": 0}");
    call_ok(core_project_move, other, from, back);
    call_ok(core_project_move, other, from, back); // a repetition
    settle();
    assert_string_equal(received, "3:{\"id\":1,\"workspaceId\":3,\"moved\":true} 2:stored ");
    assert_stored("SELECT workspace_id FROM projects WHERE id > 1", "2");
    call_ok(core_workspace_delete, other, "3", NULL); // nothing is left in it
    assert_stored("SELECT count(*) FROM workspaces WHERE id = 3", "0");
    stop_core();
    cl.more.events_committed = NULL;
    start_core();
    report("agent-1", 2, "");
    call_ok(core_workspace_delete, other, "2", NULL);
    assert_stored("SELECT state FROM workspaces WHERE id = 2", "DELETING");
    assert_stored("SELECT state FROM experiments WHERE id = 1", "STOPPING_KILLED");
}

static void test_move(void **state)
{
    (void)state;
    int64_t to = make_project("theirs");
    char body[64];
    snprintf(body, sizeof body, "{\"destinationProjectId\": %lld}", (long long)to);
    submit_slots(1, "");
    report("agent-1", 1, "");
    assert_int_equal(call_status(core_experiment_move, owner(), "1", "{}"), 404);
    assert_int_equal(call_status(core_experiment_move, as_user(OTHER, false), "1", body), 403);
    call_ok(core_experiment_move, owner(), "1", body);
    call_ok(core_experiment_move, owner(), "1", body); // a repetition
    assert_stored("SELECT project_id > 1 FROM experiments", "1");
    call_ok(core_project_archive, as_user(OTHER, false), decimal(to), NULL);
    assert_int_equal(call_code(core_experiment_move, owner(), "1", "{\"destinationProjectId\": 1}"),
                     ERR_STATE);
    call_ok(core_project_unarchive, as_user(OTHER, false), decimal(to), NULL);
    call_ok(core_experiment_move, owner(), "1", "{\"destinationProjectId\": 1}");
    call_ok(core_project_archive, as_user(OTHER, false), decimal(to), NULL);
    assert_int_equal(call_code(core_experiment_move, owner(), "1", body), ERR_STATE);
    call_ok(core_project_unarchive, as_user(OTHER, false), decimal(to), NULL);
    restart_core();
    run_to_the_end("1.1.1");
    call_ok(core_experiment_move, owner(), "1", "{\"destination_project_id\": 1}");
    call_ok(core_project_delete, as_user(OTHER, false), decimal(to), NULL);
}

// A configuration that does not fit into a task's environment is refused, however short its text
// is.
static void test_the_size_of_a_configuration(void **state)
{
    (void)state;
    for (int times = 1; times <= 30; times += 29) {
        struct buf yaml;
        buf_init(&yaml, 1 << 20);
        buf_printf(&yaml,
                   "name: a\nentrypoint: x\nsearcher: {name: single, metric: loss}\n"
                   "data: {text: &text \"%*s\", list: [0",
                   6000, "x");
        for (int i = 0; i < times; i++)
            buf_puts(&yaml, ", *text");
        buf_puts(&yaml, "]}\n");
        json_t *body = json_pack("{s:s, s:b}", "config", buf_str(&yaml), "activate", 0);
        char *text = json_text(body);
        assert_int_equal(call_status(core_experiment_create, owner(), NULL, text),
                         times == 1 ? 200 : 413);
        free(text);
        json_decref(body);
        buf_free(&yaml);
    }
    assert_non_null(strstr(last_error, "environment of a task"));
}

static void test_labels(void **state)
{
    (void)state;
    submit_slots(1, "labels: [a]\n");
    for (int i = 0; i < 2; i++) {
        json_t *answer = ask(core_experiment_add_label, owner(), "1", "b c", NULL);
        assert_int_equal(json_array_size(jget(answer, "labels")), 2);
        json_decref(answer);
    }
    assert_stored("SELECT labels FROM experiments", "[\"a\",\"b c\"]");
    assert_stored("SELECT json_extract(config, '$.labels') FROM experiments", "[\"a\",\"b c\"]");
    call_ok(core_experiment_kill, owner(), "1", NULL);
    json_decref(ask(core_experiment_add_label, owner(), "1", "d", NULL));
    json_decref(ask(core_experiment_remove_label, owner(), "1", "a", NULL));
    json_decref(ask(core_experiment_remove_label, owner(), "1", "never", NULL));
    assert_int_equal(last_status, 200);
    assert_stored("SELECT labels FROM experiments", "[\"b c\",\"d\"]");
    json_decref(ask(core_experiment_add_label, as_user(OTHER, false), "1", "e", NULL));
    assert_int_equal(last_status, 403);
    for (int i = 2; i <= LIMIT_LABELS; i++) {
        char label[16];
        snprintf(label, sizeof label, "l%d", i);
        json_decref(ask(core_experiment_add_label, owner(), "1", label, NULL));
        assert_int_equal(last_status, i < LIMIT_LABELS ? 200 : 413);
    }
}

// The number of experiments of a project with a label, over all changes.
#define COUNTED "SELECT group_concat(label || ' ' || project_id || ' ' || experiments) FROM"
static void test_labels_are_counted(void **state)
{
    char body[64];
    (void)state;
    int64_t to = make_project("theirs");
    snprintf(body, sizeof body, "{\"destinationProjectId\": %lld}", (long long)to);
    submit_slots(1, "labels: [a, b]\n");
    submit_slots(1, "labels: [b, b, c]\n");
#define assert_counted(expected)                                                                   \
    do {                                                                                           \
        assert_stored(COUNTED " (SELECT * FROM label_counts WHERE experiments > 0)", expected);    \
        assert_stored(COUNTED " (SELECT l.label, b.project_id, count(*) AS experiments"            \
                              " FROM experiment_labels l JOIN experiment_briefs b"                 \
                              " ON b.id = l.experiment_id GROUP BY 1, 2)",                         \
                      expected);                                                                   \
    } while (0)
    assert_counted("a 1 1,b 1 2,c 1 1");
    json_decref(ask(core_experiment_remove_label, owner(), "1", "b", NULL));
    json_decref(ask(core_experiment_add_label, owner(), "1", "c", NULL));
    assert_counted("a 1 1,b 1 1,c 1 2");
    call_ok(core_experiment_move, owner(), "2", body);
    assert_counted("a 1 1,b 2 1,c 1 1,c 2 1");
    call_ok(core_experiment_kill, owner(), "2", NULL);
    call_ok(core_experiment_delete, owner(), "2", NULL);
    for (int i = 0; i < 1000 && strcmp(stored("SELECT count(*) FROM experiments"), "1"); i++)
        clock_sleep_us(5000);
    assert_counted("a 1 1,c 1 1");
}

static void test_kept_checkpoints(void **state)
{
    (void)state;
    submit_slots(1, "");
    call_ok(core_experiment_patch, owner(), "1",
            "{\"checkpointStorage\": {\"saveExperimentBest\": 3, \"save_trial_latest\": 2}}");
#define KEPT                                                                                       \
    "SELECT json_extract(config, '$.checkpoint_storage.save_experiment_best') ||"                  \
    " json_extract(config, '$.checkpoint_storage.save_trial_best') ||"                             \
    " json_extract(config, '$.checkpoint_storage.save_trial_latest') FROM experiments"
    assert_stored(KEPT, "312");
    call_ok(core_experiment_patch, owner(), "1", "{\"name\": \"x\", \"checkpointStorage\": null}");
    assert_stored(KEPT, "312");
    call_ok(core_experiment_kill, owner(), "1", NULL);
    call_ok(core_experiment_patch, owner(), "1", "{\"checkpointStorage\": {\"saveTrialBest\": 0}}");
    assert_stored(KEPT, "302");
    assert_int_equal(call_status(core_experiment_patch, owner(), "1",
                                 "{\"checkpointStorage\": {\"saveTrialBest\": -1}}"),
                     400);
    assert_int_equal(call_status(core_experiment_patch, owner(), "1", "{\"name\": \" \"}"), 400);
}

// Returns "error" of the result for that id; NULL: there is no such result.
static const char *result_of(const json_t *answer, int64_t id)
{
    size_t i;
    json_t *result;
    json_array_foreach(jget(answer, "results"), i,
                       result) if (jget_int(result, "id", 0) ==
                                   id) return jget_string(result, "error", NULL);
    return NULL;
}

// A list of 1,000 values in a filter: `most`, and `last` at its end.
static void assert_long_filter(const char *name, const char *most, const char *last, size_t count)
{
    struct buf body;
    buf_init(&body, LIMIT_BODY_SMALL);
    buf_printf(&body, "{\"filters\": {\"%s\": [", name);
    for (int i = 1; i < 1000; i++)
        buf_printf(&body, "%s, ", most);
    buf_printf(&body, "%s]}}", last);
    json_t *answer = ask(core_experiments_unarchive, owner(), NULL, NULL, buf_str(&body));
    assert_int_equal(json_array_size(jget(answer, "results")), count);
    json_decref(answer);
    buf_free(&body);
}

static void test_many(void **state)
{
    (void)state;
    for (int i = 0; i < 4; i++)
        submit_slots(1, i == 3 ? "labels: [odd]\n" : "");
    json_t *answer = ask(core_experiments_pause, owner(), NULL, NULL,
                         "{\"experimentIds\": [1, 2, 99], \"filters\": null}");
    assert_string_equal(result_of(answer, 1), "");
    assert_string_equal(result_of(answer, 2), "");
    assert_string_equal(result_of(answer, 99), "experiment '99' not found");
    json_decref(answer);
    assert_stored("SELECT group_concat(state) FROM (SELECT state FROM experiments ORDER BY id)",
                  "PAUSED,PAUSED,ACTIVE,ACTIVE");
    answer =
        ask(core_experiments_kill, as_user(OTHER, false), NULL, NULL, "{\"experiment_ids\": [1]}");
    assert_non_null(strstr(result_of(answer, 1), "another user"));
    json_decref(answer);
    answer =
        ask(core_experiments_kill, owner(), "1", NULL,
            "{\"experimentIds\": [], \"filters\": {\"states\": [\"STATE_QUEUED\"], \"labels\": "
            "[\"odd\"]}}");
    assert_int_equal(json_array_size(jget(answer, "results")), 1);
    assert_string_equal(result_of(answer, 4), "");
    json_decref(answer);
    assert_long_filter("labels", "\"odd\"", "\"even\"", 0);
    assert_long_filter("labels", "\"odd\"", "\"odd\"", 1);
    assert_long_filter("labels", "\"odd\"", "null", 0);
    assert_long_filter("userIds", "99", "1", 4);
    assert_long_filter("excludedExperimentIds", "99", "1", 3);
    assert_long_filter("states", "\"STATE_PAUSED\"", "\"STATE_ACTIVE\"", 3);
    answer = ask(core_experiments_kill, owner(), NULL, NULL, "{\"projectId\": 2, \"filters\": {}}");
    assert_int_equal(json_array_size(jget(answer, "results")), 0); // those of project 1 stay
    json_decref(answer);
    answer = ask(core_experiments_archive, owner(), NULL, NULL,
                 "{\"filters\": {\"excludedExperimentIds\": [1], \"archived\": false, \"name\": "
                 "\"EST\", \"userIds\": [1], \"projectId\": 1}}");
    assert_int_equal(json_array_size(jget(answer, "results")), 3);
    assert_non_null(strstr(result_of(answer, 2), "that have ended"));
    assert_string_equal(result_of(answer, 4), "");
    json_decref(answer);
    assert_stored("SELECT archived FROM experiments WHERE id = 4", "1");
    answer = ask(core_experiments_delete, owner(), "2", NULL, "{\"experimentIds\": [4]}");
    assert_string_equal(result_of(answer, 4), "experiment '4' not found in project 2");
    json_decref(answer);
    json_decref(ask(core_experiments_delete, owner(), "1", NULL, "{\"experimentIds\": [4]}"));
    for (int i = 0; i < 1000 && strcmp(stored("SELECT count(*) FROM experiments"), "3"); i++)
        settle();
    assert_stored("SELECT count(*) FROM experiments", "3");
    assert_int_equal(call_status(core_experiments_kill, owner(), NULL, "{}"), 400);
    assert_int_equal(
        call_status(core_experiments_kill, owner(), NULL, "{\"experimentIds\": [\"x\"]}"), 400);
    assert_int_equal(call_status(core_experiments_kill, owner(), NULL,
                                 "{\"filters\": {\"states\": [\"STATE_ASLEEP\"]}}"),
                     400);
    assert_int_equal(call_status(core_experiments_move, owner(), NULL, "{\"experimentIds\": [1]}"),
                     404);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, cluster_setup, cluster_teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_fork),
        TEST(test_parts_of_files),
        TEST(test_parts_of_nobody),
        TEST(test_made_once),
        TEST(test_external_ids_of_a_workspace_and_kind),
        TEST(test_continue),
        TEST(test_continue_a_search),
        TEST(test_continue_a_halving),
        TEST(test_continue_refused),
        TEST(test_a_move_is_told_to_those_it_leaves),
        TEST(test_a_project_moves_with_all_in_it),
        TEST(test_move),
        TEST(test_the_size_of_a_configuration),
        TEST(test_labels),
        TEST(test_labels_are_counted),
        TEST(test_kept_checkpoints),
        TEST(test_many),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
