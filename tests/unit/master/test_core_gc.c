// The life of checkpoints: collected by policy, deleted, thinned out, together with their files.
#include "tests/unit/master/support/core_fixture.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <sqlite3.h>

#include "base/arena.h"
#include "base/clock.h"
#include "base/os/file.h"

static const char *uuid_of(int number)
{
    static char text[4][64];
    static int turn;
    turn = (turn + 1) % 4;
    snprintf(text[turn], sizeof text[0], "%08d-1111-4111-8111-111111111111", number);
    return text[turn];
}

static char *folder_of(const char *uuid)
{
    return xasprintf("%s/%s", cl.checkpoints, uuid);
}

static bool has_file(const char *uuid, const char *name)
{
    char *path = xasprintf("%s/%s/%s", cl.checkpoints, uuid, name);
    bool there = path_exists(path);
    free(path);
    return there;
}

static void write_file(const char *uuid, const char *name)
{
    char *path = xasprintf("%s/%s/%s", cl.checkpoints, uuid, name);
    char *dir = xasprintf("%.*s", (int)(strrchr(path, '/') - path), path);
    assert_int_equal(dir_make(dir, 0755, NULL), 0);
    assert_int_equal(file_write_durable(path, "abc", 3, 0644, NULL), 0);
    free(dir);
    free(path);
}

static int post_checkpoint(const char *allocation, const char *uuid, int64_t steps)
{
    char body[512];
    snprintf(body, sizeof body,
             "{\"uuid\":\"%s\",\"metadata\":{\"steps_completed\":%lld},\"resources\":"
             "{\"weights.pt\":\"3\",\"optimizer/a.pt\":\"3\",\"optimizer/b.pt\":3}}",
             uuid, (long long)steps);
    return call_status(core_checkpoint_report, as_task(allocation), NULL, body);
}

// Makes checkpoint `number` at that step with this validation: its files and its report.
static void save(const char *allocation, int number, int64_t steps, double loss)
{
    char body[256];
    write_file(uuid_of(number), "weights.pt");
    write_file(uuid_of(number), "optimizer/a.pt");
    write_file(uuid_of(number), "optimizer/b.pt");
    snprintf(body, sizeof body,
             "{\"group\":\"validation\",\"metrics\":{\"trialId\":1,\"stepsCompleted\":%lld,"
             "\"metrics\":{\"avgMetrics\":{\"loss\":%g},\"batchMetrics\":null}}}",
             (long long)steps, loss);
    call_ok(core_trial_metrics, as_task(allocation), "1", body);
    assert_int_equal(post_checkpoint(allocation, uuid_of(number), steps), 200);
}

static void run_one(const char *more)
{
    submit_slots(1, more);
    report("agent-1", 1, "");
    report("agent-1", 1, task_in("1.1.1", "RUNNING", ""));
}

static void finish(void)
{
    report("agent-1", 1, task_in("1.1.1", "EXITED", EXIT_0));
    assert_stored("SELECT state FROM experiments WHERE id = 1", "COMPLETED");
}

// Waits until nothing is left to choose or to remove.
static void swept(void)
{
    int64_t until = clock_mono_us() + 20 * SECOND;
    while (strcmp(stored("SELECT (SELECT count(*) FROM gc_due) +"
                         " (SELECT count(*) FROM checkpoints WHERE removal IS NOT NULL)"),
                  "0")) {
        if (clock_mono_us() > until)
            fail_msg("the sweep does not end");
        clock_sleep_us(2000);
    }
}

static void assert_state(int number, const char *state)
{
    char sql[128];
    snprintf(sql, sizeof sql, "SELECT state FROM checkpoints WHERE uuid = '%s'", uuid_of(number));
    assert_stored(sql, state);
    char *folder = folder_of(uuid_of(number));
    assert_int_equal(path_exists(folder), strcmp(state, "DELETED") != 0);
    free(folder);
}

static int change(core_handler *handler, int number, const char *more)
{
    char body[512];
    snprintf(body, sizeof body, "{\"checkpointUuids\":[\"%s\"]%s}", uuid_of(number), more);
    return call_status(handler, as_user(OWNER, false), NULL, body);
}

