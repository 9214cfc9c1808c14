// The communicator between forked ranks: results, and every way of losing a peer.
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
#include "base/text/json.h"
#include "tests/unit/trainer/ranks.h"
#include "trainer/comm/comm.h"

enum { ARENA = 8 << 20 };

static int open_comm(struct gang_member *seat, int64_t timeout_us, struct comm **c, struct error *e)
{
    const struct comm_config config = {
        .rank = seat->rank,
        .world = seat->world,
        .arena_bytes = ARENA,
        .timeout_us = timeout_us,
        .rendezvous = {.all_gather = gang_all_gather, .ctx = seat},
    };
    return comm_open(&config, c, e);
}

// --- arithmetic ----------------------------------------------------------------------------------

static int reduce_int32(struct gang_member *seat, struct comm *c, size_t count)
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

static int reduce_others(struct gang_member *seat, struct comm *c)
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

// Starts more operations than there are slots and waits for them in another order.
static int reduce_many(struct gang_member *seat, struct comm *c)
{
    enum { MANY = 3 * COMM_PENDING_MAX, COUNT = 300 };
    struct error e = {0};
    uint32_t tickets[MANY];
    int32_t *data[MANY];
    for (int i = 0; i < MANY; i++) {
        data[i] = comm_alloc(c, COUNT * sizeof **data);
        for (int k = 0; k < COUNT; k++)
            data[i][k] = i + k;
        const struct comm_work work = {
            .type = COMM_INT32, .op = COMM_SUM, .data = data[i], .count = COUNT};
        CHECK(comm_start(c, &work, &tickets[i], &e) == 0);
    }
    for (int i = MANY - 1; i >= 0; i--) {
        CHECK(comm_wait(c, tickets[i], &e) == 0);
        for (int k = 0; k < COUNT; k++)
            CHECK(data[i][k] == (i + k) * seat->world);
    }
    return 0;
}

// --- parts ---------------------------------------------------------------------------------------

static size_t size_of(enum comm_type type)
{
    return type == COMM_INT64 ? 8 : 4;
}

static void put_number(char *at, enum comm_type type, int64_t x)
{
    const int32_t narrow = (int32_t)x;
    const float real = (float)x;
    memcpy(at,
           type == COMM_INT64   ? (const void *)&x
           : type == COMM_INT32 ? &narrow
                                : (void *)&real,
           size_of(type));
}

static int64_t get_number(const char *at, enum comm_type type)
{
    int64_t x = 0;
    int32_t narrow = 0;
    float real = 0;
    memcpy(type == COMM_INT64   ? (void *)&x
           : type == COMM_INT32 ? &narrow
                                : (void *)&real,
           at, size_of(type));
    return type == COMM_INT64 ? x : type == COMM_INT32 ? narrow : (int64_t)real;
}

static int64_t of_rank(int rank, size_t i)
{
    return (int64_t)((i * 31 + (size_t)rank * 17) % 1009) - 500;
}

static int64_t of_all(int world, size_t i, enum comm_op op)
{
    int64_t sum = 0, most = INT64_MIN;
    for (int r = 0; r < world; r++) {
        sum += of_rank(r, i);
        most = of_rank(r, i) > most ? of_rank(r, i) : most;
    }
    return op == COMM_SUM ? sum : most;
}

// Reduce-scatters and gathers the parts again.
static int scatter_and_gather(struct gang_member *seat, struct comm *c, struct comm_work work)
{
    struct error e = {0};
    size_t size = size_of(work.type);
    struct comm_part mine = comm_part(work.count, work.unit, seat->world, seat->rank);
    for (size_t i = 0; i < work.count; i++)
        put_number((char *)work.data + i * size, work.type, of_rank(seat->rank, i));
    work.kind = COMM_REDUCE_SCATTER;
    CHECK(comm_run(c, &work, &e) == 0);
    for (size_t i = mine.first; i < mine.last; i++)
        CHECK(get_number((char *)work.data + i * size, work.type) ==
              of_all(seat->world, i, work.op));
    CHECK(comm_barrier(c, &e) == 0);
    for (size_t i = 0; i < work.count; i++)
        if (i < mine.first || i >= mine.last)
            put_number((char *)work.data + i * size, work.type, -7);
    work.kind = COMM_ALL_GATHER;
    CHECK(comm_run(c, &work, &e) == 0);
    for (size_t i = 0; i < work.count; i++)
        CHECK(get_number((char *)work.data + i * size, work.type) ==
              of_all(seat->world, i, work.op));
    CHECK(comm_barrier(c, &e) == 0);
    return 0;
}

