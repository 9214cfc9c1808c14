// The backend for GPUs between forked ranks, with a fake GPU and NCCL (fake_gpu.h), and with real
// ones if there are any: results, the order of streams, and every way of losing a peer. A placement
// such as "AB" has a letter for the machine of each rank.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/text/json.h"
#include "tests/unit/trainer/cuda/fake_gpu.h"
#include "tests/unit/trainer/ranks.h"
#include "trainer/comm/comm.h"
#include "trainer/ops/device.h"

enum {
    ARENA = 8 << 20,
    BUSY_US = 3000,
    SKIPPED = 77,
    IN_TIME = 60 * SECOND, // on a busy machine, too; an operation may take 600 s by default
};

static const char *placement; // set before the ranks are forked
// All ranks share these: ranks that have told their errors, and that have opened their
// communicator.
static atomic_int *told, *opened;

static int gather(void *ctx, const json_t *mine, json_t **all, struct error *e)
{
    struct gang_member *seat = ctx;
    json_t *changed = json_deep_copy(mine);
    if (jget(changed, "machine"))
        json_object_set_new(changed, "machine", json_stringn(placement + seat->rank, 1));
    int err = gang_all_gather(seat, changed, all, e);
    json_decref(changed);
    return err;
}

static bool encrypted; // set before the ranks are forked

static int open_comm(struct gang_member *seat, int64_t timeout_us, struct comm **c, struct error *e)
{
    const struct comm_config config = {
        .backend = "nccl", // also for a world of one
        .rank = seat->rank,
        .world = seat->world,
        .arena_bytes = ARENA,
        .timeout_us = timeout_us,
        .rendezvous = {.all_gather = gather, .ctx = seat},
        .encrypt = encrypted,
    };
    gpu_begin(seat->rank);
    return comm_open(&config, c, e);
}

static struct gang_result run_placed(const char *where, int (*rank)(struct gang_member *, void *),
                                     struct rank_outcomes *outcomes)
{
    struct rank_outcomes silence = {0};
    placement = where;
    atomic_store(told, 0);
    atomic_store(opened, 0);
    return run_ranks((int)strlen(where), rank, outcomes ? outcomes : &silence);
}

