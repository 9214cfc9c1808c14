// The communicator between forked ranks: results, and every way a peer can go missing.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/clock.h"
#include "base/json.h"
#include "tests/unit/trainer/ranks.h"
#include "trainer/comm/comm.h"

enum { ARENA = 8 << 20 };

static int open_comm(struct gang_seat *seat, int64_t hang_us, struct comm **c, struct error *e)
{
    const struct comm_config config = {
        .rank = seat->rank,
        .world = seat->world,
        .arena_bytes = ARENA,
        .hang_us = hang_us,
        .rendezvous = {.all_gather = gang_all_gather, .ctx = seat},
    };
    return comm_open(&config, c, e);
}

// Arithmetic.

static int reduce_int32(struct gang_seat *seat, struct comm *c, size_t count)
{
    struct error e = {0};
    int32_t *a = comm_alloc(c, count * sizeof *a);
    for (size_t i = 0; i < count; i++)
        a[i] = (int32_t)i * (seat->rank + 1);
    CHECK(comm_all_reduce(c, a, count, COMM_INT32, COMM_SUM, &e) == 0);
    int32_t each = seat->world * (seat->world + 1) / 2;
    for (size_t i = 0; i < count; i++)
        CHECK(a[i] == (int32_t)i * each);
    for (size_t i = 0; i < count; i++)
        a[i] = (int32_t)(i + (size_t)seat->rank * 7) % 11 - 5;
    CHECK(comm_all_reduce(c, a, count, COMM_INT32, COMM_MAX, &e) == 0);
    for (size_t i = 0; i < count; i++) {
        int32_t most = INT32_MIN;
        for (int r = 0; r < seat->world; r++) {
            int32_t v = (int32_t)(i + (size_t)r * 7) % 11 - 5;
            most = v > most ? v : most;
        }
        CHECK(a[i] == most);
    }
    return 0;
}

static int reduce_others(struct gang_seat *seat, struct comm *c)
{
    enum { COUNT = 1001 };
    struct error e = {0};
    int64_t *wide = comm_alloc(c, COUNT * sizeof *wide);
    float *real = comm_alloc(c, COUNT * sizeof *real);
    for (size_t i = 0; i < COUNT; i++) {
        wide[i] = (INT64_C(1) << 40) + (int64_t)i;
        real[i] = 0.5f * (float)i;
    }
    CHECK(comm_all_reduce(c, wide, COUNT, COMM_INT64, COMM_SUM, &e) == 0);
    CHECK(comm_all_reduce(c, real, COUNT, COMM_FLOAT, COMM_SUM, &e) == 0);
    for (size_t i = 0; i < COUNT; i++) {
        CHECK(wide[i] == ((INT64_C(1) << 40) + (int64_t)i) * seat->world);
        CHECK(real[i] == 0.5f * (float)i * (float)seat->world);
    }
    return 0;
}

// More in flight than there is room for, finished in another order than started.
static int reduce_many(struct gang_seat *seat, struct comm *c)
{
    enum { MANY = 3 * COMM_PENDING_MAX, COUNT = 300 };
    struct error e = {0};
    uint32_t tickets[MANY];
    int32_t *data[MANY];
    for (int i = 0; i < MANY; i++) {
        data[i] = comm_alloc(c, COUNT * sizeof **data);
        for (int k = 0; k < COUNT; k++)
            data[i][k] = i + k;
        CHECK(comm_start(c, data[i], COUNT, COMM_INT32, COMM_SUM, &tickets[i], &e) == 0);
    }
    for (int i = MANY - 1; i >= 0; i--) {
        CHECK(comm_wait(c, tickets[i], &e) == 0);
        for (int k = 0; k < COUNT; k++)
            CHECK(data[i][k] == (i + k) * seat->world);
    }
    return 0;
}

