// Tests the history of a store as a trace, and the errors of other files.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/os/file.h"
#include "db/db.h"
#include "simulate/history.h"

#define S SIMULATE_SECOND

static char folder[32];

static const char rows[] =
    "INSERT INTO users (id, username, password_hash, modified_at) VALUES (101, 'ada', '', 0),"
    " (102, 'bob', '', 0);"
    "INSERT INTO workspaces (id, name, user_id, created_at, weight, guaranteed_slots, max_slots)"
    " VALUES (101, 'vision', 101, 0, 2.5, 4, 64), (102, 'text', 102, 0, 1, 0, 0);"
    "INSERT INTO workspace_members (workspace_id, user_id, weight, max_slots)"
    " VALUES (101, 102, 3, 7);"
    "INSERT INTO projects (id, name, workspace_id, user_id, created_at) VALUES"
    " (101, 'p', 101, 101, 0), (102, 'q', 102, 102, 0);"
    "INSERT INTO experiments (id, state, name, user_id, project_id, job_id, original_config, "
    "config,"
    " priority, searcher_type, seed, submitted_at) VALUES"
    " (1, 'COMPLETED', 'e', 101, 101, 'j', '', "
    "  '{\"resources\": {\"slots_per_trial\": 4, \"is_single_node\": true}}', 42, 'single', 0, 0),"
    " (2, 'RUNNING', 'f', 102, 102, 'k', '', '{\"resources\": {\"slots_per_trial\": 8}}', 7,"
    "  'single', 0, 0);"
    "INSERT INTO trials (id, experiment_id, request_id, task_id, state, hparams, seed, started_at,"
    " ended_at) VALUES (1, 1, 'r', 't1', 'COMPLETED', '{}', 0, 0, 600000000),"
    " (2, 2, 'r', 't2', 'RUNNING', '{}', 0, 0, NULL), (3, 2, 's', 't3', 'QUEUED', '{}', 0, 0, "
    "NULL),"
    " (4, 1, 'u', 't4', 'COMPLETED', '{}', 0, 0, 9);"
    "INSERT INTO allocations (id, trial_id, epoch, state, slots, pool, queued_at, started_at,"
    " ended_at, least_slots) VALUES"
    // two runs on 4 slots, 100 s and 50 s
    " ('a1', 1, 1, 'TERMINATED', 4, 'gpu', 100000000, 110000000, 210000000, 0),"
    " ('a2', 1, 2, 'TERMINATED', 4, 'gpu', 300000000, 310000000, 360000000, 0),"
    // elastic: 100 s on 2 slots, then 60 s on 8 slots until the newest time in the store
    " ('b1', 2, 1, 'TERMINATED', 2, 'gpu', 50000000, 60000000, 160000000, 2),"
    " ('b2', 2, 2, 'RUNNING', 8, 'gpu', 160000000, 340000000, NULL, 2),"
    " ('c1', 3, 1, 'QUEUED', 8, 'gpu', 400000000, NULL, NULL, 0),"
    " ('d1', 4, 1, 'TERMINATED', 1, 'cpu', 1, 1, 9, 0);"
    "INSERT INTO agents (id, pool, enabled, slots, disabled_slots, version, registered_at,"
    " last_seen_at, rack) VALUES"
    " ('n1', 'gpu', 1, '[{},{},{},{}]', '[]', '', 0, 0, 'east'),"
    " ('n2', 'gpu', 1, '[{},{},{},{}]', '[1]', '', 0, 0, 'west'),"
    " ('n3', 'gpu', 0, '[{},{}]', '[]', '', 0, 0, 'west'),"
    " ('n4', 'gpu', 1, '[{}]', '[0]', '', 0, 0, ''),"
    " ('n5', 'gpu', 1, '[{},{}]', '[]', '', 0, 0, 'east'),"
    " ('n6', 'cpu', 1, '[{}]', '[]', '', 0, 0, '');";

static char *store_path(void)
{
    return path_join(folder, "muster.db");
}

static void change(const char *sql)
{
    sqlite3 *db = NULL;
    char *path = store_path(), *why = NULL;
    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    if (sqlite3_exec(db, sql, NULL, NULL, &why) != SQLITE_OK)
        fail_msg("%s", why);
    sqlite3_close(db);
    free(path);
}

static int make_store(void **state)
{
    (void)state;
    struct db *db = NULL;
    snprintf(folder, sizeof folder, "history.XXXXXX");
    assert_non_null(mkdtemp(folder));
    assert_int_equal(db_open(folder, &db, NULL), 0);
    db_close(db);
    change(rows);
    return 0;
}

static const char *user_of(const struct trace *t, const struct simulate_job *j)
{
    return t->teams[j->team].name;
}