static void test_the_end_collects(void **state)
{
    (void)state;
    run_one("");
    save("1.1.1", 1, 10, 3);
    save("1.1.1", 2, 20, 1);
    save("1.1.1", 3, 30, 2);
    save("1.1.1", 4, 40, 4);
    finish();
    swept();
    assert_state(1, "DELETED");
    assert_state(2, "COMPLETED"); // the best
    assert_state(3, "DELETED");
    assert_state(4, "COMPLETED"); // the latest
    assert_stored("SELECT latest_checkpoint FROM trials", uuid_of(4));
}

// Two trials on one agent; the second one runs.
static void report_both(const char *state, const char *ranks)
{
    char tasks[1024];
    int len = snprintf(tasks, sizeof tasks, "%s,", task_in("1.1.1", state, ranks));
    snprintf(tasks + len, sizeof tasks - (size_t)len, "%s", task_in("1.2.1", "RUNNING", ""));
    report("agent-1", 2, tasks);
}

// A search does not wait for its last trial. The checkpoints of a running trial stay, since it may
// still validate them.
static void test_a_search_collects_as_it_goes(void **state)
{
    (void)state;
    submit(
        "name: x\nentrypoint: sh x.sh\nlaunch: per_slot\nhyperparameters: {a: {type: categorical, "
        "vals: [1, 2]}}\nsearcher: {name: grid, metric: loss}\n",
        true);
    report("agent-1", 2, "");
    report("agent-1", 2, task_in("1.1.1", "RUNNING", ""));
    for (int i = 1; i <= 3; i++)
        save("1.1.1", i, 10 * i, i);
    report_both("RUNNING", "");
    for (int i = 4; i <= 6; i++)
        assert_int_equal(post_checkpoint("1.2.1", uuid_of(i), 10 * i), 200);
    call_ok(core_trial_metrics, as_task("1.2.1"), "2",
            "{\"group\":\"validation\",\"metrics\":{\"trialId\":2,\"stepsCompleted\":40,"
            "\"metrics\":{\"avgMetrics\":{\"loss\":1}}}}");
    report_both("EXITED", EXIT_0);
    assert_stored("SELECT group_concat(state) FROM trials", "COMPLETED,ACTIVE");
    swept();
    assert_stored("SELECT group_concat(state) FROM (SELECT * FROM checkpoints ORDER BY uuid)",
                  "COMPLETED,DELETED,COMPLETED,COMPLETED,COMPLETED,COMPLETED");
}

static void test_larger_may_be_better(void **state)
{
    (void)state;
    submit("name: x\nentrypoint: sh x.sh\nlaunch: per_slot\nsearcher: {name: single, metric: loss, "
           "smaller_is_better: false}\ncheckpoint_storage: {save_experiment_best: 2, "
           "save_trial_best: 0, save_trial_latest: 0}\n",
           true);
    report("agent-1", 1, "");
    report("agent-1", 1, task_in("1.1.1", "RUNNING", ""));
    save("1.1.1", 1, 10, 3);
    save("1.1.1", 2, 20, 5);
    save("1.1.1", 3, 30, 4);
    save("1.1.1", 4, 40, 1);
    finish();
    swept();
    assert_state(1, "DELETED");
    assert_state(2, "COMPLETED");
    assert_state(3, "COMPLETED");
    assert_state(4, "DELETED");
    assert_stored("SELECT latest_checkpoint FROM trials", uuid_of(3));
}

// During training the checkpoint that the trial would continue from stays, whatever the policy
// says.
static void test_on_demand_while_it_trains(void **state)
{
    (void)state;
    run_one("checkpoint_storage: {save_trial_best: 0, save_trial_latest: 0}\n");
    save("1.1.1", 1, 10, 3);
    save("1.1.1", 2, 20, 4);
    assert_int_equal(call_status(core_experiment_gc, as_user(OTHER, false), "1", NULL), 403);
    call_ok(core_experiment_gc, as_user(OWNER, false), "1", NULL);
    swept();
    assert_state(1, "DELETED");
    assert_state(2, "COMPLETED");
    json_decref(sync_agent("agent-1", "session", 1, task_in("1.1.1", "EXITED", KILLED_9)));
    assert_stored("SELECT latest_checkpoint FROM trials", uuid_of(2));
}