static void assert_all_well(const char *where, int (*rank)(struct gang_member *, void *))
{
    assert_int_equal(run_placed(where, rank, NULL).failed_rank, -1);
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

static size_t bytes_of(const struct comm_work *w)
{
    return w->count * (w->type == COMM_INT64 ? sizeof(int64_t) : sizeof(int32_t));
}

static void element_set(void *data, enum comm_type type, size_t i, int64_t x)
{
    if (type == COMM_INT64)
        ((int64_t *)data)[i] = x;
    else if (type == COMM_INT32)
        ((int32_t *)data)[i] = (int32_t)x;
    else
        ((float *)data)[i] = (float)x;
}

static int64_t element_get(const void *data, enum comm_type type, size_t i)
{
    if (type == COMM_INT64)
        return ((const int64_t *)data)[i];
    return type == COMM_INT32 ? ((const int32_t *)data)[i] : (int64_t)((const float *)data)[i];
}

// The data arrives late on the compute stream: an operation that does not wait for it sends zeros.
static void inputs_upload(struct comm *c, const struct comm_work *w)
{
    char *host = xcalloc(1, bytes_of(w) + 1);
    for (size_t i = 0; i < w->count; i++)
        element_set(host, w->type, i, of_rank(comm_rank(c), i));
    gpu_compute_us(BUSY_US);
    ops_upload(w->data, host, bytes_of(w));
    free(host);
}

static int read_back(struct comm *c, void *host, const void *data, size_t bytes, struct error *e)
{
    ops_download(host, data, bytes);
    return comm_synchronize(c, e);
}

static int results_check(struct comm *c, const struct comm_work *w, size_t first, size_t last)
{
    struct error e = {0};
    char *host = xcalloc(1, bytes_of(w) + 1);
    CHECK(read_back(c, host, w->data, bytes_of(w), &e) == 0);
    for (size_t i = first; i < last; i++)
        CHECK(element_get(host, w->type, i) == of_all(comm_world(c), i, w->op));
    free(host);
    return 0;
}

static int check_all_reduce(struct comm *c, struct comm_work w)
{
    struct error e = {0};
    inputs_upload(c, &w);
    CHECK(comm_run(c, &w, &e) == 0);
    return results_check(c, &w, 0, w.count);
}

// Reduce-scatters, overwrites the rest, and gathers the parts.
static int check_parts(struct comm *c, struct comm_work w)
{
    struct error e = {0};
    size_t size = bytes_of(&w) / w.count;
    struct comm_part mine = comm_part(w.count, w.unit, comm_world(c), comm_rank(c));
    inputs_upload(c, &w);
    w.kind = COMM_REDUCE_SCATTER;
    CHECK(comm_run(c, &w, &e) == 0);
    if (results_check(c, &w, mine.first, mine.last))
        return 1;
    ops_zero(w.data, mine.first * size);
    ops_zero((char *)w.data + mine.last * size, (w.count - mine.last) * size);
    w.kind = COMM_ALL_GATHER;
    CHECK(comm_run(c, &w, &e) == 0);
    return results_check(c, &w, 0, w.count);
}

static int rank_arithmetic(struct gang_member *seat, void *ctx)
{
    (void)ctx;
    enum { MOST = 10021 };
    const size_t counts[] = {1, 96, 4097, MOST}, units[] = {1, 16, 4096};
    struct error e = {0};
    struct comm *c = NULL;
    CHECK(open_comm(seat, 0, &c, &e) == 0);
    char library[32];
    CHECK(strcmp(comm_backend_name(c), "nccl") == 0);
    CHECK(strncmp(comm_library(library, sizeof library), "NCCL 2.", 7) == 0);
    struct comm_work work = {.data = comm_alloc(c, MOST * sizeof(int64_t))};
    int64_t zero = 1;
    CHECK(read_back(c, &zero, work.data, sizeof zero, &e) == 0 && zero == 0);
    for (int kind = 0; kind < 6; kind++)
        for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
            work.kind = COMM_ALL_REDUCE;
            work.count = counts[i];
            work.unit = units[i % 3];
            work.type = (enum comm_type)(kind / 2);
            work.op = (enum comm_op)(kind % 2);
            if (check_all_reduce(c, work) || check_parts(c, work))
                return 1;
        }
    CHECK(comm_barrier(c, &e) == 0);
    CHECK(comm_background_us(c) > 0);
    CHECK(cudaGetLastError() == cudaSuccess); // a later launch would return it
    comm_close(c);
    return 0;
}

static void test_arithmetic(void **state)
{
    (void)state;
    const char *const placements[] = {"A", "AA", "AAA", "AB"};
    for (size_t i = 0; i < sizeof placements / sizeof *placements; i++)
        assert_all_well(placements[i], rank_arithmetic);
}

// Starts more operations than there are slots and waits for them in another order.
static int rank_many(struct gang_member *seat, void *ctx)
{
    (void)ctx;
    enum { MANY = 3 * COMM_PENDING_MAX, COUNT = 12 };
    struct error e = {0};
    struct comm *c = NULL;
    uint32_t tickets[MANY];
    int32_t *data[MANY], host[COUNT];
    CHECK(open_comm(seat, 0, &c, &e) == 0);
    for (int i = 0; i < MANY; i++) {
        data[i] = comm_alloc(c, sizeof host);
        for (int k = 0; k < COUNT; k++)
            host[k] = i + k;
        ops_upload(data[i], host, sizeof host);
        const struct comm_work work = {
            .type = COMM_INT32, .op = COMM_SUM, .data = data[i], .count = COUNT};
        CHECK(comm_start(c, &work, &tickets[i], &e) == 0);
    }
    for (int i = MANY - 1; i >= 0; i--) {
        CHECK(comm_wait(c, tickets[i], &e) == 0);
        CHECK(read_back(c, host, data[i], sizeof host, &e) == 0);
        for (int k = 0; k < COUNT; k++)
            CHECK(host[k] == (i + k) * seat->world);
    }
    comm_close(c);
    return 0;
}

