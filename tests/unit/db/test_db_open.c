// Opening a store: new files, refusals and their texts, migrations.
#include "tests/unit/db/store_test.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "base/os/file.h"
#include "db/store.h"

static char *store_path(const char *dir, char path[64])
{
    snprintf(path, 64, "%s/muster.db", dir);
    return path;
}

static void run_sql(const char *path, const char *text)
{
    struct db_connection c;
    struct error e;
    assert_int_equal(connection_open(&c, path, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, &e), 0);
    if (connection_exec(c.sql, text, &e))
        fail_msg("%s", e.text);
    connection_close(&c);
}

static int64_t query_file_int(const char *path, const char *sql)
{
    struct db_connection c;
    struct error e;
    int64_t answer = 0;
    assert_int_equal(connection_open(&c, path, SQLITE_OPEN_READWRITE, &e), 0);
    if (connection_ask_int(c.sql, sql, &answer, &e))
        fail_msg("%s", e.text);
    connection_close(&c);
    return answer;
}

static void expect_refusal(const char *dir, int code, const char *words)
{
    struct db *db = NULL;
    struct error e = {0};
    assert_int_equal(db_open(dir, &db, &e), code);
    assert_int_equal(e.code, code);
    assert_null(db);
    if (!strstr(e.text, words))
        fail_msg("expected \"%s\" in: %s", words, e.text);
}

static void a_new_store_is_private_and_lasts(void **state)
{
    (void)state;
    char dir[32], deep[64], path[96];
    snprintf(deep, sizeof deep, "%s/not/yet", store_folder(dir));
    struct db *db = store_open(deep);
    commit(db, metric_batch(1, 1));
    static const char *const files[] = {"muster.db", "muster.db-wal", "muster.lock"};
    for (size_t i = 0; i < 3; i++) {
        struct stat st;
        snprintf(path, sizeof path, "%s/%s", deep, files[i]);
        assert_int_equal(stat(path, &st), 0);
        assert_int_equal(st.st_mode & 0777, 0600);
    }
    assert_int_equal(query_int_once(db, "SELECT journal_mode = 'wal' FROM pragma_journal_mode"), 1);
    assert_int_equal(query_int_once(db, "PRAGMA application_id"), STORE_APPLICATION_ID);
    assert_int_equal(query_int_once(db, "PRAGMA user_version"), migration_count);
    db_close(db);
    db = store_open(deep);
    assert_int_equal(query_int_once(db, "SELECT count(*) FROM metrics"), 1);
    db_close(db);
}

// The settings of the writer's connection that make commits durable and check references.
static void the_writer_uses_safe_settings(void **state)
{
    (void)state;
    char dir[32];
    struct db *db = store_open(store_folder(dir));
    static const struct {
        const char *sql;
        int64_t value;
    } settings[] = {
        {"PRAGMA synchronous", 2}, {"PRAGMA foreign_keys", 1}, {"PRAGMA secure_delete", 0}};
    for (size_t i = 0; i < 3; i++) {
        int64_t value = -1;
        assert_int_equal(connection_ask_int(db->connection.sql, settings[i].sql, &value, NULL), 0);
        assert_int_equal(value, settings[i].value);
    }
    db_close(db);
}

static void two_masters_are_refused(void **state)
{
    (void)state;
    char dir[32], words[64];
    struct db *db = store_open(store_folder(dir));
    snprintf(words, sizeof words, "in use by another master (pid %d)", (int)getpid());
    expect_refusal(dir, ERR_CONFLICT, words);
    commit(db, metric_batch(1, 1)); // the first master still works
    db_close(db);
    db_close(store_open(dir));
}

static void a_killed_master_leaves_no_lock(void **state)
{
    (void)state;
    char dir[32], byte;
    int ready[2];
    store_folder(dir);
    assert_int_equal(pipe(ready), 0);
    pid_t pid = fork_child();
    if (pid == 0) {
        store_open(dir);
        if (write(ready[1], "", 1) == 1)
            pause();
        _exit(1);
    }
    assert_int_equal(read(ready[0], &byte, 1), 1);
    expect_refusal(dir, ERR_CONFLICT, "stop that one");
    kill(pid, SIGKILL);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    db_close(store_open(dir));
    close(ready[0]);
    close(ready[1]);
}

