// The writer: order, groups, refused batches, a failed store, the limit of the queue.
#include "tests/unit/db/store_test.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "base/limits.h"
#include "db/store.h"
#include "tests/unit/db/gate.h"

struct batch_result { // a call of done() on the writer thread
    int order, err;
    bool again;
};

static atomic_int result_count;

static void record_result(void *ctx, int err)
{
    struct batch_result *t = ctx;
    t->again = t->order != 0;
    t->order = ++result_count;
    t->err = err;
}

static void batches_commit_in_order(void **state)
{
    (void)state;
    enum { BATCHES = 3 * WRITER_GROUP_MAX + 7 };
    char dir[32];
    struct db *db = store_open(store_folder(dir));
    struct batch_result *told = calloc(BATCHES, sizeof *told);
    result_count = 0;
    for (int i = 0; i < BATCHES; i++)
        db_commit(db, metric_batch(1, i), record_result, &told[i]);
    commit(db, db_batch_new());
    for (int i = 0; i < BATCHES; i++) {
        assert_int_equal(told[i].order, i + 1);
        assert_int_equal(told[i].err, 0);
        assert_false(told[i].again);
    }
    assert_int_equal(query_int_once(db, "SELECT count(*) FROM metrics"), BATCHES);
    assert_int_equal(query_int_once(db, "SELECT count(*) FROM metrics WHERE id <> reports + 1"), 0);
    db_close(db);
    free(told);
}

static void a_batch_that_fails_fails_alone(void **state)
{
    (void)state;
    char dir[32];
    struct db *db = store_open(store_folder(dir));
    struct batch_result told[4] = {0};
    struct gate gate;
    result_count = 0;
    gate_close(&gate, db); // so that all batches are in one group
    db_commit(db, metric_batch(1, 1), record_result, &told[0]);
    db_commit(db, bad_batch(1, 2), record_result, &told[1]);
    db_commit(db, metric_batch(1, 3), record_result, &told[2]);
    db_commit(db, bad_batch(1, 4), record_result, &told[3]);
    gate_open(&gate);
    commit(db, db_batch_new());
    static const int expected[] = {0, ERR_INVALID, 0, ERR_INVALID};
    for (int i = 0; i < 4; i++) {
        assert_int_equal(told[i].err, expected[i]);
        assert_int_equal(told[i].order, i + 1);
    }
    // No row of the refused batches, not even the row before the fault.
    assert_int_equal(query_int_once(db, "SELECT count(*) FROM metrics"), 2);
    assert_int_equal(query_int_once(db, "SELECT count(*) FROM metrics WHERE reports IN (1, 3)"), 2);
    db_close(db);
}

static void expect_error(struct db *db, struct db_batch *b, int code, const char *words)
{
    struct error e = {0};
    assert_int_equal(db_commit_wait(db, b, &e), code);
    assert_int_equal(e.code, code);
    if (!strstr(e.text, words))
        fail_msg("expected \"%s\" in: %s", words, e.text);
}

static struct db_batch *user_batch(const char *name)
{
    struct db_batch *b = db_batch_new();
    DB_ADD(b, USER_INSERT, name, "", 0, 1, "", 1);
    return b;
}

static void a_refusal_names_the_fault(void **state)
{
    (void)state;
    char dir[32];
    struct db *db = store_open(store_folder(dir));
    expect_error(db, bad_batch(1, 1), ERR_INVALID,
                 "METRIC_INSERT: cannot store TEXT value in INTEGER column metrics.trial_id");
    commit(db, user_batch("ada"));
    expect_error(db, user_batch("ada"), ERR_CONFLICT,
                 "USER_INSERT: UNIQUE constraint failed: users.username");
    struct db_batch *b = db_batch_new();
    DB_ADD(b, WORKSPACE_INSERT, NULL, "w", 77, 1);
    expect_error(db, b, ERR_INVALID, "WORKSPACE_INSERT: FOREIGN KEY constraint failed");
    b = db_batch_new();
    DB_ADD(b, TOKEN_INSERT, "h", "guest", NULL, NULL, 1, 1);
    expect_error(db, b, ERR_INVALID, "TOKEN_INSERT: CHECK constraint failed");
    b = db_batch_new();
    const struct db_value key = db_value_text("key");
    batch_add_values(b, STMT_META_SET, &key, 1);
    expect_error(db, b, ERR_INTERNAL, "META_SET: the statement takes 2 values and was given 1");
    commit(db, user_batch("bob")); // the store still works
    db_close(db);
}

static void closing_writes_queued_batches(void **state)
{
    (void)state;
    char dir[32];
    struct db *db = store_open(store_folder(dir));
    for (int i = 0; i < 500; i++)
        db_commit(db, metric_batch(1, i), NULL, NULL);
    db_close(db);
    db = store_open(dir);
    assert_int_equal(query_int_once(db, "SELECT count(*) FROM metrics"), 500);
    db_close(db);
}

struct producer {
    struct db *db;
    int64_t trial;
    atomic_int *done;
};

enum { PRODUCERS = 6, PER_PRODUCER = 150, ROWS = 3 };

// Threads return NULL or a text, because cmocka's asserts work on the test's own thread only.
static void *produce(void *arg)
{
    struct producer *p = arg;
    int err = 0;
    for (int64_t i = 0; !err && i < PER_PRODUCER; i++) {
        struct db_batch *b = db_batch_new();
        for (int64_t k = 0; k < ROWS; k++)
            add_metric(b, p->trial, i * ROWS + k);
        err = db_commit_wait(p->db, b, NULL);
    }
    atomic_fetch_add(p->done, 1);
    return err ? "a commit failed" : NULL;
}

