// The communicator over several machines: results, and every way of losing a peer. With the
// argument "encrypted" the connections are encrypted.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/clock.h"
#include "base/text/json.h"
#include "tests/unit/trainer/placed_ranks.h"

static int unlucky; // the rank with the fault; set before the ranks are forked

// --- arithmetic ----------------------------------------------------------------------------------

static int check_parts(struct comm *c, struct comm_work w)
{
    struct error e = {0};
    struct comm_part mine = comm_part(w.count, w.unit, comm_world(c), comm_rank(c));
    for (size_t i = 0; i < w.count; i++)
        element_set(&w, i, of_rank(comm_rank(c), i));
    w.kind = COMM_REDUCE_SCATTER;
    CHECK(comm_run(c, &w, &e) == 0);
    for (size_t i = mine.first; i < mine.last; i++)
        CHECK(element_get(&w, i) == of_all(comm_world(c), i, w.op));
    CHECK(comm_barrier(c, &e) == 0);
    for (size_t i = 0; i < w.count; i++)
        if (i < mine.first || i >= mine.last)
            element_set(&w, i, -7);
    w.kind = COMM_ALL_GATHER;
    CHECK(comm_run(c, &w, &e) == 0);
    for (size_t i = 0; i < w.count; i++)
        CHECK(element_get(&w, i) == of_all(comm_world(c), i, w.op));
    CHECK(comm_barrier(c, &e) == 0);
    return 0;
}

static int rank_arithmetic(struct gang_member *seat, void *ctx)
{
    (void)ctx;
    enum { MOST = 300007 };
    const size_t counts[] = {0, 1, 15, 16, 17, 2049, 4097, 70001, MOST}, units[] = {1, 16, 4096};
    struct placed_rank place = {.seat = seat};
    struct error e = {0};
    struct comm *c = NULL;
    CHECK(open_comm(&place, 0, &c, &e) == 0);
    CHECK(strcmp(comm_backend_name(c), "net") == 0);
    CHECK(comm_world(c) == seat->world && comm_rank(c) == seat->rank);
    struct comm_work w = {.data = comm_alloc(c, MOST * sizeof(int64_t))};
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
        for (int kind = 0; kind < 6; kind++) {
            w.count = counts[i];
            w.type = (enum comm_type)(kind / 2);
            w.op = (enum comm_op)(kind % 2);
            w.unit = units[(i + (size_t)kind) % 3];
            if (check_all_reduce(c, w) || check_parts(c, w))
                return 1;
        }
    comm_close(c);
    return 0;
}

static const char *const placements[] = {"AB",  "ABC",  "AAB",   "ABB",
                                         "ABA", "AABB", "AAABB", "AABBCDDD"};

static void test_arithmetic(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof placements / sizeof *placements; i++)
        assert_int_equal(run_placed(placements[i], rank_arithmetic, NULL).failed_rank, -1);
}

// Waits in another order than started, with more operations in flight than there are slots.
static int rank_with_many(struct gang_member *seat, void *ctx)
{
    (void)ctx;
    enum { MANY = 3 * COMM_PENDING_MAX, COUNT = 3000 };
    struct placed_rank place = {.seat = seat};
    struct error e = {0};
    struct comm *c = NULL;
    uint32_t tickets[MANY];
    int32_t *data[MANY];
    CHECK(open_comm(&place, 0, &c, &e) == 0);
    for (int i = 0; i < MANY; i++) {
        data[i] = comm_alloc(c, COUNT * sizeof **data);
        for (int k = 0; k < COUNT; k++)
            data[i][k] = i + k;
        const struct comm_work w = {
            .type = COMM_INT32, .op = COMM_SUM, .data = data[i], .count = COUNT};
        CHECK(comm_start(c, &w, &tickets[i], &e) == 0);
    }
    for (int i = MANY - 1; i >= 0; i--) {
        CHECK(comm_wait(c, tickets[i], &e) == 0);
        for (int k = 0; k < COUNT; k++)
            CHECK(data[i][k] == (i + k) * seat->world);
    }
    comm_close(c);
    return 0;
}

