// Batch norm and its parts compared with double precision: statistics of the rows and constant
// ones, with relu, with a residual sum, far from zero, and with row counts that do not fill tiles.
#include "tests/unit/trainer/arithmetic.h"
#include "trainer/ops/norm.h"

struct batch_norm_table {
    int64_t rows, channels;
    bool relu, add;
    bool constant; // mean and variance are in[4] and in[5]
};

static void reference_statistics(const struct batch_norm_table *s, const double *x, int64_t c,
                                 double *mean, double *variance)
{
    *mean = *variance = 0;
    for (int64_t r = 0; r < s->rows; r++)
        *mean += x[r * s->channels + c] / (double)s->rows;
    for (int64_t r = 0; r < s->rows; r++)
        *variance += pow(x[r * s->channels + c] - *mean, 2) / (double)s->rows;
}

static void reference_norm(const void *shape, double *const *in, double *y)
{
    const struct batch_norm_table *s = shape;
    for (int64_t c = 0; c < s->channels; c++) {
        double mean, variance;
        reference_statistics(s, in[0], c, &mean, &variance);
        if (s->constant) {
            mean = in[4][c];
            variance = in[5][c];
        }
        for (int64_t i = c; i < s->rows * s->channels; i += s->channels) {
            double v = (in[0][i] - mean) / sqrt(variance + 1e-5) * in[1][c] + in[2][c];
            v += s->add ? in[3][i] : 0;
            y[i] = s->relu && v < 0 ? 0 : v;
        }
    }
}

// The operands of one case, and the results of the ops.
struct operands {
    float *x, *gain, *bias, *add, *mean, *variance, *y, *dy, *masked, *dx;
    double *sums, *in[6];
};

static struct operands operands_of(struct arithmetic *a, const struct batch_norm_table *s)
{
    int64_t n = s->rows * s->channels, c = s->channels;
    struct operands o = {
        .x = floats_random(a, n, 3),
        .gain = floats_random(a, c, 1),
        .bias = floats_random(a, c, 1),
        .add = floats_random(a, n, 1),
        .mean = floats_random(a, c, 1),
        .variance = floats_random(a, c, 1),
        .y = floats_new(a, n),
        .dy = floats_random(a, n, 1),
        .masked = floats_new(a, n),
        .dx = floats_new(a, n),
        .sums = doubles_new(a, 2 * c),
    };
    for (int64_t i = 0; i < c; i++)
        o.variance[i] += 1.5f;
    const float *in[] = {o.x, o.gain, o.bias, o.add, o.mean, o.variance};
    for (int i = 0; i < 6; i++)
        o.in[i] = doubles_of(a, in[i], i == 0 || i == 3 ? n : c);
    return o;
}

static struct ops_batch_norm norm_of(const struct batch_norm_table *s, const struct operands *o)
{
    return (struct ops_batch_norm){s->rows, s->channels, s->relu, o->x,
                                   o->mean, o->variance, o->gain, o->bias};
}

static void check_statistics(struct arithmetic *a, const struct batch_norm_table *s,
                             const struct operands *o)
{
    double *mean = doubles_new(a, s->channels), *variance = doubles_new(a, s->channels);
    for (int64_t c = 0; c < s->channels; c++)
        reference_statistics(s, o->in[0], c, &mean[c], &variance[c]);
    ops_batch_norm_sums(s->rows, s->channels, o->x, o->sums);
    ops_batch_norm_statistics((double)s->rows, s->channels, o->sums, o->mean, o->variance);
    expect_close(o->mean, mean, s->channels, 1e-6, "mean");
    expect_close(o->variance, variance, s->channels, 5e-6, "variance");
}

// The gradient at the end of a block is composed and summed in the same pass.
static void check_joined(struct arithmetic *a, const struct batch_norm_table *s,
                         const struct operands *o)
{
    int64_t n = s->rows * s->channels;
    struct ops_batch_norm norm = norm_of(s, o);
    float *more = floats_random(a, n, 1), *dy = floats_new(a, n), *joined = floats_new(a, n);
    double *sums = doubles_new(a, 2 * s->channels);
    float *rounded = floats_new(a, 2 * s->channels);
    norm.relu = false;
    for (int both = 0; both < 2; both++) {
        memcpy(dy, o->dy, (size_t)n * sizeof *dy);
        if (both)
            ops_add(n, o->dy, more, dy);
        ops_relu_backward(n, o->y, dy, dy);
        ops_batch_norm_gradient_sums(&norm, dy, o->sums);
        ops_batch_norm_residual_gradient_sums(&norm, o->y, o->dy, both ? more : NULL, joined, sums);
        expect_same_bits(joined, dy, n, "joined dy");
        for (int64_t i = 0; i < 2 * s->channels; i++)
            rounded[i] = (float)sums[i];
        expect_close(rounded, o->sums, 2 * s->channels, 1e-6, "joined sums");
    }
    ops_batch_norm_residual_gradient_sums(&norm, o->y, o->dy, more, more, sums);
    expect_same_bits(more, dy, n, "joined dy in place");
}

