// Gradient reduction between forked ranks, compared with a reference without ranks. Tensors with
// made-up gradients cross buckets, are zero for a while, grow again, outgrow int32 and explode.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/rng.h"
#include "tests/unit/trainer/ranks.h"
#include "trainer/ops/exact.h"
#include "trainer/reduction/reducer_internal.h"
#include "trainer/reduction/sampler.h"

enum { V = 12, STEPS = 8, GLOBAL_BATCH = 36, PARAMETERS = 5, BLOCK = 20208 };

static const struct parameter parameters[PARAMETERS] = {
    {.name = "first.weight", .offset = 0, .count = 6001},
    {.name = "first.bias", .offset = 6016, .count = 1},
    {.name = "second.weight", .offset = 6032, .count = 12055},
    {.name = "sleeper.weight", .offset = 18096, .count = 2000},
    {.name = "last.bias", .offset = 20096, .count = 100},
};

enum { SLEEPER = 3, GROWER = 2 };

enum { QUANTISED = 3 };
static const struct fp8_tensor quantised[QUANTISED] = {{"a.input"}, {"a.weight"}, {"a.gradient"}};

// The configuration of a group of ranks: the division of the work and the kind of reduction.
struct reducer_variant {
    enum reduction_mode reduction;
    size_t fusion_bytes;
    bool scattered; // any rank takes any micro-batch, in any order
    bool quantises; // there are tensors in FP8
};

static const struct reducer_variant ordinary = {.fusion_bytes = OPTIMIZER_CELL * sizeof(float)};

static struct reducer_config config_of(const struct reducer_variant *manner, int world)
{
    return (struct reducer_config){
        .reduction = manner->reduction,
        .parameters = parameters,
        .parameter_count = PARAMETERS,
        .quantised = quantised,
        .quantised_count = manner->quantises ? QUANTISED : 0,
        .block_size = BLOCK,
        .micro_batches = V,
        .global_batch = GLOBAL_BATCH,
        .sums = 4,
        .fusion_bytes = manner->fusion_bytes,
        .world = world,
    };
}

// Gradient element i of micro-batch m in a step. The "sleeper" is zero until step 3. At step 5 the
// "grower" is 5,000 times its size in micro-batch 7 and 100 times in micro-batch 2.
static float made_up(int step, int m, int parameter, size_t i)
{
    uint32_t draw[4];
    philox4x32((uint64_t)(step * V + m), (uint64_t)parameter, i, draw);
    float g = ((float)draw[0] / 0x1p31f - 1.0f) * ldexpf(1.0f, -parameter * 3);
    if (parameter == SLEEPER && step < 3)
        return 0.0f;
    if (parameter == GROWER && step == 5)
        g *= m == 7 ? 5000.0f : m == 2 ? 100.0f : 1.0f;
    return g;
}

static void gradient_fill(float *g, int step, int m, int parameter)
{
    for (size_t i = 0; i < parameters[parameter].count; i++)
        g[i] = made_up(step, m, parameter, i);
}

// The reference: sums in 64-bit integers, one term after the other, in a scale that fits.

static int exponent_of(int step, int parameter)
{
    float most = 0.0f;
    int exponent;
    for (int m = 0; m < V; m++)
        for (size_t i = 0; i < parameters[parameter].count; i++)
            most = fmaxf(most, fabsf(made_up(step, m, parameter, i)));
    if (most == 0.0f)
        return INT32_MIN;
    frexpf(most, &exponent);
    return exponent;
}

struct reference_sums {
    int exponents[PARAMETERS];
    float gradients[BLOCK];
    bool grew[PARAMETERS];
};

static struct reference_sums references[STEPS]; // after each step

static void reference_step(struct reference_sums *r, int step)
{
    for (int p = 0; p < PARAMETERS; p++) {
        int now = exponent_of(step, p);
        if (step == 0)
            r->exponents[p] = now > -24 ? now : -24;
        r->grew[p] = now > r->exponents[p] + 3;
        if (r->grew[p])
            r->exponents[p] = now;
        double scale = ldexp(1.0, 30 - 4 - 3 - r->exponents[p]); // 2^4 >= 12
        for (size_t i = 0; i < parameters[p].count; i++) {
            int64_t sum = 0;
            for (int m = 0; m < V; m++)
                sum += llrint((double)made_up(step, m, p, i) * scale);
            float unit = (float)(1.0 / scale / GLOBAL_BATCH);
            r->gradients[parameters[p].offset + i] = (float)sum * unit;
        }
        if (now != INT32_MIN)
            r->exponents[p] = now > r->exponents[p] - 1 ? now : r->exponents[p] - 1;
        if (r->exponents[p] < -24)
            r->exponents[p] = -24;
    }
}