static int rank_copies(struct gang_member *seat, void *ctx)
{
    (void)ctx;
    const size_t sizes[] = {0, 1, 63, 65, 100001, (9 << 20) + 5};
    struct placed_rank place = {.seat = seat};
    struct error e = {0};
    struct comm *c = NULL;
    unsigned char *data = xcalloc(1, sizes[5]);
    CHECK(open_comm(&place, 0, &c, &e) == 0);
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++)
        for (int root = 0; root < (s == 5 ? 1 : seat->world); root++) {
            for (size_t i = 0; i < sizes[s]; i++)
                data[i] = (unsigned char)(i * 7 + (size_t)seat->rank);
            CHECK(comm_broadcast(c, data, sizes[s], root, &e) == 0);
            for (size_t i = 0; i < sizes[s]; i++)
                CHECK(data[i] == (unsigned char)(i * 7 + (size_t)root));
        }
    comm_close(c);
    free(data);
    return 0;
}

static void test_queue_and_broadcast(void **state)
{
    (void)state;
    const char *const some[] = {"AB", "AAB", "ABBC"};
    for (size_t i = 0; i < sizeof some / sizeof *some; i++) {
        assert_int_equal(run_placed(some[i], rank_with_many, NULL).failed_rank, -1);
        assert_int_equal(run_placed(some[i], rank_copies, NULL).failed_rank, -1);
    }
}

// Numbers whose sum depends on the order: ranks of a machine in order, then machines in order.
static int rank_floats(struct gang_member *seat, void *ctx)
{
    (void)ctx;
    enum { COUNT = 30011 };
    struct placed_rank place = {.seat = seat};
    struct error e = {0};
    struct comm *c = NULL;
    CHECK(open_comm(&place, 0, &c, &e) == 0);
    float *a = comm_alloc(c, COUNT * sizeof *a);
    for (size_t i = 0; i < COUNT; i++)
        a[i] = 1.0f / (float)(1 + i % 97 + 13 * (size_t)seat->rank);
    CHECK(comm_all_reduce(c, a, COUNT, COMM_FLOAT, COMM_SUM, &e) == 0);
    for (size_t i = 0; i < COUNT; i++) {
        float all = 0, machine = 0;
        for (int r = 0; r < seat->world; r++) {
            float x = 1.0f / (float)(1 + i % 97 + 13 * (size_t)r);
            bool first = r == 0 || placement[r] != placement[r - 1];
            all = first ? all + machine : all;
            machine = first ? x : machine + x;
        }
        CHECK(a[i] == all + machine);
    }
    comm_close(c);
    return 0;
}

static void test_floats_have_an_order(void **state)
{
    (void)state;
    assert_int_equal(run_placed("AABBBC", rank_floats, NULL).failed_rank, -1);
}

// --- lost peers ----------------------------------------------------------------------------------

static int reduce_until_error(struct gang_member *seat, struct comm *c)
{
    struct error e = {0};
    int err = 0;
    int32_t *a = comm_alloc(c, 1 << 20);
    while (!err)
        err = comm_all_reduce(c, a, 1 << 18, COMM_INT32, COMM_MAX, &e);
    CHECK(report_outcome(seat, err, e.text) == 0);
    comm_close(c);
    return 0;
}

static int rank_killed(struct gang_member *seat, void *ctx)
{
    (void)ctx;
    struct placed_rank place = {.seat = seat};
    struct comm *c = NULL;
    CHECK(open_and_warm(&place, 0, &c) == 0);
    if (seat->rank == unlucky) {
        report_outcome(seat, 0, "");
        raise(SIGKILL);
    }
    return reduce_until_error(seat, c);
}

static void assert_all_others_say(const struct rank_outcomes *outcomes, int world, const char *form,
                                  int64_t within_us)
{
    char text[64];
    snprintf(text, sizeof text, "rank %d %s", unlucky, form);
    for (int r = 0; r < world; r++) {
        if (r == unlucky)
            continue;
        assert_int_equal(outcomes->codes[r], ERR_PEER);
        if (!strstr(outcomes->errors[r], text))
            fail_msg("of rank %d, rank %d said \"%s\"", unlucky, r, outcomes->errors[r]);
        if (outcomes->at[r] - outcomes->at[unlucky] > within_us)
            fail_msg("rank %d took %lld us", r,
                     (long long)(outcomes->at[r] - outcomes->at[unlucky]));
    }
}

static void test_killed_rank_is_named_in_time(void **state)
{
    (void)state;
    for (unlucky = 0; unlucky < 4; unlucky++) { // leaders and other ranks
        struct rank_outcomes outcomes = {0};
        assert_int_equal(run_placed("AABB", rank_killed, &outcomes).failed_rank, unlucky);
        assert_all_others_say(&outcomes, 4, "died", 2 * SECOND);
    }
}

