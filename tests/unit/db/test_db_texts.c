// The text index: after each commit it matches the texts of the experiments, whatever a group did.
#include "tests/unit/db/store_test.h"

#include "db/store.h"
#include "tests/unit/db/gate.h"

static const char people[] =
    "INSERT INTO users (id, username, password_hash, modified_at) VALUES (1, 'ann', 'x', 5);"
    "INSERT INTO workspaces (id, name, user_id, created_at) VALUES (1, 'w', 1, 5);"
    "INSERT INTO projects (id, name, workspace_id, user_id, created_at) VALUES (1, 'p', 1, 1, 5)";

// FTS5 compares the whole index with the rows; a missing or additional word is an error.
static const char check_index[] =
    "INSERT INTO experiments_text (experiments_text, rank) VALUES ('integrity-check', 1);"
    "INSERT INTO experiments_names (experiments_names, rank) VALUES ('integrity-check', 1)";

// Runs SQL on the file of a closed store.
static void run_sql(const char *dir, const char *text)
{
    struct db_connection c;
    struct error e;
    char path[64];
    snprintf(path, sizeof path, "%s/muster.db", dir);
    assert_int_equal(connection_open(&c, path, SQLITE_OPEN_READWRITE, &e), 0);
    if (connection_exec(c.sql, text, &e))
        fail_msg("%s", e.text);
    connection_close(&c);
}

static struct db *store_with_people(char dir[32])
{
    db_close(store_open(store_folder(dir)));
    run_sql(dir, people);
    return store_open(dir);
}

static void close_and_check(struct db *db, const char *dir)
{
    assert_int_equal(query_int_once(db, "SELECT count(*) FROM experiments_unindexed"), 0);
    db_close(db);
    run_sql(dir, check_index);
}

static int64_t found(struct db *db, const char *table, const char *words)
{
    char *sql = sqlite3_mprintf("SELECT coalesce(sum(rowid), 0) FROM %s WHERE %s MATCH %Q", table,
                                table, words);
    int64_t ids = query_int_once(db, sql);
    sqlite3_free(sql);
    return ids;
}

static void add_experiment(struct db_batch *b, int64_t id, const char *name, const char *text)
{
    const int64_t one = 1;
    DB_ADD(b, EXPERIMENT_INSERT, id, "PAUSED", name, text, "", "[\"red\"]", one, one, "job", 0,
           "a: 1", "{}", one, "single", "{}", 0, one, "", one);
}

static void rewrite(struct db_batch *b, int64_t id, const char *name, const char *notes)
{
    DB_ADD(b, EXPERIMENT_PATCH, name, NULL, notes, NULL, -1, NULL, id);
}

static struct db_batch *experiment_batch(int64_t id, const char *name, const char *text)
{
    struct db_batch *b = db_batch_new();
    add_experiment(b, id, name, text);
    return b;
}

static void new_texts_are_found(void **state)
{
    (void)state;
    char dir[32];
    struct db *db = store_with_people(dir);
    struct gate gate;
    gate_close(&gate, db); // so that all batches are in one group
    for (int64_t id = 1; id <= 100; id++)
        db_commit(db, experiment_batch(id, id == 7 ? "resnet" : "vision", "of words"), NULL, NULL);
    gate_open(&gate);
    commit(db, experiment_batch(101, "later", "alone"));
    assert_int_equal(found(db, "experiments_text", "words"), 5050);
    assert_int_equal(found(db, "experiments_text", "red AND alone"), 101);
    assert_int_equal(found(db, "experiments_names", "esn"), 7);
    close_and_check(db, dir);
}

static void changed_texts_are_found(void **state)
{
    (void)state;
    char dir[32];
    struct db *db = store_with_people(dir);
    struct db_batch *b = experiment_batch(1, "first", "one");
    add_experiment(b, 2, "second", "two");
    add_experiment(b, 3, "third", "three");
    rewrite(b, 2, "another", "before its words were there");
    DB_ADD(b, EXPERIMENT_DELETE, 3);
    commit(db, b);
    assert_int_equal(found(db, "experiments_names", "sec"), 0);
    assert_int_equal(found(db, "experiments_text", "another AND before"), 2);
    b = db_batch_new();
    rewrite(b, 1, "changed", "once");
    rewrite(b, 1, "changed", "twice");
    rewrite(b, 2, NULL, "gone");
    DB_ADD(b, EXPERIMENT_DELETE, 2);
    commit(db, b);
    assert_int_equal(found(db, "experiments_names", "ang"), 1);
    assert_int_equal(found(db, "experiments_text", "once OR first OR gone OR another"), 0);
    assert_int_equal(found(db, "experiments_text", "twice AND one"), 1);
    close_and_check(db, dir);
}

static void refused_texts_are_not_found(void **state)
{
    (void)state;
    char dir[32];
    struct db *db = store_with_people(dir);
    struct gate gate;
    struct db_batch *bad = experiment_batch(2, "refused", "never");
    add_experiment(bad, 2, "twice", "the same id");
    gate_close(&gate, db);
    db_commit(db, experiment_batch(1, "good", "before"), NULL, NULL);
    db_commit(db, bad, NULL, NULL);
    db_commit(db, experiment_batch(3, "good", "after"), NULL, NULL);
    gate_open(&gate);
    commit(db, db_batch_new());
    assert_int_equal(found(db, "experiments_text", "good"), 4);
    assert_int_equal(found(db, "experiments_text", "never OR twice"), 0);
    close_and_check(db, dir);
}

// Version 7 wrote the words of each row at once.
static void an_older_store_stays_indexed(void **state)
{
    (void)state;
    char dir[32], path[64];
    struct db_connection c;
    struct error e = {0};
    snprintf(path, sizeof path, "%s/muster.db", store_folder(dir));
    assert_int_equal(connection_open(&c, path, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, &e), 0);
    assert_int_equal(store_migrate(c.sql, path, migrations, 7, &e), 0);
    connection_close(&c);
    run_sql(dir, people);
    run_sql(dir, "INSERT INTO experiments (id, state, name, user_id, project_id, job_id,"
                 " original_config, config, priority, searcher_type, seed, submitted_at)"
                 " VALUES (1, 'PAUSED', 'old', 1, 1, 'j', '', '{}', 42, 'single', 3, 9),"
                 " (2, 'PAUSED', 'kept', 1, 1, 'j', '', '{}', 42, 'single', 3, 9),"
                 " (3, 'PAUSED', 'old', 1, 1, 'j', '', '{}', 42, 'single', 3, 9)");
    struct db *db = store_open(dir);
    struct db_batch *b = experiment_batch(4, "new", "");
    rewrite(b, 1, "renamed", "noted");
    DB_ADD(b, EXPERIMENT_DELETE, 3);
    commit(db, b);
    assert_int_equal(found(db, "experiments_text", "kept OR new OR noted"), 7);
    assert_int_equal(found(db, "experiments_names", "old"), 0);
    close_and_check(db, dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(new_texts_are_found),
        cmocka_unit_test(changed_texts_are_found),
        cmocka_unit_test(refused_texts_are_not_found),
        cmocka_unit_test(an_older_store_stays_indexed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
