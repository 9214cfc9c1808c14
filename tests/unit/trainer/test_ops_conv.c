// Convolution compared with double precision, over random shapes.
#include "tests/unit/trainer/arithmetic.h"
#include "trainer/ops/image.h"

static int64_t places(int64_t extent, int64_t kernel, int64_t stride, int64_t padding)
{
    return (extent + 2 * padding - kernel) / stride + 1;
}

static int64_t conv_outputs(const struct ops_conv_shape *s)
{
    return s->samples * places(s->height, s->kernel, s->stride, s->padding) *
           places(s->width, s->kernel, s->stride, s->padding) * s->out;
}

// One output at one place: the sum over the kernel and the input channels of its group.
static double conv_at(const struct ops_conv_shape *s, const double *image, const double *w,
                      int64_t row, int64_t column, int64_t out)
{
    int64_t in = s->in / s->groups, outs = s->out / s->groups, group = out / outs;
    double sum = 0;
    w += group * s->kernel * s->kernel * in * outs;
    for (int64_t ky = 0; ky < s->kernel; ky++)
        for (int64_t kx = 0; kx < s->kernel; kx++) {
            int64_t y = row * s->stride + ky - s->padding;
            int64_t x = column * s->stride + kx - s->padding;
            if (y < 0 || y >= s->height || x < 0 || x >= s->width)
                continue;
            for (int64_t c = 0; c < in; c++)
                sum += image[(y * s->width + x) * s->in + group * in + c] *
                       w[((ky * s->kernel + kx) * in + c) * outs + out % outs];
        }
    return sum;
}

static void reference_conv(const void *shape, double *const *in, double *y)
{
    const struct ops_conv_shape *s = shape;
    int64_t rows = places(s->height, s->kernel, s->stride, s->padding);
    int64_t columns = places(s->width, s->kernel, s->stride, s->padding);
    for (int64_t i = 0; i < conv_outputs(s); i++) {
        int64_t out = i % s->out, column = i / s->out % columns;
        int64_t row = i / s->out / columns % rows, sample = i / s->out / columns / rows;
        const double *image = in[0] + sample * s->height * s->width * s->in;
        y[i] = in[2][out] + conv_at(s, image, in[1], row, column, out);
    }
}

// `slack`: the tolerance as a multiple of the rounding error of the direct sum.
static void check_conv_within(struct arithmetic *a, const struct ops_conv_shape *s, double slack)
{
    int64_t inputs = s->samples * s->height * s->width * s->in, outputs = conv_outputs(s);
    int64_t weights = s->kernel * s->kernel * s->in / s->groups * s->out;
    float *x = floats_random(a, inputs, 1), *w = floats_random(a, weights, 1);
    float *bias = floats_random(a, s->out, s->bias ? 1 : 0), *y = floats_new(a, outputs);
    float *dy = floats_random(a, outputs, 1), *dx = floats_new(a, inputs);
    float *dw = floats_new(a, weights), *db = floats_new(a, s->out);
    double *in[] = {doubles_of(a, x, inputs), doubles_of(a, w, weights),
                    doubles_of(a, bias, s->out)};
    double *expected = doubles_new(a, outputs);
    struct reference r = {reference_conv, s, in, outputs};
    reference_conv(s, in, expected);

    struct error e;
    struct ops_conv *c;
    assert_int_equal(ops_conv_new(s, true, &c, &e), 0);
    float *scratch = floats_new(a, ops_conv_scratch_floats(c));
    ops_conv_forward(c, x, w, s->bias ? bias : NULL, scratch, y);
    expect_close(y, expected, outputs, slack * 1e-5, "y");
    ops_conv_backward_data(c, w, dy, scratch, dx);
    expect_gradient(a, &r, 0, inputs, dy, dx, slack * 1e-4, "dx");
    ops_conv_backward_weights(c, x, dy, scratch, dw, s->bias ? db : NULL);
    expect_gradient(a, &r, 1, weights, dy, dw, slack * 1e-4, "dw");
    if (s->bias)
        expect_gradient(a, &r, 2, s->out, dy, db, 1e-4, "db");
    ops_conv_free(c);
}