static void test_many_in_flight(void **state)
{
    (void)state;
    assert_all_well("AA", rank_many);
}

// A barrier blocks the host until all ranks have arrived and their GPUs have finished.
static int rank_barrier(struct gang_member *seat, void *ctx)
{
    (void)ctx;
    struct error e = {0};
    struct comm *c = NULL;
    CHECK(open_comm(seat, 0, &c, &e) == 0);
    int64_t begin = clock_mono_us();
    if (seat->rank == 1)
        gpu_compute_us(SECOND / 4);
    CHECK(comm_barrier(c, &e) == 0);
    CHECK(clock_mono_us() - begin >= SECOND / 5);
    comm_close(c);
    return 0;
}

static void test_barrier_is_for_the_host(void **state)
{
    (void)state;
    assert_all_well("AA", rank_barrier);
}

static int rank_broadcast(struct gang_member *seat, void *ctx)
{
    (void)ctx;
    const size_t bytes = (2 << 20) + 17; // larger than the staging buffer
    struct error e = {0};
    struct comm *c = NULL;
    CHECK(open_comm(seat, 0, &c, &e) == 0);
    char *host = xcalloc(1, bytes), *arena = comm_alloc(c, bytes);
    void *device = NULL;
    CHECK(ops_alloc(bytes, &device, &e) == 0);
    char *const places[] = {host, arena, device};
    for (int root = 0; root < seat->world; root++)
        for (int p = 0; p < 3; p++) {
            memset(host, 10 * root + p + 100 * (seat->rank != root), bytes);
            if (p > 0) {
                gpu_compute_us(BUSY_US);
                ops_upload(places[p], host, bytes);
            }
            CHECK(comm_broadcast(c, places[p], bytes, root, &e) == 0);
            if (p > 0)
                CHECK(read_back(c, host, places[p], bytes, &e) == 0);
            for (size_t i = 0; i < bytes; i++)
                CHECK(host[i] == (char)(10 * root + p));
        }
    CHECK(comm_broadcast(c, NULL, 0, 0, &e) == 0);
    comm_close(c);
    ops_free(device);
    free(host);
    return 0;
}

static void test_broadcast(void **state)
{
    (void)state;
    assert_all_well("AAA", rank_broadcast);
}

// The GPU waits, not the host, so the time is counted for the GPU.
static int rank_exposed(struct gang_member *seat, void *ctx)
{
    (void)ctx;
    struct error e = {0};
    struct comm *c = NULL;
    int64_t us[OPS_PHASES];
    CHECK(open_comm(seat, 0, &c, &e) == 0);
    int32_t *a = comm_alloc(c, sizeof *a);
    CHECK(comm_barrier(c, &e) == 0 && comm_synchronize(c, &e) == 0);
    ops_phases(us);
    if (seat->rank == 1)
        gpu_compute_us(SECOND / 4);
    ops_phase(OPS_COMMUNICATION);
    CHECK(comm_all_reduce(c, a, 1, COMM_INT32, COMM_SUM, &e) == 0);
    ops_phase(OPS_OTHER);
    CHECK(comm_synchronize(c, &e) == 0);
    ops_phases(us);
    CHECK(seat->rank == 1 ? us[OPS_COMMUNICATION] < SECOND / 5
                          : us[OPS_COMMUNICATION] > SECOND / 5);
    comm_close(c);
    return 0;
}

static void test_waits_are_of_the_gpu(void **state)
{
    (void)state;
    assert_all_well("AA", rank_exposed);
}

// Registration is only an optimisation.
static int rank_unregistered(struct gang_member *seat, void *ctx)
{
    fake_faults.no_registration = true;
    return rank_barrier(seat, ctx);
}