static int rank_parts(struct gang_member *seat, void *ctx)
{
    (void)ctx;
    enum { MOST = 50021 };
    const size_t counts[] = {1, 16, 4095, 4097, MOST}, units[] = {1, 16, 4096};
    struct error e = {0};
    struct comm *c = NULL;
    CHECK(open_comm(seat, 0, &c, &e) == 0);
    struct comm_work work = {.data = comm_alloc(c, MOST * sizeof(int64_t))};
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
        for (size_t u = 0; u < sizeof units / sizeof *units; u++)
            for (int kind = 0; kind < 6; kind++) {
                work.count = counts[i];
                work.unit = units[u];
                work.type = (enum comm_type)(kind / 2);
                work.op = (enum comm_op)(kind % 2);
                if (scatter_and_gather(seat, c, work))
                    return 1;
            }
    comm_close(c);
    return 0;
}

static void test_scatter_and_gather(void **state)
{
    (void)state;
    for (int world = 1; world <= 8; world++) {
        struct rank_outcomes outcomes = {0};
        assert_int_equal(run_ranks(world, rank_parts, &outcomes).failed_rank, -1);
    }
}

// The pattern of a step: many parts in flight, whose buffers are refilled after one all-reduce.
static int rank_steps(struct gang_member *seat, void *ctx)
{
    (void)ctx;
    enum { BUFFERS = 5, COUNT = 3000, ROUNDS = 200 };
    struct error e = {0};
    struct comm *c = NULL;
    int32_t *sums[BUFFERS], *weights[BUFFERS];
    uint32_t tickets[BUFFERS];
    CHECK(open_comm(seat, 0, &c, &e) == 0);
    int32_t *small = comm_alloc(c, sizeof *small);
    for (int b = 0; b < BUFFERS; b++) {
        sums[b] = comm_alloc(c, COUNT * sizeof **sums);
        weights[b] = comm_alloc(c, COUNT * sizeof **weights);
    }
    struct comm_part mine = comm_part(COUNT, 64, seat->world, seat->rank);
    struct comm_work work = {.type = COMM_INT32, .op = COMM_SUM, .unit = 64, .count = COUNT};
    for (int round = 0; round < ROUNDS; round++) {
        work.kind = COMM_REDUCE_SCATTER;
        for (int b = 0; b < BUFFERS; b++) {
            for (int i = 0; i < COUNT; i++)
                sums[b][i] = round + b + i;
            work.data = sums[b];
            CHECK(comm_start(c, &work, &tickets[b], &e) == 0);
        }
        CHECK(comm_all_reduce(c, small, 1, COMM_INT32, COMM_MAX, &e) == 0);
        work.kind = COMM_ALL_GATHER;
        for (int b = 0; b < BUFFERS; b++) {
            CHECK(comm_wait(c, tickets[b], &e) == 0);
            for (size_t i = mine.first; i < mine.last; i++)
                weights[b][i] += sums[b][i];
            work.data = weights[b];
            CHECK(comm_start(c, &work, &tickets[b], &e) == 0);
        }
        for (int b = BUFFERS - 1; b >= 0; b--)
            CHECK(comm_wait(c, tickets[b], &e) == 0);
    }
    for (int b = 0; b < BUFFERS; b++)
        for (int i = 0; i < COUNT; i++)
            CHECK(weights[b][i] == (ROUNDS * (ROUNDS - 1) / 2 + ROUNDS * (b + i)) * seat->world);
    comm_close(c);
    return 0;
}

static void test_buffers_are_filled_again(void **state)
{
    (void)state;
    for (int world = 1; world <= 4; world++) {
        struct rank_outcomes outcomes = {0};
        assert_int_equal(run_ranks(world, rank_steps, &outcomes).failed_rank, -1);
    }
}

