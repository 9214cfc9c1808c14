// Shared by the tests of the store: a store in its own folder, a few rows, a child process.
#ifndef MUSTER_TESTS_UNIT_DB_STORE_TEST_H
#define MUSTER_TESTS_UNIT_DB_STORE_TEST_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "db/store.h"

// Makes a new folder in the test's own folder; `dir` as for mkdtemp(3).
static inline char *store_folder(char dir[32])
{
    snprintf(dir, 32, "store.XXXXXX");
    assert_non_null(mkdtemp(dir));
    return dir;
}

static inline struct db *store_open(const char *dir)
{
    struct db *db = NULL;
    struct error e = {0};
    if (db_open(dir, &db, &e))
        fail_msg("%s", e.text);
    return db;
}

static inline struct db_reader *reader_open(struct db *db)
{
    struct db_reader *r = NULL;
    struct error e = {0};
    if (db_reader_open(db, &r, &e))
        fail_msg("%s", e.text);
    return r;
}

struct store_fixture { // the state of a test with a new store
    struct db *db;
    struct db_reader *r;
};

static inline int fixture_setup(void **state)
{
    static struct store_fixture f;
    char dir[32];
    f.db = store_open(store_folder(dir));
    f.r = reader_open(f.db);
    *state = &f;
    return 0;
}

static inline int fixture_teardown(void **state)
{
    struct store_fixture *f = *state;
    db_reader_close(f->r);
    db_close(f->db);
    return 0;
}

// A test with a new store and a reader of it.
#define with_store(test) cmocka_unit_test_setup_teardown(test, fixture_setup, fixture_teardown)

static inline void commit(struct db *db, struct db_batch *b)
{
    struct error e = {0};
    if (db_commit_wait(db, b, &e))
        fail_msg("%s", e.text);
}

// Returns the first column of the first row of `sql`.
static inline int64_t query_int(struct db_reader *r, const char *sql)
{
    struct db_rows *rows = db_query_sql(r, sql, NULL, 0);
    assert_int_equal(db_next(rows), 1);
    int64_t answer = db_get_integer(rows, 0);
    db_rows_close(rows);
    return answer;
}

static inline int64_t query_int_once(struct db *db, const char *sql)
{
    struct db_reader *r = reader_open(db);
    int64_t answer = query_int(r, sql);
    db_reader_close(r);
    return answer;
}

// A fork(2) whose child does not outlive a failed test.
static inline pid_t fork_child(void)
{
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0)
        prctl(PR_SET_PDEATHSIG, SIGKILL);
    return pid;
}

// Column `reports` holds the step; the bytes of the block are not a real block.
static inline void add_metric(struct db_batch *b, int64_t trial, int64_t step)
{
    DB_ADD(b, METRIC_INSERT, NULL, trial, "training", step, DB_BLOB("block", 5));
}

static inline struct db_batch *metric_batch(int64_t trial, int64_t step)
{
    struct db_batch *b = db_batch_new();
    add_metric(b, trial, step);
    return b;
}

// Writes a text into an integer column, after a correct row.
static inline struct db_batch *bad_batch(int64_t trial, int64_t step)
{
    struct db_batch *b = metric_batch(trial, step);
    const struct db_value values[] = {{.type = DB_NULL},
                                      db_value_text("seven"),
                                      db_value_text("training"),
                                      db_value_integer(step),
                                      {.type = DB_BLOB, .p = "block", .len = 5}};
    batch_add_values(b, STMT_METRIC_INSERT, values, 5);
    return b;
}

#endif