static void test_goes_on_unregistered(void **state)
{
    (void)state;
    if (gpu_is_real())
        skip();
    assert_all_well("AA", rank_unregistered);
}

// --- lost peers ----------------------------------------------------------------------------------

// Behaves like training: operations, and sometimes a read by the host.
static int run_all_reduce(struct comm *c, struct error *e)
{
    int err = 0;
    static int32_t host[16]; // an abandoned download may still arrive
    int32_t *a = comm_alloc(c, sizeof host);
    const struct comm_work works[] = {
        {.kind = COMM_REDUCE_SCATTER, .unit = 4, .data = a, .count = 16},
        {.kind = COMM_ALL_GATHER, .unit = 4, .data = a, .count = 16},
        {.kind = COMM_ALL_REDUCE, .data = a, .count = 16},
    };
    for (int i = 0; !err; i++) {
        err = comm_run(c, &works[i % 3], e);
        if (!err && i % 5 == 0)
            err = read_back(c, host, a, sizeof host, e);
    }
    return err;
}

static int reduce_until_error(struct gang_member *seat, struct comm *c)
{
    struct error e = {0};
    int err = run_all_reduce(c, &e);
    CHECK(report_outcome(seat, err, e.text) == 0);
    atomic_fetch_add(told, 1);
    CHECK(comm_barrier(c, &e) == err);
    void *last = comm_alloc(c, ARENA / 2);
    gpu_compute_us(SECOND / 10);
    ops_zero(last, ARENA / 2); // comm_close() frees this memory, but not before
    comm_close(c);
    CHECK(ops_synchronize(&e) == 0);
    return 0;
}

static void wait_until_told(int ranks)
{
    while (atomic_load(told) < ranks)
        clock_sleep_us(1000);
}

static void assert_all_others_say(const struct rank_outcomes *outcomes, int world, int but,
                                  const char *text)
{
    for (int r = 0; r < world; r++) {
        if (r == but)
            continue;
        assert_int_equal(outcomes->codes[r], ERR_PEER);
        if (!strstr(outcomes->errors[r], text))
            fail_msg("rank %d said \"%s\"", r, outcomes->errors[r]);
        assert_true(outcomes->at[r] - outcomes->at[but] < IN_TIME);
    }
}

// Until then a rank that ends is an error of the others' comm_open().
static void wait_until_all_have_opened(const struct gang_member *seat)
{
    atomic_fetch_add(opened, 1);
    while (atomic_load(opened) < seat->world)
        clock_sleep_us(1000);
}

static int rank_killed(struct gang_member *seat, void *ctx)
{
    (void)ctx;
    struct error e = {0};
    struct comm *c = NULL;
    CHECK(open_comm(seat, 0, &c, &e) == 0);
    wait_until_all_have_opened(seat);
    if (seat->rank == 1) {
        report_outcome(seat, 0, "");
        raise(SIGKILL);
    }
    return reduce_until_error(seat, c);
}

static void test_killed_rank_is_named_in_time(void **state)
{
    (void)state;
    const char *const placements[] = {"AA", "AAA", "AB"};
    for (size_t i = 0; i < sizeof placements / sizeof *placements; i++) {
        struct rank_outcomes outcomes = {0};
        struct gang_result result = run_placed(placements[i], rank_killed, &outcomes);
        assert_int_equal(result.failed_rank, 1);
        assert_all_others_say(&outcomes, (int)strlen(placements[i]), 1, "rank 1 died");
    }
}

static int rank_gives_up(struct gang_member *seat, void *ctx)
{
    (void)ctx;
    struct error e = {0};
    struct comm *c = NULL;
    CHECK(open_comm(seat, 0, &c, &e) == 0);
    wait_until_all_have_opened(seat);
    if (seat->rank != 1)
        return reduce_until_error(seat, c);
    clock_sleep_us(SECOND / 10);
    report_outcome(seat, 0, "");
    comm_abort(c, "label 12 of sample 3 is out of range");
    CHECK(comm_barrier(c, &e) == ERR_PEER);
    wait_until_told(seat->world - 1); // stays alive while the others read the reason
    comm_close(c);
    return 0;
}

