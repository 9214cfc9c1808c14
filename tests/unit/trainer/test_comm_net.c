// The communicator over several machines: results, and every way of losing a peer. All ranks run on
// one machine; each pretends to be on the machine that its test names. A placement such as "AAB"
// has a letter for the machine of each rank.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <arpa/inet.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/clock.h"
#include "base/text/json.h"
#include "tests/unit/trainer/ranks.h"
#include "trainer/comm/comm.h"

enum { ARENA = 8 << 20 };

// Set before the ranks are forked.
static const char *placement;
static int unlucky; // the rank with the fault

struct placed_rank {
    struct gang_member *seat;
    void (*places_known)(struct placed_rank *p, json_t *all); // may be NULL
};

static int gather(void *ctx, const json_t *mine, json_t **all, struct error *e)
{
    struct placed_rank *p = ctx;
    json_t *changed = json_deep_copy(mine);
    if (jget(changed, "machine"))
        json_object_set_new(changed, "machine", json_stringn(placement + p->seat->rank, 1));
    int err = gang_all_gather(p->seat, changed, all, e);
    json_decref(changed);
    if (!err && p->places_known && jget(json_array_get(*all, 0), "port"))
        p->places_known(p, *all);
    return err;
}

static int open_comm(struct placed_rank *p, int64_t timeout_us, struct comm **c, struct error *e)
{
    const struct comm_config config = {
        .rank = p->seat->rank,
        .world = p->seat->world,
        .arena_bytes = ARENA,
        .timeout_us = timeout_us,
        .rendezvous = {.all_gather = gather, .ctx = p},
    };
    return comm_open(&config, c, e);
}

static struct gang_result run_placed(const char *where, int (*rank)(struct gang_member *, void *),
                                     struct rank_outcomes *outcomes)
{
    struct gang_result result;
    struct error e = {0};
    struct rank_outcomes silence = {0};
    placement = where;
    const struct gang_spec spec = {.world = (int)strlen(where),
                                   .rank = rank,
                                   .message = outcome_receive,
                                   .ctx = outcomes ? outcomes : &silence,
                                   .grace_us = 10 * SECOND};
    must(gang_run(&spec, &result, &e) == 0);
    return result;
}

// --- arithmetic ----------------------------------------------------------------------------------

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

static void element_set(const struct comm_work *w, size_t i, int64_t x)
{
    if (w->type == COMM_INT64)
        ((int64_t *)w->data)[i] = x;
    else if (w->type == COMM_INT32)
        ((int32_t *)w->data)[i] = (int32_t)x;
    else
        ((float *)w->data)[i] = (float)x;
}

static int64_t element_get(const struct comm_work *w, size_t i)
{
    if (w->type == COMM_INT64)
        return ((int64_t *)w->data)[i];
    return w->type == COMM_INT32 ? ((int32_t *)w->data)[i] : (int64_t)((float *)w->data)[i];
}

static int check_all_reduce(struct comm *c, struct comm_work w)
{
    struct error e = {0};
    for (size_t i = 0; i < w.count; i++)
        element_set(&w, i, of_rank(comm_rank(c), i));
    CHECK(comm_run(c, &w, &e) == 0);
    for (size_t i = 0; i < w.count; i++)
        CHECK(element_get(&w, i) == of_all(comm_world(c), i, w.op));
    return 0;
}

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