static void *watch(void *arg)
{
    struct producer *p = arg;
    struct db_reader *r = NULL;
    char *wrong = db_reader_open(p->db, &r, NULL) ? "no reader" : NULL;
    int64_t seen = 0;
    while (!wrong && atomic_load(p->done) < PRODUCERS) {
        struct db_rows *rows = db_query_sql(r, "SELECT count(*) FROM metrics", NULL, 0);
        int64_t now = db_next(rows) == 1 ? db_get_integer(rows, 0) : -1;
        db_rows_close(rows);
        if (now < seen)
            wrong = "rows went away";
        if (now % ROWS)
            wrong = "half a batch was there";
        seen = now;
    }
    db_reader_close(r);
    return wrong;
}

static void many_threads(void **state)
{
    (void)state;
    char dir[32];
    struct db *db = store_open(store_folder(dir));
    atomic_int done = 0;
    struct producer producers[PRODUCERS];
    pthread_t threads[PRODUCERS + 2];
    for (int i = 0; i < PRODUCERS; i++) {
        producers[i] = (struct producer){.db = db, .trial = i, .done = &done};
        assert_int_equal(pthread_create(&threads[i], NULL, produce, &producers[i]), 0);
    }
    for (int i = PRODUCERS; i < PRODUCERS + 2; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, watch, &producers[0]), 0);
    for (int i = 0; i < PRODUCERS + 2; i++) {
        void *wrong = NULL;
        pthread_join(threads[i], &wrong);
        if (wrong)
            fail_msg("%s", (char *)wrong);
    }
    assert_int_equal(query_int_once(db, "SELECT count(*) FROM metrics"),
                     PRODUCERS * PER_PRODUCER * ROWS);
    db_close(db);
}

struct late_commit {
    struct db *db;
    atomic_bool committed;
};

static void *commit_one_more(void *arg)
{
    struct late_commit *late = arg;
    db_commit(late->db, metric_batch(1, LIMIT_WRITER_QUEUE), NULL, NULL);
    atomic_store(&late->committed, true);
    return NULL;
}

static void a_full_queue_makes_the_sender_wait(void **state)
{
    (void)state;
    char dir[32];
    struct late_commit late = {.db = store_open(store_folder(dir))};
    struct gate gate;
    pthread_t thread;
    gate_close(&gate, late.db);
    for (int i = 0; i < LIMIT_WRITER_QUEUE; i++) // none of these calls waits
        db_commit(late.db, metric_batch(1, i), NULL, NULL);
    assert_int_equal(pthread_create(&thread, NULL, commit_one_more, &late), 0);
    clock_sleep_us(50 * 1000);
    assert_false(atomic_load(&late.committed));
    gate_open(&gate);
    pthread_join(thread, NULL);
    commit(late.db, db_batch_new());
    assert_int_equal(query_int_once(late.db, "SELECT count(*) FROM metrics"),
                     LIMIT_WRITER_QUEUE + 1);
    db_close(late.db);
}

// No file may grow beyond `bytes`; SQLite sees a full disk.
static void limit_files(rlim_t bytes)
{
    struct rlimit limit;
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &limit), 0);
    limit.rlim_cur = bytes;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
}

static void a_store_that_fails_stays_failed(void **state)
{
    (void)state;
    char dir[32], wal[64];
    struct db *db = store_open(store_folder(dir));
    struct batch_result told[3] = {0};
    struct gate gate;
    struct stat st;
    commit(db, metric_batch(1, 1));
    snprintf(wal, sizeof wal, "%s/muster.db-wal", dir);
    assert_int_equal(stat(wal, &st), 0);

    char *large = calloc(1, 1 << 20);
    struct db_batch *b = db_batch_new();
    DB_ADD(b, MODEL_DEFINITION_INSERT, "large", DB_BLOB(large, 1 << 20));
    free(large);
    result_count = 0;
    gate_close(&gate, db);
    db_commit(db, metric_batch(1, 2), record_result, &told[0]);
    db_commit(db, b, record_result, &told[1]);
    db_commit(db, metric_batch(1, 3), record_result, &told[2]);
    limit_files((rlim_t)st.st_size + 65536);
    gate_open(&gate);
    expect_error(db, metric_batch(1, 4), ERR_IO, "check that its disk has free space and works");
    for (int i = 0; i < 3; i++) { // all batches of the group fail, also the small ones
        assert_int_equal(told[i].err, ERR_IO);
        assert_int_equal(told[i].order, i + 1);
    }
    limit_files(RLIM_INFINITY);
    // The disk has space again, but a new batch may depend on a lost one.
    expect_error(db, metric_batch(1, 5), ERR_IO, "then start again");
    assert_int_equal(query_int_once(db, "SELECT count(*) FROM metrics"), 1);
    db_close(db);

    db = store_open(dir);
    commit(db, metric_batch(1, 6));
    assert_int_equal(query_int_once(db, "SELECT sum(reports) FROM metrics"), 7);
    db_close(db);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(batches_commit_in_order),
        cmocka_unit_test(a_batch_that_fails_fails_alone),
        cmocka_unit_test(a_refusal_names_the_fault),
        cmocka_unit_test(closing_writes_queued_batches),
        cmocka_unit_test(many_threads),
        cmocka_unit_test(a_full_queue_makes_the_sender_wait),
        cmocka_unit_test(a_store_that_fails_stays_failed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