static void test_parts_cover_everything(void **state)
{
    (void)state;
    for (size_t count = 0; count < 300; count += 37)
        for (size_t unit = 1; unit < 40; unit += 13)
            for (int world = 1; world <= 9; world++) {
                size_t at = 0;
                for (int r = 0; r < world; r++) {
                    struct comm_part part = comm_part(count, unit, world, r);
                    assert_int_equal(part.first, at);
                    assert_true(part.first % unit == 0 || part.first == count);
                    assert_true(part.last - part.first <=
                                ((count + unit - 1) / unit / (size_t)world + 1) * unit);
                    at = part.last;
                }
                assert_int_equal(at, count);
            }
}

static int copy_around(struct gang_member *seat, struct comm *c)
{
    const size_t bytes = (1 << 20) + 17; // larger than the staging buffer
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

static int rank_arithmetic(struct gang_member *seat, void *ctx)
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
        struct rank_outcomes outcomes = {0};
        struct gang_result result = run_ranks(worlds[i], rank_arithmetic, &outcomes);
        assert_int_equal(result.failed_rank, -1);
    }
}

// --- lost peers ----------------------------------------------------------------------------------

// Reduces until an error occurs, and reports it.
static int reduce_until_error(struct gang_member *seat, struct comm *c)
{
    struct error e = {0};
    int err = 0;
    int32_t *a = comm_alloc(c, 64);
    const struct comm_work works[] = {
        {.kind = COMM_REDUCE_SCATTER, .unit = 4, .data = a, .count = 16},
        {.kind = COMM_ALL_GATHER, .unit = 4, .data = a, .count = 16},
        {.kind = COMM_ALL_REDUCE, .data = a, .count = 16},
    };
    for (int i = 0; !err; i++)
        err = comm_run(c, &works[i % 3], &e);
    CHECK(report_outcome(seat, err, e.text) == 0);
    comm_close(c);
    return 0;
}

static int rank_killed(struct gang_member *seat, void *ctx)
{
    (void)ctx;
    struct error e = {0};
    struct comm *c = NULL;
    CHECK(open_comm(seat, 0, &c, &e) == 0);
    if (seat->rank == 1) {
        const struct comm_work scatter = {
            .kind = COMM_REDUCE_SCATTER, .unit = 4, .data = comm_alloc(c, 64), .count = 16};
        CHECK(comm_run(c, &scatter, &e) == 0);
        report_outcome(seat, 0, "");
        raise(SIGKILL);
    }
    return reduce_until_error(seat, c);
}

static void assert_all_others_name(const struct rank_outcomes *outcomes, int world,
                                   const char *text, int64_t within_us)
{
    for (int r = 0; r < world; r++) {
        if (r == 1)
            continue;
        assert_int_equal(outcomes->codes[r], ERR_PEER);
        if (!strstr(outcomes->errors[r], text))
            fail_msg("rank %d said \"%s\"", r, outcomes->errors[r]);
        assert_true(outcomes->at[r] - outcomes->at[1] < within_us);
    }
}

static void test_killed_rank_is_named_in_time(void **state)
{
    (void)state;
    struct rank_outcomes outcomes = {0};
    struct gang_result result = run_ranks(4, rank_killed, &outcomes);
    assert_int_equal(result.failed_rank, 1);
    assert_all_others_name(&outcomes, 4, "rank 1 died", 2 * SECOND);
}

static int rank_gives_up(struct gang_member *seat, void *ctx)
{
    (void)ctx;
    struct error e = {0};
    struct comm *c = NULL;
    CHECK(open_comm(seat, 0, &c, &e) == 0);
    if (seat->rank == 1) {
        clock_sleep_us(SECOND / 10);
        report_outcome(seat, 0, "");
        comm_abort(c, "label 12 of sample 3 is out of range");
        CHECK(comm_barrier(c, &e) == ERR_PEER);
        clock_sleep_us(SECOND / 2); // stays alive while the others read the reason
        comm_close(c);
        return 0;
    }
    return reduce_until_error(seat, c);
}

