// Gradients as integers, compared with integers that are computed singly in double.
#include "tests/unit/trainer/arithmetic.h"

#include "trainer/ops/exact.h"

static uint32_t bits_of(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits & INT32_MAX;
}

static void test_sums(void **state)
{
    (void)state;
    const int64_t counts[] = {1, 7, 64, 1003, 70001};
    for (int c = 0; c < 5; c++) {
        struct arithmetic a = arithmetic_begin((uint64_t)c);
        float *scale = floats_new(&a, 1);
        *scale = 0x1p20f;
        int64_t n = counts[c];
        int32_t *sum = aligned_block(&a, (size_t)n * sizeof *sum);
        int64_t *expected = aligned_block(&a, (size_t)n * sizeof *expected);
        uint32_t *amax = aligned_block(&a, sizeof *amax), largest = *amax = 0;
        for (int round = 0; round < 3; round++) {
            float *g = floats_random(&a, n, 8);
            const struct ops_exact_part part = {(size_t)n, g, scale, sum, amax};
            (round ? ops_exact_add : ops_exact_store)(1, &part);
            for (int64_t i = 0; i < n; i++) {
                expected[i] = (round ? expected[i] : 0) + llrint((double)g[i] * (double)*scale);
                largest = bits_of(g[i]) > largest ? bits_of(g[i]) : largest;
            }
            assert_int_equal(*amax, largest); // over all rounds
            *amax = 0;
            ops_exact_amax((size_t)n, g, amax);
            assert_true(*amax <= largest);
            *amax = largest;
        }
        for (int64_t i = 0; i < n; i++)
            assert_int_equal(sum[i], expected[i]);
        *scale = 0x1p-20f;
        ops_exact_to_float((size_t)n, scale, sum);
        for (int64_t i = 0; i < n; i++) {
            float found;
            memcpy(&found, &sum[i], sizeof found);
            assert_true(found == (float)expected[i] * 0x1p-20f);
        }
        arithmetic_end(&a);
    }
}

// Each of several tensors uses its own numbers, scale and amax.
static void test_parts(void **state)
{
    (void)state;
    const size_t counts[OPS_EXACT_PARTS] = {3000, 5, 1, 1029};
    struct arithmetic a = arithmetic_begin(11);
    struct ops_exact_part parts[OPS_EXACT_PARTS];
    int32_t *alone[OPS_EXACT_PARTS];
    for (int i = 0; i < OPS_EXACT_PARTS; i++) {
        size_t n = counts[i];
        float *scale = floats_new(&a, 1);
        uint32_t *amax = aligned_block(&a, sizeof *amax);
        *scale = ldexpf(1, 15 + i);
        *amax = 0;
        parts[i] = (struct ops_exact_part){n, floats_random(&a, (int64_t)n, 4 + i), scale,
                                           aligned_block(&a, n * sizeof(int32_t)), amax};
        ops_exact_store(1, &parts[i]);
        ops_exact_add(1, &parts[i]);
        alone[i] = aligned_block(&a, n * sizeof(int32_t));
        memcpy(alone[i], parts[i].sum, n * sizeof(int32_t));
        memset(parts[i].sum, 0x55, n * sizeof(int32_t));
    }
    ops_exact_store(OPS_EXACT_PARTS, parts);
    for (int i = 0; i < OPS_EXACT_PARTS; i++)
        *parts[i].amax = 0;
    ops_exact_add(OPS_EXACT_PARTS, parts);
    for (int i = 0; i < OPS_EXACT_PARTS; i++) {
        uint32_t largest = 0;
        for (size_t k = 0; k < counts[i]; k++)
            largest = bits_of(parts[i].g[k]) > largest ? bits_of(parts[i].g[k]) : largest;
        assert_int_equal(*parts[i].amax, largest);
        assert_memory_equal(parts[i].sum, alone[i], counts[i] * sizeof(int32_t));
    }
    arithmetic_end(&a);
}

// Numbers that do not fit are clamped, and the amax shows it.
static void test_clamps(void **state)
{
    (void)state;
    enum { COUNT = 8 };
    struct arithmetic a = arithmetic_begin(1);
    const float values[COUNT] = {1.5f, -2.5f, 1e30f, -1e30f, 0x1p-140f, 0x1p30f, -0x1p30f, 3.0f};
    const int32_t expected[COUNT] = {2, -2, 1 << 30, -(1 << 30), 0, 1 << 30, -(1 << 30), 3};
    float *g = floats_new(&a, COUNT), *one = floats_new(&a, 1);
    int32_t *sum = aligned_block(&a, COUNT * sizeof *sum);
    uint32_t *amax = aligned_block(&a, sizeof *amax);
    *amax = 0;
    *one = 1.0f;
    memcpy(g, values, sizeof values);
    const struct ops_exact_part part = {COUNT, g, one, sum, amax};
    ops_exact_store(1, &part);
    assert_memory_equal(sum, expected, sizeof expected);
    assert_int_equal(*amax, bits_of(1e30f));
    g[2] = -INFINITY;
    ops_exact_add(1, &part);
    assert_int_equal(sum[2], 0);
    assert_int_equal(*amax, bits_of(INFINITY));
    g[4] = NAN;
    ops_exact_store(1, &part);
    assert_int_equal(sum[4], -(1 << 30));
    assert_true(*amax > bits_of(INFINITY));
    arithmetic_end(&a);
}

static void test_floats(void **state)
{
    (void)state;
    enum { COUNT = 1003 };
    struct arithmetic a = arithmetic_begin(2);
    float *g = floats_random(&a, COUNT, 1), *sum = floats_random(&a, COUNT, 1);
    float *before = floats_new(&a, COUNT), *scale = floats_new(&a, 1);
    *scale = 0.1f;
    memcpy(before, sum, COUNT * sizeof *sum);
    ops_float_add(COUNT, g, sum);
    for (int i = 0; i < COUNT; i++)
        assert_true(sum[i] == before[i] + g[i]);
    memcpy(before, sum, COUNT * sizeof *sum);
    ops_float_scale(COUNT, scale, sum);
    for (int i = 0; i < COUNT; i++)
        assert_true(sum[i] == before[i] * 0.1f);
    arithmetic_end(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sums),
        cmocka_unit_test(test_parts),
        cmocka_unit_test(test_clamps),
        cmocka_unit_test(test_floats),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
