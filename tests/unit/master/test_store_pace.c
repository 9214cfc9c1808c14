// When the store counts as slow.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "master/watch/store_pace.h"

static void test_mean_of_the_window(void **state)
{
    (void)state;
    struct store_pace p = {0};
    uint64_t count = 100, sum = 100 * 50; // an earlier life: 50 us each
    assert_int_equal(store_pace_mean(&p), 0);
    store_pace_add(&p, count, sum);
    assert_int_equal(store_pace_mean(&p), 0);
    for (int i = 0; i < 10; i++)
        store_pace_add(&p, count += 2, sum += 2 * 300);
    assert_int_equal(store_pace_mean(&p), 300);
    assert_true(store_pace_is_slow(&p, 0, 300));
    assert_false(store_pace_is_slow(&p, 0, 301));
    assert_false(store_pace_is_slow(&p, 0, 0));
    for (int i = 0; i < PACE_SAMPLES - 1; i++) // the slow ones leave the window
        store_pace_add(&p, count += 1, sum += 100);
    assert_true(store_pace_mean(&p) >= 100 && store_pace_mean(&p) < 110);
    store_pace_add(&p, count += 1, sum += 100);
    assert_int_equal(store_pace_mean(&p), 100);
    for (int i = 0; i < PACE_SAMPLES; i++) // nothing happens
        store_pace_add(&p, count, sum);
    assert_int_equal(store_pace_mean(&p), 0);
}

static void test_a_commit_that_hangs(void **state)
{
    (void)state;
    struct store_pace p = {0};
    for (int i = 0; i < PACE_SAMPLES; i++)
        store_pace_add(&p, (uint64_t)i * 1000, (uint64_t)i * 1000 * 200); // many fast ones
    assert_false(store_pace_is_slow(&p, 5 * 1000 - 1, 1000));
    assert_true(store_pace_is_slow(&p, 5 * 1000, 1000));
    assert_false(store_pace_is_slow(&p, 5 * 1000, 0));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_mean_of_the_window),
        cmocka_unit_test(test_a_commit_that_hangs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