static int make_references(void **state)
{
    (void)state;
    struct reference_sums now = {0};
    for (int step = 0; step < STEPS; step++) {
        reference_step(&now, step);
        references[step] = now;
    }
    return 0;
}

// --- one rank ------------------------------------------------------------------------------------

struct ranks {
    const struct reducer_variant *manner;
    struct comm *comm;
    struct reducer *sync;
    int own[V], own_count; // micro-batches
    int rounds;            // attempts of the last step
};

static void assign(struct ranks *r, int world, int rank)
{
    struct sampler_share share = sampler_share(V, world, rank);
    for (int m = V - 1; m >= 0; m--) {
        uint32_t draw[4];
        philox4x32(77, (uint64_t)world, (uint64_t)m, draw);
        bool own = r->manner->scattered ? (int)(draw[0] % (uint32_t)world) == rank
                                        : m >= share.first && m < share.first + share.count;
        if (own)
            r->own[r->own_count++] = m;
    }
}

// Every rank owns the same number of whole cells of each bucket, and all buckets form the block.
static int check_buckets(const struct reducer *s)
{
    size_t cells = 0, each = OPTIMIZER_CELL * (size_t)s->config.world;
    for (size_t i = 0; i < s->bucket_count; i++) {
        CHECK(s->buckets[i].count > 0 && s->buckets[i].count % each == 0);
        cells += s->buckets[i].count / OPTIMIZER_CELL;
    }
    CHECK(cells * OPTIMIZER_CELL - BLOCK < each);
    return 0;
}

static int open_ranks(struct gang_member *seat, const struct reducer_variant *manner,
                      struct ranks *r)
{
    const struct reducer_config config = config_of(manner, seat->world);
    const struct comm_config open = {
        .rank = seat->rank,
        .world = seat->world,
        .arena_bytes = reducer_arena_bytes(&config),
        .rendezvous = {.all_gather = gang_all_gather, .ctx = seat},
    };
    struct error e = {0};
    *r = (struct ranks){.manner = manner};
    assign(r, seat->world, seat->rank);
    CHECK(comm_open(&open, &r->comm, &e) == 0);
    r->sync = reducer_new(&config, r->comm);
    return check_buckets(r->sync);
}

static void close_ranks(struct ranks *r)
{
    reducer_free(r->sync);
    comm_close(r->comm);
}

// Behaves like a model: delivers every parameter's gradient once, last layer first.
static void backward(const struct gradient_sink *sink, int step, int m, float scale_second)
{
    static float g[BLOCK];
    for (int p = PARAMETERS - 1; p >= 0; p--) {
        gradient_fill(g, step, m, p);
        for (size_t i = 0; p == GROWER && i < parameters[p].count; i++)
            g[i] *= scale_second;
        sink->ready(sink->ctx, p, g);
        if (sink->done)
            sink->done(sink->ctx);
    }
}

static int probe_step(struct ranks *r)
{
    struct error e = {0};
    struct gradient_sink sink = reducer_calibration_begin(r->sync);
    for (int i = 0; i < r->own_count; i++)
        backward(&sink, 0, r->own[i], 1.0f);
    CHECK(reducer_calibration_end(r->sync, &e) == 0);
    return 0;
}

// A step whose optimizer only copies: *gradients is the copy, complete on every rank.
static int step_gradients(struct ranks *r, int step, float scale_second, const float **gradients,
                          struct reducer_totals *totals, struct error *e)
{
    const struct reducer_totals mine = *totals;
    struct gradient_sink sink = reducer_sink(r->sync);
    bool again = true;
    int err = 0, count;
    for (r->rounds = 0; again && !err; r->rounds++) {
        *totals = mine;
        reducer_begin_step(r->sync);
        for (int i = 0; i < r->own_count; i++) {
            reducer_begin_micro_batch(r->sync, i == 0, i == r->own_count - 1);
            backward(&sink, step, r->own[i], scale_second);
            float loss = 2.0f + (float)r->own[i] / 3.0f;
            loss_add(&totals->loss, &loss, 1);
        }
        err = reducer_finish_step(r->sync, totals, &again, e);
    }
    const struct optimizer_range *ranges = reducer_ranges(r->sync, &count);
    for (int i = 0; i < count && !err; i++)
        memcpy(reducer_weights(r->sync) + ranges[i].first,
               reducer_gradients(r->sync) + ranges[i].first,
               (ranges[i].last - ranges[i].first) * sizeof(float));
    if (!err)
        err = reducer_gather_weights(r->sync, e);
    if (!err)
        err = reducer_wait_weights(r->sync, e);
    *gradients = reducer_weights(r->sync);
    return err;
}