static void test_abort_tells_why(void **state)
{
    (void)state;
    struct rank_outcomes outcomes = {0};
    struct gang_result result = run_ranks(3, rank_gives_up, &outcomes);
    assert_int_equal(result.failed_rank, -1);
    assert_all_others_name(&outcomes, 3, "rank 1 gave up: label 12 of sample 3 is out of range",
                           2 * SECOND);
}

static int rank_hangs(struct gang_member *seat, void *ctx)
{
    (void)ctx;
    struct error e = {0};
    struct comm *c = NULL;
    CHECK(open_comm(seat, 2 * SECOND, &c, &e) == 0);
    if (seat->rank == 1) {
        report_outcome(seat, 0, "");
        clock_sleep_us(7 * SECOND / 2);
        comm_close(c);
        return 0;
    }
    return reduce_until_error(seat, c);
}

static void test_hang_is_named(void **state)
{
    (void)state;
    struct rank_outcomes outcomes = {0};
    struct gang_result result = run_ranks(3, rank_hangs, &outcomes);
    assert_int_equal(result.failed_rank, -1);
    assert_all_others_name(&outcomes, 3, "rank 1 hangs", 5 * SECOND);
}

// --- connecting ----------------------------------------------------------------------------------

static int gather_from_elsewhere(void *ctx, const json_t *mine, json_t **all, struct error *e)
{
    struct gang_member *seat = ctx;
    json_t *changed = json_deep_copy(mine);
    if (seat->rank == 1 && json_is_object(changed)) {
        json_object_set_new(changed, "machine", json_string("another kernel"));
        json_object_set_new(changed, "host", json_string("elsewhere"));
    }
    int err = gang_all_gather(seat, changed, all, e);
    json_decref(changed);
    return err;
}

static int rank_elsewhere(struct gang_member *seat, void *ctx)
{
    (void)ctx;
    struct error e = {0};
    struct comm *c = NULL;
    const struct comm_config config = {
        .rank = seat->rank,
        .world = seat->world,
        .arena_bytes = 64,
        .backend = "shm",
        .rendezvous = {.all_gather = gather_from_elsewhere, .ctx = seat},
    };
    int err = comm_open(&config, &c, &e);
    CHECK(err == ERR_INVALID && !c);
    return report_outcome(seat, err, e.text);
}

static void test_two_machines_are_refused(void **state)
{
    (void)state;
    struct rank_outcomes outcomes = {0};
    char host[256] = "";
    gethostname(host, sizeof host - 1);
    struct gang_result result = run_ranks(2, rank_elsewhere, &outcomes);
    assert_int_equal(result.failed_rank, -1);
    for (int r = 0; r < 2; r++) {
        assert_non_null(strstr(outcomes.errors[r], "elsewhere"));
        assert_non_null(strstr(outcomes.errors[r], host));
    }
}

// Dies after it has learnt where the segment is, but before it opens it.
static int gather_and_die(void *ctx, const json_t *mine, json_t **all, struct error *e)
{
    struct gang_member *seat = ctx;
    bool introduced = !json_is_object(mine);
    int err = gang_all_gather(seat, mine, all, e);
    if (seat->rank == 1 && introduced) {
        report_outcome(seat, 0, "");
        raise(SIGKILL);
    }
    return err;
}

static int rank_dies_early(struct gang_member *seat, void *ctx)
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
    return report_outcome(seat, err, e.text);
}

static void test_rank_that_dies_at_the_meeting(void **state)
{
    (void)state;
    struct rank_outcomes outcomes = {0};
    struct gang_result result = run_ranks(3, rank_dies_early, &outcomes);
    assert_int_equal(result.failed_rank, 1);
    assert_all_others_name(&outcomes, 3, "rank 1 died", 2 * SECOND);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_arithmetic),
        cmocka_unit_test(test_parts_cover_everything),
        cmocka_unit_test(test_scatter_and_gather),
        cmocka_unit_test(test_buffers_are_filled_again),
        cmocka_unit_test(test_killed_rank_is_named_in_time),
        cmocka_unit_test(test_abort_tells_why),
        cmocka_unit_test(test_hang_is_named),
        cmocka_unit_test(test_two_machines_are_refused),
        cmocka_unit_test(test_rank_that_dies_at_the_meeting),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
