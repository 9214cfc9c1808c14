// A property of the CPU backend only: the order in which a unit's squares are summed, which depends
// only on the unit's length.
#include "tests/unit/trainer/arithmetic.h"

#include "trainer/ops/update.h"

static void test_sum_of_squares(void **state)
{
    (void)state;
    struct arithmetic a = arithmetic_begin(6);
    const size_t lengths[] = {0, 1, 7, 31, 32, 33, 4095, 4096};
    float *g = floats_random(&a, 4096, 3);
    for (size_t k = 0; k < sizeof lengths / sizeof lengths[0]; k++) {
        double lanes[32] = {0}, sum = 0;
        for (size_t i = 0; i < lengths[k]; i++)
            lanes[i % 32] += (double)g[i] * (double)g[i];
        for (int lane = 0; lane < 32; lane++)
            sum += lanes[lane];
        const struct ops_unit unit = {0, lengths[k], 0};
        const struct ops_blocks blocks = {.p = g, .g = g};
        double found = -1;
        struct ops_units *u;
        struct error e;
        assert_int_equal(ops_units_new(&unit, 1, 1, &u, &e), 0);
        ops_units_measure(u, &blocks, &(struct ops_squares){.weights = &found});
        assert_int_equal(ops_synchronize(&e), 0);
        assert_true(found == sum);
        ops_units_free(u);
    }
    arithmetic_end(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sum_of_squares),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
