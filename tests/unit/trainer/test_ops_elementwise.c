// Element-wise layers, and the exponential and hyperbolic tangent of their loops, compared with the
// C library in double precision.
#include "tests/unit/trainer/arithmetic.h"
#include "trainer/ops/loops.h"
#include "trainer/ops/ops.h"

static double relu(double x)
{
    return x > 0 ? x : 0;
}

static double gelu(double x)
{
    return 0.5 * x * (1 + tanh(sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
}

static double silu(double x)
{
    return x / (1 + exp(-x));
}

struct unary {
    const char *name;
    double (*reference)(double x);
    void (*forward)(int64_t n, const float *x, float *y);
    void (*backward)(int64_t n, const float *kept, const float *dy, float *dx);
    bool keeps_y; // the backward pass reads y instead of x
    int64_t n;
};

static void reference_unary(const void *shape, double *const *in, double *y)
{
    const struct unary *u = shape;
    for (int64_t i = 0; i < u->n; i++)
        y[i] = u->reference(in[0][i]);
}

static void check_unary(struct arithmetic *a, const struct unary *u)
{
    float *x = floats_random(a, u->n, 6), *y = floats_new(a, u->n);
    float *dy = floats_random(a, u->n, 2), *dx = floats_new(a, u->n);
    double *in[] = {doubles_of(a, x, u->n)}, *expected = doubles_new(a, u->n);
    struct reference r = {reference_unary, u, in, u->n};
    reference_unary(u, in, expected);
    u->forward(u->n, x, y);
    expect_close(y, expected, u->n, 1e-6, u->name);
    u->backward(u->n, u->keeps_y ? y : x, dy, dx);
    expect_gradient(a, &r, 0, u->n, dy, dx, 1e-5, u->name);
    // In place, as in the model's plan, the bits are the same.
    u->backward(u->n, u->keeps_y ? y : x, dy, dy);
    expect_same_bits(dy, dx, u->n, "dx in place");
    u->forward(u->n, x, x);
    expect_same_bits(x, y, u->n, "y in place");
}

static void test_activations(void **state)
{
    (void)state;
    struct unary kinds[] = {
        {"relu", relu, ops_relu_forward, ops_relu_backward, true, 0},
        {"tanh", tanh, ops_tanh_forward, ops_tanh_backward, true, 0},
        {"gelu", gelu, ops_gelu_forward, ops_gelu_backward, false, 0},
        {"silu", silu, ops_silu_forward, ops_silu_backward, false, 0},
    };
    for (uint64_t seed = 1; seed <= 40; seed++) {
        struct arithmetic a = arithmetic_begin(seed);
        struct unary *u = &kinds[seed % 4];
        u->n = between(&a, 1, 300);
        check_unary(&a, u);
        arithmetic_end(&a);
    }
}

static void test_not_a_number_stays(void **state)
{
    (void)state;
    struct arithmetic a = arithmetic_begin(1);
    float *x = floats_new(&a, 1), *y = floats_new(&a, 1);
    x[0] = NAN;
    ops_relu_forward(1, x, y);
    assert_true(isnan(y[0]));
    ops_gelu_forward(1, x, y);
    assert_true(isnan(y[0]));
    ops_tanh_forward(1, x, y);
    assert_true(isnan(y[0]));
    ops_silu_forward(1, x, y);
    assert_true(isnan(y[0]));
    arithmetic_end(&a);
}

// Far from zero silu is the identity or zero, and its derivative is 1 or 0.
static void test_silu_saturates(void **state)
{
    (void)state;
    struct arithmetic a = arithmetic_begin(1);
    float *x = floats_copy(&a, 4, (const float[]){-1000, -100, 100, 3e38f});
    float *ones = floats_copy(&a, 4, (const float[]){1, 1, 1, 1});
    float *y = floats_new(&a, 4), *dx = floats_new(&a, 4);
    ops_silu_forward(4, x, y);
    assert_true(fabsf(y[0]) < 1e-30f && fabsf(y[1]) < 1e-30f && y[2] == 100 && y[3] == 3e38f);
    ops_silu_backward(4, x, ones, dx);
    assert_true(fabsf(dx[0]) < 1e-30f && fabsf(dx[1]) < 1e-30f && dx[2] == 1 && dx[3] == 1);
    arithmetic_end(&a);
}

static void test_add(void **state)
{
    (void)state;
    struct arithmetic a = arithmetic_begin(3);
    enum { N = 77 };
    float *x = floats_random(&a, N, 1), *y = floats_random(&a, N, 1), *sum = floats_new(&a, N);
    ops_add(N, x, y, sum);
    for (int i = 0; i < N; i++)
        assert_true(sum[i] == x[i] + y[i]);
    ops_add(N, x, y, x);
    expect_same_bits(x, sum, N, "sum in place");
    arithmetic_end(&a);
}

static void test_exponential_bound(void **state)
{
    (void)state;
    double worst = 0;
    for (double v = -86.99; v < 87.99; v += 1.7e-4) {
        float x = (float)v;
        double error = fabs((double)loops_exp(x) / exp((double)x) - 1);
        worst = error > worst ? error : worst;
    }
    assert_true(worst < 1.2e-7);
    assert_true(loops_exp(0) == 1.0f);
    assert_true(loops_exp(-INFINITY) < 2e-38f && loops_exp(-INFINITY) > 0);
    assert_true(loops_exp(INFINITY) > 1e38f && isfinite(loops_exp(INFINITY)));
    assert_true(isnan(loops_exp(NAN)));
}

static void test_tangent_bound(void **state)
{
    (void)state;
    double worst = 0;
    for (double v = 1e-6; v < 20; v += v < 1 ? 1.1e-5 : 1.3e-4) {
        float x = (float)v;
        double error = fabs((double)loops_tanh(x) / tanh((double)x) - 1);
        worst = error > worst ? error : worst;
        assert_true(loops_tanh(-x) == -loops_tanh(x));
    }
    assert_true(worst < 3e-7);
    assert_true(loops_tanh(0) == 0 && loops_tanh(100) == 1 && loops_tanh(-100) == -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_activations),       cmocka_unit_test(test_not_a_number_stays),
        cmocka_unit_test(test_silu_saturates),    cmocka_unit_test(test_add),
        cmocka_unit_test(test_exponential_bound), cmocka_unit_test(test_tangent_bound),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