static void trials_become_jobs(void **state)
{
    (void)state;
    struct cluster_history h;
    struct error e = {0};
    if (history_read(folder, "gpu", 0, INT64_MAX, &h, &e))
        fail_msg("%s", e.text);
    const struct trace *t = &h.trace;
    assert_int_equal(t->job_count, 2);
    assert_int_equal(h.unfinished, 1);
    assert_int_equal(h.unstarted, 1);
    const struct simulate_job *elastic = &t->jobs[0], *rigid = &t->jobs[1];
    assert_int_equal(elastic->submit, 50 * S);
    assert_int_equal(elastic->length, (100 * 2 + 60 * 8) * S / 8);
    assert_int_equal(elastic->min_slots, 2);
    assert_int_equal(elastic->max_slots, 8);
    assert_int_equal(elastic->priority, 7);
    assert_string_equal(user_of(t, elastic), "bob");
    assert_int_equal(rigid->submit, 100 * S);
    assert_int_equal(rigid->length, 150 * S);
    assert_int_equal(rigid->min_slots, 4);
    assert_true(rigid->one_node && !elastic->one_node);
    assert_string_equal(user_of(t, rigid), "ada");
    assert_string_equal(t->teams[t->teams[rigid->team].parent].name, "vision");
    history_free(&h);
}

static void workspaces_and_agents_come_with_them(void **state)
{
    (void)state;
    struct cluster_history h;
    char *path = store_path();
    assert_int_equal(history_read(path, "gpu", 0, INT64_MAX, &h, NULL),
                     0); // the path of the file itself
    free(path);
    const struct simulate_team *team = &h.trace.teams[trace_team(&h.trace, "vision")];
    assert_int_equal(team->weight, 2500);
    assert_int_equal(team->guaranteed, 4);
    assert_int_equal(team->maximum, 64);
    const struct simulate_team *user = &h.trace.teams[trace_user(&h.trace, "vision", "bob")];
    assert_int_equal(user->weight, 3000);
    assert_int_equal(user->maximum, 7);
    assert_int_equal(h.node_count, 3); // n1, n5, n2
    assert_int_equal(h.nodes[0].slots, 4);
    assert_int_equal(h.nodes[1].slots, 2);
    assert_int_equal(h.nodes[2].slots, 3);
    assert_int_equal(h.nodes[0].rack, h.nodes[1].rack);
    assert_int_not_equal(h.nodes[0].rack, h.nodes[2].rack);
    history_free(&h);
}

static void history_can_be_simulated(void **state)
{
    (void)state;
    struct cluster_history h;
    struct error e = {0};
    struct simulate_figures f;
    struct simulate_options options = {.policy = SCHED_POLICY_FAIR_SHARE};
    assert_int_equal(history_read(folder, "gpu", 0, INT64_MAX, &h, &e), 0);
    struct simulate_trace trace = trace_view(&h.trace);
    if (simulate(&trace, h.nodes, h.node_count, &options, &f, &e))
        fail_msg("%s", e.text);
    assert_int_equal(f.jobs, 2);
    assert_int_equal(f.slots, 9);
    simulate_figures_free(&f);
    history_free(&h);
}

static void the_window_counts_from_the_first_job(void **state)
{
    (void)state;
    struct cluster_history h;
    assert_int_equal(history_read(folder, "gpu", 10 * S, 60 * S, &h, NULL), 0);
    assert_int_equal(h.trace.job_count, 1);
    assert_int_equal(h.trace.jobs[0].submit, 100 * S);
    assert_int_equal(h.trace.outside, 2);
    history_free(&h);
}

static void refuse(const char *path, const char *pool, int code, const char *what)
{
    struct cluster_history h;
    struct error e = {0};
    int err = history_read(path, pool, 0, INT64_MAX, &h, &e);
    if (err != code || !strstr(e.text, what))
        fail_msg("%d: \"%s\" does not say \"%s\"", err, e.text, what);
}

static void what_is_no_store_is_refused(void **state)
{
    (void)state;
    refuse(folder, NULL, ERR_INVALID, "several pools; choose one with --pool: cpu, gpu");
    refuse(folder, "tpu", ERR_INVALID, "there is no pool tpu; choose one with --pool: cpu, gpu");
    refuse("nowhere", NULL, ERR_NOT_FOUND, "nowhere");
    refuse(".", NULL, ERR_NOT_FOUND, "muster.db");
    assert_int_equal(file_write_durable("other.db", "hello", 5, 0600, NULL), 0);
    refuse("other.db", NULL, ERR_CORRUPT, "other.db");
    assert_int_equal(file_write_durable("empty.db", "", 0, 0600, NULL), 0);
    refuse("empty.db", NULL, ERR_CORRUPT, "is not a store of Muster");
    change("PRAGMA user_version = 1");
    refuse(folder, "gpu", ERR_VERSION, "start this program's master on it once");
    change("PRAGMA user_version = 9999");
    refuse(folder, "gpu", ERR_VERSION, "use the program that wrote it");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(trials_become_jobs),
        cmocka_unit_test(workspaces_and_agents_come_with_them),
        cmocka_unit_test(history_can_be_simulated),
        cmocka_unit_test(the_window_counts_from_the_first_job),
        cmocka_unit_test(what_is_no_store_is_refused),
    };
    return cmocka_run_group_tests(tests, make_store, NULL);
}
