// Readers: values, cursors within cursors, the cache of composed SQL, errors.
#include "tests/unit/db/store_test.h"

#include <float.h>
#include <limits.h>

#include "tests/unit/db/gate.h"

static void values_are_read_as_written(void **state)
{
    struct store_fixture *f = *state;
    static const unsigned char bytes[] = {0, 1, 0, 255};
    const struct db_value values[] = {
        db_value_integer(INT64_MIN),    db_value_real(DBL_MIN),
        db_value_text("\xc3\xa4 text"), db_value_text(""),
        {.type = DB_TEXT, .p = NULL},   {.type = DB_BLOB, .p = bytes, .len = sizeof bytes},
        {.type = DB_BLOB, .p = NULL},   {.type = DB_NULL},
    };
    struct db_rows *rows = db_query_sql(f->r, "SELECT ?, ?, ?, ?, ?, ?, ?, ?", values, 8);
    assert_int_equal(db_next(rows), 1);
    assert_int_equal(db_columns(rows), 8);
    assert_true(db_get_integer(rows, 0) == INT64_MIN);
    assert_true(db_get_real(rows, 1) == DBL_MIN);
    assert_string_equal(db_get_text(rows, 2), "\xc3\xa4 text");
    assert_string_equal(db_get_text(rows, 3), "");
    assert_null(db_get_text(rows, 4));
    struct db_blob blob = db_get_blob(rows, 5);
    assert_int_equal(blob.len, sizeof bytes);
    assert_memory_equal(blob.data, bytes, sizeof bytes);
    assert_int_equal(db_get_blob(rows, 6).len, 0);
    assert_false(db_get_type(rows, 6) == DB_NULL);
    assert_true(db_get_type(rows, 7) == DB_NULL);
    assert_int_equal(db_get_integer(rows, 7), 0);
    assert_int_equal(db_next(rows), 0);
    assert_int_equal(db_next(rows), 0); // and stays at the end
    db_rows_close(rows);
}

static void batches_keep_every_value(void **state)
{
    struct store_fixture *f = *state;
    enum { LARGE = 3 << 20 };
    char *large = malloc(LARGE);
    for (int i = 0; i < LARGE; i++)
        large[i] = (char)(i * 31);
    struct db_batch *b = db_batch_new();
    assert_true(db_batch_empty(b));
    DB_ADD(b, META_SET, "", "an empty key");
    assert_false(db_batch_empty(b));
    DB_ADD(b, MODEL_DEFINITION_INSERT, "large", DB_BLOB(large, LARGE));
    DB_ADD(b, MODEL_DEFINITION_INSERT, "none", DB_BLOB(NULL, 0));
    char key[] = "copied";
    DB_ADD(b, META_SET, key, "yes");
    memset(key, 'x', sizeof key - 1); // the batch has its own copy
    commit(f->db, b);

    struct db_rows *rows = DB_QUERY(f->r, META_GET, "");
    assert_int_equal(db_next(rows), 1);
    assert_string_equal(DB_GET(rows, META_GET, value), "an empty key");
    db_rows_close(rows);
    rows = DB_QUERY(f->r, META_GET, "copied");
    assert_int_equal(db_next(rows), 1);
    db_rows_close(rows);
    rows = DB_QUERY(f->r, MODEL_DEFINITION, "large");
    assert_int_equal(db_next(rows), 1);
    struct db_blob blob = DB_GET(rows, MODEL_DEFINITION, archive);
    assert_int_equal(blob.len, LARGE);
    assert_memory_equal(blob.data, large, LARGE);
    db_rows_close(rows);
    assert_int_equal(query_int(f->r, "SELECT length(archive) FROM model_definitions"
                                     " WHERE hash = 'none'"),
                     0);
    free(large);
}

