// Layer norm, RMS norm, cross-entropy and mean squared error compared with double precision.
#include "tests/unit/trainer/arithmetic.h"
#include "trainer/ops/norm.h"

struct norm_table {
    int64_t rows, width;
    const int32_t *targets;
    double smoothing;
};

// Includes more rows than a GPU sums at a time, and rows that are shared by one, two and four
// warps, by a block, and by several.
static const struct norm_table large[] = {
    {.rows = 4100, .width = 3}, {.rows = 67, .width = 600}, {.rows = 7, .width = 1500},
    {.rows = 3, .width = 4099}, {.rows = 2, .width = 8200},
};
enum { LARGE = sizeof large / sizeof large[0] };

static void reference_norm(const void *shape, double *const *in, double *y)
{
    const struct norm_table *s = shape;
    for (int64_t r = 0; r < s->rows; r++) {
        const double *x = in[0] + r * s->width;
        double mean = 0, variance = 0;
        for (int64_t i = 0; i < s->width; i++)
            mean += x[i] / (double)s->width;
        for (int64_t i = 0; i < s->width; i++)
            variance += (x[i] - mean) * (x[i] - mean) / (double)s->width;
        for (int64_t i = 0; i < s->width; i++)
            y[r * s->width + i] = (x[i] - mean) / sqrt(variance + 1e-5) * in[1][i] + in[2][i];
    }
}

// Norms fused with a sum are bit-identical to the separate ops.
static void check_sum(struct arithmetic *a, const struct norm_table *s, const float *gain,
                      const float *bias)
{
    int64_t n = s->rows * s->width, rows = s->rows, width = s->width;
    float *x = floats_random(a, n, 1), *more = floats_random(a, n, 2);
    float *expected = floats_new(a, n), *found = floats_new(a, n);
    float *sum = floats_new(a, n), *added = floats_new(a, n);
    float *statistics = floats_new(a, 2 * rows), *again = floats_new(a, 2 * rows);
    ops_add(n, x, more, sum);
    ops_layer_norm_forward(rows, width, sum, gain, bias, expected, statistics);
    ops_add_layer_norm_forward(rows, width, x, more, added, gain, bias, found, again);
    expect_same_bits(added, sum, n, "sum");
    expect_same_bits(found, expected, n, "layer norm of a sum");
    expect_same_bits(again, statistics, 2 * rows, "statistics of a sum");
    memcpy(added, more, (size_t)n * sizeof *added);
    ops_rms_norm_forward(rows, width, sum, gain, expected, statistics);
    ops_add_rms_norm_forward(rows, width, x, added, added, gain, found, again);
    expect_same_bits(added, sum, n, "sum over what is added");
    expect_same_bits(found, expected, n, "rms norm of a sum");
    expect_same_bits(again, statistics, rows, "rms of a sum");
    ops_add_layer_norm_forward(rows, width, x, more, x, gain, NULL, found, again);
    expect_same_bits(x, sum, n, "sum over what it is added to");
}

static void check_norm(struct arithmetic *a, const struct norm_table *s, bool with_bias)
{
    int64_t n = s->rows * s->width;
    float *x = floats_random(a, n, 2), *gain = floats_random(a, s->width, 1);
    float *bias = floats_random(a, s->width, with_bias ? 1 : 0), *y = floats_new(a, n);
    float *statistics = floats_new(a, 2 * s->rows), *dy = floats_random(a, n, 1);
    float *dx = floats_new(a, n), *dgain = floats_new(a, s->width);
    float *dbias = floats_new(a, s->width);
    double *in[] = {doubles_of(a, x, n), doubles_of(a, gain, s->width),
                    doubles_of(a, bias, s->width)};
    double *expected = doubles_new(a, n);
    struct reference r = {reference_norm, s, in, n};
    reference_norm(s, in, expected);

    ops_layer_norm_forward(s->rows, s->width, x, gain, with_bias ? bias : NULL, y, statistics);
    expect_close(y, expected, n, 1e-5, "y");
    ops_layer_norm_backward(s->rows, s->width, x, gain, statistics, dy, dx, false, dgain,
                            with_bias ? dbias : NULL);
    expect_gradient(a, &r, 0, n, dy, dx, 2e-4, "dx");
    expect_gradient(a, &r, 1, s->width, dy, dgain, 1e-4, "dgain");
    if (with_bias)
        expect_gradient(a, &r, 2, s->width, dy, dbias, 1e-4, "dbias");

    float *sum = floats_random(a, n, 1);
    double *wanted = doubles_of(a, sum, n);
    for (int64_t i = 0; i < n; i++)
        wanted[i] += (double)dx[i];
    ops_layer_norm_backward(s->rows, s->width, x, gain, statistics, dy, sum, true, dgain,
                            with_bias ? dbias : NULL);
    expect_close(sum, wanted, n, 1e-6, "dx added");
    check_sum(a, s, gain, with_bias ? bias : NULL);
}