static void test_abort_tells_why(void **state)
{
    (void)state;
    const char *const placements[] = {"AAA", "AB"};
    for (size_t i = 0; i < sizeof placements / sizeof *placements; i++) {
        struct rank_outcomes outcomes = {0};
        assert_int_equal(run_placed(placements[i], rank_gives_up, &outcomes).failed_rank, -1);
        assert_all_others_say(&outcomes, (int)strlen(placements[i]), 1,
                              "rank 1 gave up: label 12 of sample 3 is out of range");
    }
}

// Rank 1 hangs until the others have said so. The GPU of rank 0 begins its work after that of rank
// 2, but it is not the rank that hangs.
static int rank_hangs(struct gang_member *seat, void *ctx)
{
    const bool *on_gpu = ctx;
    struct error e = {0};
    struct comm *c = NULL;
    CHECK(open_comm(seat, 2 * SECOND, &c, &e) == 0);
    if (seat->rank == 0)
        gpu_compute_us(SECOND / 2);
    if (seat->rank != 1)
        return reduce_until_error(seat, c);
    report_outcome(seat, 0, "");
    if (*on_gpu) {
        gpu_wait_for(told, seat->world - 1);
        CHECK(run_all_reduce(c, &e) == ERR_PEER);
    } else {
        wait_until_told(seat->world - 1);
    }
    comm_close(c);
    return 0;
}

static int rank_hangs_on_host(struct gang_member *seat, void *ctx)
{
    (void)ctx;
    return rank_hangs(seat, &(bool){false});
}

static int rank_hangs_on_gpu(struct gang_member *seat, void *ctx)
{
    (void)ctx;
    return rank_hangs(seat, &(bool){true});
}

static void test_hang_is_named(void **state)
{
    (void)state;
    struct rank_outcomes outcomes = {0};
    assert_int_equal(run_placed("AAA", rank_hangs_on_host, &outcomes).failed_rank, -1);
    assert_all_others_say(&outcomes, 3, 1,
                          "rank 1 hangs: its process is alive but has not reached");
}

static void test_hanging_gpu_is_named(void **state)
{
    (void)state;
    struct rank_outcomes outcomes = {0};
    assert_int_equal(run_placed("AAA", rank_hangs_on_gpu, &outcomes).failed_rank, -1);
    assert_all_others_say(&outcomes, 3, 1, "rank 1 hangs: its GPU has not reached");
}

// --- errors that NCCL reports --------------------------------------------------------------------
static int rank_complains(struct gang_member *seat, void *ctx)
{
    (void)ctx;
    struct error e = {0};
    struct comm *c = NULL;
    CHECK(open_comm(seat, 0, &c, &e) == 0);
    if (seat->rank == 1) {
        report_outcome(seat, 0, "");
        fake_faults.complaint = ncclRemoteError;
        CHECK(run_all_reduce(c, &e) == ERR_IO && strstr(e.text, "NCCL: remote process exited"));
        wait_until_told(seat->world - 1);
        comm_close(c);
        return 0;
    }
    return reduce_until_error(seat, c);
}

static void test_complaint_of_nccl_is_told(void **state)
{
    (void)state;
    if (gpu_is_real())
        skip();
    struct rank_outcomes outcomes = {0};
    assert_int_equal(run_placed("AA", rank_complains, &outcomes).failed_rank, -1);
    assert_all_others_say(&outcomes, 2, 1, "rank 1 gave up: NCCL: remote process exited");
}

// One rank's NCCL complains because another rank has died: the error names the dead rank.
static int rank_complains_of_death(struct gang_member *seat, void *ctx)
{
    (void)ctx;
    struct error e = {0};
    struct comm *c = NULL;
    CHECK(open_comm(seat, 0, &c, &e) == 0);
    wait_until_all_have_opened(seat);
    if (seat->rank == 1) {
        report_outcome(seat, 0, "");
        raise(SIGKILL);
    }
    fake_faults.complaint = ncclRemoteError;
    return reduce_until_error(seat, c);
}

