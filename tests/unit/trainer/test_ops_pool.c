// Pools compared with double precision, over random shapes.
#include "tests/unit/trainer/arithmetic.h"
#include "trainer/ops/image.h"

static int64_t places(int64_t extent, const struct ops_pool_shape *s)
{
    return (extent + 2 * s->padding - s->kernel) / s->stride + 1;
}

static int64_t outputs_of(const struct ops_pool_shape *s)
{
    return s->samples * places(s->height, s) * places(s->width, s) * s->channels;
}

// One window of one channel of one image.
static double pool_at(const struct ops_pool_shape *s, const double *x, int64_t row, int64_t column)
{
    double largest = -INFINITY, sum = 0, count = 0;
    for (int64_t k = 0; k < s->kernel * s->kernel; k++) {
        int64_t v = row * s->stride - s->padding + k / s->kernel;
        int64_t h = column * s->stride - s->padding + k % s->kernel;
        if (v < 0 || v >= s->height || h < 0 || h >= s->width)
            continue;
        double here = x[(v * s->width + h) * s->channels];
        largest = fmax(largest, here);
        sum += here;
        count++;
    }
    return s->kind == OPS_POOL_MAX ? largest : sum / count;
}

static void reference_pool(const void *shape, double *const *in, double *y)
{
    const struct ops_pool_shape *s = shape;
    int64_t columns = places(s->width, s), rows = places(s->height, s);
    for (int64_t i = 0; i < outputs_of(s); i++) {
        int64_t place = i / s->channels, sample = place / columns / rows;
        const double *image = in[0] + sample * s->height * s->width * s->channels;
        y[i] = pool_at(s, image + i % s->channels, place / columns % rows, place % columns);
    }
}

static void check_pool(struct arithmetic *a, const struct ops_pool_shape *s)
{
    int64_t inputs = s->samples * s->height * s->width * s->channels, outputs = outputs_of(s);
    float *x = floats_tight(inputs), *dx = floats_tight(inputs);
    float *y = floats_tight(outputs), *dy = floats_tight(outputs);
    memcpy(x, floats_random(a, inputs, 1), (size_t)inputs * sizeof *x);
    memcpy(dy, floats_random(a, outputs, 1), (size_t)outputs * sizeof *dy);
    double *in[] = {doubles_of(a, x, inputs)}, *expected = doubles_new(a, outputs);
    struct reference r = {reference_pool, s, in, outputs};
    reference_pool(s, in, expected);

    struct error e;
    struct ops_pool *p;
    assert_int_equal(ops_pool_new(s, &p, &e), 0);
    ops_pool_forward(p, x, y);
    expect_close(y, expected, outputs, s->kind == OPS_POOL_MAX ? 0 : 1e-6, "y");
    ops_pool_backward(p, dy, dx);
    expect_gradient(a, &r, 0, inputs, dy, dx, 1e-5, "dx");
    ops_pool_free(p);
    floats_tight_free(x);
    floats_tight_free(dx);
    floats_tight_free(y);
    floats_tight_free(dy);
}

static void test_random_shapes(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 60; seed++) {
        struct arithmetic a = arithmetic_begin(seed);
        struct ops_pool_shape s = {.kind = seed % 2 ? OPS_POOL_MAX : OPS_POOL_AVERAGE,
                                   .samples = between(&a, 1, 3),
                                   .height = between(&a, 5, 11),
                                   .width = between(&a, 5, 11),
                                   .channels = between(&a, 1, 40),
                                   .kernel = between(&a, 1, 5)};
        s.stride = between(&a, 1, s.kernel + 1);
        s.padding = between(&a, 0, s.kernel - 1);
        check_pool(&a, &s);
        arithmetic_end(&a);
    }
}

static void test_edges(void **state)
{
    (void)state;
    const int64_t shapes[][7] = {{1, 1, 1, 1, 1, 1, 0},  {2, 1, 1, 5, 3, 1, 1},
                                 {1, 4, 4, 1, 4, 4, 0},  {3, 8, 8, 1, 2, 2, 0},
                                 {2, 7, 5, 3, 3, 2, 1},  {1, 2, 9, 17, 2, 1, 1},
                                 {2, 6, 6, 64, 3, 2, 1}, {1, 16, 16, 16, 7, 3, 6}};
    for (size_t i = 0; i < 2 * sizeof shapes / sizeof shapes[0]; i++) {
        struct arithmetic a = arithmetic_begin(i);
        const int64_t *n = shapes[i / 2];
        enum ops_pool_kind kind = i % 2 ? OPS_POOL_MAX : OPS_POOL_AVERAGE;
        check_pool(&a, &(struct ops_pool_shape){kind, n[0], n[1], n[2], n[3], n[4], n[5], n[6]});
        arithmetic_end(&a);
    }
}

// The first of equal numbers receives the gradient; NaN and infinities pass through.
static void check_values(const float *x, const float *expected, const float *gradient)
{
    struct ops_pool_shape s = {OPS_POOL_MAX, 1, 2, 4, 1, 2, 2, 0};
    struct ops_pool *p;
    struct error e;
    struct arithmetic a = arithmetic_begin(1);
    float *y = floats_new(&a, 2), *dx = floats_new(&a, 8);
    assert_int_equal(ops_pool_new(&s, &p, &e), 0);
    ops_pool_forward(p, floats_copy(&a, 8, x), y);
    for (int i = 0; i < 2; i++)
        assert_true(y[i] == expected[i] || (isnan(y[i]) && isnan(expected[i])));
    ops_pool_backward(p, floats_copy(&a, 2, (const float[]){1, 2}), dx);
    assert_memory_equal(dx, gradient, 8 * sizeof *dx);
    ops_pool_free(p);
    arithmetic_end(&a);
}