static void test_layer_norm(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 20; seed++) {
        struct arithmetic a = arithmetic_begin(seed);
        struct norm_table s = {.rows = between(&a, 1, 12), .width = between(&a, 2, 70)};
        check_norm(&a, &s, seed % 2);
        arithmetic_end(&a);
    }
    for (uint64_t i = 0; i < LARGE; i++) {
        struct arithmetic a = arithmetic_begin(i);
        check_norm(&a, &large[i], i % 2);
        arithmetic_end(&a);
    }
}

static void reference_rms_norm(const void *shape, double *const *in, double *y)
{
    const struct norm_table *s = shape;
    for (int64_t r = 0; r < s->rows; r++) {
        double squares = 0;
        for (int64_t i = r * s->width; i < (r + 1) * s->width; i++)
            squares += in[0][i] * in[0][i] / (double)s->width;
        for (int64_t i = 0; i < s->width; i++)
            y[r * s->width + i] = in[0][r * s->width + i] / sqrt(squares + 1e-5) * in[1][i];
    }
}

static void check_rms_norm(struct arithmetic *a, const struct norm_table *s)
{
    int64_t n = s->rows * s->width;
    float *x = floats_random(a, n, 2), *gain = floats_random(a, s->width, 1);
    float *y = floats_new(a, n), *statistics = floats_new(a, s->rows);
    float *dy = floats_random(a, n, 1), *dx = floats_new(a, n), *dgain = floats_new(a, s->width);
    double *in[] = {doubles_of(a, x, n), doubles_of(a, gain, s->width)};
    double *expected = doubles_new(a, n);
    struct reference r = {reference_rms_norm, s, in, n};
    reference_rms_norm(s, in, expected);

    ops_rms_norm_forward(s->rows, s->width, x, gain, y, statistics);
    expect_close(y, expected, n, 1e-5, "y");
    ops_rms_norm_backward(s->rows, s->width, x, gain, statistics, dy, dx, false, dgain);
    expect_gradient(a, &r, 0, n, dy, dx, 2e-4, "dx");
    expect_gradient(a, &r, 1, s->width, dy, dgain, 1e-4, "dgain");

    float *sum = floats_random(a, n, 1), *again = floats_new(a, s->width);
    double *wanted = doubles_of(a, sum, n);
    for (int64_t i = 0; i < n; i++)
        wanted[i] += (double)dx[i];
    ops_rms_norm_backward(s->rows, s->width, x, gain, statistics, dy, sum, true, again);
    expect_close(sum, wanted, n, 1e-6, "dx added");
    ops_rms_norm_backward(s->rows, s->width, x, gain, statistics, dy, NULL, false, again);
    expect_same_bits(again, dgain, s->width, "dgain without dx");
}