static void test_death_counts_more_than_complaints(void **state)
{
    (void)state;
    if (gpu_is_real())
        skip();
    struct rank_outcomes outcomes = {0};
    assert_int_equal(run_placed("AA", rank_complains_of_death, &outcomes).failed_rank, 1);
    assert_all_others_say(&outcomes, 2, 1, "rank 1 died");
}

// --- connecting ----------------------------------------------------------------------------------

static int rank_cannot_begin(struct gang_member *seat, void *ctx)
{
    (void)ctx;
    struct error e = {0};
    struct comm *c = NULL;
    fake_faults.no_memory = seat->rank == 1;
    int err = open_comm(seat, 0, &c, &e);
    CHECK(err && !c);
    CHECK(seat->rank != 1 || err == ERR_NO_MEMORY);
    return report_outcome(seat, err, e.text);
}

static int rank_has_another_version(struct gang_member *seat, void *ctx)
{
    (void)ctx;
    struct error e = {0};
    struct comm *c = NULL;
    fake_faults.version = seat->rank == 1 ? 22801 : 22809;
    int err = open_comm(seat, 0, &c, &e);
    CHECK(err == ERR_VERSION && !c);
    CHECK(strstr(e.text, "22801") && strstr(e.text, "22809"));
    return 0;
}

static void test_all_hear_who_cannot_begin(void **state)
{
    (void)state;
    if (gpu_is_real())
        skip();
    struct rank_outcomes outcomes = {0};
    assert_int_equal(run_placed("AA", rank_cannot_begin, &outcomes).failed_rank, -1);
    assert_non_null(strstr(outcomes.errors[0], "rank 1 cannot start: the GPU has no 9 MiB"));
    assert_all_well("AA", rank_has_another_version);
}

static int rank_dies_connecting(struct gang_member *seat, void *ctx)
{
    (void)ctx;
    struct error e = {0};
    struct comm *c = NULL;
    fake_faults.never_connects = true;
    if (seat->rank == 1) {
        report_outcome(seat, 0, "");
        signal(SIGALRM, SIG_DFL);
        alarm(1);
    }
    int err = open_comm(seat, 0, &c, &e);
    CHECK(err && !c);
    return report_outcome(seat, err, e.text);
}

static int rank_waits_in_vain(struct gang_member *seat, void *ctx)
{
    (void)ctx;
    struct error e = {0};
    struct comm *c = NULL;
    fake_faults.never_connects = true;
    int err = open_comm(seat, SECOND, &c, &e);
    CHECK(err && !c);
    return report_outcome(seat, err, e.text);
}

static void test_connecting_ends(void **state)
{
    (void)state;
    if (gpu_is_real())
        skip();
    struct rank_outcomes outcomes = {0};
    assert_int_equal(run_placed("AA", rank_dies_connecting, &outcomes).failed_rank, 1);
    assert_all_others_say(&outcomes, 2, 1, "rank 1 died");
    outcomes = (struct rank_outcomes){0};
    assert_int_equal(run_placed("AA", rank_waits_in_vain, &outcomes).failed_rank, -1);
    for (int r = 0; r < 2; r++)
        assert_non_null(strstr(outcomes.errors[r], "NCCL has not finished the connection of GPUs"));
}

// On two GPUs two ranks have one each; three ranks share them.
static int rank_sees_its_gpu(struct gang_member *seat, void *ctx)
{
    static const char *const gpus[] = {"GPU-b", "7", "GPU-b"};
    static const char *const hosts[] = {"rank-0", "rank-0", "rank-1"};
    const char *host = getenv("NCCL_HOSTID");
    (void)ctx;
    CHECK(strcmp(getenv("CUDA_VISIBLE_DEVICES"), gpus[seat->rank]) == 0);
    if (seat->world < 3) // NCCL does not learn about the made-up machines
        CHECK(!host);
    else
        CHECK(host && strcmp(host, hosts[seat->rank]) == 0);
    return 0;
}

