// kill -9 in the middle of writing, again and again on one store: what was acknowledged is there,
// batches are whole, and they are there in their order.
#include "tests/unit/db/store_test.h"

#include <fcntl.h>
#include <sys/wait.h>

#include "base/clock.h"
#include "base/rng.h"

enum { KILLS = 50, EARLY = 5, ROWS = 3, SPAN_US = 15 * 1000 };

struct sent {
    int fd;
    int64_t batch;
};

// On the writer thread, after the commit.
static void acknowledge(void *ctx, int err)
{
    struct sent *s = ctx;
    if (err || write(s->fd, &s->batch, sizeof s->batch) != sizeof s->batch)
        _exit(1);
    free(s);
}

// Batches of three rows with the steps 3n, 3n + 1, 3n + 2, from n on, until it is killed.
static void ingest(const char *dir, int fd, int64_t n)
{
    struct db *db = NULL;
    if (db_open(dir, &db, NULL))
        _exit(1);
    for (;; n++) {
        struct db_batch *b = db_batch_new();
        for (int64_t k = 0; k < ROWS; k++)
            add_metric(b, 1, n * ROWS + k);
        struct sent *s = malloc(sizeof *s);
        *s = (struct sent){.fd = fd, .batch = n};
        db_commit(db, b, acknowledge, s);
    }
}

// The next batch acknowledged; false at the end. A pipe takes eight bytes as one.
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

// Kills it `after_us` from the start when `early`, which may hit it as it opens the store, else
// from its first word. Returns the greatest batch acknowledged, or `last` when none was.
static int64_t kill_once(const char *dir, int64_t last, bool early, int64_t after_us)
{
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    fcntl(ends[1], F_SETPIPE_SZ, 1 << 20); // the writer should not wait for us
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
    assert_true(WIFSIGNALED(status)); // it did not fail by itself
    while (read_one(ends[0], &last))
        ;
    close(ends[0]);
    return last;
}

static void what_is_acknowledged_survives(void **state)
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
        int64_t rows = ask(r, "SELECT count(*) FROM metrics");
        int64_t top = ask(r, "SELECT coalesce(max(reports), -1) FROM metrics");
        assert_int_equal(rows % ROWS, 0);       // batches are whole
        assert_int_equal(rows, top + 1);        // without a gap, in order
        assert_true(rows >= (last + 1) * ROWS); // and all that was acknowledged
        db_reader_close(r);
        db_close(db);
        committed_only += rows / ROWS - 1 - last;
        last = rows / ROWS - 1;
    }
    print_message("%d kills, %lld batches acknowledged, %lld more were committed\n", KILLS,
                  (long long)acknowledged, (long long)committed_only);
    assert_true(acknowledged >= KILLS - KILLS / EARLY); // the kills did hit it at work
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(what_is_acknowledged_survives)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