static void a_newer_store_is_refused_untouched(void **state)
{
    (void)state;
    char dir[32], path[64], copy[96];
    db_close(store_open(store_folder(dir)));
    run_sql(store_path(dir, path), "PRAGMA user_version = 999");
    char *before = NULL, *after = NULL;
    size_t before_len, after_len;
    assert_int_equal(file_read(path, 1 << 24, &before, &before_len, NULL), 0);
    expect_refusal(dir, ERR_VERSION, "has version 999 of the schema");
    expect_refusal(dir, ERR_VERSION, "start the newer program that wrote it");
    assert_int_equal(file_read(path, 1 << 24, &after, &after_len, NULL), 0);
    assert_int_equal(before_len, after_len);
    assert_false(memcmp(before, after, before_len));
    free(before);
    free(after);

    snprintf(copy, sizeof copy, "%s.before-999", path);
    assert_int_equal(file_write_durable(copy, "", 0, 0600, NULL), 0);
    expect_refusal(dir, ERR_VERSION, copy);
}

static void damage_is_refused(void **state)
{
    (void)state;
    char dir[32], path[64];
    struct stat st;
    db_close(store_open(store_folder(dir)));
    store_path(dir, path);
    assert_int_equal(stat(path, &st), 0);

    assert_int_equal(truncate(path, st.st_size / 2), 0);
    expect_refusal(dir, ERR_CORRUPT,
                   "go back to a backup with \"muster master restore FILE -d store.");

    char noise[8192];
    memset(noise, 0x5a, sizeof noise);
    assert_int_equal(file_write_durable(path, noise, sizeof noise, 0600, NULL), 0);
    expect_refusal(dir, ERR_CORRUPT, "file is not a database");

    unlink(path);
    db_close(store_open(dir)); // the file was moved away: the store is empty
}

static void a_damaged_schema_is_refused(void **state)
{
    (void)state;
    char dir[32], path[64];
    db_close(store_open(store_folder(dir)));
    int fd = open(store_path(dir, path), O_RDWR);
    char noise[2048];
    memset(noise, 0x5a, sizeof noise);
    assert_int_equal(pwrite(fd, noise, sizeof noise, 100), sizeof noise); // behind the header
    close(fd);
    expect_refusal(dir, ERR_CORRUPT, "is damaged");
}

// A damaged page in the middle: the store opens, and the first query that needs the page fails.
static void damage_is_described_with_its_table(void **state)
{
    (void)state;
    char dir[32], path[64], noise[4096], page[32];
    struct error e = {0};
    db_close(store_open(store_folder(dir)));
    store_path(dir, path);
    long long size = query_file_int(path, "PRAGMA page_size");
    long long root =
        query_file_int(path, "SELECT rootpage FROM sqlite_schema WHERE name = 'experiments'");
    int fd = open(path, O_RDWR);
    memset(noise, 0x5a, sizeof noise);
    assert_int_equal(pwrite(fd, noise, sizeof noise, (root - 1) * size), sizeof noise);
    close(fd);
    struct db *db = store_open(dir);
    struct db_reader *r = reader_open(db);
    struct db_rows *rows = db_query_sql(r, "SELECT * FROM experiments", NULL, 0);
    assert_int_equal(db_next(rows), ERR_CORRUPT);
    db_rows_close(rows);
    assert_int_equal(db_unreadable(r, &e), ERR_CORRUPT);
    snprintf(page, sizeof page, "age %lld", root);
    assert_non_null(strstr(e.text, "table experiments: "));
    assert_non_null(strstr(e.text, page));
    assert_non_null(strstr(e.text, "muster master restore FILE -d store."));
    db_reader_close(r);
    db_close(db); // waits for the thread that describes the damage in the log
}

static void a_foreign_file_is_refused(void **state)
{
    (void)state;
    char dir[32], path[64];
    store_folder(dir);
    run_sql(store_path(dir, path), "CREATE TABLE songs (title TEXT); PRAGMA user_version = 1");
    expect_refusal(dir, ERR_CORRUPT, "not a store of Muster");
    assert_int_equal(query_file_int(path, "SELECT count(*) FROM sqlite_schema"), 1);
}

static void a_folder_that_is_a_file_is_refused(void **state)
{
    (void)state;
    assert_int_equal(file_write_durable("plain", "x", 1, 0600, NULL), 0);
    expect_refusal("plain", ERR_IO, "plain");
}

static const struct migration steps[] = {
    {"0001_one", "CREATE TABLE parents (id INTEGER PRIMARY KEY) STRICT;"
                 "CREATE TABLE children (id INTEGER PRIMARY KEY, parent INTEGER NOT NULL"
                 " REFERENCES parents (id)) STRICT"},
    {"0002_two", "ALTER TABLE parents ADD COLUMN name TEXT NOT NULL DEFAULT 'x'"},
    {"0003_bad", "CREATE TABLE fine (x); CREATE TABLE parents (id)"},
};