static void test_deleting(void **state)
{
    (void)state;
    run_one("");
    for (int i = 1; i <= 3; i++)
        save("1.1.1", i, 10 * i, i);
    assert_int_equal(change(core_checkpoints_delete, 3, ""), 400);
    assert_non_null(strstr(last_error, "trial 1 continues from it"));
    char body[256];
    snprintf(body, sizeof body, "{\"checkpointUuids\":[\"%s\",\"%s\"]}", uuid_of(1), uuid_of(3));
    assert_int_equal(call_status(core_checkpoints_delete, as_user(OWNER, false), NULL, body), 400);
    assert_state(1, "COMPLETED"); // all or none
    assert_int_equal(call_status(core_checkpoints_delete, as_user(OTHER, false), NULL, body), 403);
    assert_int_equal(change(core_checkpoints_delete, 1, ""), 200);
    swept();
    assert_state(1, "DELETED");
    assert_int_equal(change(core_checkpoints_delete, 1, ""), 200); // a repetition
    assert_int_equal(change(core_checkpoints_delete, 9, ""), 404);
    assert_int_equal(call_status(core_checkpoints_delete, as_user(OWNER, false), NULL, "{}"), 400);
    assert_int_equal(call_status(core_checkpoints_delete, as_user(OWNER, false), NULL,
                                 "{\"checkpoint_uuids\":[\"../../etc\"]}"),
                     400);
    assert_int_equal(post_checkpoint("1.1.1", uuid_of(1), 10), 200); // a late report
    assert_state(1, "DELETED");
}

static void test_what_others_need(void **state)
{
    char more[256];
    (void)state;
    run_one("checkpoint_storage: {save_trial_best: 0, save_trial_latest: 0}\n");
    for (int i = 1; i <= 4; i++)
        save("1.1.1", i, 10 * i, i);
    snprintf(more, sizeof more,
             "name: fork\nentrypoint: sh x.sh\nsearcher: {name: single, metric: "
             "loss, source_checkpoint_uuid: %s}\n",
             uuid_of(1));
    if (submit(more, false) != 2)
        fail_msg("%s", last_error);
    assert_int_equal(change(core_checkpoints_delete, 1, ""), 400);
    assert_non_null(strstr(last_error, "experiment 2 starts from it"));
    finish();
    assert_int_equal(call_status(core_experiment_delete, as_user(OWNER, false), "1", NULL), 400);
    assert_non_null(strstr(last_error, "experiment 2 starts from one of its checkpoints"));
    swept();
    assert_state(1, "COMPLETED");
    assert_state(2, "DELETED");
    assert_state(4, "DELETED");
    assert_stored("SELECT latest_checkpoint FROM trials WHERE id = 1", uuid_of(1));
    call_ok(core_experiment_kill, as_user(OWNER, false), "2", NULL);
    call_ok(core_experiment_delete, as_user(OWNER, false), "2", NULL);
    for (int i = 0; i < 1000 && strcmp(stored("SELECT count(*) FROM experiments"), "1"); i++)
        clock_sleep_us(5000);
    call_ok(core_experiment_gc, as_user(OWNER, false), "1", NULL);
    swept();
    assert_state(1, "DELETED"); // no longer needed
    assert_int_equal(change(core_checkpoints_delete, 1, ""), 200);
    swept();
    assert_state(1, "DELETED");
    assert_stored("SELECT latest_checkpoint FROM trials WHERE id = 1", "(null)");
}

