// The statement tables against the schema, and what the statements promise.
#include "tests/unit/db/store_test.h"

#include "db/store.h"

// Catches every slip in the name of a table or a column.
static void every_statement_fits_the_schema(void **state)
{
    (void)state;
    char dir[32], path[64];
    db_close(store_open(store_folder(dir)));
    snprintf(path, sizeof path, "%s/muster.db", dir);
    struct connection c;
    assert_int_equal(connection_open(&c, path, SQLITE_OPEN_READWRITE, NULL), 0);
    // Else "name" in double quotes is a string when there is no such column.
    assert_int_equal(sqlite3_db_config(c.sql, SQLITE_DBCONFIG_DQS_DML, 0, NULL), SQLITE_OK);
    for (int i = 0; i < STMT_COUNT; i++) {
        enum stmt stmt = (enum stmt)i;
        sqlite3_stmt *s = NULL;
        const char *rest = NULL;
        if (sqlite3_prepare_v2(c.sql, stmt_sql(stmt), -1, &s, &rest) != SQLITE_OK)
            fail_msg("%s: %s", stmt_name(stmt), sqlite3_errmsg(c.sql));
        if (*rest)
            fail_msg("%s holds more than one statement", stmt_name(stmt));
        if (!sqlite3_stmt_readonly(s) != stmt_is_write(stmt))
            fail_msg("%s stands in the wrong table", stmt_name(stmt));
        if (sqlite3_bind_parameter_count(s) > PARAMS_MAX)
            fail_msg("%s has more than %d parameters", stmt_name(stmt), PARAMS_MAX);
        sqlite3_finalize(s);
    }
    connection_close(&c);
}

static void add_person(struct db_batch *b)
{
    db_batch_add(b, STMT_USER_INSERT, "ssiisi", "ada", "Ada", (int64_t)1, (int64_t)1, "$y$",
                 (int64_t)1);
    db_batch_add(b, STMT_WORKSPACE_INSERT, "isii", (int64_t)1, "w", (int64_t)1, (int64_t)1);
    db_batch_add(b, STMT_PROJECT_INSERT, "isisii", (int64_t)1, "p", (int64_t)1, "", (int64_t)1,
                 (int64_t)1);
}

static void add_experiment(struct db_batch *b, int64_t id, const char *state)
{
    db_batch_add(b, STMT_EXPERIMENT_INSERT, "isssssiisnssissiisi", id, state, "name", "", "", "[]",
                 (int64_t)1, (int64_t)1, "job", "name: x\n", "{}", (int64_t)42, "single", "{}",
                 (int64_t)0, (int64_t)7, "hash", (int64_t)1);
}

// Trial `id` of experiment `id` with a row in every table that hangs on it.
static void add_trial(struct db_batch *b, int64_t id)
{
    char task[24], allocation[32], hash[48];
    snprintf(task, sizeof task, "%lld", (long long)id);
    snprintf(allocation, sizeof allocation, "%s.1", task);
    snprintf(hash, sizeof hash, "hash of %s", allocation);
    db_batch_add(b, STMT_TRIAL_INSERT, "iissssii", id, id, "r", task, "ACTIVE", "{}", (int64_t)7,
                 (int64_t)1);
    db_batch_add(b, STMT_ALLOCATION_INSERT, "siisisi", allocation, id, (int64_t)1, "QUEUED",
                 (int64_t)2, "default", (int64_t)1);
    db_batch_add(b, STMT_TOKEN_INSERT, "ssnsii", hash, "allocation", allocation, (int64_t)1,
                 (int64_t)0);
    add_metric(b, id, 1);
    db_batch_add(b, STMT_LOG_CHUNK_INSERT, "siiiiibb", task, (int64_t)1, (int64_t)1, (int64_t)5,
                 (int64_t)1, (int64_t)1, "x", (size_t)1, "y", (size_t)1);
    db_batch_add(b, STMT_LOG_SENDER_SET, "sssi", task, allocation, "agent", (int64_t)1);
    db_batch_add(b, STMT_METRIC_CHUNK_INSERT, "iisiiiib", id, id, "training", (int64_t)1,
                 (int64_t)9, (int64_t)9, (int64_t)9, "axis", (size_t)4);
    db_batch_add(b, STMT_METRIC_COLUMN_INSERT, "isb", id, "loss", "column", (size_t)6);
    db_batch_add(b, STMT_METRIC_CUT_INSERT, "iii", id, (int64_t)2, (int64_t)5);
    db_batch_add(b, STMT_CHECKPOINT_UPSERT, "sssiisisssni", hash, task, allocation, id, id,
                 "COMPLETED", (int64_t)1, "{}", "{}", "{}", (int64_t)1);
}