static void check_conv(struct arithmetic *a, const struct ops_conv_shape *s)
{
    check_conv_within(a, s, 1);
}

static void test_conv(void **state)
{
    (void)state;
    ops_init_thread();
    for (uint64_t seed = 1; seed <= 16; seed++) {
        struct arithmetic a = arithmetic_begin(seed);
        struct ops_conv_shape s = {.samples = between(&a, 1, 3),
                                   .height = between(&a, 5, 10),
                                   .width = between(&a, 5, 10),
                                   .in = between(&a, 1, 20),
                                   .out = between(&a, 1, 20),
                                   .kernel = between(&a, 1, 5),
                                   .stride = between(&a, 1, 2),
                                   .groups = 1,
                                   .bias = seed % 2};
        s.padding = between(&a, 0, s.kernel - 1);
        check_conv(&a, &s);
        arithmetic_end(&a);
    }
}

// The shapes of lenet, whose one and six channels use other kernels than multiples of sixteen, and
// few outputs with many inputs.
static void test_conv_of_lenet(void **state)
{
    (void)state;
    ops_init_thread();
    struct arithmetic a = arithmetic_begin(31);
    check_conv(&a, &(struct ops_conv_shape){2, 12, 12, 1, 6, 5, 1, 2, 1, true});
    check_conv(&a, &(struct ops_conv_shape){2, 9, 9, 6, 16, 5, 1, 0, 1, true});
    check_conv(&a, &(struct ops_conv_shape){2, 8, 10, 6, 16, 5, 1, 0, 1, true});
    check_conv(&a, &(struct ops_conv_shape){2, 7, 8, 12, 5, 3, 1, 1, 1, true});
    arithmetic_end(&a);
}

static void test_edges(void **state)
{
    (void)state;
    ops_init_thread();
    const struct ops_conv_shape shapes[] = {
        {1, 1, 1, 1, 1, 1, 1, 0, 1, true},    {2, 6, 5, 3, 16, 1, 1, 0, 1, false},
        {2, 7, 8, 16, 32, 1, 2, 0, 1, false}, {2, 9, 8, 16, 16, 3, 2, 1, 1, false},
        {2, 8, 8, 16, 16, 3, 1, 1, 16, true}, {3, 7, 7, 16, 16, 3, 2, 1, 16, false},
        {2, 6, 6, 5, 5, 3, 1, 1, 5, true},    {2, 6, 6, 32, 32, 3, 1, 1, 2, false},
        {2, 6, 6, 8, 16, 3, 2, 1, 8, true},   {2, 5, 7, 12, 18, 1, 1, 0, 6, true},
        {1, 3, 3, 4, 4, 3, 1, 2, 2, true},    {2, 5, 5, 2, 66, 3, 1, 1, 2, false},
    };
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        struct arithmetic a = arithmetic_begin(100 + i);
        check_conv(&a, &shapes[i]);
        arithmetic_end(&a);
    }
}

// Shapes for Winograd's algorithm: whole blocks of 4x4 outputs and partial ones.
static void test_many_channels(void **state)
{
    (void)state;
    ops_init_thread();
    const struct ops_conv_shape shapes[] = {
        {2, 8, 8, 32, 32, 3, 1, 1, 1, true},
        {1, 7, 6, 48, 32, 3, 1, 1, 1, false},
        {1, 9, 13, 32, 64, 3, 1, 0, 1, true},
        {3, 3, 4, 64, 48, 3, 1, 1, 1, true},
    };
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        struct arithmetic a = arithmetic_begin(200 + i);
        check_conv_within(&a, &shapes[i], 5);
        arithmetic_end(&a);
    }
}

static void test_groups(void **state)
{
    (void)state;
    ops_init_thread();
    for (uint64_t seed = 1; seed <= 16; seed++) {
        struct arithmetic a = arithmetic_begin(seed);
        struct ops_conv_shape s = {.samples = between(&a, 1, 3),
                                   .height = between(&a, 5, 10),
                                   .width = between(&a, 5, 10),
                                   .kernel = between(&a, 1, 4),
                                   .stride = between(&a, 1, 2),
                                   .groups = between(&a, 2, 6),
                                   .bias = seed % 2};
        s.padding = between(&a, 0, s.kernel - 1);
        s.in = s.groups * between(&a, 1, 6);
        s.out = s.groups * between(&a, 1, 6);
        check_conv(&a, &s);
        arithmetic_end(&a);
    }
}