static int copy_around(struct gang_seat *seat, struct comm *c)
{
    const size_t bytes = (1 << 20) + 17; // more than the stage holds
    struct error e = {0};
    unsigned char *data = xcalloc(1, bytes);
    for (int root = 0; root < seat->world; root++) {
        for (size_t i = 0; i < bytes; i++)
            data[i] = (unsigned char)(i * 7 + (size_t)seat->rank);
        CHECK(comm_broadcast(c, data, bytes, root, &e) == 0);
        for (size_t i = 0; i < bytes; i++)
            CHECK(data[i] == (unsigned char)(i * 7 + (size_t)root));
    }
    free(data);
    return 0;
}

static int rank_arithmetic(struct gang_seat *seat, void *ctx)
{
    (void)ctx;
    struct error e = {0};
    struct comm *c = NULL;
    CHECK(open_comm(seat, 0, &c, &e) == 0);
    CHECK(comm_world(c) == seat->world && comm_rank(c) == seat->rank);
    const size_t counts[] = {1, 15, 16, 17, 4096, 100003};
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
        if (reduce_int32(seat, c, counts[i]))
            return 1;
    if (reduce_others(seat, c) || reduce_many(seat, c) || copy_around(seat, c))
        return 1;
    CHECK(comm_barrier(c, &e) == 0);
    comm_close(c);
    return 0;
}

static void test_arithmetic(void **state)
{
    (void)state;
    const int worlds[] = {1, 2, 3, 5, 8};
    for (size_t i = 0; i < sizeof worlds / sizeof *worlds; i++) {
        struct heard heard = {0};
        struct gang_result result = run_ranks(worlds[i], rank_arithmetic, &heard);
        assert_int_equal(result.failed_rank, -1);
    }
}

// Missing peers.

// Reduces until something breaks, and tells what.
static int reduce_until_error(struct gang_seat *seat, struct comm *c)
{
    struct error e = {0};
    int err = 0;
    int32_t *a = comm_alloc(c, 64);
    while (!err)
        err = comm_all_reduce(c, a, 16, COMM_INT32, COMM_MAX, &e);
    CHECK(tell(seat, err, e.text) == 0);
    comm_close(c);
    return 0;
}

static int rank_killed(struct gang_seat *seat, void *ctx)
{
    (void)ctx;
    struct error e = {0};
    struct comm *c = NULL;
    CHECK(open_comm(seat, 0, &c, &e) == 0);
    if (seat->rank == 1) {
        for (int i = 0; i < 100; i++)
            CHECK(comm_barrier(c, &e) == 0);
        tell(seat, 0, "");
        raise(SIGKILL);
    }
    return reduce_until_error(seat, c);
}

static void assert_all_others_name(const struct heard *heard, int world, const char *text,
                                   int64_t within_us)
{
    for (int r = 0; r < world; r++) {
        if (r == 1)
            continue;
        assert_int_equal(heard->codes[r], ERR_PEER);
        if (!strstr(heard->errors[r], text))
            fail_msg("rank %d said \"%s\"", r, heard->errors[r]);
        assert_true(heard->at[r] - heard->at[1] < within_us);
    }
}

static void test_killed_rank_is_named_in_time(void **state)
{
    (void)state;
    struct heard heard = {0};
    struct gang_result result = run_ranks(4, rank_killed, &heard);
    assert_int_equal(result.failed_rank, 1);
    assert_all_others_name(&heard, 4, "rank 1 died", 2 * SECOND);
}

static int rank_gives_up(struct gang_seat *seat, void *ctx)
{
    (void)ctx;
    struct error e = {0};
    struct comm *c = NULL;
    CHECK(open_comm(seat, 0, &c, &e) == 0);
    if (seat->rank == 1) {
        clock_sleep_us(SECOND / 10);
        tell(seat, 0, "");
        comm_abort(c, "label 12 of sample 3 is out of range");
        CHECK(comm_barrier(c, &e) == ERR_PEER);
        clock_sleep_us(SECOND / 2); // alive while the others read why
        comm_close(c);
        return 0;
    }
    return reduce_until_error(seat, c);
}

static void test_abort_tells_why(void **state)
{
    (void)state;
    struct heard heard = {0};
    struct gang_result result = run_ranks(3, rank_gives_up, &heard);
    assert_int_equal(result.failed_rank, -1);
    assert_all_others_name(&heard, 3, "rank 1 gave up: label 12 of sample 3 is out of range",
                           2 * SECOND);
}