static int migrate(const char *path, const struct migration *list, int n, struct error *e)
{
    struct db_connection c;
    assert_int_equal(connection_open(&c, path, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, e), 0);
    int err = store_migrate(c.sql, path, list, n, e);
    connection_close(&c);
    return err;
}

static void a_migration_keeps_a_copy(void **state)
{
    (void)state;
    char dir[32], path[64], copy[96];
    struct error e = {0};
    store_path(store_folder(dir), path);
    snprintf(copy, sizeof copy, "%s.before-2", path);
    assert_int_equal(migrate(path, steps, 1, &e), 0);
    run_sql(path, "PRAGMA journal_mode = WAL; INSERT INTO parents VALUES (1), (2)");
    assert_false(path_exists(copy)); // a new store needs none
    assert_int_equal(migrate(path, steps, 2, &e), 0);
    assert_int_equal(query_file_int(path, "SELECT count(*) FROM parents WHERE name = 'x'"), 2);
    assert_int_equal(query_file_int(path, "PRAGMA user_version"), 2);
    assert_int_equal(query_file_int(copy, "SELECT count(*) FROM parents"), 2);
    assert_int_equal(query_file_int(copy, "PRAGMA user_version"), 1);
    struct stat st;
    assert_int_equal(stat(copy, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
    assert_int_equal(migrate(copy, steps, 2, &e), 0); // the copy is a store, too
    assert_int_equal(migrate(path, steps, 2, &e), 0); // a second call changes nothing
}

static void a_migration_that_fails_changes_nothing(void **state)
{
    (void)state;
    char dir[32], path[64];
    struct error e = {0};
    store_path(store_folder(dir), path);
    assert_int_equal(migrate(path, steps, 1, &e), 0);
    assert_int_equal(migrate(path, steps, 3, &e), ERR_INTERNAL);
    assert_non_null(strstr(e.text, "migration 0003_bad"));
    assert_non_null(strstr(e.text, "table parents already exists"));
    assert_int_equal(query_file_int(path, "PRAGMA user_version"), 1);
    assert_int_equal(query_file_int(path, "SELECT count(*) FROM pragma_table_info('parents')"), 1);
}

static void a_migration_that_loses_a_reference_is_refused(void **state)
{
    (void)state;
    static const struct migration careless[] = {
        {"0001_one", NULL}, {"0002_careless", "DELETE FROM parents WHERE id = 1"}};
    char dir[32], path[64];
    struct error e = {0};
    store_path(store_folder(dir), path);
    assert_int_equal(migrate(path, steps, 1, &e), 0);
    run_sql(path, "INSERT INTO parents VALUES (1); INSERT INTO children VALUES (1, 1)");
    assert_int_equal(migrate(path, careless, 2, &e), ERR_CORRUPT);
    assert_non_null(strstr(e.text, "1 rows would refer to missing rows"));
    assert_int_equal(query_file_int(path, "SELECT count(*) FROM parents"), 1);
}

// A store of 0001 with a row in every table that 0002 changes.
static const char first_store[] =
    "INSERT INTO users (id, username, password_hash, modified_at) VALUES (1, 'ann', 'x', 5);"
    "INSERT INTO workspaces VALUES (1, 'Uncategorized', 1, 0, 5), (2, 'Vision', 1, 1, 6);"
    "INSERT INTO projects VALUES (1, 'Uncategorized', 1, '', 1, 0, 5);"
    "INSERT INTO experiments (id, state, name, user_id, project_id, job_id, original_config,"
    " config, priority, searcher_type, seed, submitted_at)"
    " VALUES (7, 'COMPLETED', 'old', 1, 1, 'j', 'a: 1', '{}', 42, 'single', 3, 9);"
    "INSERT INTO trials (id, experiment_id, request_id, task_id, state, hparams, seed, started_at)"
    " VALUES (8, 7, 'r', '7.8', 'COMPLETED', '{}', 3, 9);"
    "INSERT INTO allocations (id, trial_id, epoch, state, slots, pool, queued_at, ended_at)"
    " VALUES ('7.8.1', 8, 1, 'TERMINATED', 4, 'default', 9, 10);"
    "INSERT INTO agents VALUES ('a', 'default', 1, 0, '[]', '[]', '1', 5, 6)";

static void a_migration_adds_teams(void **state)
{
    (void)state;
    static const char *const kept[] = {
        "SELECT count(*) FROM workspaces WHERE (id, name, archived, created_at) IN"
        " (VALUES (1, 'Uncategorized', 0, 5), (2, 'Vision', 1, 6))"
        " AND weight = 1 AND guaranteed_slots + max_slots + usage = 0 AND default_role = 'editor'",
        "SELECT 2 * count(*) FROM experiments WHERE id = 7 AND name = 'old' AND seed = 3"
        " AND queue_order = 0 AND weight = 1 AND service = 0 AND resource_pool = ''",
        "SELECT 2 * count(*) FROM experiment_briefs WHERE id = 7 AND pool = 'default'",
        "SELECT 2 * count(*) FROM allocations WHERE id = '7.8.1' AND slots = 4 AND ended_at = 10"
        " AND least_slots = 0 AND cause = '' AND preempted_for IS NULL",
        "SELECT 2 * count(*) FROM agents WHERE id = 'a' AND last_seen_at = 6 AND rack = ''",
        "SELECT 2 + count(*) FROM workspace_members"};
    char dir[32], path[64];
    struct error e = {0};
    store_path(store_folder(dir), path);
    assert_int_equal(migrate(path, migrations, 1, &e), 0);
    run_sql(path, first_store);
    struct db *db = store_open(dir);
    for (size_t i = 0; i < sizeof kept / sizeof *kept; i++)
        if (query_int_once(db, kept[i]) != 2)
            fail_msg("lost or changed: %s", kept[i]);
    assert_int_equal(query_int_once(db, "PRAGMA user_version"), migration_count);
    db_close(db);
}

// Version 10 sorted most lists by reading all rows; version 11 adds indexes for existing rows.
static void a_migration_adds_list_indexes(void **state)
{
    (void)state;
    static const char *const indexes[][2] = {
        {"experiment_briefs", "experiment_briefs_searcher"},
        {"experiment_briefs", "experiment_briefs_pool"},
        {"experiment_briefs", "experiment_briefs_slots"},
        {"experiment_briefs", "experiment_briefs_trials"},
        {"experiment_briefs", "experiment_briefs_progress"},
        {"experiments", "experiments_description"},
        {"projects", "projects_name"},
    };
    char dir[32], path[64], sql[160];
    struct error e = {0};
    store_path(store_folder(dir), path);
    assert_int_equal(migrate(path, migrations, 10, &e), 0);
    run_sql(path, "INSERT INTO users (id, username, password_hash, modified_at)"
                  " VALUES (1, 'a', '', 0);"
                  "INSERT INTO workspaces (id, name, user_id, created_at) VALUES (1, 'w', 1, 0);"
                  "INSERT INTO projects (id, name, workspace_id, user_id, created_at)"
                  " VALUES (1, 'p', 1, 1, 0);"
                  "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 50)"
                  " INSERT INTO experiments (id, state, name, description, notes, labels, user_id,"
                  " project_id, job_id, parent_id, original_config, config, priority,"
                  " searcher_type, searcher_state, seed, submitted_at) SELECT i, 'COMPLETED', 'x',"
                  " 'about ' || (i % 7), '', '[]', 1, 1, i, nullif(i % 5, 0), '', '{}', 42,"
                  " 'single', '{}', 1, i FROM n");
    assert_int_equal(migrate(path, migrations, 11, &e), 0);
    for (size_t i = 0; i < sizeof indexes / sizeof *indexes; i++) {
        snprintf(sql, sizeof sql,
                 "SELECT (SELECT count(*) FROM %s INDEXED BY %s WHERE 1) ="
                 " (SELECT count(*) FROM %s NOT INDEXED)",
                 indexes[i][0], indexes[i][1], indexes[i][0]);
        assert_int_equal(query_file_int(path, sql), 1);
    }
    assert_int_equal(query_file_int(path, "SELECT count(*) FROM experiment_briefs INDEXED BY"
                                          " experiment_briefs_parent WHERE parent_id IS NOT NULL"),
                     40);
    assert_int_equal(query_file_int(path, "SELECT count(*) FROM pragma_integrity_check"
                                          " WHERE integrity_check = 'ok'"),
                     1);
}

// Names become unique in their workspace; rows, references and the next ids are kept.
static void a_migration_makes_names_unique_per_workspace(void **state)
{
    (void)state;
    static const char *const asked[] = {
        "SELECT count(*) = 2 FROM workspaces WHERE name IN ('w', 'v') AND default_role = 'editor'",
        "SELECT count(*) FROM models WHERE id = 7 AND name = 'm' AND last_version = 1",
        "SELECT count(*) FROM model_versions WHERE model_id = 7",
        "SELECT seq = 9 FROM sqlite_sequence WHERE name = 'models'",
        "SELECT count(*) = 1 FROM sqlite_sequence WHERE name = 'webhooks' AND seq = 4",
        "SELECT count(*) FROM webhook_triggers WHERE webhook_id = 4",
        "SELECT count(*) FROM templates WHERE name = 't' AND config = '{}' AND workspace_id = 1",
        "SELECT count(*) FROM pragma_integrity_check WHERE integrity_check = 'ok'"};
    char dir[32], path[64];
    struct error e = {0};
    store_path(store_folder(dir), path);
    assert_int_equal(migrate(path, migrations, 14, &e), 0);
    run_sql(path, "INSERT INTO users (id, username, password_hash, modified_at)"
                  " VALUES (1, 'a', '', 0);"
                  "INSERT INTO workspaces (id, name, user_id, created_at) VALUES (1, 'w', 1, 0),"
                  " (2, 'v', 1, 0);"
                  "INSERT INTO models (id, name, user_id, workspace_id, created_at, updated_at,"
                  " last_version) VALUES (7, 'm', 1, 1, 0, 0, 1), (9, 'n', 1, 1, 0, 0, 0);"
                  "DELETE FROM models WHERE id = 9;"
                  "INSERT INTO model_versions (model_id, version, checkpoint_uuid, user_id,"
                  " created_at, updated_at) VALUES (7, 1, 'u', 1, 0, 0);"
                  "INSERT INTO templates VALUES ('t', '{}', 1, 0);"
                  "INSERT INTO webhooks (id, name, url, type, mode, workspace_id, user_id,"
                  " created_at) VALUES (4, 'h', 'u', 'DEFAULT', 'WORKSPACE', 1, 1, 0);"
                  "INSERT INTO webhook_triggers (webhook_id, type) VALUES (4, 'x')");
    assert_int_equal(migrate(path, migrations, 15, &e), 0);
    for (size_t i = 0; i < sizeof asked / sizeof *asked; i++)
        if (query_file_int(path, asked[i]) != 1)
            fail_msg("lost or changed: %s", asked[i]);
    run_sql(path, "INSERT INTO models (name, user_id, workspace_id, created_at, updated_at)"
                  " VALUES ('m', 1, 2, 0, 0);"
                  "INSERT INTO templates (name, config, workspace_id, modified_at)"
                  " VALUES ('t', '{}', 2, 0)");
    assert_int_equal(query_file_int(path, "SELECT max(id) FROM models"), 10);
}

// A key has five characters; projects with greater ids get none.
static void a_migration_gives_projects_keys(void **state)
{
    (void)state;
    char dir[32], path[64];
    struct error e = {0};
    store_path(store_folder(dir), path);
    assert_int_equal(migrate(path, migrations, 26, &e), 0);
    run_sql(path, "INSERT INTO users (id, username, password_hash, modified_at)"
                  " VALUES (1, 'a', '', 0);"
                  "INSERT INTO workspaces (id, name, user_id, created_at) VALUES (1, 'w', 1, 0);"
                  "INSERT INTO projects (id, name, workspace_id, user_id, created_at)"
                  " VALUES (4096, 'a', 1, 1, 0), (65535, 'b', 1, 1, 0), (65536, 'c', 1, 1, 0),"
                  " (1048576, 'd', 1, 1, 0)");
    assert_int_equal(migrate(path, migrations, 27, &e), 0);
    assert_int_equal(query_file_int(path, "SELECT group_concat(key, ' ') = 'P1000 PFFFF  ' FROM"
                                          " (SELECT key FROM projects WHERE id > 1 ORDER BY id)"),
                     1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_new_store_is_private_and_lasts),
        cmocka_unit_test(the_writer_uses_safe_settings),
        cmocka_unit_test(two_masters_are_refused),
        cmocka_unit_test(a_killed_master_leaves_no_lock),
        cmocka_unit_test(a_newer_store_is_refused_untouched),
        cmocka_unit_test(damage_is_refused),
        cmocka_unit_test(a_damaged_schema_is_refused),
        cmocka_unit_test(damage_is_described_with_its_table),
        cmocka_unit_test(a_foreign_file_is_refused),
        cmocka_unit_test(a_folder_that_is_a_file_is_refused),
        cmocka_unit_test(a_migration_keeps_a_copy),
        cmocka_unit_test(a_migration_that_fails_changes_nothing),
        cmocka_unit_test(a_migration_that_loses_a_reference_is_refused),
        cmocka_unit_test(a_migration_adds_teams),
        cmocka_unit_test(a_migration_adds_list_indexes),
        cmocka_unit_test(a_migration_makes_names_unique_per_workspace),
        cmocka_unit_test(a_migration_gives_projects_keys),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
