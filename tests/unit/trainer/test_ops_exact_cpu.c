// The loops of ops/exact.h give the same bits on every instruction set.
#include "tests/unit/trainer/arithmetic.h"

#include "trainer/ops/cpu/exact.h"

enum { N = 1003 };

static void test_kernels_agree(void **state)
{
    (void)state;
    const struct exact_kernels *best = exact_kernels(), *plain = exact_kernels_generic();
    struct arithmetic a = arithmetic_begin(1);
    float *g = floats_random(&a, N, 1);
    int32_t x[N], y[N];
    for (int i = 0; i < N; i += 7)
        g[i] *= 1e9f;
    assert_int_equal(best->put(x, g, N, 0x1p20f), plain->put(y, g, N, 0x1p20f));
    assert_memory_equal(x, y, sizeof x);
    for (int round = 0; round < 3; round++) {
        g[round] = round ? NAN : -INFINITY;
        assert_int_equal(best->add(x, g, N, 0x1p20f), plain->add(y, g, N, 0x1p20f));
        assert_memory_equal(x, y, sizeof x);
    }
    assert_int_equal(best->probe(g, N), plain->probe(g, N));
    best->to_float(x, N, 0.125f);
    plain->to_float(y, N, 0.125f);
    assert_memory_equal(x, y, sizeof x);
    arithmetic_end(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_kernels_agree)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