// The whole process is stopped; it continues after the others have given up.
static int rank_stopped(struct gang_member *seat, void *ctx)
{
    (void)ctx;
    struct placed_rank place = {.seat = seat};
    struct comm *c = NULL;
    CHECK(open_and_warm(&place, SECOND, &c) == 0);
    if (seat->rank != unlucky)
        return reduce_until_error(seat, c);
    pid_t me = getpid(), friend = fork();
    if (friend == 0) {
        clock_sleep_us(5 * SECOND);
        kill(me, SIGCONT);
        _exit(0);
    }
    report_outcome(seat, 0, "");
    raise(SIGSTOP);
    waitpid(friend, NULL, 0);
    comm_close(c);
    return 0;
}

static void test_stopped_rank_is_named(void **state)
{
    (void)state;
    for (unlucky = 2; unlucky < 4; unlucky++) {
        struct rank_outcomes outcomes = {0};
        assert_int_equal(run_placed("AABB", rank_stopped, &outcomes).failed_rank, -1);
        assert_all_others_say(&outcomes, 4, "hangs", 6 * SECOND);
    }
}

static int rank_gives_up(struct gang_member *seat, void *ctx)
{
    (void)ctx;
    struct placed_rank place = {.seat = seat};
    struct comm *c = NULL;
    CHECK(open_and_warm(&place, 0, &c) == 0);
    if (seat->rank == unlucky) {
        int64_t before = clock_mono_us();
        comm_abort(c, "no more paper");
        CHECK(clock_mono_us() - before < SECOND / 10);
        report_outcome(seat, 0, "");
        struct error e = {0};
        CHECK(comm_barrier(c, &e) == ERR_PEER);
        comm_close(c);
        return 0;
    }
    if (seat->rank == 0)
        clock_sleep_us(SECOND / 2); // it computes, and notices the loss nevertheless
    return reduce_until_error(seat, c);
}

static void test_abort_tells_why(void **state)
{
    (void)state;
    for (unlucky = 1; unlucky < 4; unlucky++) {
        struct rank_outcomes outcomes = {0};
        assert_int_equal(run_placed("AABB", rank_gives_up, &outcomes).failed_rank, -1);
        assert_all_others_say(&outcomes, 4, "gave up: no more paper", 2 * SECOND);
    }
}

static int rank_leaves(struct gang_member *seat, void *ctx)
{
    (void)ctx;
    struct placed_rank place = {.seat = seat};
    struct comm *c = NULL;
    CHECK(open_and_warm(&place, 0, &c) == 0);
    if (seat->rank == unlucky) {
        report_outcome(seat, 0, "");
        comm_close(c);
        return 0;
    }
    return reduce_until_error(seat, c);
}

static void test_rank_that_leaves_is_named(void **state)
{
    (void)state;
    struct rank_outcomes outcomes = {0};
    unlucky = 1;
    assert_int_equal(run_placed("AB", rank_leaves, &outcomes).failed_rank, -1);
    assert_all_others_say(&outcomes, 2, "has left", 2 * SECOND);
}

static int rank_out_of_step(struct gang_member *seat, void *ctx)
{
    (void)ctx;
    struct placed_rank place = {.seat = seat};
    struct error e = {0};
    struct comm *c = NULL;
    CHECK(open_and_warm(&place, 0, &c) == 0);
    int32_t *a = comm_alloc(c, 64);
    int err = comm_all_reduce(c, a, seat->rank == 0 ? 5 : 6, COMM_INT32, COMM_SUM, &e);
    CHECK(err == ERR_PEER);
    CHECK(strstr(e.text, "do not run the same training") != NULL);
    comm_close(c);
    return 0;
}

static void test_ranks_out_of_step_are_found(void **state)
{
    (void)state;
    assert_int_equal(run_placed("AB", rank_out_of_step, NULL).failed_rank, -1);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_arithmetic),
        cmocka_unit_test(test_queue_and_broadcast),
        cmocka_unit_test(test_floats_have_an_order),
        cmocka_unit_test(test_killed_rank_is_named_in_time),
        cmocka_unit_test(test_stopped_rank_is_named),
        cmocka_unit_test(test_abort_tells_why),
        cmocka_unit_test(test_rank_that_leaves_is_named),
        cmocka_unit_test(test_ranks_out_of_step_are_found),
    };
    encrypted = argc > 1 && strcmp(argv[1], "encrypted") == 0;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
