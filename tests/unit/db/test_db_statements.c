// The statement table against the schema, and the behaviour of single statements.
#include "tests/unit/db/store_test.h"

#include "db/store.h"

// The result has the columns that the table declares, with their names and in their order.
static void check_columns(sqlite3_stmt *s, enum stmt stmt)
{
    char names[2048] = "";
    for (int i = 0; i < sqlite3_column_count(s); i++) {
        size_t len = strlen(names);
        snprintf(names + len, sizeof names - len, "%s,", sqlite3_column_name(s, i));
    }
    if (strcmp(names, stmt_columns(stmt)) != 0)
        fail_msg("%s selects %s and declares %s", stmt_name(stmt), names, stmt_columns(stmt));
}

// Finds every wrong name of a table or a column, and every wrong declaration.
static void every_statement_fits_the_schema(void **state)
{
    (void)state;
    char dir[32], path[64];
    db_close(store_open(store_folder(dir)));
    snprintf(path, sizeof path, "%s/muster.db", dir);
    struct db_connection c;
    assert_int_equal(connection_open(&c, path, SQLITE_OPEN_READWRITE, NULL), 0);
    // Without this, "name" in double quotes is a string if there is no such column.
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
        assert_in_range(sqlite3_bind_parameter_count(s), 0, PARAMS_MAX);
        if ((size_t)sqlite3_bind_parameter_count(s) != stmt_value_count(stmt))
            fail_msg("%s has %d parameters and declares %zu", stmt_name(stmt),
                     sqlite3_bind_parameter_count(s), stmt_value_count(stmt));
        check_columns(s, stmt);
        sqlite3_finalize(s);
    }
    connection_close(&c);
}

static void add_person(struct db_batch *b)
{
    DB_ADD(b, USER_INSERT, "ada", "Ada", 1, 1, "$y$", 1);
    DB_ADD(b, WORKSPACE_INSERT, DB_NOT_NULL(1), "w", 1, 1);
    DB_ADD(b, PROJECT_INSERT, 1, "p", 1, "", 1, 1, "P1");
}

static void add_experiment(struct db_batch *b, int64_t id, const char *state)
{
    DB_ADD(b, EXPERIMENT_INSERT, id, state, "name", "", "", "[]", 1, 1, "job", 0, "name: x\n", "{}",
           42, "single", "{}", 0, 7, "hash", 1);
}

// Adds trial `id` of experiment `id`, with a row in every table that refers to it.
static void add_trial(struct db_batch *b, int64_t id)
{
    char task[24], allocation[32], hash[48];
    snprintf(task, sizeof task, "%lld", (long long)id);
    snprintf(allocation, sizeof allocation, "%s.1", task);
    snprintf(hash, sizeof hash, "hash of %s", allocation);
    DB_ADD(b, TRIAL_INSERT, id, id, "r", task, "ACTIVE", "{}", 7, 1);
    DB_ADD(b, ALLOCATION_INSERT, allocation, id, 1, "QUEUED", 2, "default", 1);
    DB_ADD(b, TOKEN_INSERT, hash, "allocation", NULL, allocation, 1, 0);
    add_metric(b, id, 1);
    DB_ADD(b, LOG_CHUNK_INSERT, task, 1, 1, 5, 1, 1, DB_BLOB("x", 1), DB_BLOB("y", 1));
    DB_ADD(b, LOG_SENDER_SET, task, allocation, "agent", 1);
    DB_ADD(b, METRIC_CHUNK_INSERT, id, id, "training", 1, 9, 9, 9, DB_BLOB("axis", 4));
    DB_ADD(b, METRIC_COLUMN_INSERT, id, "loss", DB_BLOB("column", 6));
    DB_ADD(b, METRIC_CUT_INSERT, id, 2, 5);
    DB_ADD(b, CHECKPOINT_UPSERT, hash, task, allocation, id, id, "COMPLETED", 1, "{}", "{}", "{}",
           NULL, 1);
}

static int64_t count(struct db_reader *r, const char *table)
{
    char sql[64];
    snprintf(sql, sizeof sql, "SELECT count(*) FROM %s", table);
    return query_int(r, sql);
}