static int check_totals(const struct reducer_totals *totals, int world)
{
    struct loss_sum all = {0};
    for (int m = 0; m < V; m++) {
        float loss = 2.0f + (float)m / 3.0f;
        loss_add(&all, &loss, 1);
    }
    CHECK(totals->loss.total == all.total && totals->loss.not_finite == 0);
    CHECK(fabs(loss_mean(&totals->loss, V) - (2.0 + 11.0 / 6.0)) < 1e-7);
    CHECK(totals->flag == world - 1);
    return 0;
}

// Every step's gradient has the reference's bits, whichever rank saw the growth.
static int rank_exact(struct gang_member *seat, void *ctx)
{
    struct ranks r;
    struct error e = {0};
    if (open_ranks(seat, ctx, &r))
        return 1;
    CHECK(reducer_tune(r.sync, &e) == 0);
    CHECK(reducer_needs_calibration(r.sync));
    if (probe_step(&r))
        return 1;
    CHECK(!reducer_needs_calibration(r.sync));
    for (int step = 0; step < STEPS; step++) {
        struct reducer_totals totals = {.flag = seat->rank};
        const struct reference_sums *reference = &references[step];
        const float *gradients;
        CHECK(step_gradients(&r, step, 1.0f, &gradients, &totals, &e) == 0);
        CHECK(memcmp(gradients, reference->gradients, sizeof reference->gradients) == 0);
        CHECK(memcmp(reducer_exponents(r.sync), reference->exponents,
                     sizeof reference->exponents) == 0);
        bool grew = false;
        for (int p = 0; p < PARAMETERS; p++)
            grew = grew || reference->grew[p];
        CHECK(r.rounds == (grew ? 2 : 1));
        CHECK(grew == (step == 3 || step == 5)); // one tensor wakes up, one outgrows its scale
        if (check_totals(&totals, seat->world))
            return 1;
    }
    close_ranks(&r);
    return 0;
}

struct reducer_gang { // the context of a gang: how its ranks report outcomes
    struct rank_outcomes outcomes;
    struct reducer_variant manner;
};

static int in_manner(struct gang_member *seat, void *ctx)
{
    return rank_exact(seat, &((struct reducer_gang *)ctx)->manner);
}

static void assert_exact(int world, struct reducer_variant manner)
{
    struct reducer_gang gang = {.manner = manner};
    assert_int_equal(run_ranks(world, in_manner, &gang.outcomes).failed_rank, -1);
}

static void test_exact_is_the_reference_in_every_world(void **state)
{
    (void)state;
    for (int world = 1; world <= V + 1; world++) // of 13 ranks one has no micro-batch
        assert_exact(world, ordinary);
}

static void test_buckets_do_not_matter(void **state)
{
    (void)state;
    const size_t sizes[] = {1, 40000, 1 << 20, 0}; // 0: chosen by measurement
    for (int world = 1; world <= 3; world++)
        for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
            assert_exact(world, (struct reducer_variant){.fusion_bytes = sizes[i]});
}

static void test_shares_do_not_matter(void **state)
{
    (void)state;
    for (int world = 2; world <= 9; world++)
        assert_exact(world, (struct reducer_variant){.fusion_bytes = 40000, .scattered = true});
}