static void check_gradients(struct arithmetic *a, const struct batch_norm_table *s,
                            struct operands *o)
{
    int64_t n = s->rows * s->channels;
    struct reference r = {reference_norm, s, o->in, n};
    struct ops_batch_norm norm = norm_of(s, o);
    float *dy = o->dy;
    if (s->add && s->relu) {
        ops_relu_backward(n, o->y, o->dy, o->masked);
        expect_gradient(a, &r, 3, n, o->dy, o->masked, 1e-4, "dadd");
        check_joined(a, s, o);
        dy = o->masked;
        norm.relu = false;
    }
    ops_batch_norm_gradient_sums(&norm, dy, o->sums);
    ops_batch_norm_backward(&norm, s->constant ? 0 : (double)s->rows, o->sums, dy, o->dx);
    expect_gradient(a, &r, 0, n, o->dy, o->dx, 2e-4, "dx");
    float *sums = floats_new(a, 2 * s->channels);
    for (int64_t i = 0; i < 2 * s->channels; i++)
        sums[i] = (float)o->sums[i];
    expect_gradient(a, &r, 2, s->channels, o->dy, sums, 2e-4, "dbias");
    expect_gradient(a, &r, 1, s->channels, o->dy, sums + s->channels, 2e-4, "dgain");

    float *in_place = floats_new(a, n);
    memcpy(in_place, dy, (size_t)n * sizeof *dy);
    ops_batch_norm_backward(&norm, s->constant ? 0 : (double)s->rows, o->sums, in_place, in_place);
    expect_same_bits(in_place, o->dx, n, "dx in place");
}

static void check_norm(struct arithmetic *a, const struct batch_norm_table *s)
{
    int64_t n = s->rows * s->channels;
    struct operands o = operands_of(a, s);
    double *expected = doubles_new(a, n);
    if (!s->constant)
        check_statistics(a, s, &o);
    reference_norm(s, o.in, expected);
    struct ops_batch_norm norm = norm_of(s, &o);
    ops_batch_norm_forward(&norm, s->add ? o.add : NULL, o.y);
    expect_close(o.y, expected, n, 2e-5, "y");
    check_gradients(a, s, &o);

    float *in_place = s->add ? o.add : o.x;
    ops_batch_norm_forward(&norm, s->add ? o.add : NULL, in_place);
    expect_same_bits(in_place, o.y, n, "y in place");
}

static void test_random_shapes(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 48; seed++) {
        struct arithmetic a = arithmetic_begin(seed);
        struct batch_norm_table s = {.rows = between(&a, 3, 60),
                                     .channels = between(&a, 1, 70),
                                     .relu = seed & 1,
                                     .add = seed & 2,
                                     .constant = seed & 4};
        check_norm(&a, &s);
        arithmetic_end(&a);
    }
}

// A tile has 256 floats, a loop processes 4 tiles, and float sums end after 64.
static void test_shapes_around_the_tiles(void **state)
{
    (void)state;
    const int64_t shapes[][2] = {{1, 1},    {1, 16},   {2, 300},   {5, 255},  {5, 256},  {9, 257},
                                 {70, 513}, {256, 1},  {1023, 1},  {1024, 1}, {1025, 1}, {20000, 1},
                                 {64, 16},  {1200, 3}, {1025, 16}, {129, 64}, {140, 100}};
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        struct arithmetic a = arithmetic_begin(i);
        struct batch_norm_table s = {shapes[i][0], shapes[i][1], i % 2, i % 3 == 0,
                                     shapes[i][0] < 3};
        check_norm(&a, &s);
        arithmetic_end(&a);
    }
}

// With one row the variance is zero, y is the bias, and x has no gradient.
static void test_one_row(void **state)
{
    (void)state;
    struct arithmetic a = arithmetic_begin(5);
    struct batch_norm_table s = {.rows = 1, .channels = 19};
    struct operands o = operands_of(&a, &s);
    check_statistics(&a, &s, &o);
    struct ops_batch_norm norm = norm_of(&s, &o);
    ops_batch_norm_forward(&norm, NULL, o.y);
    ops_batch_norm_gradient_sums(&norm, o.dy, o.sums);
    ops_batch_norm_backward(&norm, 1, o.sums, o.dy, o.dx);
    for (int64_t i = 0; i < s.channels; i++) {
        assert_true(o.mean[i] == o.x[i] && o.variance[i] == 0);
        assert_true(o.y[i] == o.bias[i]);
        assert_true(o.dx[i] == 0);
    }
    arithmetic_end(&a);
}