static void a_deleted_experiment_leaves_no_rows(void **state)
{
    struct store_fixture *f = *state;
    static const char *const tables[] = {"log_chunks",     "log_senders", "metrics",
                                         "metric_columns", "metric_cuts", "metric_chunks",
                                         "checkpoints",    "tokens",      "allocations",
                                         "trials",         "experiments"};
    struct db_batch *b = db_batch_new();
    add_person(b);
    DB_ADD(b, MODEL_DEFINITION_INSERT, "hash", DB_BLOB("tar", 3));
    for (int64_t id = 1; id <= 2; id++) {
        add_experiment(b, id, "ACTIVE");
        add_trial(b, id);
    }
    commit(f->db, b);

    for (int64_t id = 1; id <= 2; id++) {
        for (size_t i = 0; i < sizeof tables / sizeof *tables; i++)
            assert_int_equal(count(f->r, tables[i]), 3 - id);
        b = db_batch_new();
        DB_ADD(b, EXPERIMENT_DELETE_LOGS, id);
        DB_ADD(b, EXPERIMENT_DELETE_LOG_SENDERS, id);
        DB_ADD(b, EXPERIMENT_DELETE_METRICS, id);
        DB_ADD(b, EXPERIMENT_DELETE_METRIC_COLUMNS, id);
        DB_ADD(b, EXPERIMENT_DELETE_METRIC_CHUNKS, id);
        DB_ADD(b, EXPERIMENT_DELETE_METRIC_CUTS, id);
        DB_ADD(b, EXPERIMENT_DELETE_CHECKPOINTS, id);
        DB_ADD(b, EXPERIMENT_DELETE_TOKENS, id);
        DB_ADD(b, EXPERIMENT_DELETE_ALLOCATIONS, id);
        DB_ADD(b, EXPERIMENT_DELETE_TRIALS, id);
        DB_ADD(b, EXPERIMENT_DELETE, id);
        DB_ADD(b, MODEL_DEFINITION_DELETE_UNUSED, "hash");
        commit(f->db, b);
        assert_int_equal(count(f->r, "model_definitions"), id == 1 ? 1 : 0);
    }
    for (size_t i = 0; i < sizeof tables / sizeof *tables; i++)
        assert_int_equal(count(f->r, tables[i]), 0);
}

static void a_repeated_write_has_one_effect(void **state)
{
    struct store_fixture *f = *state;
    struct db_batch *b = db_batch_new();
    add_person(b);
    add_experiment(b, 1, "ACTIVE");
    add_trial(b, 1);
    for (int i = 0; i < 2; i++)
        DB_ADD(b, METRIC_CUT_INSERT, 1, 2, 5);
    commit(f->db, b);
    assert_int_equal(query_int(f->r, "SELECT count(*) FROM metric_cuts"), 1);

    // A missing value is not a repetition.
    struct error e = {0};
    b = db_batch_new();
    const struct db_value values[] = {{.type = DB_NULL},
                                      db_value_integer(1),
                                      db_value_text("training"),
                                      db_value_integer(2),
                                      {.type = DB_NULL}};
    batch_add_values(b, STMT_METRIC_INSERT, values, 5);
    assert_int_equal(db_commit_wait(f->db, b, &e), ERR_INVALID);
    assert_non_null(strstr(e.text, "METRIC_INSERT: NOT NULL constraint failed: metrics.data"));
}

static void ended_work_is_not_active(void **state)
{
    struct store_fixture *f = *state;
    static const char *const states[] = {"ACTIVE", "COMPLETED", "PAUSED", "CANCELED", "ERROR"};
    struct db_batch *b = db_batch_new();
    add_person(b);
    for (int64_t id = 1; id <= 5; id++) {
        add_experiment(b, id, states[id - 1]);
        add_trial(b, id);
    }
    DB_ADD(b, ALLOCATION_END, "done", 2, "3.1");
    commit(f->db, b);

    static const enum stmt queries[] = {STMT_EXPERIMENTS_ACTIVE, STMT_TRIALS_ACTIVE};
    for (size_t i = 0; i < 2; i++) {
        struct db_rows *rows = db_query_all(f->r, queries[i]);
        assert_int_equal(db_next(rows), 1);
        assert_int_equal(DB_GET(rows, ID, id), 1);
        assert_int_equal(db_next(rows), 1);
        assert_int_equal(DB_GET(rows, ID, id), 3);
        assert_int_equal(db_next(rows), 0);
        db_rows_close(rows);
    }
    struct db_rows *rows = DB_QUERY(f->r, ALLOCATIONS_ACTIVE);
    for (int64_t id = 1; id <= 5; id++) {
        if (id == 3)
            continue;
        assert_int_equal(db_next(rows), 1);
        assert_int_equal(DB_GET(rows, ALLOCATIONS_ACTIVE, trial_id), id);
    }
    assert_int_equal(db_next(rows), 0);
    db_rows_close(rows);
}

