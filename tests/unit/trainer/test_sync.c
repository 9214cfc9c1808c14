// Gradient synchronisation between forked ranks against a reference that knows no ranks: made-up
// gradients, tensors that cross buckets, sleep, wake up, outgrow int32, explode.
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
#include "trainer/sync/order.h"
#include "trainer/sync/sync.h"

enum { V = 12, STEPS = 8, GLOBAL_BATCH = 36, PARAMETERS = 5, BLOCK = 1008 };

static const struct parameter parameters[PARAMETERS] = {
    {.name = "first.weight", .offset = 0, .count = 300},
    {.name = "first.bias", .offset = 304, .count = 1},
    {.name = "second.weight", .offset = 320, .count = 555},
    {.name = "sleeper.weight", .offset = 880, .count = 100},
    {.name = "last.bias", .offset = 992, .count = 10},
};

enum { SLEEPER = 3, GROWER = 2 };

static struct sync_config config_of(enum sync_reduction reduction)
{
    return (struct sync_config){
        .reduction = reduction,
        .parameters = parameters,
        .parameter_count = PARAMETERS,
        .block_size = BLOCK,
        .micro_batches = V,
        .global_batch = GLOBAL_BATCH,
        .bucket_bytes = 256 * sizeof(float),
    };
}

// Gradient element i of micro-batch m in a step. The sleeper is zero until step 3; at step 5 the
// grower is 5,000 times its size in micro-batch 7 and 100 times in micro-batch 2.
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

static void fill(float *g, int step, int m, int parameter)
{
    for (size_t i = 0; i < parameters[parameter].count; i++)
        g[i] = made_up(step, m, parameter, i);
}

// The reference: 64-bit integers, one after the other.

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

struct reference {
    int exponents[PARAMETERS];
    float gradients[BLOCK];
    bool grew[PARAMETERS];
};

static void reference_step(struct reference *r, int step)
{
    memset(r->gradients, 0, sizeof r->gradients);
    for (int p = 0; p < PARAMETERS; p++) {
        int now = exponent_of(step, p);
        if (step == 0)
            r->exponents[p] = now > -24 ? now : -24;
        double scale = ldexp(1.0, 30 - 4 - 3 - r->exponents[p]); // 2^4 >= 12
        for (size_t i = 0; i < parameters[p].count; i++) {
            int64_t sum = 0;
            for (int m = 0; m < V; m++)
                sum += llrint((double)made_up(step, m, p, i) * scale);
            float unit = (float)(1.0 / scale / GLOBAL_BATCH);
            r->gradients[parameters[p].offset + i] = (float)sum * unit;
        }
        r->grew[p] = now > r->exponents[p] + 3;
        if (now != INT32_MIN)
            r->exponents[p] = now > r->exponents[p] - 1 ? now : r->exponents[p] - 1;
        if (r->exponents[p] < -24)
            r->exponents[p] = -24;
    }
}

// One rank.

static int open_sync(struct gang_seat *seat, enum sync_reduction reduction, struct comm **comm,
                     struct sync **sync)
{
    const struct sync_config config = config_of(reduction);
    const struct comm_config open = {
        .rank = seat->rank,
        .world = seat->world,
        .arena_bytes = sync_arena_bytes(&config),
        .rendezvous = {.all_gather = gang_all_gather, .ctx = seat},
    };
    struct error e = {0};
    CHECK(comm_open(&open, comm, &e) == 0);
    *sync = sync_new(&config, *comm);
    return 0;
}

// What a model does: every parameter's gradient once, last layer first.
static void backward(const struct gradient_sink *sink, int step, int m, float scale_second)
{
    float g[BLOCK];
    for (int p = PARAMETERS - 1; p >= 0; p--) {
        fill(g, step, m, p);
        for (size_t i = 0; p == GROWER && i < parameters[p].count; i++)
            g[i] *= scale_second;
        sink->ready(sink->ctx, p, g);
    }
}

static int probe_step(struct sync *s, const struct comm *c)
{
    struct error e = {0};
    struct share share = order_share(V, comm_world(c), comm_rank(c));
    struct gradient_sink sink = sync_probe_begin(s);
    for (int64_t m = share.first; m < share.first + share.count; m++)
        backward(&sink, 0, (int)m, 1.0f);
    CHECK(sync_probe_end(s, &e) == 0);
    return 0;
}

static int step_gradients(struct sync *s, const struct comm *c, int step, float scale_second,
                          float *gradients, struct sync_totals *totals, struct error *e)
{
    struct share share = order_share(V, comm_world(c), comm_rank(c));
    struct gradient_sink sink = sync_sink(s);
    sync_begin(s);
    for (int64_t i = 0; i < share.count; i++) {
        sync_micro_batch(s, i == share.count - 1);
        backward(&sink, step, (int)(share.first + i), scale_second);
        float loss = 2.0f + (float)(share.first + i) / 3.0f;
        loss_add(&totals->loss, &loss, 1);
    }
    return sync_finish(s, gradients, totals, e);
}