// A checkpoint that a model version names cannot be deleted.
static void test_what_a_model_names(void **state)
{
    struct error e = {0};
    (void)state;
    run_one("checkpoint_storage: {save_trial_best: 0, save_trial_latest: 0}\n");
    for (int i = 1; i <= 3; i++)
        save("1.1.1", i, 10 * i, i);
    struct db_batch *b = db_batch_new();
    DB_ADD(b, MODEL_INSERT, "net", "", "{}", "[]", "", 1, 1, 1);
    DB_ADD(b, MODEL_VERSION_INSERT, 1, uuid_of(1), "", "", "{}", "[]", "", 1, 1);
    assert_int_equal(db_commit_wait(cl.db, b, &e), 0);
    assert_int_equal(change(core_checkpoints_delete, 1, ""), 400);
    assert_non_null(strstr(last_error, "registered as model"));
    finish();
    swept();
    assert_state(1, "COMPLETED");
    assert_state(2, "DELETED");
    assert_int_equal(call_status(core_experiment_delete, as_user(OWNER, false), "1", NULL), 400);
    assert_non_null(strstr(last_error, "delete that version first"));
}

static void test_thinning_out(void **state)
{
    (void)state;
    run_one("");
    save("1.1.1", 1, 10, 1);
    save("1.1.1", 2, 20, 2);
    assert_int_equal(
        change(core_checkpoints_remove_files, 1, ",\"checkpointGlobs\":[\"nothing*\"]"), 200);
    assert_state(1, "COMPLETED");
    assert_int_equal(
        change(core_checkpoints_remove_files, 1, ",\"checkpointGlobs\":[\"optimizer/**\"]"), 200);
    swept();
    assert_state(1, "PARTIALLY_DELETED");
    assert_true(has_file(uuid_of(1), "weights.pt"));
    assert_false(has_file(uuid_of(1), "optimizer/a.pt"));
    assert_stored("SELECT resources FROM checkpoints WHERE steps = 10", "{\"weights.pt\":\"3\"}");
    assert_int_equal(change(core_checkpoints_remove_files, 2, ",\"checkpointGlobs\":[\"*\"]"), 400);
    assert_int_equal(change(core_checkpoints_remove_files, 1, ",\"checkpointGlobs\":[\"../x\"]"),
                     400);
    assert_int_equal(change(core_checkpoints_remove_files, 1, ",\"checkpointGlobs\":[\"**/*\"]"),
                     200);
    swept();
    assert_state(1, "DELETED");
}

// A person who may write into a checkpoint's folder cannot make the master remove files elsewhere.
static void test_links_are_not_followed(void **state)
{
    (void)state;
    run_one("");
    save("1.1.1", 1, 10, 1);
    save("1.1.1", 2, 20, 2);
    char *folder = folder_of(uuid_of(1)), *link = xasprintf("%s/optimizer", folder);
    assert_int_equal(dir_remove_tree(link, NULL), 0);
    char *target = xasprintf("%s/../elsewhere", cl.checkpoints);
    char *file = xasprintf("%s/a.pt", target);
    assert_int_equal(dir_make(target, 0755, NULL), 0);
    assert_int_equal(file_write_durable(file, "abc", 3, 0644, NULL), 0);
    assert_int_equal(symlink(target, link), 0);
    assert_int_equal(change(core_checkpoints_remove_files, 1, ",\"checkpointGlobs\":[\"**/a.pt\"]"),
                     200);
    swept();
    assert_true(path_exists(file));
    assert_int_equal(change(core_checkpoints_delete, 1, ""), 200);
    swept();
    assert_true(path_exists(file));
    assert_state(1, "DELETED");
    free(file);
    free(target);
    free(link);
    free(folder);
}

// The master ends between the commit and the removal of the last file: the next start continues.
static void test_an_end_in_the_middle(void **state)
{
    struct error e = {0};
    (void)state;
    run_one("");
    for (int i = 1; i <= 4; i++)
        save("1.1.1", i, 10 * i, i);
    stop_core();
    struct db_batch *b = db_batch_new();
    DB_ADD(b, CHECKPOINT_REMOVE, "DELETED", NULL, "[\"**\"]", uuid_of(1), "COMPLETED");
    DB_ADD(b, CHECKPOINT_REMOVE, "PARTIALLY_DELETED", "{\"weights.pt\":3}", "[\"optimizer/*\"]",
           uuid_of(2), NULL);
    DB_ADD(b, GC_ASK, 1);
    assert_int_equal(db_commit_wait(cl.db, b, &e), 0);
    start_core();
    swept();
    assert_state(1, "DELETED");
    assert_state(2, "PARTIALLY_DELETED"); // a person chose which files to keep: no policy takes it
    assert_false(has_file(uuid_of(2), "optimizer/a.pt"));
    assert_true(has_file(uuid_of(2), "weights.pt"));
    assert_state(3, "COMPLETED"); // the best of the complete ones
    assert_state(4, "COMPLETED");
}