static void test_rms_norm(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 20; seed++) {
        struct arithmetic a = arithmetic_begin(seed);
        struct norm_table s = {.rows = between(&a, 1, 12), .width = between(&a, 1, 70)};
        check_rms_norm(&a, &s);
        arithmetic_end(&a);
    }
    for (uint64_t i = 0; i < LARGE; i++) {
        struct arithmetic a = arithmetic_begin(i);
        check_rms_norm(&a, &large[i]);
        arithmetic_end(&a);
    }
    struct arithmetic a = arithmetic_begin(1);
    float *gain = floats_copy(&a, 2, (const float[]){1, 1}), *y = floats_new(&a, 2);
    float *scale = floats_new(&a, 1);
    ops_rms_norm_forward(1, 2, floats_copy(&a, 2, (const float[]){0, 0}), gain, y, scale);
    assert_true(y[0] == 0 && isfinite(*scale));
    ops_rms_norm_forward(1, 2, floats_copy(&a, 2, (const float[]){NAN, 1}), gain, y, scale);
    assert_true(isnan(y[0]) && isnan(y[1]));
    arithmetic_end(&a);
}

static void reference_loss(const void *shape, double *const *in, double *y)
{
    const struct norm_table *s = shape;
    for (int64_t r = 0; r < s->rows; r++) {
        const double *x = in[0] + r * s->width;
        double sum = 0, mean = 0;
        for (int64_t i = 0; i < s->width; i++)
            sum += exp(x[i]);
        for (int64_t i = 0; i < s->width; i++)
            mean += x[i] / (double)s->width;
        y[r] = log(sum) - (1 - s->smoothing) * x[s->targets[r]] - s->smoothing * mean;
    }
}

static void check_loss(struct arithmetic *a, const struct norm_table *s)
{
    int64_t n = s->rows * s->width;
    const float scale = 0.25f, smoothing = (float)s->smoothing;
    float *x = floats_random(a, n, 12), *losses = floats_new(a, s->rows);
    float *dx = floats_new(a, n), *weights = floats_new(a, s->rows);
    int32_t *correct = integers_random(a, s->rows, 9);
    double *in[] = {doubles_of(a, x, n)}, *expected = doubles_new(a, s->rows);
    struct reference r = {reference_loss, s, in, s->rows};
    reference_loss(s, in, expected);
    for (int64_t i = 0; i < s->rows; i++)
        weights[i] = scale;

    ops_cross_entropy(s->rows, s->width, x, s->targets, losses, correct, smoothing, scale, dx);
    expect_close(losses, expected, s->rows, 1e-5, "loss");
    expect_gradient(a, &r, 0, n, weights, dx, 1e-5, "dlogits");
    for (int64_t row = 0; row < s->rows; row++) {
        int32_t wanted = 1;
        for (int64_t i = 0; i < s->width; i++)
            wanted &= !(x[row * s->width + i] > x[row * s->width + s->targets[row]]);
        assert_int_equal(correct[row], wanted);
    }
    float *again = floats_new(a, s->rows);
    ops_cross_entropy(s->rows, s->width, x, s->targets, again, NULL, smoothing, 0, NULL);
    expect_same_bits(again, losses, s->rows, "loss without gradient");
    ops_cross_entropy(s->rows, s->width, x, s->targets, again, NULL, smoothing, scale, x);
    expect_same_bits(x, dx, n, "dlogits in place");
}

static void test_cross_entropy(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 20; seed++) {
        struct arithmetic a = arithmetic_begin(seed);
        struct norm_table s = {.rows = between(&a, 1, 12), .width = between(&a, 2, 70)};
        s.smoothing = seed % 2 ? 0 : 0.125 * (double)between(&a, 1, 7);
        s.targets = integers_random(&a, s.rows, s.width);
        check_loss(&a, &s);
        arithmetic_end(&a);
    }
}

static void test_extreme_logits(void **state)
{
    (void)state;
    struct arithmetic a = arithmetic_begin(1);
    float *x = floats_copy(&a, 9, (const float[]){1000, 0, -1000, 7, 7, 7, 7, 7, 7});
    int32_t *targets = integers_random(&a, 3, 1), *correct = integers_random(&a, 3, 1);
    float *losses = floats_new(&a, 3), *d = floats_new(&a, 9);
    targets[0] = 2;
    targets[1] = 1;
    ops_cross_entropy(3, 3, x, targets, losses, correct, 0, 1, d);
    assert_true(losses[0] == 2000 && fabsf(losses[1] - logf(3)) < 1e-6f);
    assert_true(d[0] == 1 && d[2] == -1);
    assert_int_equal(correct[0], 0);
    assert_int_equal(correct[1], 0); // equal logits: the first counts
    assert_int_equal(correct[2], 1);
    x[0] = NAN;
    targets[0] = 0;
    ops_cross_entropy(1, 3, x, targets, losses, correct, 0, 1, d);
    assert_true(isnan(losses[0]));
    assert_int_equal(correct[0], 0);
    arithmetic_end(&a);
}