static int check_totals(const struct sync_totals *totals, int world)
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
static int rank_exact(struct gang_seat *seat, void *ctx)
{
    (void)ctx;
    struct comm *c = NULL;
    struct sync *s = NULL;
    struct error e = {0};
    if (open_sync(seat, SYNC_EXACT, &c, &s))
        return 1;
    struct reference *reference = xcalloc(1, sizeof *reference);
    float *gradients = xcalloc(BLOCK, sizeof *gradients);
    CHECK(sync_wants_probe(s));
    if (probe_step(s, c))
        return 1;
    CHECK(!sync_wants_probe(s));
    for (int step = 0; step < STEPS; step++) {
        struct sync_totals totals = {.flag = seat->rank};
        reference_step(reference, step);
        CHECK(step_gradients(s, c, step, 1.0f, gradients, &totals, &e) == 0);
        CHECK(memcmp(gradients, reference->gradients, sizeof reference->gradients) == 0);
        CHECK(memcmp(sync_exponents(s), reference->exponents, sizeof reference->exponents) == 0);
        CHECK(step != 5 || reference->grew[GROWER]);
        if (check_totals(&totals, seat->world))
            return 1;
        if (step == 5) { // the ranks with micro-batches 2 and 7, and they alone, summed in int64
            struct share share = order_share(V, seat->world, seat->rank);
            bool two = share.first <= 2 && 2 < share.first + share.count;
            bool seven = share.first <= 7 && 7 < share.first + share.count;
            CHECK(sync_promoted(s) == (two || seven));
        }
    }
    free(gradients);
    free(reference);
    sync_free(s);
    comm_close(c);
    return 0;
}

static void test_exact_is_the_reference_in_every_world(void **state)
{
    (void)state;
    const int worlds[] = {1, 2, 3, 5, 8, 12, 13}; // of 13 ranks one has nothing to do
    for (size_t i = 0; i < sizeof worlds / sizeof *worlds; i++) {
        struct heard heard = {0};
        assert_int_equal(run_ranks(worlds[i], rank_exact, &heard).failed_rank, -1);
    }
}

