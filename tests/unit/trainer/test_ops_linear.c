// Linear layers compared with double precision, plain and with the transposed weight of a tied
// head.
#include "tests/unit/trainer/arithmetic.h"
#include "trainer/ops/ops.h"

static void reference_linear(const void *shape, double *const *in, double *y)
{
    const struct ops_linear *s = shape;
    const double *x = in[0], *w = in[1], *bias = in[2];
    for (int64_t r = 0; r < s->rows; r++)
        for (int64_t o = 0; o < s->out; o++) {
            double sum = bias[o];
            for (int64_t i = 0; i < s->in; i++)
                sum += x[r * s->in + i] * (s->transposed ? w[o * s->in + i] : w[i * s->out + o]);
            y[r * s->out + o] = sum;
        }
}

static void check_shape(struct arithmetic *a, const struct ops_linear *s, bool with_bias)
{
    int64_t inputs = s->rows * s->in, weights = s->in * s->out, outputs = s->rows * s->out;
    float *x = floats_random(a, inputs, 1), *w = floats_random(a, weights, 1);
    float *bias = floats_random(a, s->out, with_bias ? 1 : 0), *y = floats_new(a, outputs);
    float *dy = floats_random(a, outputs, 1), *dx = floats_new(a, inputs);
    float *dw = floats_new(a, weights), *db = floats_new(a, s->out);
    double *in[] = {doubles_of(a, x, inputs), doubles_of(a, w, weights),
                    doubles_of(a, bias, s->out)};
    struct reference r = {reference_linear, s, in, outputs};
    double *expected = doubles_new(a, outputs);
    reference_linear(s, in, expected);

    ops_linear_forward(s, x, w, with_bias ? bias : NULL, y);
    expect_close(y, expected, outputs, 1e-5, "y");
    ops_linear_backward_data(s, w, dy, dx, false);
    expect_gradient(a, &r, 0, inputs, dy, dx, 1e-4, "dx");
    ops_linear_backward_weights(s, x, dy, dw, false, with_bias ? db : NULL);
    expect_gradient(a, &r, 1, weights, dy, dw, 1e-4, "dw");
    if (with_bias)
        expect_gradient(a, &r, 2, s->out, dy, db, 1e-4, "db");

    // With `add` the gradient doubles.
    ops_linear_backward_data(s, w, dy, dx, true);
    ops_linear_backward_weights(s, x, dy, dw, true, NULL);
    for (int64_t i = 0; i < outputs; i++)
        dy[i] *= 2;
    expect_gradient(a, &r, 0, inputs, dy, dx, 1e-4, "dx added");
    expect_gradient(a, &r, 1, weights, dy, dw, 1e-4, "dw added");
}

// Fused with gelu, after and before the product: bit-identical to the separate ops.
static void check_gelu(struct arithmetic *a, const struct ops_linear *s, const float *bias)
{
    int64_t inputs = s->rows * s->in, outputs = s->rows * s->out;
    float *x = floats_random(a, inputs, 1), *w = floats_random(a, s->in * s->out, 1);
    float *before = floats_new(a, outputs), *y = floats_new(a, outputs);
    float *found_before = floats_new(a, outputs), *found = floats_new(a, outputs);
    ops_linear_forward(s, x, w, bias, before);
    ops_gelu_forward(outputs, before, y);
    ops_linear_gelu_forward(s, x, w, bias, found_before, found);
    expect_same_bits(found_before, before, outputs, "what is before gelu");
    expect_same_bits(found, y, outputs, "gelu behind it");

    float *dy = floats_random(a, outputs, 1), *kept = floats_random(a, inputs, 3);
    float *dx = floats_new(a, inputs), *found_dx = floats_new(a, inputs);
    ops_linear_backward_data(s, w, dy, dx, false);
    ops_gelu_backward(inputs, kept, dx, dx);
    ops_linear_gelu_backward_data(s, w, dy, kept, found_dx);
    expect_same_bits(found_dx, dx, inputs, "the gradient through gelu");
}

static void test_random_shapes(void **state)
{
    (void)state;
    ops_init_thread();
    for (uint64_t seed = 1; seed <= 24; seed++) {
        struct arithmetic a = arithmetic_begin(seed);
        struct ops_linear s = {between(&a, 1, 40), between(&a, 1, 50), between(&a, 1, 50),
                               seed % 2 == 0, NULL};
        struct error e;
        check_shape(&a, &s, seed % 3 != 0);
        assert_int_equal(ops_linear_compile(&s, &e), 0);
        check_shape(&a, &s, seed % 3 != 0);
        check_gelu(&a, &s, seed % 3 ? floats_random(&a, s.out, 1) : NULL);
        ops_linear_free(&s);
        arithmetic_end(&a);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random_shapes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