static int rank_hangs(struct gang_seat *seat, void *ctx)
{
    (void)ctx;
    struct error e = {0};
    struct comm *c = NULL;
    CHECK(open_comm(seat, 2 * SECOND, &c, &e) == 0);
    if (seat->rank == 1) {
        tell(seat, 0, "");
        clock_sleep_us(7 * SECOND / 2);
        comm_close(c);
        return 0;
    }
    return reduce_until_error(seat, c);
}

static void test_hang_is_named(void **state)
{
    (void)state;
    struct heard heard = {0};
    struct gang_result result = run_ranks(3, rank_hangs, &heard);
    assert_int_equal(result.failed_rank, -1);
    assert_all_others_name(&heard, 3, "rank 1 hangs", 5 * SECOND);
}

// Meeting.

static int gather_from_elsewhere(void *ctx, const json_t *mine, json_t **all, struct error *e)
{
    struct gang_seat *seat = ctx;
    json_t *changed = json_deep_copy(mine);
    if (seat->rank == 1 && json_is_object(changed)) {
        json_object_set_new(changed, "machine", json_string("another kernel"));
        json_object_set_new(changed, "host", json_string("elsewhere"));
    }
    int err = gang_all_gather(seat, changed, all, e);
    json_decref(changed);
    return err;
}

static int rank_elsewhere(struct gang_seat *seat, void *ctx)
{
    (void)ctx;
    struct error e = {0};
    struct comm *c = NULL;
    const struct comm_config config = {
        .rank = seat->rank,
        .world = seat->world,
        .arena_bytes = 64,
        .rendezvous = {.all_gather = gather_from_elsewhere, .ctx = seat},
    };
    int err = comm_open(&config, &c, &e);
    CHECK(err == ERR_INVALID && !c);
    return tell(seat, err, e.text);
}

static void test_two_machines_are_refused(void **state)
{
    (void)state;
    struct heard heard = {0};
    char host[256] = "";
    gethostname(host, sizeof host - 1);
    struct gang_result result = run_ranks(2, rank_elsewhere, &heard);
    assert_int_equal(result.failed_rank, -1);
    for (int r = 0; r < 2; r++) {
        assert_non_null(strstr(heard.errors[r], "elsewhere"));
        assert_non_null(strstr(heard.errors[r], host));
    }
}

// Dies between hearing where the segment is and opening it.
static int gather_and_die(void *ctx, const json_t *mine, json_t **all, struct error *e)
{
    struct gang_seat *seat = ctx;
    bool introduced = !json_is_object(mine);
    int err = gang_all_gather(seat, mine, all, e);
    if (seat->rank == 1 && introduced) {
        tell(seat, 0, "");
        raise(SIGKILL);
    }
    return err;
}

static int rank_dies_early(struct gang_seat *seat, void *ctx)
{
    (void)ctx;
    struct error e = {0};
    struct comm *c = NULL;
    const struct comm_config config = {
        .rank = seat->rank,
        .world = seat->world,
        .arena_bytes = 64,
        .rendezvous = {.all_gather = gather_and_die, .ctx = seat},
    };
    int err = comm_open(&config, &c, &e);
    CHECK(err && !c);
    return tell(seat, err, e.text);
}

static void test_rank_that_dies_at_the_meeting(void **state)
{
    (void)state;
    struct heard heard = {0};
    struct gang_result result = run_ranks(3, rank_dies_early, &heard);
    assert_int_equal(result.failed_rank, 1);
    assert_all_others_name(&heard, 3, "rank 1 died", 2 * SECOND);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_arithmetic),
        cmocka_unit_test(test_killed_rank_is_named_in_time),
        cmocka_unit_test(test_abort_tells_why),
        cmocka_unit_test(test_hang_is_named),
        cmocka_unit_test(test_two_machines_are_refused),
        cmocka_unit_test(test_rank_that_dies_at_the_meeting),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