static void a_query_within_the_same_query(void **state)
{
    struct store_fixture *f = *state;
    struct db_batch *b = db_batch_new();
    static const char *const names[] = {"ada", "bob", "eve"};
    for (int i = 0; i < 3; i++)
        DB_ADD(b, USER_INSERT, names[i], "", 0, 1, "", 1);
    commit(f->db, b);
    int pairs = 0;
    struct db_rows *outer = DB_QUERY(f->r, USERS);
    for (int i = 0; db_next(outer) == 1; i++) {
        struct db_rows *inner = DB_QUERY(f->r, USERS);
        while (db_next(inner) == 1)
            pairs++;
        db_rows_close(inner);
        assert_string_equal(DB_GET(outer, USERS, username),
                            names[i]); // the inner cursor did not move it
    }
    db_rows_close(outer);
    assert_int_equal(pairs, 9);
}

static void more_texts_than_cache_entries(void **state)
{
    struct store_fixture *f = *state;
    enum { TEXTS = 100 };
    char sql[64];
    for (int round = 0; round < 3; round++)
        for (int i = 0; i < TEXTS; i++) {
            snprintf(sql, sizeof sql, "SELECT %d", i); // the same address with another text
            assert_int_equal(query_int(f->r, sql), i);
        }
    // All queries are open at once: those without a cache entry get their own statements.
    struct db_rows *rows[TEXTS];
    for (int i = 0; i < TEXTS; i++) {
        snprintf(sql, sizeof sql, "SELECT %d UNION ALL SELECT -1", i % 50);
        rows[i] = db_query_sql(f->r, sql, NULL, 0);
        assert_int_equal(db_next(rows[i]), 1);
    }
    for (int i = 0; i < TEXTS; i++) {
        assert_int_equal(db_get_integer(rows[i], 0), i % 50);
        assert_int_equal(db_next(rows[i]), 1);
        db_rows_close(rows[i]);
    }
}

static void errors_come_with_the_first_row(void **state)
{
    struct store_fixture *f = *state;
    const struct db_value one = {.type = DB_INTEGER, .i = 1};
    struct db_rows *rows = db_query_sql(f->r, "SELECT nothing FROM nowhere", NULL, 0);
    assert_int_equal(db_next(rows), ERR_INTERNAL);
    assert_int_equal(db_next(rows), ERR_INTERNAL);
    assert_null(db_get_text(rows, 0));
    assert_int_equal(db_columns(rows), 0);
    db_rows_close(rows);
    rows = db_query_sql(f->r, "SELECT 1", &one, 1); // one value too many
    assert_int_equal(db_next(rows), ERR_INTERNAL);
    db_rows_close(rows);
    rows = db_query_sql(f->r, "SELECT ?", NULL, 0); // one value too few
    assert_int_equal(db_next(rows), ERR_INTERNAL);
    db_rows_close(rows);
    rows = db_query_sql(f->r, "DELETE FROM users", NULL, 0);
    assert_int_equal(db_next(rows), ERR_IO); // a reader cannot write
    db_rows_close(rows);
    assert_int_equal(query_int(f->r, "SELECT 1"), 1); // the reader still works
}

static void a_reader_sees_committed_rows(void **state)
{
    struct store_fixture *f = *state;
    struct gate gate;
    commit(f->db, metric_batch(1, 1));
    gate_close(&gate, f->db);
    db_commit(f->db, metric_batch(1, 2), NULL, NULL);
    assert_int_equal(query_int(f->r, "SELECT count(*) FROM metrics"), 1);
    gate_open(&gate);
    commit(f->db, db_batch_new()); // everything before it is committed
    assert_int_equal(query_int(f->r, "SELECT count(*) FROM metrics"), 2);

    // An open query keeps its snapshot; the next query sees the new rows.
    struct db_rows *rows = db_query_sql(f->r, "SELECT id FROM metrics", NULL, 0);
    assert_int_equal(db_next(rows), 1);
    commit(f->db, metric_batch(1, 3));
    assert_int_equal(db_next(rows), 1);
    assert_int_equal(db_next(rows), 0);
    db_rows_close(rows);
    assert_int_equal(query_int(f->r, "SELECT count(*) FROM metrics"), 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        with_store(values_are_read_as_written),     with_store(batches_keep_every_value),
        with_store(a_query_within_the_same_query),  with_store(more_texts_than_cache_entries),
        with_store(errors_come_with_the_first_row), with_store(a_reader_sees_committed_rows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
