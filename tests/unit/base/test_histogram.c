// Histograms: bounds are inclusive, nothing is lost between threads.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <pthread.h>

#include "base/histogram.h"

enum { THREADS = 4, EACH = 20000 };

static void test_bounds_are_inclusive(void **state)
{
    (void)state;
    struct histogram h = {0};
    struct histogram_figures f;
    uint64_t sum = 0;
    histogram_read(&h, &f);
    assert_int_equal(f.count, 0);
    for (int i = 0; i < HISTOGRAM_BOUNDS; i++) {
        histogram_add(&h, histogram_bounds_us[i]);
        histogram_add(&h, histogram_bounds_us[i] + 1);
        sum += 2 * (uint64_t)histogram_bounds_us[i] + 1;
    }
    histogram_read(&h, &f);
    for (int i = 0; i < HISTOGRAM_BOUNDS; i++)
        assert_int_equal(f.up_to[i], 2 * i + 1);
    assert_int_equal(f.up_to[HISTOGRAM_BOUNDS], 2 * HISTOGRAM_BOUNDS);
    assert_int_equal(f.count, 2 * HISTOGRAM_BOUNDS);
    assert_int_equal(f.sum_us, sum);
    histogram_add(&h, -5); // a clock that was set back
    histogram_read(&h, &f);
    assert_int_equal(f.up_to[0], 2);
    assert_int_equal(f.sum_us, sum);
}

static void *add_many(void *arg)
{
    for (int i = 0; i < EACH; i++)
        histogram_add(arg, i);
    return NULL;
}

static void test_threads_lose_nothing(void **state)
{
    (void)state;
    struct histogram h = {0};
    struct histogram_figures f;
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++)
        assert_false(pthread_create(&threads[i], NULL, add_many, &h));
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    histogram_read(&h, &f);
    assert_int_equal(f.count, THREADS * EACH);
    assert_int_equal(f.sum_us, (uint64_t)THREADS * EACH * (EACH - 1) / 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bounds_are_inclusive),
        cmocka_unit_test(test_threads_lose_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