static void ids_are_never_reused(void **state)
{
    struct store_fixture *f = *state;
    struct db_batch *b = db_batch_new();
    add_person(b);
    add_experiment(b, 7, "COMPLETED");
    add_trial(b, 7);
    commit(f->db, b);
    b = db_batch_new();
    DB_ADD(b, EXPERIMENT_DELETE_ALLOCATIONS, 7);
    DB_ADD(b, EXPERIMENT_DELETE_TRIALS, 7);
    DB_ADD(b, EXPERIMENT_DELETE, 7);
    commit(f->db, b);
    struct db_rows *rows = DB_QUERY(f->r, LAST_IDS);
    assert_int_equal(db_next(rows), 1);
    assert_int_equal(DB_GET(rows, LAST_IDS, experiment_id), 7);
    assert_int_equal(DB_GET(rows, LAST_IDS, trial_id), 7);
    db_rows_close(rows);
}

static void a_task_acts_for_the_owner_of_its_experiment(void **state)
{
    struct store_fixture *f = *state;
    struct db_batch *b = db_batch_new();
    add_person(b);
    add_experiment(b, 1, "ACTIVE");
    add_trial(b, 1);
    DB_ADD(b, TOKEN_INSERT, "of ada", "user", DB_NOT_NULL(1), NULL, 1, 9);
    DB_ADD(b, TOKEN_INSERT, "of an agent", "agent", NULL, NULL, 1, 0);
    commit(f->db, b);
    static const struct {
        const char *hash, *kind, *user, *allocation_state;
    } cases[] = {{"of ada", "user", "ada", NULL},
                 {"of an agent", "agent", NULL, NULL},
                 {"hash of 1.1", "allocation", "ada", "QUEUED"}};
    for (size_t i = 0; i < 3; i++) {
        struct db_rows *rows = DB_QUERY(f->r, TOKEN_PRINCIPAL, cases[i].hash);
        assert_int_equal(db_next(rows), 1);
        assert_string_equal(DB_GET(rows, TOKEN_PRINCIPAL, kind), cases[i].kind);
        assert_int_equal(DB_IS_NULL(rows, TOKEN_PRINCIPAL, username), !cases[i].user);
        if (cases[i].user)
            assert_string_equal(DB_GET(rows, TOKEN_PRINCIPAL, username), cases[i].user);
        assert_int_equal(DB_IS_NULL(rows, TOKEN_PRINCIPAL, allocation_state),
                         !cases[i].allocation_state);
        assert_int_equal(db_next(rows), 0);
        db_rows_close(rows);
    }
    struct db_rows *rows = DB_QUERY(f->r, TOKEN_PRINCIPAL, "of nobody");
    assert_int_equal(db_next(rows), 0);
    db_rows_close(rows);
}

static int64_t begun_tokens(struct store_fixture *f, struct db_batch *b)
{
    commit(f->db, b);
    return query_int(f->r, "SELECT count(*) FROM tokens WHERE hash LIKE 'new%'");
}

static void a_login_needs_the_password_that_it_verified(void **state)
{
    struct store_fixture *f = *state;
    static const struct {
        const char *hash;
        const char *password;
        int active, count;
    } cases[] = {{"new 1", "$y$", 1, 1}, {"new 2", "$y$ old", 1, 1}, {"new 3", "$y$", 0, 1}};
    struct db_batch *b = db_batch_new();
    add_person(b);
    commit(f->db, b);
    for (size_t i = 0; i < 3; i++) {
        b = db_batch_new();
        DB_ADD(b, USER_SET_ACTIVE, cases[i].active, 1, 1);
        DB_ADD(b, TOKEN_COUNT);
        DB_ADD(b, TOKEN_INSERT_SESSION, cases[i].hash, 1, 1, 9, cases[i].password);
        assert_int_equal(begun_tokens(f, b), cases[i].count);
    }
}