static int rank_float(struct gang_member *seat, void *ctx)
{
    (void)ctx;
    const struct reducer_variant manner = {.reduction = REDUCTION_FLOAT, .fusion_bytes = 40000};
    struct ranks r;
    struct error e = {0};
    if (open_ranks(seat, &manner, &r))
        return 1;
    CHECK(!reducer_needs_calibration(r.sync) && !reducer_exponents(r.sync));
    for (int step = 0; step < 3; step++) {
        struct reducer_totals totals = {.flag = seat->rank};
        const float *gradients;
        CHECK(step_gradients(&r, step, 1.0f, &gradients, &totals, &e) == 0);
        if (check_totals(&totals, seat->world))
            return 1;
        for (int p = 0; p < PARAMETERS; p++)
            for (size_t i = 0; i < parameters[p].count; i++) {
                double sum = 0;
                for (int m = 0; m < V; m++)
                    sum += (double)made_up(step, m, p, i);
                double got = (double)gradients[parameters[p].offset + i];
                CHECK(fabs(got - sum / GLOBAL_BATCH) < 1e-6 * ldexp(1.0, -3 * p));
            }
    }
    close_ranks(&r);
    return 0;
}

static void test_float_is_near(void **state)
{
    (void)state;
    for (int world = 1; world <= 5; world += 2) {
        struct rank_outcomes outcomes = {0};
        assert_int_equal(run_ranks(world, rank_float, &outcomes).failed_rank, -1);
    }
}

// A tensor explodes beyond the limit of a step, in the micro-batches of rank 1 only.
static int rank_fails(struct gang_member *seat, float scale)
{
    struct ranks r;
    struct error e = {0};
    if (open_ranks(seat, &ordinary, &r) || probe_step(&r))
        return 1;
    const float *gradients;
    struct reducer_totals totals = {0};
    CHECK(step_gradients(&r, 0, 1.0f, &gradients, &totals, &e) == 0);
    int err = step_gradients(&r, 1, seat->rank == 1 ? scale : 1.0f, &gradients, &totals, &e);
    close_ranks(&r);
    return report_outcome(seat, err, e.text);
}

static int rank_explodes(struct gang_member *seat, void *ctx)
{
    (void)ctx;
    return rank_fails(seat, 0x1p60f);
}

static int rank_not_finite(struct gang_member *seat, void *ctx)
{
    (void)ctx;
    return rank_fails(seat, NAN);
}

static int rank_at_the_limit(struct gang_member *seat, void *ctx)
{
    (void)ctx;
    return rank_fails(seat, 0x1p33f);
}

static void assert_all_say(int world, int (*rank)(struct gang_member *, void *), int code,
                           const char *text)
{
    struct rank_outcomes outcomes = {0};
    assert_int_equal(run_ranks(world, rank, &outcomes).failed_rank, -1);
    for (int r = 0; r < world; r++) {
        assert_int_equal(outcomes.codes[r], code);
        if (!strstr(outcomes.errors[r], text))
            fail_msg("rank %d said \"%s\"", r, outcomes.errors[r]);
    }
}

static void test_every_rank_names_the_tensor(void **state)
{
    (void)state;
    assert_all_say(3, rank_explodes, ERR_CORRUPT,
                   "gradient exploded: the gradient of second.weight");
    assert_all_say(3, rank_not_finite, ERR_CORRUPT, "gradient of second.weight is not a finite");
    assert_all_say(3, rank_at_the_limit, 0, "");
}

static int rank_resumes(struct gang_member *seat, void *ctx)
{
    (void)ctx;
    struct ranks r;
    struct error e = {0};
    if (open_ranks(seat, &ordinary, &r))
        return 1;
    reducer_set_exponents(r.sync, references[1].exponents);
    CHECK(!reducer_needs_calibration(r.sync));
    const float *gradients;
    struct reducer_totals totals = {0};
    CHECK(step_gradients(&r, 2, 1.0f, &gradients, &totals, &e) == 0);
    CHECK(memcmp(gradients, references[2].gradients, sizeof references[2].gradients) == 0);
    close_ranks(&r);
    return 0;
}

// Exponents of a checkpoint that no training writes: the scale of a gradient stays finite, so zero
// stays zero, and the first step is repeated in scales that fit.
static int rank_resumes_with_low_exponents(struct gang_member *seat, void *ctx)
{
    (void)ctx;
    struct ranks r;
    struct error e = {0};
    int32_t exponents[PARAMETERS];
    for (int p = 0; p < PARAMETERS; p++)
        exponents[p] = -148;
    if (open_ranks(seat, &ordinary, &r))
        return 1;
    reducer_set_exponents(r.sync, exponents);
    const float *gradients;
    struct reducer_totals totals = {0};
    CHECK(step_gradients(&r, 2, 1.0f, &gradients, &totals, &e) == 0);
    for (size_t i = 0; i < parameters[SLEEPER].count; i++)
        CHECK(gradients[parameters[SLEEPER].offset + i] == 0.0f);
    close_ranks(&r);
    return 0;
}