struct passed {
    float *y, *dw;
};

static struct passed pass_through(struct arithmetic *a, struct ops_conv *c,
                                  const struct ops_conv_shape *s, const float *x, const float *w,
                                  const float *dy, int64_t outputs)
{
    int64_t weights = s->kernel * s->kernel * s->in * s->out;
    struct passed p = {floats_new(a, outputs), floats_new(a, weights)};
    float *scratch = floats_new(a, ops_conv_scratch_floats(c));
    ops_conv_forward(c, x, w, NULL, scratch, p.y);
    ops_conv_backward_weights(c, x, dy, scratch, p.dw, NULL);
    return p;
}

// A first layer may use another algorithm, because the gradient of pixels is not needed. Reordered
// weights are those of the last reordering.
static void test_pixels(void **state)
{
    (void)state;
    ops_init_thread();
    const struct ops_conv_shape shapes[] = {
        {2, 14, 14, 3, 8, 7, 2, 3, 1, false}, {1, 9, 12, 3, 5, 3, 2, 1, 1, false},
        {2, 8, 7, 1, 4, 5, 2, 2, 1, false},   {1, 6, 6, 4, 3, 2, 2, 0, 1, false},
        {1, 7, 7, 3, 4, 4, 2, 0, 1, false},
    };
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        const struct ops_conv_shape *s = &shapes[i];
        struct arithmetic a = arithmetic_begin(i);
        int64_t weights = s->kernel * s->kernel * s->in * s->out;
        int64_t outputs = s->samples * s->out * ((s->height + 2 * s->padding - s->kernel) / 2 + 1) *
                          ((s->width + 2 * s->padding - s->kernel) / 2 + 1);
        float *x = floats_random(&a, s->samples * s->height * s->width * s->in, 1);
        float *w = floats_random(&a, weights, 1), *dy = floats_random(&a, outputs, 1);
        struct ops_conv *with, *without;
        struct error e;
        assert_int_equal(ops_conv_new(s, true, &with, &e), 0);
        assert_int_equal(ops_conv_new(s, false, &without, &e), 0);
        ops_conv_reorder_weights(without, w);
        memcpy(w, floats_random(&a, weights, 1), (size_t)weights * sizeof *w);
        ops_conv_reorder_weights(without, w);
        struct passed p = pass_through(&a, with, s, x, w, dy, outputs);
        struct passed q = pass_through(&a, without, s, x, w, dy, outputs);
        expect_close(q.y, doubles_of(&a, p.y, outputs), outputs, 1e-5, "y");
        expect_close(q.dw, doubles_of(&a, p.dw, weights), weights, 1e-5, "dw");
        ops_conv_free(with);
        ops_conv_free(without);
        arithmetic_end(&a);
    }
}

static void test_not_a_number_stays(void **state)
{
    (void)state;
    ops_init_thread();
    struct arithmetic a = arithmetic_begin(1);
    struct ops_conv_shape s = {1, 4, 4, 2, 3, 3, 1, 1, 1, false};
    float *x = floats_random(&a, 32, 1), *w = floats_random(&a, 54, 1), *y = floats_new(&a, 48);
    struct ops_conv *c;
    struct error e;
    assert_int_equal(ops_conv_new(&s, true, &c, &e), 0);
    x[0] = NAN;
    ops_conv_forward(c, x, w, NULL, floats_new(&a, ops_conv_scratch_floats(c)), y);
    assert_true(isnan(y[0]) && isnan(y[(4 + 1) * 3 + 2]));
    assert_true(isfinite(y[2 * 3]));
    ops_conv_free(c);
    arithmetic_end(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_conv),   cmocka_unit_test(test_conv_of_lenet),
        cmocka_unit_test(test_edges),  cmocka_unit_test(test_many_channels),
        cmocka_unit_test(test_groups), cmocka_unit_test(test_not_a_number_stays),
        cmocka_unit_test(test_pixels),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