static void test_a_task_takes_away_its_own(void **state)
{
    char body[256];
    (void)state;
    run_one("");
    save("1.1.1", 1, 10, 1);
    save("1.1.1", 2, 20, 2);
    snprintf(body, sizeof body, "{\"checkpoints\":[{\"uuid\":\"%s\",\"resources\":null}]}",
             uuid_of(2));
    call_ok(core_checkpoints_patch, as_task("1.1.1"), NULL, body);
    assert_state(2, "COMPLETED"); // null changes nothing
    snprintf(body, sizeof body,
             "{\"checkpoints\":[{\"uuid\":\"%s\",\"resources\":{\"resources\":{}}}]}", uuid_of(2));
    assert_int_equal(call_status(core_checkpoints_patch, as_user(OWNER, false), NULL, body), 400);
    call_ok(core_checkpoints_patch, as_task("1.1.1"), NULL, body);
    assert_stored("SELECT state FROM checkpoints WHERE steps = 20", "DELETED");
    assert_stored("SELECT latest_checkpoint FROM trials", uuid_of(1));
    json_t *answer = sync_agent("agent-1", "session", 1, task_in("1.1.1", "EXITED", KILLED_9));
    const json_t *env = jget(desired_task(answer, "1.1.2"), "env");
    assert_string_equal(jget_string(env, "DET_LATEST_CHECKPOINT", ""), uuid_of(1));
    json_decref(answer);
    snprintf(body, sizeof body,
             "{\"checkpoints\":[{\"uuid\":\"%s\",\"resources\":{\"resources\":"
             "{\"weights.pt\":\"3\",\"metadata.json\":\"9\"}}}]}",
             uuid_of(1));
    report("agent-1", 1, task_in("1.1.2", "RUNNING", ""));
    call_ok(core_checkpoints_patch, as_task("1.1.2"), NULL, body);
    assert_stored("SELECT state FROM checkpoints WHERE steps = 10", "PARTIALLY_DELETED");
}

// --- missing files -------------------------------------------------------------------------------

static void vanish(int number)
{
    struct error e = {0};
    char *folder = folder_of(uuid_of(number));
    if (dir_remove_tree(folder, &e))
        fail_msg("%s", e.text);
    free(folder);
}