static int64_t count(struct db_reader *r, const char *table)
{
    char sql[64];
    snprintf(sql, sizeof sql, "SELECT count(*) FROM %s", table);
    return ask(r, sql);
}

static void an_experiment_goes_with_all_that_hangs_on_it(void **state)
{
    struct fixture *f = *state;
    static const enum stmt pieces[] = {STMT_EXPERIMENT_DELETE_LOGS,
                                       STMT_EXPERIMENT_DELETE_LOG_SENDERS,
                                       STMT_EXPERIMENT_DELETE_METRICS,
                                       STMT_EXPERIMENT_DELETE_METRIC_COLUMNS,
                                       STMT_EXPERIMENT_DELETE_METRIC_CHUNKS,
                                       STMT_EXPERIMENT_DELETE_METRIC_CUTS,
                                       STMT_EXPERIMENT_DELETE_CHECKPOINTS,
                                       STMT_EXPERIMENT_DELETE_TOKENS,
                                       STMT_EXPERIMENT_DELETE_ALLOCATIONS,
                                       STMT_EXPERIMENT_DELETE_TRIALS,
                                       STMT_EXPERIMENT_DELETE};
    static const char *const tables[] = {"log_chunks",     "log_senders", "metrics",
                                         "metric_columns", "metric_cuts", "metric_chunks",
                                         "checkpoints",    "tokens",      "allocations",
                                         "trials",         "experiments"};
    struct db_batch *b = db_batch_new();
    add_person(b);
    db_batch_add(b, STMT_MODEL_DEFINITION_INSERT, "sb", "hash", "tar", (size_t)3);
    for (int64_t id = 1; id <= 2; id++) {
        add_experiment(b, id, "ACTIVE");
        add_trial(b, id);
    }
    commit(f->db, b);

    for (int64_t id = 1; id <= 2; id++) {
        for (size_t i = 0; i < sizeof tables / sizeof *tables; i++)
            assert_int_equal(count(f->r, tables[i]), 3 - id);
        b = db_batch_new();
        for (size_t i = 0; i < sizeof pieces / sizeof *pieces; i++)
            db_batch_add(b, pieces[i], "i", id);
        db_batch_add(b, STMT_MODEL_DEFINITION_DELETE_UNUSED, "s", "hash");
        commit(f->db, b);
        assert_int_equal(count(f->r, "model_definitions"), id == 1 ? 1 : 0);
    }
    for (size_t i = 0; i < sizeof tables / sizeof *tables; i++)
        assert_int_equal(count(f->r, tables[i]), 0);
}

static void what_is_sent_twice_is_there_once(void **state)
{
    struct fixture *f = *state;
    struct db_batch *b = db_batch_new();
    add_person(b);
    add_experiment(b, 1, "ACTIVE");
    add_trial(b, 1);
    for (int i = 0; i < 2; i++)
        db_batch_add(b, STMT_METRIC_CUT_INSERT, "iii", (int64_t)1, (int64_t)2, (int64_t)5);
    commit(f->db, b);
    assert_int_equal(ask(f->r, "SELECT count(*) FROM metric_cuts"), 1);

    // A value that is missing is not a repetition.
    struct error e = {0};
    b = db_batch_new();
    db_batch_add(b, STMT_METRIC_INSERT, "nisin", (int64_t)1, "training", (int64_t)2);
    assert_int_equal(db_commit_wait(f->db, b, &e), ERR_INVALID);
    assert_non_null(strstr(e.text, "METRIC_INSERT: NOT NULL constraint failed: metrics.data"));
}

static void ended_work_is_not_live(void **state)
{
    struct fixture *f = *state;
    static const char *const states[] = {"ACTIVE", "COMPLETED", "PAUSED", "CANCELED", "ERROR"};
    struct db_batch *b = db_batch_new();
    add_person(b);
    for (int64_t id = 1; id <= 5; id++) {
        add_experiment(b, id, states[id - 1]);
        add_trial(b, id);
    }
    db_batch_add(b, STMT_ALLOCATION_END, "sis", "done", (int64_t)2, "3.1");
    commit(f->db, b);

    static const enum stmt queries[] = {STMT_EXPERIMENTS_LIVE, STMT_TRIALS_LIVE};
    for (size_t i = 0; i < 2; i++) {
        struct db_rows *rows = db_query(f->r, queries[i], "");
        assert_int_equal(db_next(rows), 1);
        assert_int_equal(db_int(rows, 0), 1);
        assert_int_equal(db_next(rows), 1);
        assert_int_equal(db_int(rows, 0), 3);
        assert_int_equal(db_next(rows), 0);
        db_rows_close(rows);
    }
    struct db_rows *rows = db_query(f->r, STMT_ALLOCATIONS_LIVE, "");
    for (int64_t id = 1; id <= 5; id++) {
        if (id == 3)
            continue;
        assert_int_equal(db_next(rows), 1);
        assert_int_equal(db_int(rows, 1), id);
    }
    assert_int_equal(db_next(rows), 0);
    db_rows_close(rows);
}

