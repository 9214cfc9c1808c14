// Chooses the bucket size by measurement. Small buckets start early and stay in cache; large ones
// save latency. The best size depends on the ranks, the machines and the model. The measurement
// covers the communication of a step alone: a reduce-scatter and an all-gather of every bucket,
// without computation that could hide them. Overlap favours small buckets, so the smallest size
// whose time is within 5 % of the best one wins.
#include "base/clock.h"
#include "base/log.h"
#include "trainer/reduction/reducer_internal.h"

enum { SIZES = 5, ROUNDS = 5, BUDGET_US = 1000 * 1000 };

static const size_t sizes[SIZES] = {64 << 10, 256 << 10, 1 << 20, 4 << 20, 16 << 20};
static const double tolerance = 1.05; // times the best

static int run_collective(struct reducer *s, enum comm_kind kind, struct error *e)
{
    int err = 0;
    for (size_t i = 0; i < s->bucket_count && !err; i++)
        err = reducer_start_bucket(s, &s->buckets[i], kind, COMM_INT32, s->gradients, e);
    if (!err)
        err = reducer_wait_buckets(s, e);
    return err;
}

static int measure_size(struct reducer *s, size_t size, int64_t *best, struct error *e)
{
    reducer_cut_buckets(s, size);
    int err = comm_barrier(s->comm, e);
    int64_t begin = clock_mono_us();
    if (!err)
        err = run_collective(s, COMM_REDUCE_SCATTER, e);
    if (!err)
        err = run_collective(s, COMM_ALL_GATHER, e);
    if (!err)
        err = comm_barrier(s->comm, e);
    int64_t took = clock_mono_us() - begin;
    if (*best == 0 || took < *best)
        *best = took;
    return err;
}

static size_t choose_size(const int64_t best[SIZES], size_t count)
{
    int64_t fastest = best[0];
    for (size_t i = 1; i < count; i++)
        fastest = best[i] < fastest ? best[i] : fastest;
    size_t chosen = 0;
    while ((double)best[chosen] > tolerance * (double)fastest)
        chosen++;
    return chosen;
}

int reducer_tune(struct reducer *s, struct error *e)
{
    size_t whole = s->config.block_size * sizeof(float), count = 1, chosen = 0;
    if (s->config.world == 1 || s->config.fusion_bytes)
        return 0;
    while (count < SIZES && sizes[count - 1] < whole)
        count++;
    int64_t best[SIZES] = {0}, begin = clock_mono_us();
    int32_t go_on = 1;
    int err = 0;
    for (int round = 0; round < ROUNDS && go_on && !err; round++) {
        for (size_t i = 0; i < count && !err; i++)
            err = measure_size(s, sizes[i], &best[i], e);
        go_on = clock_mono_us() - begin < BUDGET_US;
        if (!err)
            err = comm_broadcast(s->comm, &go_on, sizeof go_on, 0, e);
    }
    if (err)
        return err;
    chosen = choose_size(best, count);
    err = comm_broadcast(s->comm, &chosen, sizeof chosen, 0, e);
    if (err)
        return err;
    reducer_cut_buckets(s, sizes[chosen]);
    if (comm_rank(s->comm) == 0)
        log_info("bucket size chosen", "fusion_bytes=%zu us=%lld sizes=%zu", sizes[chosen],
                 (long long)best[chosen], count);
    return 0;
}
