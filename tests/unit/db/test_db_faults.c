// A failing disk under the store: the error is reported, no acknowledged batch is lost, and the
// store opens again undamaged. Each kind of fault occurs at many moments, on a store that grows.
#include "tests/unit/db/store_test.h"

#include <fcntl.h>
#include <sys/wait.h>

#include "base/arena.h"
#include "base/rng.h"
#include "db/store.h"
#include "tests/unit/db/faulty_vfs.h"

enum {
    ROUNDS = 6,         // for each fault
    ROWS = 3,           // in a batch
    BATCHES = 120,      // if no fault has occurred by then, none will
    CHECKPOINT = 24,    // pages: the log is copied into the file all the time
    STATUS_BROKEN = 10, // of a child: the store failed and said so
    STATUS_WHOLE = 11,  // of a child: the store did not fail
    STATUS_WRONG = 12,
};

static void fail_child(const char *what)
{
    fprintf(stderr, "in the child: %s\n", what);
    _exit(STATUS_WRONG);
}

// Commits a batch of three rows with steps 3n, 3n + 1, 3n + 2 and some size.
static int commit_batch(struct db *db, int64_t n, struct error *e)
{
    static const char weight[2000] = {1};
    char hash[32];
    struct db_batch *b = db_batch_new();
    for (int64_t k = 0; k < ROWS; k++)
        add_metric(b, 1, n * ROWS + k);
    snprintf(hash, sizeof hash, "weight %lld", (long long)n);
    DB_ADD(b, MODEL_DEFINITION_INSERT, hash,
           DB_BLOB(weight, sizeof weight - (size_t)(n % 7) * 100));
    return db_commit_wait(db, b, e);
}

// Once a batch has failed, later ones fail too, and each error says what to do.
static void expect_broken(struct db *db, int64_t n, const struct error *first)
{
    struct error e = {0};
    if (!strstr(first->text, "cannot be written") || !strstr(first->text, "start again"))
        fail_child(first->text);
    for (int i = 1; i < 5; i++)
        if (!commit_batch(db, n + i, &e) || e.code != first->code)
            fail_child("a batch was taken after one that failed");
}

// In a child: writes batches from n on, and writes the acknowledged ones to fd.
static void ingest(const char *dir, int fd, int64_t n, enum fault fault, int at, uint64_t seed)
{
    struct db *db = NULL;
    struct error e = {0};
    db = store_open(dir);
    db_close(db); // other tests open a store without faults
    faulty_install(fault, at, seed);
    int err = db_open(dir, &db, &e);
    if (err)
        _exit(faulty_failures() ? STATUS_BROKEN : STATUS_WRONG);
    db->log_pages = CHECKPOINT;
    for (int i = 0; !err && i < BATCHES; i++, n++) {
        err = commit_batch(db, n, &e);
        if (!err && write(fd, &n, sizeof n) != sizeof n)
            fail_child("the pipe is broken");
    }
    if (err)
        expect_broken(db, n - 1, &e);
    db_close(db);
    _exit(err ? STATUS_BROKEN : STATUS_WHOLE);
}