static void test_far_from_zero(void **state)
{
    (void)state;
    const double offsets[] = {1000, -1000, 30000};
    for (uint64_t i = 0; i < 3; i++) {
        struct arithmetic a = arithmetic_begin(i);
        struct batch_norm_table s = {.rows = 5000, .channels = 17};
        int64_t n = s.rows * s.channels;
        struct operands o = operands_of(&a, &s);
        for (int64_t k = 0; k < n; k++) {
            o.x[k] += (float)offsets[i];
            o.in[0][k] = (double)o.x[k];
        }
        check_statistics(&a, &s, &o);
        double *expected = doubles_new(&a, n);
        reference_norm(&s, o.in, expected);
        struct ops_batch_norm norm = norm_of(&s, &o);
        ops_batch_norm_forward(&norm, NULL, o.y);
        expect_close(o.y, expected, n, fabs(offsets[i]) * 1e-7, "y"); // rounding of the mean
        arithmetic_end(&a);
    }
}

// With equal numbers rounding must not make the variance negative.
static void test_constant_channels(void **state)
{
    (void)state;
    struct arithmetic a = arithmetic_begin(8);
    struct batch_norm_table s = {.rows = 777, .channels = 64};
    struct operands o = operands_of(&a, &s);
    float *values = floats_random(&a, s.channels, 1e4);
    for (int64_t i = 0; i < s.rows * s.channels; i++)
        o.x[i] = values[i % s.channels];
    ops_batch_norm_sums(s.rows, s.channels, o.x, o.sums);
    ops_batch_norm_statistics((double)s.rows, s.channels, o.sums, o.mean, o.variance);
    for (int64_t c = 0; c < s.channels; c++) {
        assert_true(o.mean[c] == values[c]);
        assert_true(o.variance[c] >= 0 && o.variance[c] < 1e-6f);
    }
    arithmetic_end(&a);
}

// The sums of two halves add up to the sums of the whole.
static void test_sums_of_parts(void **state)
{
    (void)state;
    struct arithmetic a = arithmetic_begin(9);
    struct batch_norm_table s = {.rows = 900, .channels = 24};
    struct operands o = operands_of(&a, &s);
    double *half = doubles_new(&a, 2 * s.channels);
    ops_batch_norm_sums(400, s.channels, o.x, half);
    ops_batch_norm_sums(500, s.channels, o.x + 400 * s.channels, o.sums);
    for (int64_t i = 0; i < 2 * s.channels; i++)
        half[i] += o.sums[i];
    ops_batch_norm_sums(s.rows, s.channels, o.x, o.sums);
    for (int64_t i = 0; i < 2 * s.channels; i++)
        assert_true(fabs(half[i] - o.sums[i]) < 1e-7 * 36 * (double)s.rows);
    arithmetic_end(&a);
}

static void test_not_a_number_stays_in_its_channel(void **state)
{
    (void)state;
    struct arithmetic a = arithmetic_begin(10);
    struct batch_norm_table s = {.rows = 200, .channels = 5, .relu = true};
    struct operands o = operands_of(&a, &s);
    o.x[133 * 5 + 2] = NAN;
    ops_batch_norm_sums(s.rows, s.channels, o.x, o.sums);
    ops_batch_norm_statistics((double)s.rows, s.channels, o.sums, o.mean, o.variance);
    struct ops_batch_norm norm = norm_of(&s, &o);
    ops_batch_norm_forward(&norm, NULL, o.y);
    ops_batch_norm_gradient_sums(&norm, o.dy, o.sums);
    ops_batch_norm_backward(&norm, (double)s.rows, o.sums, o.dy, o.dx);
    for (int64_t c = 0; c < s.channels; c++)
        assert_true(isnan(o.mean[c]) == (c == 2) && isnan(o.variance[c]) == (c == 2));
    for (int64_t i = 0; i < s.rows * s.channels; i++)
        assert_true(isnan(o.y[i]) == (i % 5 == 2) && isnan(o.dx[i]) == (i % 5 == 2));
    arithmetic_end(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random_shapes),
        cmocka_unit_test(test_shapes_around_the_tiles),
        cmocka_unit_test(test_one_row),
        cmocka_unit_test(test_far_from_zero),
        cmocka_unit_test(test_constant_channels),
        cmocka_unit_test(test_sums_of_parts),
        cmocka_unit_test(test_not_a_number_stays_in_its_channel),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