static void test_low_exponents_of_a_checkpoint(void **state)
{
    (void)state;
    struct reducer_gang gang = {.manner = ordinary};
    assert_int_equal(run_ranks(2, rank_resumes_with_low_exponents, &gang.outcomes).failed_rank, -1);
}

static void test_exponents_carry_over_a_restart(void **state)
{
    (void)state;
    struct rank_outcomes outcomes = {0};
    assert_int_equal(run_ranks(2, rank_resumes, &outcomes).failed_rank, -1);
}

// --- blocks in parts -----------------------------------------------------------------------------

static int rank_collects(struct gang_member *seat, void *ctx)
{
    (void)ctx;
    const struct reducer_variant manner = {.fusion_bytes = 40000};
    static float block[BLOCK];
    struct ranks r;
    struct error e = {0};
    int count;
    if (open_ranks(seat, &manner, &r))
        return 1;
    for (int round = 0; round < 3; round++) {
        const struct optimizer_range *ranges = reducer_ranges(r.sync, &count);
        for (int i = 0; i < BLOCK; i++)
            block[i] = -1.0f;
        for (int k = 0; k < count; k++)
            for (size_t i = ranges[k].first; i < ranges[k].last; i++)
                block[i] = (float)i + (float)round;
        CHECK(reducer_collect(r.sync, block, &e) == 0);
        for (int i = 0; i < BLOCK && seat->rank == 0; i++)
            CHECK(block[i] == (float)(i + round));
    }
    const struct optimizer_peers peers = reducer_peers(r.sync);
    double sums[4] = {seat->rank == 0 ? 0.1 : 0, 0, seat->rank == seat->world - 1 ? -1e300 : 0, 0};
    CHECK(peers.combine(peers.ctx, sums, 4, &e) == 0);
    CHECK(sums[0] == 0.1 && sums[1] == 0 && sums[2] == -1e300);
    close_ranks(&r);
    return 0;
}

static void test_blocks_are_collected(void **state)
{
    (void)state;
    for (int world = 1; world <= 6; world++) {
        struct rank_outcomes outcomes = {0};
        assert_int_equal(run_ranks(world, rank_collects, &outcomes).failed_rank, -1);
    }
}

// One bit of a weight of rank 1 changes, as with faulty memory.
static int rank_flips(struct gang_member *seat, void *ctx)
{
    (void)ctx;
    struct ranks r;
    struct error e = {0};
    if (open_ranks(seat, &ordinary, &r) || probe_step(&r))
        return 1;
    const float *gradients;
    struct reducer_totals totals = {0};
    CHECK(step_gradients(&r, 0, 1.0f, &gradients, &totals, &e) == 0);
    CHECK(reducer_verify(r.sync, &e) == 0);
    if (seat->rank == 1)
        ((unsigned char *)(reducer_weights(r.sync) + parameters[GROWER].offset))[4321] ^= 4;
    int err = reducer_verify(r.sync, &e);
    close_ranks(&r);
    return report_outcome(seat, err, e.text);
}

static void test_replicas_are_compared(void **state)
{
    (void)state;
    assert_all_say(4, rank_flips, ERR_CORRUPT,
                   "rank 1 holds other weights than the majority; the first tensor that differs is "
                   "second.weight");
    assert_all_say(2, rank_flips, ERR_CORRUPT,
                   "no majority agrees; the first tensor that differs is second.weight");
}

static uint32_t bits_of(float x)
{
    uint32_t bits = 0;
    ops_exact_amax(1, &x, &bits);
    return bits;
}

static void test_exponents(void **state)
{
    (void)state;
    assert_int_equal(fixed_exponent(bits_of(0.0f)), FIXED_ZERO);
    assert_int_equal(fixed_exponent(bits_of(-1.0f)), 1);
    assert_int_equal(fixed_exponent(bits_of(0.75f)), 0);
    assert_int_equal(fixed_exponent(bits_of(0.5f)), 0);
    assert_int_equal(fixed_exponent(bits_of(0x1.fffffep127f)), 128);
    assert_int_equal(fixed_exponent(bits_of(-INFINITY)), FIXED_NOT_FINITE);
    assert_int_equal(fixed_exponent(bits_of(NAN)), FIXED_NOT_FINITE);
}