static void test_ranks_share_gpus(void **state)
{
    (void)state;
    if (gpu_is_real())
        skip();
    must(setenv("CUDA_VISIBLE_DEVICES", "GPU-b,7", 1) == 0);
    assert_all_well("AA", rank_sees_its_gpu);
    assert_all_well("AAA", rank_sees_its_gpu);
    must(unsetenv("CUDA_VISIBLE_DEVICES") == 0);
}

static int rank_encrypts(struct gang_member *seat, void *ctx)
{
    (void)ctx;
    struct error e = {0};
    struct comm *c = NULL;
    int err = open_comm(seat, 0, &c, &e);
    if (!err)
        err = comm_barrier(c, &e);
    comm_close(c);
    return report_outcome(seat, err, e.text);
}

static void test_nothing_leaves_a_machine_in_clear(void **state)
{
    (void)state;
    struct rank_outcomes outcomes = {0};
    encrypted = true;
    assert_int_equal(run_placed("AAB", rank_encrypts, &outcomes).failed_rank, -1);
    for (int r = 0; r < 3; r++) {
        assert_int_equal(outcomes.codes[r], ERR_INVALID);
        assert_non_null(strstr(outcomes.errors[r], "NCCL cannot encrypt"));
        assert_non_null(strstr(outcomes.errors[r], "rank 0 and rank 2"));
    }
    assert_int_equal(run_placed("AA", rank_encrypts, &outcomes).failed_rank, -1);
    encrypted = false;
    for (int r = 0; r < 2; r++)
        assert_int_equal(outcomes.codes[r], 0);
}

// A world of one does not use NCCL.
static int rank_alone(struct gang_member *seat, void *ctx)
{
    (void)ctx, (void)seat;
    struct error e = {0};
    struct comm *c = NULL;
    int32_t x = 5;
    gpu_begin(0);
    CHECK(comm_open(&(struct comm_config){.world = 1, .arena_bytes = 64}, &c, &e) == 0);
    CHECK(strcmp(comm_backend_name(c), "gpu") == 0);
    int32_t *a = comm_alloc(c, sizeof x);
    gpu_compute_us(BUSY_US);
    ops_upload(a, &x, sizeof x);
    CHECK(comm_all_reduce(c, a, 1, COMM_INT32, COMM_SUM, &e) == 0);
    x = 0;
    CHECK(read_back(c, &x, a, sizeof x, &e) == 0 && x == 5);
    comm_abort(c, "");
    CHECK(comm_barrier(c, &e) == ERR_PEER);
    comm_close(c);
    return 0;
}

static void test_alone(void **state)
{
    (void)state;
    assert_all_well("A", rank_alone);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ranks_share_gpus),
        cmocka_unit_test(test_alone),
        cmocka_unit_test(test_arithmetic),
        cmocka_unit_test(test_many_in_flight),
        cmocka_unit_test(test_barrier_is_for_the_host),
        cmocka_unit_test(test_waits_are_of_the_gpu),
        cmocka_unit_test(test_broadcast),
        cmocka_unit_test(test_goes_on_unregistered),
        cmocka_unit_test(test_killed_rank_is_named_in_time),
        cmocka_unit_test(test_abort_tells_why),
        cmocka_unit_test(test_hang_is_named),
        cmocka_unit_test(test_hanging_gpu_is_named),
        cmocka_unit_test(test_complaint_of_nccl_is_told),
        cmocka_unit_test(test_death_counts_more_than_complaints),
        cmocka_unit_test(test_all_hear_who_cannot_begin),
        cmocka_unit_test(test_connecting_ends),
        cmocka_unit_test(test_nothing_leaves_a_machine_in_clear),
    };
    if (!gpu_is_there()) {
        print_message("no GPU\n");
        return SKIPPED;
    }
    told = mmap(NULL, 2 * sizeof *told, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    must(told != MAP_FAILED);
    opened = told + 1;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