// All ranks leave the last barrier before any of them continues, so a fault that follows does not
// disturb the barrier.
static int open_and_warm(struct placed_rank *place, int64_t timeout_us, struct comm **c)
{
    struct error e = {0};
    CHECK(open_comm(place, timeout_us, c, &e) == 0);
    for (int i = 0; i < 20; i++)
        CHECK(comm_barrier(*c, &e) == 0);
    json_t *all = NULL;
    CHECK(gang_all_gather(place->seat, json_true(), &all, &e) == 0);
    json_decref(all);
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

// --- connecting ----------------------------------------------------------------------------------

static int connect_and_send(int port, const void *words, size_t bytes)
{
    const struct sockaddr_in to = {.sin_family = AF_INET,
                                   .sin_port = htons((uint16_t)port),
                                   .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    if (connect(fd, (const struct sockaddr *)&to, sizeof to)) {
        close(fd);
        return -1;
    }
    if (bytes)
        send(fd, words, bytes, MSG_NOSIGNAL);
    return fd;
}

// Strangers: silent ones, garbage, half a greeting, and a complete one with a wrong key. They stay.
static void strangers_come(struct placed_rank *p, json_t *all)
{
    unsigned char words[4096];
    if (p->seat->rank != 0)
        return;
    memset(words, 0xa5, sizeof words);
    for (int r = 0; r < p->seat->world; r++) {
        int port = (int)jget_int(json_array_get(all, (size_t)r), "port", 0);
        for (int i = 0; port && i < 30; i++)
            must(connect_and_send(port, words, (size_t)(i % 4) * 1000) >= 0);
        memcpy(words, "muster\1", 8);
        memcpy(words + 40, (const uint32_t[2]){(uint32_t)p->seat->world - 1, 0}, 8);
        must(!port ||
             (connect_and_send(port, words, 20) >= 0 && connect_and_send(port, words, 48) >= 0));
    }
}

static int rank_visited(struct gang_member *seat, void *ctx)
{
    (void)ctx;
    struct placed_rank place = {.seat = seat, .places_known = strangers_come};
    struct error e = {0};
    struct comm *c = NULL;
    CHECK(open_comm(&place, 0, &c, &e) == 0);
    struct comm_work w = {
        .type = COMM_INT32, .data = comm_alloc(c, 4000 * sizeof(int32_t)), .count = 4000};
    CHECK(check_all_reduce(c, w) == 0);
    comm_close(c);
    return 0;
}

static void test_strangers_disturb_nothing(void **state)
{
    (void)state;
    assert_int_equal(run_placed("ABC", rank_visited, NULL).failed_rank, -1);
}

static int port_of_0;

static void remember_port(struct placed_rank *p, json_t *all)
{
    (void)p;
    port_of_0 = (int)jget_int(json_array_get(all, 0), "port", 0);
}

static int rank_that_knocks(struct gang_member *seat, void *ctx)
{
    (void)ctx;
    struct placed_rank place = {.seat = seat, .places_known = remember_port};
    struct error e = {0};
    struct comm *c = NULL;
    CHECK(open_and_warm(&place, 0, &c) == 0);
    CHECK(connect_and_send(port_of_0, "", 0) < 0);
    CHECK(comm_barrier(c, &e) == 0);
    comm_close(c);
    return 0;
}

static void test_nobody_listens_after_the_meeting(void **state)
{
    (void)state;
    assert_int_equal(run_placed("AB", rank_that_knocks, NULL).failed_rank, -1);
}

static void lose_the_way(struct placed_rank *p, json_t *all)
{
    if (p->seat->rank == 1) // nobody listens at the port that all ranks were given
        json_object_set_new(json_array_get(all, 0), "port", json_integer(1));
}

static int rank_unreachable(struct gang_member *seat, void *ctx)
{
    (void)ctx;
    struct placed_rank place = {.seat = seat, .places_known = lose_the_way};
    struct error e = {0};
    struct comm *c = NULL;
    int err = open_comm(&place, SECOND, &c, &e);
    CHECK(err && !c);
    return report_outcome(seat, err, e.text);
}

static void test_unreachable_machine_is_named(void **state)
{
    (void)state;
    struct rank_outcomes outcomes = {0};
    assert_int_equal(run_placed("AB", rank_unreachable, &outcomes).failed_rank, -1);
    assert_non_null(strstr(outcomes.errors[0], "rank 1 on"));
    assert_non_null(strstr(outcomes.errors[0], "has not connected"));
    assert_non_null(strstr(outcomes.errors[1], "rank 0 on"));
    assert_non_null(strstr(outcomes.errors[1], "cannot be reached at 127.0.0.1 port 1"));
}

int main(void)
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
        cmocka_unit_test(test_strangers_disturb_nothing),
        cmocka_unit_test(test_nobody_listens_after_the_meeting),
        cmocka_unit_test(test_unreachable_machine_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