static int rank_float(struct gang_seat *seat, void *ctx)
{
    (void)ctx;
    struct comm *c = NULL;
    struct sync *s = NULL;
    struct error e = {0};
    if (open_sync(seat, SYNC_FLOAT, &c, &s))
        return 1;
    float gradients[BLOCK] = {0};
    CHECK(!sync_wants_probe(s) && !sync_exponents(s));
    for (int step = 0; step < 3; step++) {
        struct sync_totals totals = {.flag = seat->rank};
        CHECK(step_gradients(s, c, step, 1.0f, gradients, &totals, &e) == 0);
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
    sync_free(s);
    comm_close(c);
    return 0;
}

static void test_float_is_near(void **state)
{
    (void)state;
    for (int world = 1; world <= 5; world += 2) {
        struct heard heard = {0};
        assert_int_equal(run_ranks(world, rank_float, &heard).failed_rank, -1);
    }
}

// A tensor multiplied beyond what a step can hold, in the micro-batches of rank 1 alone.
static int rank_fails(struct gang_seat *seat, float scale)
{
    struct comm *c = NULL;
    struct sync *s = NULL;
    struct error e = {0};
    if (open_sync(seat, SYNC_EXACT, &c, &s) || probe_step(s, c))
        return 1;
    float gradients[BLOCK] = {0};
    struct sync_totals totals = {0};
    CHECK(step_gradients(s, c, 0, 1.0f, gradients, &totals, &e) == 0);
    int err = step_gradients(s, c, 1, seat->rank == 1 ? scale : 1.0f, gradients, &totals, &e);
    sync_free(s);
    comm_close(c);
    return tell(seat, err, e.text);
}

static int rank_explodes(struct gang_seat *seat, void *ctx)
{
    (void)ctx;
    return rank_fails(seat, 0x1p60f);
}

static int rank_not_finite(struct gang_seat *seat, void *ctx)
{
    (void)ctx;
    return rank_fails(seat, NAN);
}

static int rank_at_the_limit(struct gang_seat *seat, void *ctx)
{
    (void)ctx;
    return rank_fails(seat, 0x1p33f);
}

static void assert_all_say(int (*rank)(struct gang_seat *, void *), int code, const char *text)
{
    struct heard heard = {0};
    assert_int_equal(run_ranks(3, rank, &heard).failed_rank, -1);
    for (int r = 0; r < 3; r++) {
        assert_int_equal(heard.codes[r], code);
        if (!strstr(heard.errors[r], text))
            fail_msg("rank %d said \"%s\"", r, heard.errors[r]);
    }
}

static void test_every_rank_names_the_tensor(void **state)
{
    (void)state;
    assert_all_say(rank_explodes, ERR_CORRUPT, "gradient exploded: that of second.weight");
    assert_all_say(rank_not_finite, ERR_CORRUPT, "gradient of second.weight is not a finite");
    assert_all_say(rank_at_the_limit, 0, "");
}

static int rank_resumes(struct gang_seat *seat, void *ctx)
{
    (void)ctx;
    struct comm *c = NULL;
    struct sync *s = NULL;
    struct error e = {0};
    if (open_sync(seat, SYNC_EXACT, &c, &s))
        return 1;
    struct reference *reference = xcalloc(1, sizeof *reference);
    reference_step(reference, 0);
    reference_step(reference, 1);
    sync_set_exponents(s, reference->exponents);
    CHECK(!sync_wants_probe(s));
    reference_step(reference, 2);
    float gradients[BLOCK] = {0};
    struct sync_totals totals = {0};
    CHECK(step_gradients(s, c, 2, 1.0f, gradients, &totals, &e) == 0);
    CHECK(memcmp(gradients, reference->gradients, sizeof gradients) == 0);
    free(reference);
    sync_free(s);
    comm_close(c);
    return 0;
}

static void test_exponents_carry_over_a_restart(void **state)
{
    (void)state;
    struct heard heard = {0};
    assert_int_equal(run_ranks(2, rank_resumes, &heard).failed_rank, -1);
}

// Kernels.

enum { N = 1003 };

static void test_kernels_agree(void **state)
{
    (void)state;
    const struct fixed_kernels *a = fixed_kernels(), *b = fixed_kernels_generic();
    static float g[N];
    static int32_t x[N], y[N];
    for (int i = 0; i < N; i++)
        g[i] = made_up(0, 0, 0, (size_t)i) * (i % 7 == 0 ? 1e9f : 1.0f);
    for (int round = 0; round < 3; round++) {
        uint32_t (*rule)(int32_t *restrict, const float *restrict, size_t, float) =
            round ? a->add : a->put;
        uint32_t (*other)(int32_t *restrict, const float *restrict, size_t, float) =
            round ? b->add : b->put;
        assert_int_equal(rule(x, g, N, 0x1p20f), other(y, g, N, 0x1p20f));
        assert_memory_equal(x, y, sizeof x);
    }
    assert_int_equal(a->probe(g, N), b->probe(g, N));
    float f[N], h[N];
    a->to_float(f, x, N, 0.125f);
    b->to_float(h, y, N, 0.125f);
    assert_memory_equal(f, h, sizeof f);
}

// Whatever was added, clamped or not a number included, can be taken back.
static void test_subtract_undoes_add(void **state)
{
    (void)state;
    const struct fixed_kernels *sets[] = {fixed_kernels(), fixed_kernels_generic()};
    float g[] = {1.5f, -2.5f, 1e30f, -INFINITY, NAN, 0x1p-140f, 0x1p30f, -0x1p30f, 3.0f};
    enum { COUNT = sizeof g / sizeof *g };
    for (size_t k = 0; k < 2; k++) {
        int32_t sum[COUNT], before[COUNT];
        for (int i = 0; i < COUNT; i++)
            before[i] = sum[i] = INT32_MAX - i * 1000;
        uint32_t peak = sets[k]->add(sum, g, COUNT, 1.0f);
        assert_int_equal(fixed_exponent(peak), FIXED_NOT_FINITE);
        assert_int_equal(sum[0], INT32_MIN + 1); // 1.5 rounds to even: 2
        sets[k]->subtract(sum, g, COUNT, 1.0f);
        assert_memory_equal(sum, before, sizeof sum);
    }
}

static uint32_t bits_of(float x)
{
    return fixed_kernels()->probe(&x, 1);
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

// Order.

static void test_shares(void **state)
{
    (void)state;
    for (int world = 1; world <= 9; world++)
        for (int64_t items = 0; items <= 20; items++) {
            int64_t next = 0;
            for (int r = 0; r < world; r++) {
                struct share s = order_share(items, world, r);
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
    order_samples(7, COUNT, 0, COUNT * EPOCHS, all);
    for (int e = 0; e < EPOCHS; e++) {
        bool seen[COUNT] = {false};
        for (int i = 0; i < COUNT; i++) {
            int64_t at = all[e * COUNT + i];
            assert_true(at >= 0 && at < COUNT && !seen[at]);
            seen[at] = true;
        }
    }
    assert_memory_not_equal(all, all + COUNT, COUNT * sizeof *all);
    order_samples(7, COUNT, 80, 40, part); // over the end of an epoch
    assert_memory_equal(part, all + 80, sizeof part);
    order_samples(8, COUNT, 80, 40, part);
    assert_memory_not_equal(part, all + 80, sizeof part);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_kernels_agree),
        cmocka_unit_test(test_subtract_undoes_add),
        cmocka_unit_test(test_exponents),
        cmocka_unit_test(test_losses),
        cmocka_unit_test(test_shares),
        cmocka_unit_test(test_order_is_a_permutation_per_epoch),
        cmocka_unit_test(test_exact_is_the_reference_in_every_world),
        cmocka_unit_test(test_float_is_near),
        cmocka_unit_test(test_every_rank_names_the_tensor),
        cmocka_unit_test(test_exponents_carry_over_a_restart),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