static void test_losses(void **state)
{
    (void)state;
    const float losses[] = {1.0f, 1e30f, -1e30f, 0.5f};
    struct loss_sum sum = {0};
    loss_add(&sum, losses, 4);
    assert_true(loss_mean(&sum, 3) == 0.5);
    const float bad = NAN;
    loss_add(&sum, &bad, 1);
    assert_true(isnan(loss_mean(&sum, 5)));
    assert_true(isnan(loss_mean(&(struct loss_sum){0}, 0)));
}

// --- the order of samples ------------------------------------------------------------------------

static void test_shares(void **state)
{
    (void)state;
    for (int world = 1; world <= 9; world++)
        for (int64_t items = 0; items <= 20; items++) {
            int64_t next = 0;
            for (int r = 0; r < world; r++) {
                struct sampler_share s = sampler_share(items, world, r);
                assert_int_equal(s.first, next);
                assert_true(s.count == items / world || s.count == items / world + 1);
                next += s.count;
            }
            assert_int_equal(next, items);
        }
}

static void test_order_is_a_permutation_per_epoch(void **state)
{
    (void)state;
    enum { COUNT = 97, EPOCHS = 3 };
    int64_t all[COUNT * EPOCHS], part[40];
    sampler_indices(7, COUNT, 0, COUNT * EPOCHS, all);
    for (int e = 0; e < EPOCHS; e++) {
        bool seen[COUNT] = {false};
        for (int i = 0; i < COUNT; i++) {
            int64_t at = all[e * COUNT + i];
            assert_true(at >= 0 && at < COUNT && !seen[at]);
            seen[at] = true;
        }
    }
    assert_memory_not_equal(all, all + COUNT, COUNT * sizeof *all);
    sampler_indices(7, COUNT, 80, 40, part); // across the end of an epoch
    assert_memory_equal(part, all + 80, sizeof part);
    sampler_indices(8, COUNT, 80, 40, part);
    assert_memory_not_equal(part, all + 80, sizeof part);
}

// --- exponents of quantised tensors --------------------------------------------------------------

enum { OBSERVED = 5 };

// The largest magnitudes of each step over all ranks, and the exponents after it. The calibration
// comes first.
static const struct observed_step {
    float largest[QUANTISED];
    int32_t exponents[QUANTISED];
} observed[OBSERVED] = {
    {{3.0f, 0.0f, 0x1p-60f}, {2, 0, -40}},   // the exponent of zero; the smallest exponent
    {{100.0f, 0.5f, 0x1p-60f}, {7, 0, -40}}, // rises at once
    {{0.1f, 0.3f, 1.0f}, {6, -1, 1}},        // falls by one
    {{0.0f, 0.2f, 0.1f}, {6, -2, 0}},        // zero changes nothing
    {{0.1f, 0.2f, 0.1f}, {5, -2, -1}},
};

// In each step another rank sees the largest magnitudes, and the others smaller ones.
static void observe(struct reducer *s, int step, int rank, int world)
{
    uint32_t *amaxes = reducer_quantised_amaxes(s);
    for (int t = 0; t < QUANTISED; t++) {
        float seen = ldexpf(observed[step].largest[t], -((rank + step) % world));
        memcpy(&amaxes[t], &seen, sizeof seen);
    }
}

static bool exponents_are(const struct reducer *s, int step)
{
    const int32_t *found = reducer_quantised_exponents(s);
    return found && memcmp(found, observed[step].exponents, sizeof observed[0].exponents) == 0;
}

static int observe_step(struct ranks *r, int step, float growth, bool *again)
{
    struct reducer_totals totals = {.flag = comm_rank(r->comm)};
    struct error e = {0};
    reducer_begin_step(r->sync);
    const struct gradient_sink sink = reducer_sink(r->sync);
    for (int i = 0; i < r->own_count; i++) {
        reducer_begin_micro_batch(r->sync, i == 0, i == r->own_count - 1);
        backward(&sink, 0, r->own[i], growth);
    }
    observe(r->sync, step, comm_rank(r->comm), comm_world(r->comm));
    CHECK(reducer_finish_step(r->sync, &totals, again, &e) == 0);
    CHECK(totals.flag == comm_world(r->comm) - 1);
    return 0;
}