static void an_id_is_never_given_twice(void **state)
{
    struct fixture *f = *state;
    struct db_batch *b = db_batch_new();
    add_person(b);
    add_experiment(b, 7, "COMPLETED");
    add_trial(b, 7);
    commit(f->db, b);
    b = db_batch_new();
    db_batch_add(b, STMT_EXPERIMENT_DELETE_ALLOCATIONS, "i", (int64_t)7);
    db_batch_add(b, STMT_EXPERIMENT_DELETE_TRIALS, "i", (int64_t)7);
    db_batch_add(b, STMT_EXPERIMENT_DELETE, "i", (int64_t)7);
    commit(f->db, b);
    struct db_rows *rows = db_query(f->r, STMT_LAST_IDS, "");
    assert_int_equal(db_next(rows), 1);
    assert_int_equal(db_int(rows, 0), 7);
    assert_int_equal(db_int(rows, 1), 7);
    db_rows_close(rows);
}

static void a_task_acts_for_the_owner_of_its_experiment(void **state)
{
    struct fixture *f = *state;
    struct db_batch *b = db_batch_new();
    add_person(b);
    add_experiment(b, 1, "ACTIVE");
    add_trial(b, 1);
    db_batch_add(b, STMT_TOKEN_INSERT, "ssinii", "of ada", "user", (int64_t)1, (int64_t)1,
                 (int64_t)9);
    db_batch_add(b, STMT_TOKEN_INSERT, "ssnnii", "of an agent", "agent", (int64_t)1, (int64_t)0);
    commit(f->db, b);
    static const struct {
        const char *hash, *kind, *user, *allocation_state;
    } cases[] = {{"of ada", "user", "ada", NULL},
                 {"of an agent", "agent", NULL, NULL},
                 {"hash of 1.1", "allocation", "ada", "QUEUED"}};
    for (size_t i = 0; i < 3; i++) {
        struct db_rows *rows = db_query(f->r, STMT_TOKEN_PRINCIPAL, "s", cases[i].hash);
        assert_int_equal(db_next(rows), 1);
        assert_string_equal(db_text(rows, 0), cases[i].kind);
        assert_int_equal(db_is_null(rows, 4), !cases[i].user);
        if (cases[i].user)
            assert_string_equal(db_text(rows, 4), cases[i].user);
        assert_int_equal(db_is_null(rows, 7), !cases[i].allocation_state);
        assert_int_equal(db_next(rows), 0);
        db_rows_close(rows);
    }
    struct db_rows *rows = db_query(f->r, STMT_TOKEN_PRINCIPAL, "s", "of nobody");
    assert_int_equal(db_next(rows), 0);
    db_rows_close(rows);
}

// A null leaves the column as it is.
static void a_patch_changes_what_it_names(void **state)
{
    struct fixture *f = *state;
    struct db_batch *b = db_batch_new();
    add_person(b);
    add_experiment(b, 1, "ACTIVE");
    db_batch_add(b, STMT_EXPERIMENT_PATCH, "nsnnini", "new words", (int64_t)5, (int64_t)1);
    commit(f->db, b);
    struct db_rows *rows = db_query(f->r, STMT_EXPERIMENT_BY_ID, "i", (int64_t)1);
    assert_int_equal(db_next(rows), 1);
    assert_string_equal(db_text(rows, 2), "name");
    assert_string_equal(db_text(rows, 3), "new words");
    assert_int_equal(db_int(rows, 12), 5);
    db_rows_close(rows);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_statement_fits_the_schema),
        with_store(an_experiment_goes_with_all_that_hangs_on_it),
        with_store(what_is_sent_twice_is_there_once),
        with_store(ended_work_is_not_live),
        with_store(an_id_is_never_given_twice),
        with_store(a_task_acts_for_the_owner_of_its_experiment),
        with_store(a_patch_changes_what_it_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