static int status_of(pid_t pid)
{
    int status = 0;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

// Returns the highest batch in the store, and checks that all batches up to it are complete.
static int64_t check(const char *dir, int64_t acknowledged)
{
    char path[64];
    struct db_connection c;
    int64_t sound = 0;
    struct db *db = store_open(dir);
    struct db_reader *r = reader_open(db);
    int64_t rows = query_int(r, "SELECT count(*) FROM metrics");
    int64_t weights = query_int(r, "SELECT count(*) FROM model_definitions");
    int64_t top = query_int(r, "SELECT coalesce(max(reports), -1) FROM metrics");
    assert_int_equal(rows, top + 1);
    assert_int_equal(rows, weights * ROWS);
    assert_true(weights > acknowledged);
    db_reader_close(r);
    db_close(db);
    snprintf(path, sizeof path, "%s/muster.db", dir);
    assert_int_equal(connection_open(&c, path, SQLITE_OPEN_READONLY, NULL), 0);
    const char *ask_it = "SELECT integrity_check = 'ok' FROM pragma_integrity_check";
    assert_int_equal(connection_ask_int(c.sql, ask_it, &sound, NULL), 0);
    assert_int_equal(sound, 1);
    connection_close(&c);
    return weights - 1;
}

struct tally {
    int broken, whole, cut;
    int64_t acknowledged;
};

static int64_t fail_once(const char *dir, int64_t last, enum fault fault, int at, uint64_t seed,
                         struct tally *tally)
{
    int ends[2];
    int64_t batch = last, got;
    assert_int_equal(pipe(ends), 0);
    pid_t pid = fork_child();
    if (pid == 0) {
        close(ends[0]);
        ingest(dir, ends[1], last + 1, fault, at, seed);
    }
    close(ends[1]);
    for (ssize_t n; (n = read(ends[0], &got, sizeof got)) > 0;) {
        assert_int_equal(n, sizeof got);
        assert_int_equal(got, batch + 1);
        batch = got;
    }
    close(ends[0]);
    int status = status_of(pid);
    if (status != STATUS_BROKEN && status != STATUS_WHOLE && status != FAULTY_POWER_CUT)
        fail_msg("%s at operation %d, seed %llu: status %d", fault_names[fault], at,
                 (unsigned long long)seed, status);
    tally->broken += status == STATUS_BROKEN;
    tally->whole += status == STATUS_WHOLE;
    tally->cut += status == FAULTY_POWER_CUT;
    tally->acknowledged += batch - last;
    return check(dir, batch);
}

// Each kind of operation is counted on its own: every commit has a few writes and one flush, and
// copies of the log add some. The faults therefore occur at different moments.
static void test_fault(enum fault fault)
{
    char dir[32];
    struct rng rng;
    struct tally tally = {0};
    const char *seed_text = getenv("MUSTER_SEED"), *rounds_text = getenv("MUSTER_ROUNDS");
    uint64_t seed = seed_text ? strtoull(seed_text, NULL, 10) : 1;
    int rounds = rounds_text ? (int)strtol(rounds_text, NULL, 10) : ROUNDS;
    static const uint32_t range[FAULTS] = {
        [FAULT_NONE] = 1,       [FAULT_FULL] = 1200,  [FAULT_WRITE] = 1200, [FAULT_SYNC] = 120,
        [FAULT_SYNC_ALL] = 120, [FAULT_TRUNCATE] = 2, [FAULT_POWER] = 1500};
    rng_seed(&rng, seed, fault);
    store_folder(dir);
    int64_t last = -1;
    for (int i = 0; i < rounds; i++)
        last = fail_once(dir, last, fault, 1 + (int)rng_below(&rng, range[fault]),
                         seed * 1000 + (uint64_t)i, &tally);
    print_message("%s: %d rounds, %d times the store failed, %d times it went on, %lld batches "
                  "acknowledged\n",
                  fault_names[fault], rounds, tally.broken + tally.cut, tally.whole,
                  (long long)tally.acknowledged);
    if (fault == FAULT_NONE)
        assert_int_equal(tally.whole, rounds);
    else if (fault != FAULT_TRUNCATE)
        assert_true(tally.broken + tally.cut >= rounds / 3);
}

#define FAULT_TEST(name, fault)                                                                    \
    static void name(void **state)                                                                 \
    {                                                                                              \
        (void)state;                                                                               \
        test_fault(fault);                                                                         \
    }
FAULT_TEST(a_sound_disk, FAULT_NONE)
FAULT_TEST(a_full_disk, FAULT_FULL)
FAULT_TEST(a_write_fails, FAULT_WRITE)
FAULT_TEST(a_flush_fails, FAULT_SYNC)
FAULT_TEST(flushes_fail, FAULT_SYNC_ALL)
FAULT_TEST(a_truncation_fails, FAULT_TRUNCATE)
FAULT_TEST(the_power_is_cut, FAULT_POWER)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_sound_disk),     cmocka_unit_test(a_full_disk),
        cmocka_unit_test(a_write_fails),    cmocka_unit_test(a_flush_fails),
        cmocka_unit_test(flushes_fail),     cmocka_unit_test(a_truncation_fails),
        cmocka_unit_test(the_power_is_cut),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
