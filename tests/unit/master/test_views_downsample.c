// Downsampling keeps the points that a chart must show.

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/rng.h"
#include "master/views/metrics/downsample.h"

struct kept {
    struct downsample_point *points;
    size_t count;
};

// Downsamples `n` values and checks the properties that every result must have.
static struct kept thinned(const double *values, size_t n, size_t max)
{
    struct downsampler t;
    struct kept k = {xcalloc(max, sizeof *k.points), 0};
    downsampler_init(&t, max);
    int64_t *steps = xcalloc(2 * n, sizeof *steps), *times = steps + n;
    for (size_t i = 0; i < n; i++) {
        steps[i] = (int64_t)i;
        times[i] = (int64_t)i * 10;
    }
    for (size_t i = 0, part = 0; i < n; i += part) { // in parts of any size
        part = n - i < 1 + i % 37 ? n - i : 1 + i % 37;
        downsampler_add(&t, &(struct downsample_input){steps + i, times + i, values + i, part});
    }
    free(steps);
    assert_int_equal(t.total, n);
    downsampler_finish(&t);
    assert_true(t.point_count <= max);
    k.count = t.point_count;
    if (n)
        memcpy(k.points, t.points, t.point_count * sizeof *t.points);
    for (size_t i = 0; i < k.count; i++) {
        if (i)
            assert_true(k.points[i].step > k.points[i - 1].step); // in order, without duplicates
        size_t at = (size_t)k.points[i].step;
        assert_true(k.points[i].time == (int64_t)at * 10);
        assert_true(k.points[i].value == values[at] || isnan(values[at]));
    }
    if (n) {
        assert_int_equal(k.points[0].step, 0);
        assert_int_equal(k.points[k.count - 1].step, n - 1);
    }
    downsampler_free(&t);
    return k;
}

static bool holds(const struct kept *k, size_t step)
{
    for (size_t i = 0; i < k->count; i++)
        if (k->points[i].step == (int64_t)step)
            return true;
    return false;
}

static void test_short_series_stay_whole(void **state)
{
    (void)state;
    double values[100];
    for (size_t i = 0; i < 100; i++)
        values[i] = sin((double)i);
    for (size_t n = 0; n <= 100; n++) {
        struct kept k = thinned(values, n, 100);
        assert_int_equal(k.count, n);
        free(k.points);
    }
}

static void test_extremes_stay(void **state)
{
    (void)state;
    enum { N = 20000 };
    double *values = xcalloc(N, sizeof *values);
    struct rng r;
    rng_seed(&r, 3, 1);
    for (int round = 0; round < 30; round++) {
        size_t n = 1 + rng_below(&r, N), max = DOWNSAMPLE_MIN + rng_below(&r, 500);
        size_t low = 0, high = 0;
        for (size_t i = 0; i < n; i++) {
            values[i] = rng_double(&r);
            low = values[i] < values[low] ? i : low;
            high = values[i] > values[high] ? i : high;
        }
        struct kept k = thinned(values, n, max);
        assert_true(holds(&k, low) && holds(&k, high));
        assert_true(k.count <= max);
        assert_true(n <= max || k.count >= max / 2);
        free(k.points);
    }
    free(values);
}

static void test_a_nan_is_not_lost(void **state)
{
    (void)state;
    enum { N = 5000 };
    double *values = xcalloc(N, sizeof *values);
    for (int i = 0; i < N; i++)
        values[i] = i;
    values[2345] = NAN;
    values[4000] = INFINITY;
    struct kept k = thinned(values, N, 64);
    assert_true(holds(&k, 2345) && holds(&k, 4000));
    free(k.points);
    for (int i = 0; i < N; i++)
        values[i] = NAN;
    k = thinned(values, N, DOWNSAMPLE_MIN);
    assert_true(k.count >= 2);
    free(k.points);
    free(values);
}

// A straight line with one kink and no noise: the corner must be kept.
static void test_the_shape_stays(void **state)
{
    (void)state;
    enum { N = 100000, KINK = 61803 };
    double *values = xcalloc(N, sizeof *values);
    for (int i = 0; i < N; i++)
        values[i] = i < KINK ? i : KINK + (i - KINK) * 0.1;
    struct kept k = thinned(values, N, 40);
    double worst = 0;
    for (size_t i = 1; i < k.count;
         i++) { // interpolates the result and compares it with all points
        const struct downsample_point *a = &k.points[i - 1], *b = &k.points[i];
        for (int64_t s = a->step; s <= b->step; s++) {
            double part = (double)(s - a->step) / (double)(b->step - a->step);
            double off = fabs(a->value + part * (b->value - a->value) - values[s]);
            worst = off > worst ? off : worst;
        }
    }
    assert_true(worst < 1000);
    free(k.points);
    free(values);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_shape_stays),
        cmocka_unit_test(test_short_series_stay_whole),
        cmocka_unit_test(test_extremes_stay),
        cmocka_unit_test(test_a_nan_is_not_lost),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