static int rank_observes(struct gang_member *seat, void *ctx)
{
    const struct reducer_variant *manner = &((struct reducer_gang *)ctx)->manner;
    struct ranks r;
    struct error e = {0};
    bool again;
    if (open_ranks(seat, manner, &r))
        return 1;
    CHECK(reducer_needs_calibration(r.sync) && !reducer_quantised_exponents(r.sync));
    const struct gradient_sink sink = reducer_calibration_begin(r.sync);
    for (int i = 0; i < r.own_count; i++)
        backward(&sink, 0, r.own[i], 1.0f);
    observe(r.sync, 0, seat->rank, seat->world);
    CHECK(reducer_calibration_end(r.sync, &e) == 0 && !reducer_needs_calibration(r.sync));
    CHECK(exponents_are(r.sync, 0));
    if (manner->reduction == REDUCTION_EXACT) { // a step that is repeated changes nothing yet
        CHECK(observe_step(&r, 1, 1000.0f, &again) == 0 && again);
        CHECK(exponents_are(r.sync, 0));
    }
    for (int step = 1; step < OBSERVED; step++) {
        CHECK(observe_step(&r, step, 1.0f, &again) == 0 && !again);
        CHECK(exponents_are(r.sync, step));
    }
    close_ranks(&r);
    return 0;
}

static void test_exponents_of_quantised_tensors(void **state)
{
    (void)state;
    for (int world = 1; world <= 4; world++)
        for (int mode = REDUCTION_EXACT; mode <= REDUCTION_FLOAT; mode++) {
            struct reducer_gang gang = {.manner = {.reduction = (enum reduction_mode)mode,
                                                   .fusion_bytes = 40000,
                                                   .quantises = true}};
            assert_int_equal(run_ranks(world, rank_observes, &gang.outcomes).failed_rank, -1);
        }
}

static int rank_observes_nan(struct gang_member *seat, void *ctx)
{
    const struct reducer_variant *manner = ctx;
    struct reducer_totals totals = {0};
    struct ranks r;
    struct error e = {0};
    bool again;
    if (open_ranks(seat, manner, &r))
        return 1;
    reducer_set_exponents(r.sync, references[0].exponents);
    reducer_set_quantised_exponents(r.sync, observed[0].exponents);
    CHECK(!reducer_needs_calibration(r.sync) && exponents_are(r.sync, 0));
    reducer_begin_step(r.sync);
    const struct gradient_sink sink = reducer_sink(r.sync);
    for (int i = 0; i < r.own_count; i++) {
        reducer_begin_micro_batch(r.sync, i == 0, i == r.own_count - 1);
        backward(&sink, 0, r.own[i], 1.0f);
    }
    reducer_quantised_amaxes(r.sync)[1] = seat->rank == 1 ? 0x7f800000 : 0;
    int err = reducer_finish_step(r.sync, &totals, &again, &e);
    close_ranks(&r);
    return report_outcome(seat, err, e.text);
}

static int rank_exact_observes_nan(struct gang_member *seat, void *ctx)
{
    (void)ctx;
    struct reducer_variant manner = ordinary;
    manner.quantises = true;
    return rank_observes_nan(seat, &manner);
}

static void test_quantised_tensor_that_is_not_finite(void **state)
{
    (void)state;
    assert_all_say(3, rank_exact_observes_nan, ERR_CORRUPT, "a.weight is not a finite number");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_exponents),
        cmocka_unit_test(test_losses),
        cmocka_unit_test(test_shares),
        cmocka_unit_test(test_order_is_a_permutation_per_epoch),
        cmocka_unit_test(test_exact_is_the_reference_in_every_world),
        cmocka_unit_test(test_float_is_near),
        cmocka_unit_test(test_every_rank_names_the_tensor),
        cmocka_unit_test(test_exponents_carry_over_a_restart),
        cmocka_unit_test(test_low_exponents_of_a_checkpoint),
        cmocka_unit_test(test_exponents_of_quantised_tensors),
        cmocka_unit_test(test_quantised_tensor_that_is_not_finite),
        cmocka_unit_test(test_buckets_do_not_matter),
        cmocka_unit_test(test_shares_do_not_matter),
        cmocka_unit_test(test_blocks_are_collected),
        cmocka_unit_test(test_replicas_are_compared),
    };
    return cmocka_run_group_tests(tests, make_references, NULL);
}