// A smoothed loss has its minimum where the classes' probabilities equal the smoothed target: there
// the gradient is zero, and the loss is the target's entropy.
static void test_smoothing_has_its_minimum(void **state)
{
    (void)state;
    enum { CLASSES = 5 };
    const float share = 0.2f / CLASSES;
    struct arithmetic a = arithmetic_begin(1);
    float *x = floats_new(&a, CLASSES), *d = floats_new(&a, CLASSES), *loss = floats_new(&a, 1);
    int32_t *target = integers_random(&a, 1, 1);
    *target = 3;
    for (int i = 0; i < CLASSES; i++)
        x[i] = logf(i == 3 ? 0.8f + share : share);
    ops_cross_entropy(1, CLASSES, x, target, loss, NULL, 0.2f, 1, d);
    for (int i = 0; i < CLASSES; i++)
        assert_true(fabsf(d[i]) < 1e-7f);
    assert_true(fabs((double)*loss + 0.84 * log(0.84) + 0.16 * log(0.04)) < 1e-6);
    arithmetic_end(&a);
}

static void reference_mse(const void *shape, double *const *in, double *y)
{
    const struct norm_table *s = shape;
    for (int64_t r = 0; r < s->rows; r++) {
        y[r] = 0;
        for (int64_t i = r * s->width; i < (r + 1) * s->width; i++)
            y[r] += (in[0][i] - in[1][i]) * (in[0][i] - in[1][i]) / (double)s->width;
    }
}

static void check_mse(struct arithmetic *a, const struct norm_table *s)
{
    int64_t n = s->rows * s->width;
    const float scale = 0.25f;
    float *y = floats_random(a, n, 3), *targets = floats_random(a, n, 3);
    float *losses = floats_new(a, s->rows), *again = floats_new(a, s->rows);
    float *dy = floats_new(a, n), *weights = floats_new(a, s->rows);
    double *in[] = {doubles_of(a, y, n), doubles_of(a, targets, n)};
    double *expected = doubles_new(a, s->rows);
    struct reference r = {reference_mse, s, in, s->rows};
    reference_mse(s, in, expected);
    for (int64_t i = 0; i < s->rows; i++)
        weights[i] = scale;

    ops_mse(s->rows, s->width, y, targets, losses, scale, dy);
    expect_close(losses, expected, s->rows, 1e-6, "loss");
    expect_gradient(a, &r, 0, n, weights, dy, 1e-5, "dy");
    ops_mse(s->rows, s->width, y, targets, again, scale, NULL);
    expect_same_bits(again, losses, s->rows, "loss without gradient");
    ops_mse(s->rows, s->width, y, targets, again, scale, y);
    expect_same_bits(y, dy, n, "dy in place");
}

static void test_mse(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 20; seed++) {
        struct arithmetic a = arithmetic_begin(seed);
        struct norm_table s = {.rows = between(&a, 1, 12), .width = between(&a, 1, 70)};
        check_mse(&a, &s);
        arithmetic_end(&a);
    }
    struct arithmetic a = arithmetic_begin(1);
    float *y = floats_copy(&a, 1, (const float[]){NAN}), *zero = floats_new(&a, 1);
    float *loss = floats_new(&a, 1), *d = floats_new(&a, 1);
    *zero = 0;
    ops_mse(1, 1, y, zero, loss, 1, d);
    assert_true(isnan(*loss) && isnan(*d));
    arithmetic_end(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_layer_norm),
        cmocka_unit_test(test_rms_norm),
        cmocka_unit_test(test_cross_entropy),
        cmocka_unit_test(test_extreme_logits),
        cmocka_unit_test(test_smoothing_has_its_minimum),
        cmocka_unit_test(test_mse),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