static void change_store(const char *change)
{
    sqlite3 *sql = NULL;
    char path[64];
    snprintf(path, sizeof path, "%s/muster.db", cl.folder);
    assert_int_equal(sqlite3_open(path, &sql), SQLITE_OK);
    sqlite3_busy_timeout(sql, 10000);
    assert_int_equal(sqlite3_exec(sql, change, NULL, NULL, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_close(sql), SQLITE_OK);
}

// Adds a checkpoint of another, ended experiment: the storage is mounted.
static void save_of_another(int number)
{
    char sql[512];
    write_file(uuid_of(number), "weights.pt");
    snprintf(
        sql, sizeof sql,
        "INSERT INTO checkpoints (uuid, task_id, allocation_id, trial_id, experiment_id, state,"
        " steps, metadata, resources, storage, reported_at)"
        " SELECT '%s', task_id, allocation_id, 99, 99, state, steps, metadata, resources,"
        " storage, reported_at FROM checkpoints LIMIT 1",
        uuid_of(number));
    change_store(sql);
}

static void wait_for_latest(const char *value)
{
    int64_t until = clock_mono_us() + 20 * SECOND;
    const char *sql = "SELECT coalesce(latest_checkpoint, '') FROM trials";
    while (strcmp(stored(sql), value)) {
        if (clock_mono_us() > until)
            fail_msg("the trial goes on from \"%s\", not \"%s\"", stored(sql), value);
        clock_sleep_us(2000);
    }
}

// The trial fails and waits for slots while a worker looks for its checkpoint files. Returns the
// environment of its next start.
static json_t *fail_and_start_again(const char *latest)
{
    call_ok(core_agent_disable, as_user(OWNER, true), "agent-1", "{\"drain\":true}");
    report("agent-1", 1, task_in("1.1.1", "EXITED", KILLED_9));
    for (int i = 0; i < 20; i++)
        settle();
    wait_for_latest(latest);
    call_ok(core_agent_enable, as_user(OWNER, true), "agent-1", "{}");
    json_t *answer = sync_agent("agent-1", "session", 1, "");
    json_t *env = json_incref(jget(desired_task(answer, "1.1.2"), "env"));
    json_decref(answer);
    return env;
}

static void test_a_trial_whose_checkpoints_have_disappeared_begins_anew(void **state)
{
    (void)state;
    run_one("");
    save("1.1.1", 1, 10, 1);
    save("1.1.1", 2, 20, 2);
    save_of_another(3);
    vanish(1);
    vanish(2);
    json_t *env = fail_and_start_again("");
    assert_null(jget(env, "DET_LATEST_CHECKPOINT"));
    assert_string_equal(jget_string(env, "DET_STEPS_COMPLETED", ""), "0");
    json_decref(env);
    assert_stored("SELECT latest_checkpoint IS NULL FROM trials", "1");
    assert_stored("SELECT exit_reason LIKE '%; all checkpoints of this trial have disappeared from"
                  " storage; it starts again from the beginning' FROM trials",
                  "1");
    assert_stored("SELECT count(*) FROM checkpoints WHERE state = 'COMPLETED'", "3");
    assert_stored("SELECT state FROM trials", "ACTIVE");
}

static void test_a_trial_goes_on_from_what_has_not_disappeared(void **state)
{
    (void)state;
    run_one("");
    save("1.1.1", 1, 10, 1);
    save("1.1.1", 2, 20, 2);
    vanish(2);
    json_t *env = fail_and_start_again(uuid_of(1));
    assert_string_equal(jget_string(env, "DET_LATEST_CHECKPOINT", ""), uuid_of(1));
    assert_string_equal(jget_string(env, "DET_STEPS_COMPLETED", ""), "10");
    json_decref(env);
}

// A storage that the master cannot see tells nothing about its checkpoints.
static void test_storage_that_is_away_tells_nothing(void **state)
{
    (void)state;
    char *aside = xasprintf("%s-aside", cl.checkpoints);
    run_one("");
    save("1.1.1", 1, 10, 1);
    assert_int_equal(rename(cl.checkpoints, aside), 0);
    json_t *env = fail_and_start_again(uuid_of(1));
    assert_string_equal(jget_string(env, "DET_LATEST_CHECKPOINT", ""), uuid_of(1));
    json_decref(env);
    assert_int_equal(rename(aside, cl.checkpoints), 0);
    free(aside);
}

static void wait_for_log(const char *text)
{
    int64_t until = clock_mono_us() + 20 * SECOND;
    while (!strstr(logged("1.1"), text)) {
        if (clock_mono_us() > until)
            fail_msg("the log lacks \"%s\": %s", text, logged("1.1"));
        settle();
        clock_sleep_us(2000);
    }
}

// The trial starts again at once, so the result comes when the run has begun. Such a run must not
// look as if it had saved a checkpoint.
static void test_a_late_answer_changes_no_run(void **state)
{
    (void)state;
    run_one("");
    save("1.1.1", 1, 10, 1);
    save_of_another(3);
    vanish(1);
    report("agent-1", 1, task_in("1.1.1", "EXITED", KILLED_9));
    report("agent-1", 1, task_in("1.1.2", "RUNNING", ""));
    for (int i = 0; i < 50; i++) {
        settle();
        clock_sleep_us(2000);
    }
    assert_stored("SELECT latest_checkpoint FROM trials", uuid_of(1));
    assert_stored("SELECT exit_reason LIKE '%disappeared%' FROM trials", "0");
    report("agent-1", 1, task_in("1.1.2", "EXITED", KILLED_9));
    assert_stored("SELECT failures FROM trials", "2");
}

// A mount point without its file system is an empty folder.
static void test_an_empty_storage_costs_no_training(void **state)
{
    (void)state;
    char *aside = xasprintf("%s-aside", cl.checkpoints);
    run_one("");
    save("1.1.1", 1, 10, 1);
    save_of_another(3);
    assert_int_equal(rename(cl.checkpoints, aside), 0);
    assert_int_equal(dir_make(cl.checkpoints, 0755, NULL), 0);
    call_ok(core_agent_disable, as_user(OWNER, true), "agent-1", "{\"drain\":true}");
    report("agent-1", 1, task_in("1.1.1", "EXITED", KILLED_9));
    wait_for_log("keeps to this checkpoint");
    call_ok(core_agent_enable, as_user(OWNER, true), "agent-1", "{}");
    json_t *answer = sync_agent("agent-1", "session", 1, "");
    const json_t *env = jget(desired_task(answer, "1.1.2"), "env");
    assert_string_equal(jget_string(env, "DET_LATEST_CHECKPOINT", ""), uuid_of(1));
    json_decref(answer);
    assert_int_equal(rmdir(cl.checkpoints), 0);
    assert_int_equal(rename(aside, cl.checkpoints), 0);
    free(aside);
}

static void test_reports_that_are_not_theirs(void **state)
{
    (void)state;
    run_one("");
    submit_slots(1, "");
    report("agent-2", 1, "");
    report("agent-2", 1, task_in("2.2.1", "RUNNING", ""));
    save("1.1.1", 1, 10, 1);
    assert_int_equal(post_checkpoint("1.1.1", uuid_of(1), 10), 200);
    assert_int_equal(post_checkpoint("2.2.1", uuid_of(1), 99), 409);
    assert_stored("SELECT steps FROM checkpoints", "10");
    assert_stored("SELECT latest_checkpoint FROM trials WHERE id = 2", "(null)");
    char body[256];
    snprintf(body, sizeof body, "{\"checkpoints\":[{\"uuid\":\"%s\",\"resources\":{}}]}",
             uuid_of(1));
    assert_int_equal(call_status(core_checkpoints_patch, as_task("2.2.1"), NULL, body), 404);
}

// Delays the writer of the store, so that decisions of turns are not on disk.
static sqlite3 *hold(void)
{
    sqlite3 *sql = NULL;
    char path[64];
    snprintf(path, sizeof path, "%s/muster.db", cl.folder);
    assert_int_equal(sqlite3_open(path, &sql), SQLITE_OK);
    sqlite3_busy_timeout(sql, 10000);
    assert_int_equal(sqlite3_exec(sql, "BEGIN IMMEDIATE", NULL, NULL, NULL), SQLITE_OK);
    return sql;
}

static void let_go(sqlite3 *sql)
{
    assert_int_equal(sqlite3_exec(sql, "ROLLBACK", NULL, NULL, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_close(sql), SQLITE_OK);
}

static struct core_call *start_change(core_handler *handler, int number, const char *format)
{
    char body[512];
    snprintf(body, sizeof body, format, uuid_of(number));
    struct core_call *call = call_start(handler, as_user(OWNER, false), NULL, NULL, body);
    clock_sleep_us(300 * 1000); // a worker reads, then the core decides
    return call;
}

static int end_change(struct core_call *call)
{
    json_decref(call_end(call));
    return last_status;
}

#define DELETE_ONE "{\"checkpointUuids\":[\"%s\"]}"

// Checkpoints that a turn takes away before its commit are not used to start from, neither by a
// continuation nor by a fork; and they are not taken away twice.
static void test_what_goes_is_not_started_from(void **state)
{
    (void)state;
    run_one("checkpoint_storage: {save_trial_latest: 3}\n");
    for (int i = 1; i <= 3; i++)
        save("1.1.1", i, 10 * i, i);
    finish();
    swept();
    assert_stored("SELECT latest_checkpoint FROM trials", uuid_of(3));
    sqlite3 *held = hold();
    struct core_call *first = start_change(core_checkpoints_delete, 3, DELETE_ONE);
    struct core_call *again = start_change(core_checkpoints_delete, 3, DELETE_ONE);
    struct core_call *fork =
        start_change(core_experiment_create, 3,
                     "{\"activate\": true, \"parentId\": 1, \"config\": \"name: f\\n"
                     "entrypoint: sh x.sh\\nsearcher: {name: single, metric: loss, "
                     "source_checkpoint_uuid: %s}\\n\"}");
    struct core_call *on = start_change(core_experiment_continue, 3, "{\"id\": 1} %.0s");
    assert_false(call_is_done(first));
    let_go(held);
    assert_int_equal(end_change(first), 200);
    assert_int_equal(end_change(again), 200);
    assert_int_equal(end_change(fork), 409);
    assert_non_null(strstr(last_error, "is deleted"));
    assert_int_equal(end_change(on), 200);
    assert_stored("SELECT latest_checkpoint FROM trials", uuid_of(2));
    swept();
    assert_state(3, "DELETED");
    json_t *answer = sync_agent("agent-1", "session", 1, "");
    const json_t *env = jget(desired_task(answer, "1.1-1.2"), "env");
    assert_string_equal(jget_string(env, "DET_LATEST_CHECKPOINT", ""), uuid_of(2));
    json_decref(answer);
}

// The older one first: the trial steps back over both.
static void test_two_at_once(void **state)
{
    char body[512];
    (void)state;
    run_one("");
    for (int i = 1; i <= 3; i++)
        save("1.1.1", i, 10 * i, i);
    snprintf(
        body, sizeof body,
        "{\"checkpoints\":[{\"uuid\":\"%s\",\"resources\":{}},{\"uuid\":\"%s\",\"resources\":{}}]}",
        uuid_of(2), uuid_of(3));
    call_ok(core_checkpoints_patch, as_task("1.1.1"), NULL, body);
    assert_stored("SELECT latest_checkpoint FROM trials", uuid_of(1));
}

// A collection is under way when a trial continues whose checkpoints the policy all gives up.
static void test_a_continuation_beside_a_collection(void **state)
{
    (void)state;
    run_one("checkpoint_storage: {save_trial_best: 0, save_trial_latest: 0}\n");
    for (int i = 1; i <= 3; i++)
        save("1.1.1", i, 10 * i, i);
    report("agent-1", 1, task_in("1.1.1", "EXITED", EXIT_0));
    for (int i = 0; i < 50 && call_status(core_experiment_continue, as_user(OWNER, false), NULL,
                                          "{\"id\":1}") != 200;
         i++)
        settle();
    swept();
    const char *latest = stored("SELECT coalesce(latest_checkpoint, '') FROM trials");
    if (*latest) { // the continuation came first: then it is kept
        char sql[200];
        snprintf(sql, sizeof sql, "SELECT state FROM checkpoints WHERE uuid = '%.40s'", latest);
        assert_stored(sql, "COMPLETED");
    }
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, cluster_setup, cluster_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_the_end_collects),
        TEST(test_a_search_collects_as_it_goes),
        TEST(test_larger_may_be_better),
        TEST(test_on_demand_while_it_trains),
        TEST(test_deleting),
        TEST(test_what_others_need),
        TEST(test_what_a_model_names),
        TEST(test_thinning_out),
        TEST(test_links_are_not_followed),
        TEST(test_an_end_in_the_middle),
        TEST(test_a_task_takes_away_its_own),
        TEST(test_a_trial_whose_checkpoints_have_disappeared_begins_anew),
        TEST(test_a_trial_goes_on_from_what_has_not_disappeared),
        TEST(test_storage_that_is_away_tells_nothing),
        TEST(test_an_empty_storage_costs_no_training),
        TEST(test_a_late_answer_changes_no_run),
        TEST(test_reports_that_are_not_theirs),
        TEST(test_what_goes_is_not_started_from),
        TEST(test_two_at_once),
        TEST(test_a_continuation_beside_a_collection),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
