// Readers: values, cursors within cursors, the cache of free SQL, errors.
#include "tests/unit/db/store_test.h"

#include <float.h>
#include <limits.h>

#include "tests/unit/db/gate.h"

static void values_come_back_as_they_went(void **state)
{
    struct fixture *f = *state;
    static const unsigned char bytes[] = {0, 1, 0, 255};
    const struct db_value values[] = {
        {.type = 'i', .i = INT64_MIN},
        {.type = 'd', .d = DBL_MIN},
        {.type = 's', .p = "\xc3\xa4 text", .len = 7},
        {.type = 's', .p = "", .len = 0},
        {.type = 's', .p = NULL},
        {.type = 'b', .p = bytes, .len = sizeof bytes},
        {.type = 'b', .p = NULL},
        {.type = 'n'},
    };
    struct db_rows *rows = db_query_sql(f->r, "SELECT ?, ?, ?, ?, ?, ?, ?, ?", values, 8);
    size_t len = 99;
    assert_int_equal(db_next(rows), 1);
    assert_int_equal(db_columns(rows), 8);
    assert_true(db_int(rows, 0) == INT64_MIN);
    assert_true(db_double(rows, 1) == DBL_MIN);
    assert_string_equal(db_text(rows, 2), "\xc3\xa4 text");
    assert_string_equal(db_text(rows, 3), "");
    assert_null(db_text(rows, 4));
    const void *blob = db_blob(rows, 5, &len);
    assert_int_equal(len, sizeof bytes);
    assert_memory_equal(blob, bytes, sizeof bytes);
    db_blob(rows, 6, &len);
    assert_int_equal(len, 0);
    assert_false(db_is_null(rows, 6));
    assert_true(db_is_null(rows, 7));
    assert_int_equal(db_int(rows, 7), 0);
    assert_int_equal(db_next(rows), 0);
    assert_int_equal(db_next(rows), 0); // and stays there
    db_rows_close(rows);
}

static void batches_keep_every_value(void **state)
{
    struct fixture *f = *state;
    enum { LARGE = 3 << 20 };
    char *large = malloc(LARGE);
    for (int i = 0; i < LARGE; i++)
        large[i] = (char)(i * 31);
    struct db_batch *b = db_batch_new();
    assert_true(db_batch_empty(b));
    db_batch_add(b, STMT_META_SET, "ss", "", "an empty key");
    assert_false(db_batch_empty(b));
    db_batch_add(b, STMT_MODEL_DEFINITION_INSERT, "sb", "large", large, (size_t)LARGE);
    db_batch_add(b, STMT_MODEL_DEFINITION_INSERT, "sb", "none", NULL, (size_t)0);
    char key[] = "copied";
    db_batch_add(b, STMT_META_SET, "ss", key, "yes");
    memset(key, 'x', sizeof key - 1); // the batch has its own
    commit(f->db, b);

    struct db_rows *rows = db_query(f->r, STMT_META_GET, "s", "");
    assert_int_equal(db_next(rows), 1);
    assert_string_equal(db_text(rows, 0), "an empty key");
    db_rows_close(rows);
    rows = db_query(f->r, STMT_META_GET, "s", "copied");
    assert_int_equal(db_next(rows), 1);
    db_rows_close(rows);
    size_t len;
    rows = db_query(f->r, STMT_MODEL_DEFINITION, "s", "large");
    assert_int_equal(db_next(rows), 1);
    const void *blob = db_blob(rows, 0, &len);
    assert_int_equal(len, LARGE);
    assert_memory_equal(blob, large, LARGE);
    db_rows_close(rows);
    assert_int_equal(ask(f->r, "SELECT length(archive) FROM model_definitions"
                               " WHERE hash = 'none'"),
                     0);
    free(large);
}