static void an_access_token_needs_a_caller_with_access(void **state)
{
    struct store_fixture *f = *state;
    struct db_batch *b = db_batch_new();
    add_person(b);
    DB_ADD(b, USER_INSERT, "bob", "Bob", 0, 1, "$y$", 1);
    DB_ADD(b, TOKEN_INSERT, "of ada", "user", DB_NOT_NULL(1), NULL, 1, 9);
    DB_ADD(b, TOKEN_INSERT, "of bob", "user", DB_NOT_NULL(2), NULL, 1, 9);
    commit(f->db, b);
    static const struct {
        const char *hash, *caller;
        int user, limit, count;
    } cases[] = {{"new 1", "of bob", 2, 2, 1},    {"new 2", "of bob", 1, 2, 1},
                 {"new 3", "of ada", 2, 2, 2},    {"new 4", "of bob", 2, 2, 2},
                 {"new 5", "of bob", 2, 3, 3},    {"new 6", "", 2, 9, 3},
                 {"new 7", "of nobody", 2, 9, 3}, {"new 8", "of ada", 7, 9, 3}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        b = db_batch_new();
        DB_ADD(b, TOKEN_COUNT);
        DB_ADD(b, TOKEN_INSERT_ACCESS, cases[i].hash, cases[i].user, 1, 0, "", cases[i].caller,
               cases[i].limit);
        assert_int_equal(begun_tokens(f, b), cases[i].count);
    }
    b = db_batch_new();
    DB_ADD(b, TOKENS_DELETE_OTHERS, 2, "");
    DB_ADD(b, TOKEN_COUNT);
    DB_ADD(b, TOKEN_INSERT_ACCESS, "new 9", 2, 1, 0, "", "of bob", 9);
    assert_int_equal(begun_tokens(f, b), 3);
}

static void a_late_submission_does_not_act_as_its_user(void **state)
{
    struct store_fixture *f = *state;
    struct db_batch *b = db_batch_new();
    add_person(b);
    DB_ADD(b, TOKEN_INSERT, "of ada", "user", DB_NOT_NULL(1), NULL, 1, 9);
    DB_ADD(b, USER_LIMIT_TASKS, 1);
    DB_ADD(b, USER_LIMIT_LATE_TASKS, 1, 1, "of ada");
    DB_ADD(b, USER_LIMIT_LATE_TASKS, 1, 1, "");
    commit(f->db, b);
    assert_int_equal(query_int(f->r, "SELECT limited_experiment FROM users"), 0);
    b = db_batch_new();
    DB_ADD(b, TOKENS_DELETE_OTHERS, 1, "");
    DB_ADD(b, USER_LIMIT_LATE_TASKS, 3, 1, "of ada");
    DB_ADD(b, USER_LIMIT_LATE_TASKS, 2, 1, "of ada");
    commit(f->db, b);
    assert_int_equal(query_int(f->r, "SELECT limited_experiment FROM users"), 3);
}

// A null leaves the column unchanged.
static void a_patch_changes_only_named_columns(void **state)
{
    struct store_fixture *f = *state;
    struct db_batch *b = db_batch_new();
    add_person(b);
    add_experiment(b, 1, "ACTIVE");
    DB_ADD(b, EXPERIMENT_PATCH, NULL, "new words", NULL, NULL, 5, NULL, 1);
    commit(f->db, b);
    struct db_rows *rows = DB_QUERY(f->r, EXPERIMENT_BY_ID, 1);
    assert_int_equal(db_next(rows), 1);
    assert_string_equal(DB_GET(rows, EXPERIMENT_BY_ID, name), "name");
    assert_string_equal(DB_GET(rows, EXPERIMENT_BY_ID, description), "new words");
    assert_int_equal(DB_GET(rows, EXPERIMENT_BY_ID, priority), 5);
    db_rows_close(rows);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_statement_fits_the_schema),
        with_store(a_deleted_experiment_leaves_no_rows),
        with_store(a_repeated_write_has_one_effect),
        with_store(ended_work_is_not_active),
        with_store(ids_are_never_reused),
        with_store(a_task_acts_for_the_owner_of_its_experiment),
        with_store(a_login_needs_the_password_that_it_verified),
        with_store(an_access_token_needs_a_caller_with_access),
        with_store(a_late_submission_does_not_act_as_its_user),
        with_store(a_patch_changes_only_named_columns),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