static void test_special_values(void **state)
{
    (void)state;
    const float inf = INFINITY;
    check_values((const float[]){3, 3, 1, 7, 3, 3, 7, 7}, (const float[]){3, 7},
                 (const float[]){1, 0, 0, 2, 0, 0, 0, 0});
    check_values((const float[]){NAN, 3, 1, 7, 3, 3, NAN, 7}, (const float[]){NAN, NAN},
                 (const float[]){1, 0, 0, 0, 0, 0, 2, 0});
    check_values((const float[]){-inf, -inf, 1, inf, -inf, -inf, 1, 1}, (const float[]){-inf, inf},
                 (const float[]){1, 0, 0, 2, 0, 0, 0, 0});
}

// The fused pass is bit-identical to two passes, except for the sign of a zero.
static void test_relu_and_pool(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 30; seed++) {
        struct arithmetic a = arithmetic_begin(seed);
        struct ops_pool_shape s = {.kind = OPS_POOL_MAX,
                                   .samples = between(&a, 1, 3),
                                   .height = between(&a, 4, 9),
                                   .width = between(&a, 4, 9),
                                   .channels = between(&a, 1, 40),
                                   .kernel = between(&a, 2, 3)};
        s.stride = between(&a, 1, s.kernel);
        int64_t inputs = s.samples * s.height * s.width * s.channels, outputs = outputs_of(&s);
        float *x = floats_random(&a, inputs, 1), *relu = floats_new(&a, inputs);
        float *y = floats_new(&a, outputs), *both = floats_new(&a, outputs);
        float *dy = floats_random(&a, outputs, 1), *dx = floats_new(&a, inputs);
        float *expected = floats_new(&a, inputs);
        struct ops_pool *one, *two;
        struct error e;
        assert_int_equal(ops_pool_new(&s, &one, &e), 0);
        assert_int_equal(ops_pool_new(&s, &two, &e), 0);
        ops_pool_add_relu(one);
        ops_relu_forward(inputs, x, relu);
        ops_pool_forward(two, relu, y);
        ops_pool_forward(one, x, both);
        ops_pool_backward(two, dy, expected);
        ops_relu_backward(inputs, relu, expected, expected);
        ops_pool_backward(one, dy, dx);
        for (int64_t i = 0; i < outputs; i++)
            assert_true(both[i] == y[i]);
        for (int64_t i = 0; i < inputs; i++)
            assert_true(dx[i] == expected[i]);
        ops_pool_free(one);
        ops_pool_free(two);
        arithmetic_end(&a);
    }
}

static void test_too_large_an_image(void **state)
{
    (void)state;
    struct ops_pool *p;
    struct error e;
    struct ops_pool_shape s = {OPS_POOL_MAX, 1, 1 << 12, 1 << 12, 1 << 8, 2, 2, 0};
    assert_int_equal(ops_pool_new(&s, &p, &e), ERR_INVALID);
    assert_null(p);
    assert_non_null(strstr(e.text, "4096x4096x256"));
}

struct means {
    int64_t samples, places, channels;
};

static void reference_global(const void *shape, double *const *in, double *y)
{
    const struct means *s = shape;
    for (int64_t i = 0; i < s->samples * s->channels; i++) {
        const double *x = in[0] + i / s->channels * s->places * s->channels + i % s->channels;
        y[i] = 0;
        for (int64_t p = 0; p < s->places; p++)
            y[i] += x[p * s->channels] / (double)s->places;
    }
}

static void test_global_pool(void **state)
{
    (void)state;
    const int64_t channels[] = {1, 3, 16, 64, 255, 256, 257, 600};
    for (uint64_t i = 0; i < 8; i++) {
        struct arithmetic a = arithmetic_begin(i);
        struct means s = {between(&a, 1, 3), between(&a, 1, 50), channels[i]};
        int64_t outputs = s.samples * s.channels, inputs = outputs * s.places;
        float *x = floats_random(&a, inputs, 1), *y = floats_new(&a, outputs);
        float *dy = floats_random(&a, outputs, 1), *dx = floats_new(&a, inputs);
        double *in[] = {doubles_of(&a, x, inputs)}, *expected = doubles_new(&a, outputs);
        struct reference r = {reference_global, &s, in, outputs};
        reference_global(&s, in, expected);
        ops_global_pool_forward(s.samples, s.places, s.channels, x, y);
        expect_close(y, expected, outputs, 1e-7, "y");
        ops_global_pool_backward(s.samples, s.places, s.channels, dy, dx);
        expect_gradient(&a, &r, 0, inputs, dy, dx, 1e-6, "dx");
        x[s.channels - 1] = NAN;
        ops_global_pool_forward(s.samples, s.places, s.channels, x, y);
        for (int64_t k = 0; k < outputs; k++)
            assert_true(isnan(y[k]) == (k == s.channels - 1));
        arithmetic_end(&a);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random_shapes),  cmocka_unit_test(test_edges),
        cmocka_unit_test(test_special_values), cmocka_unit_test(test_too_large_an_image),
        cmocka_unit_test(test_global_pool),    cmocka_unit_test(test_relu_and_pool),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