static void a_query_within_the_same_query(void **state)
{
    struct fixture *f = *state;
    struct db_batch *b = db_batch_new();
    static const char *const names[] = {"ada", "bob", "eve"};
    for (int i = 0; i < 3; i++)
        db_batch_add(b, STMT_USER_INSERT, "ssiisi", names[i], "", (int64_t)0, (int64_t)1, "",
                     (int64_t)1);
    commit(f->db, b);
    int pairs = 0;
    struct db_rows *outer = db_query(f->r, STMT_USERS, "");
    for (int i = 0; db_next(outer) == 1; i++) {
        struct db_rows *inner = db_query(f->r, STMT_USERS, "");
        while (db_next(inner) == 1)
            pairs++;
        db_rows_close(inner);
        assert_string_equal(db_text(outer, 1), names[i]); // the inner one did not move it
    }
    db_rows_close(outer);
    assert_int_equal(pairs, 9);
}

static void more_texts_than_the_cache_has_places(void **state)
{
    struct fixture *f = *state;
    enum { TEXTS = 100 };
    char sql[64];
    for (int round = 0; round < 3; round++)
        for (int i = 0; i < TEXTS; i++) {
            snprintf(sql, sizeof sql, "SELECT %d", i); // the same address, another text
            assert_int_equal(ask(f->r, sql), i);
        }
    // All open at once: beyond the places each has a statement of its own.
    struct db_rows *rows[TEXTS];
    for (int i = 0; i < TEXTS; i++) {
        snprintf(sql, sizeof sql, "SELECT %d UNION ALL SELECT -1", i % 50);
        rows[i] = db_query_sql(f->r, sql, NULL, 0);
        assert_int_equal(db_next(rows[i]), 1);
    }
    for (int i = 0; i < TEXTS; i++) {
        assert_int_equal(db_int(rows[i], 0), i % 50);
        assert_int_equal(db_next(rows[i]), 1);
        db_rows_close(rows[i]);
    }
}

static void errors_come_with_the_first_row(void **state)
{
    struct fixture *f = *state;
    const struct db_value one = {.type = 'i', .i = 1};
    struct db_rows *rows = db_query_sql(f->r, "SELECT nothing FROM nowhere", NULL, 0);
    assert_int_equal(db_next(rows), ERR_INTERNAL);
    assert_int_equal(db_next(rows), ERR_INTERNAL);
    assert_null(db_text(rows, 0));
    assert_int_equal(db_columns(rows), 0);
    db_rows_close(rows);
    rows = db_query_sql(f->r, "SELECT 1", &one, 1); // a value too many
    assert_int_equal(db_next(rows), ERR_INTERNAL);
    db_rows_close(rows);
    rows = db_query(f->r, STMT_USER_BY_ID, ""); // one too few
    assert_int_equal(db_next(rows), ERR_INTERNAL);
    db_rows_close(rows);
    rows = db_query_sql(f->r, "DELETE FROM users", NULL, 0);
    assert_int_equal(db_next(rows), ERR_IO); // a reader cannot write
    db_rows_close(rows);
    assert_int_equal(ask(f->r, "SELECT 1"), 1); // and goes on
}

static void a_reader_sees_what_is_committed(void **state)
{
    struct fixture *f = *state;
    struct gate gate;
    commit(f->db, metric_batch(1, 1));
    gate_close(&gate, f->db);
    db_commit(f->db, metric_batch(1, 2), NULL, NULL);
    assert_int_equal(ask(f->r, "SELECT count(*) FROM metrics"), 1);
    gate_open(&gate);
    commit(f->db, db_batch_new()); // everything before it is committed
    assert_int_equal(ask(f->r, "SELECT count(*) FROM metrics"), 2);

    // A query that is open keeps its view; the next one has the new.
    struct db_rows *rows = db_query_sql(f->r, "SELECT id FROM metrics", NULL, 0);
    assert_int_equal(db_next(rows), 1);
    commit(f->db, metric_batch(1, 3));
    assert_int_equal(db_next(rows), 1);
    assert_int_equal(db_next(rows), 0);
    db_rows_close(rows);
    assert_int_equal(ask(f->r, "SELECT count(*) FROM metrics"), 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        with_store(values_come_back_as_they_went),
        with_store(batches_keep_every_value),
        with_store(a_query_within_the_same_query),
        with_store(more_texts_than_the_cache_has_places),
        with_store(errors_come_with_the_first_row),
        with_store(a_reader_sees_what_is_committed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
