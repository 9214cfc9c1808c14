// kill -9 during writes, again and again on one store: acknowledged batches survive, all batches
// are complete, and they are in order.
#include "tests/unit/db/store_test.h"

#include <fcntl.h>
#include <sys/wait.h>

#include "base/clock.h"
#include "base/rng.h"

enum { KILLS = 50, EARLY = 5, ROWS = 3, SPAN_US = 15 * 1000 };

struct sent_batch {
    int fd;
    int64_t batch;
};

// Runs on the writer thread, after the commit.
static void acknowledge(void *ctx, int err)
{
    struct sent_batch *s = ctx;
    if (err || write(s->fd, &s->batch, sizeof s->batch) != sizeof s->batch)
        _exit(1);
    free(s);
}

// Writes batches of three rows with the steps 3n, 3n + 1, 3n + 2, from n on, until it is killed.
static void ingest(const char *dir, int fd, int64_t n)
{
    struct db *db = NULL;
    if (db_open(dir, &db, NULL))
        _exit(1);
    for (;; n++) {
        struct db_batch *b = db_batch_new();
        for (int64_t k = 0; k < ROWS; k++)
            add_metric(b, 1, n * ROWS + k);
        struct sent_batch *s = malloc(sizeof *s);
        *s = (struct sent_batch){.fd = fd, .batch = n};
        db_commit(db, b, acknowledge, s);
    }
}

// Reads the next acknowledged batch; false at the end. A pipe transfers eight bytes as a unit.
static bool read_one(int fd, int64_t *last)
{
    int64_t batch;
    ssize_t got = read(fd, &batch, sizeof batch);
    if (got == 0)
        return false;
    assert_int_equal(got, sizeof batch);
    assert_int_equal(batch, *last + 1);
    *last = batch;
    return true;
}

// Kills the child `after_us` after its start if `early`, perhaps while it opens the store;
// otherwise after its first acknowledgement. Returns the highest acknowledged batch, or `last` if
// there is none.
static int64_t kill_once(const char *dir, int64_t last, bool early, int64_t after_us)
{
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    fcntl(ends[1], F_SETPIPE_SZ, 1 << 20); // the writer must not wait for the reader of the pipe
    pid_t pid = fork_child();
    if (pid == 0) {
        close(ends[0]);
        ingest(dir, ends[1], last + 1);
    }
    close(ends[1]);
    if (!early)
        assert_true(read_one(ends[0], &last));
    clock_sleep_us(after_us);
    kill(pid, SIGKILL);
    int status = 0;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFSIGNALED(status)); // it did not fail on its own
    while (read_one(ends[0], &last))
        ;
    close(ends[0]);
    return last;
}

static void acknowledged_batches_survive(void **state)
{
    (void)state;
    char dir[32];
    struct rng rng;
    rng_seed(&rng, (uint64_t)clock_wall_us(), 1);
    store_folder(dir);
    int64_t last = -1, acknowledged = 0, committed_only = 0;
    for (int i = 0; i < KILLS; i++) {
        int64_t before = last;
        last = kill_once(dir, last, i % EARLY == 0, (int64_t)rng_below(&rng, SPAN_US));
        acknowledged += last - before;

        struct db *db = store_open(dir);
        struct db_reader *r = reader_open(db);
        int64_t rows = query_int(r, "SELECT count(*) FROM metrics");
        int64_t top = query_int(r, "SELECT coalesce(max(reports), -1) FROM metrics");
        assert_int_equal(rows % ROWS, 0);       // batches are complete
        assert_int_equal(rows, top + 1);        // without a gap, in order
        assert_true(rows >= (last + 1) * ROWS); // with all acknowledged batches
        db_reader_close(r);
        db_close(db);
        committed_only += rows / ROWS - 1 - last;
        last = rows / ROWS - 1;
    }
    print_message("%d kills, %lld batches acknowledged, %lld more were committed\n", KILLS,
                  (long long)acknowledged, (long long)committed_only);
    assert_true(acknowledged >= KILLS - KILLS / EARLY); // most kills hit the child while it wrote
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(acknowledged_batches_survive)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
