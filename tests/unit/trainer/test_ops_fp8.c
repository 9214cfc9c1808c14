// Layers in FP8, compared with products in double precision of inputs that were rounded by
// searching the formats' numbers. The same source tests CPUs, the emulated kernels and GPUs.
#include <stdio.h>

#include "tests/unit/trainer/arithmetic.h"

#include "trainer/ops/fp8.h"

enum { SKIPPED = 77, TENSORS_MAX = 32 };

// A layer on the device with its tensors, and their contents in double precision.
struct fp8_fixture {
    struct arithmetic a;
    struct ops_linear s;
    struct ops_fp8 f;
    void *blocks[TENSORS_MAX];
    int block_count;
    int64_t inputs, outputs, weights; // numbers
    real *x, *dy, *bias, *y, *dx;
    float *w, *dw, *db;
    double *exact_x, *exact_dy, *exact_bias, *exact_w;
    int32_t exponents[OPS_FP8_TENSORS];
};

static void wait_for_device(void)
{
    struct error e;
    if (ops_synchronize(&e))
        fail_msg("%s", e.text);
}

static void *device_new(struct fp8_fixture *t, int64_t floats)
{
    struct error e;
    must(t->block_count < TENSORS_MAX);
    if (ops_alloc((size_t)floats * sizeof(float), &t->blocks[t->block_count], &e))
        fail_msg("%s", e.text);
    return t->blocks[t->block_count++];
}

// Random reals in [-size, size]; *exact is their content after rounding.
static real *reals_random(struct fp8_fixture *t, int64_t n, double size, double **exact)
{
    float *numbers = floats_random(&t->a, n, size);
    real *out = device_new(t, n);
    ops_upload_reals(n, numbers, out);
    ops_download_reals(n, out, numbers);
    wait_for_device();
    *exact = doubles_of(&t->a, numbers, n);
    return out;
}

static int32_t exponent_of(const double *x, int64_t n)
{
    double largest = 0;
    int exponent;
    for (int64_t i = 0; i < n; i++)
        largest = fmax(largest, fabs(x[i]));
    frexp(largest, &exponent);
    return exponent;
}

static void upload_scales(struct fp8_fixture *t)
{
    float scales[OPS_FP8_TENSORS][2];
    for (int i = 0; i < OPS_FP8_TENSORS; i++) {
        scales[i][0] = ops_fp8_scale((enum ops_fp8_tensor)i, t->exponents[i]);
        scales[i][1] = 1 / scales[i][0];
    }
    ops_upload(t->f.scales, scales, sizeof scales);
}

static void fixture_open(struct fp8_fixture *t, uint64_t seed, int64_t rows, int64_t in,
                         int64_t out)
{
    struct error e;
    *t = (struct fp8_fixture){.a = arithmetic_begin(seed),
                              .s = {.rows = rows, .in = in, .out = out}};
    t->inputs = rows * in;
    t->outputs = rows * out;
    t->weights = in * out;
    if (ops_linear_compile(&t->s, &e) || ops_fp8_compile(&t->s, &t->f.plan, &e))
        fail_msg("%s", e.text);
    t->f.linear = &t->s;
    t->x = reals_random(t, t->inputs, 3, &t->exact_x);
    t->dy = reals_random(t, t->outputs, 0x1p-12, &t->exact_dy);
    t->bias = reals_random(t, out, 1, &t->exact_bias);
    float *w = floats_random(&t->a, t->weights, 0.5);
    t->exact_w = doubles_of(&t->a, w, t->weights);
    t->w = device_new(t, t->weights);
    ops_upload(t->w, w, (size_t)t->weights * sizeof *w);
    t->y = device_new(t, t->outputs);
    t->dx = device_new(t, t->inputs);
    t->dw = device_new(t, t->weights);
    t->db = device_new(t, out);
    t->f.scales = device_new(t, 2 * OPS_FP8_TENSORS);
    t->f.amaxes = device_new(t, OPS_FP8_TENSORS);
    t->f.weights = device_new(t, ops_fp8_weight_floats(&t->s));
    t->f.saved = device_new(t, ops_fp8_saved_floats(&t->s));
    t->f.scratch = device_new(t, ops_fp8_scratch_floats(&t->s));
    t->exponents[OPS_FP8_X] = exponent_of(t->exact_x, t->inputs);
    t->exponents[OPS_FP8_W] = exponent_of(t->exact_w, t->weights);
    t->exponents[OPS_FP8_DY] = exponent_of(t->exact_dy, t->outputs);
    upload_scales(t);
}

static void fixture_close(struct fp8_fixture *t)
{
    ops_fp8_free(t->f.plan);
    ops_linear_free(&t->s);
    while (t->block_count > 0)
        ops_free(t->blocks[--t->block_count]);
    arithmetic_end(&t->a);
}

static float *downloaded(struct fp8_fixture *t, const float *from, int64_t n)
{
    float *out = floats_new(&t->a, n);
    ops_download(out, from, (size_t)n * sizeof *out);
    wait_for_device();
    return out;
}

static float *downloaded_reals(struct fp8_fixture *t, const real *from, int64_t n)
{
    float *out = floats_new(&t->a, n);
    ops_download_reals(n, from, out);
    wait_for_device();
    return out;
}

// --- the reference -------------------------------------------------------------------------------

// The number of a positive code.
static double number_of(bool wide, int code)
{
    const int bits = wide ? 2 : 3, bias = wide ? 15 : 7;
    int mantissa = code & ((1 << bits) - 1), exponent = code >> bits;
    return exponent ? ldexp(1 + ldexp(mantissa, -bits), exponent - bias)
                    : ldexp(mantissa, 1 - bias - bits);
}

// The nearest number of the format, by search; of two equally near ones that with an even code.
static double nearest(bool wide, double x)
{
    const int largest = wide ? 0x7b : 0x7e;
    double best = 0, apart = INFINITY;
    for (int code = 0; code <= largest; code++) {
        double number = number_of(wide, code), d = fabs(fabs(x) - number);
        if (d < apart || (d == apart && code % 2 == 0)) {
            apart = d;
            best = number;
        }
    }
    return copysign(best, x);
}

static double *rounded(struct fp8_fixture *t, enum ops_fp8_tensor which, const double *x, int64_t n)
{
    double *out = doubles_new(&t->a, n);
    double scale = (double)ops_fp8_scale(which, t->exponents[which]);
    for (int64_t i = 0; i < n; i++)
        out[i] = nearest(which == OPS_FP8_DY, x[i] * scale) / scale;
    return out;
}

struct fp8_results {
    double *y, *dx, *dw, *db;
};

static struct fp8_results reference(struct fp8_fixture *t)
{
    const struct ops_linear *s = &t->s;
    const double *x = rounded(t, OPS_FP8_X, t->exact_x, t->inputs);
    const double *w = rounded(t, OPS_FP8_W, t->exact_w, t->weights);
    const double *dy = rounded(t, OPS_FP8_DY, t->exact_dy, t->outputs);
    struct fp8_results r = {doubles_new(&t->a, t->outputs), doubles_new(&t->a, t->inputs),
                            doubles_new(&t->a, t->weights), doubles_new(&t->a, s->out)};
    memset(r.dx, 0, (size_t)t->inputs * sizeof *r.dx);
    memset(r.dw, 0, (size_t)t->weights * sizeof *r.dw);
    memset(r.db, 0, (size_t)s->out * sizeof *r.db);
    for (int64_t row = 0; row < s->rows; row++)
        for (int64_t o = 0; o < s->out; o++) {
            double sum = t->exact_bias[o], d = dy[row * s->out + o];
            for (int64_t i = 0; i < s->in; i++) {
                sum += x[row * s->in + i] * w[i * s->out + o];
                r.dx[row * s->in + i] += d * w[i * s->out + o];
                r.dw[i * s->out + o] += d * x[row * s->in + i];
            }
            r.y[row * s->out + o] = sum;
            r.db[o] += t->exact_dy[row * s->out + o]; // of the gradient before it is quantised
        }
    return r;
}

// `allowed` is relative to the largest number.
static void expect_nearer(double allowed, const float *found, const double *expected, int64_t n,
                          const char *what)
{
    double largest = 0;
    for (int64_t i = 0; i < n; i++)
        largest = fmax(largest, fabs(expected[i]));
    for (int64_t i = 0; i < n; i++)
        if (!(fabs((double)found[i] - expected[i]) <= allowed * largest))
            fail_msg("%s[%lld of %lld]: expected %.9g, found %.9g", what, (long long)i,
                     (long long)n, expected[i], (double)found[i]);
}

// Reals of 16 bits are rounded once more; the tensor cores of a GPU add with fewer bits than a
// float has.
static void expect_near(const float *found, const double *expected, int64_t n, const char *what)
{
    expect_nearer(ops_floats_for_reals(2) == 2 ? 1e-6 : 5e-3, found, expected, n, what);
}

static void expect_results(struct fp8_fixture *t)
{
    const struct fp8_results r = reference(t);
    ops_fp8_quantise_weights(&t->f, t->w);
    ops_fp8_forward(&t->f, t->x, false, t->bias, t->y);
    ops_fp8_backward(&t->f, t->dy, NULL, t->dx, false, t->dw, false, t->db);
    expect_near(downloaded_reals(t, t->y, t->outputs), r.y, t->outputs, "y");
    expect_near(downloaded_reals(t, t->dx, t->inputs), r.dx, t->inputs, "dx");
    expect_near(downloaded(t, t->dw, t->weights), r.dw, t->weights, "dw");
    expect_near(downloaded(t, t->db, t->s.out), r.db, t->s.out, "db");
}

// --- tests ---------------------------------------------------------------------------------------

// From one tile of a kernel to several, whole and cut.
static const int64_t shapes[][3] = {{16, 16, 16},  {32, 48, 16},   {16, 80, 144},
                                    {144, 16, 48}, {256, 64, 128}, {272, 208, 80}};

static void test_products(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        struct fp8_fixture t;
        fixture_open(&t, i + 1, shapes[i][0], shapes[i][1], shapes[i][2]);
        expect_results(&t);
        fixture_close(&t);
    }
}

// With the identity as weights, y is the quantised x and dx the quantised dy, which reals hold
// exactly: every number of both formats, the ties between them, and what lies around the ties.
static void fill_with_ties(bool wide, float *out, int64_t n)
{
    const int largest = wide ? 0x7b : 0x7e;
    must(n >= 8 * (largest + 1));
    for (int code = 0; code <= largest; code++) {
        double low = number_of(wide, code),
               high = code < largest ? number_of(wide, code + 1) : 1.2 * low;
        double tie = (low + high) / 2;
        for (int sign = -1; sign <= 1; sign += 2) {
            *out++ = (float)(sign * low);
            *out++ = (float)(sign * tie);
            *out++ = (float)(sign * tie * (1 - 0x1p-7));
            *out++ = (float)(sign * tie * (1 + 0x1p-7));
        }
    }
}

static void test_every_number_of_the_formats(void **state)
{
    (void)state;
    struct fp8_fixture t;
    fixture_open(&t, 10, 80, 16, 16);
    float *x = floats_new(&t.a, t.inputs), *dy = floats_new(&t.a, t.outputs);
    float *w = floats_new(&t.a, t.weights);
    memset(x, 0, (size_t)t.inputs * sizeof *x);
    memset(dy, 0, (size_t)t.outputs * sizeof *dy);
    fill_with_ties(false, x, t.inputs);
    fill_with_ties(true, dy, t.outputs);
    for (int64_t i = 0; i < t.weights; i++)
        w[i] = i / 16 == i % 16 ? 1 : 0;
    ops_upload_reals(t.inputs, x, t.x);
    ops_upload_reals(t.outputs, dy, t.dy);
    ops_upload(t.w, w, (size_t)t.weights * sizeof *w);
    x = downloaded_reals(&t, t.x, t.inputs);
    dy = downloaded_reals(&t, t.dy, t.outputs);
    t.exponents[OPS_FP8_X] = OPS_FP8_TOP_E4M3; // a scale of 1
    t.exponents[OPS_FP8_W] = 1;
    t.exponents[OPS_FP8_DY] = OPS_FP8_TOP_E5M2;
    upload_scales(&t);
    ops_fp8_quantise_weights(&t.f, t.w);
    ops_fp8_forward(&t.f, t.x, false, NULL, t.y);
    ops_fp8_backward(&t.f, t.dy, NULL, t.dx, false, t.dw, false, NULL);
    const float *y = downloaded_reals(&t, t.y, t.outputs);
    const float *dx = downloaded_reals(&t, t.dx, t.inputs);
    for (int64_t i = 0; i < t.inputs; i++) {
        if ((double)y[i] != nearest(false, (double)x[i]))
            fail_msg("E4M3: %.9g becomes %.9g", (double)x[i], (double)y[i]);
        if ((double)dx[i] != nearest(true, (double)dy[i]))
            fail_msg("E5M2: %.9g becomes %.9g", (double)dy[i], (double)dx[i]);
    }
    fixture_close(&t);
}

// Tensors that have outgrown their scales are clamped; scales that are too small lose small
// numbers.
static void test_other_exponents(void **state)
{
    (void)state;
    static const int32_t apart[] = {-4, 5, -8};
    for (int more = -1; more <= 1; more += 2) {
        struct fp8_fixture t;
        fixture_open(&t, 20, 48, 64, 32);
        for (int i = 0; i < OPS_FP8_TENSORS; i++)
            t.exponents[i] += more * apart[i];
        upload_scales(&t);
        expect_results(&t);
        fixture_close(&t);
    }
}

// gelu before the layer: with floats the bits of two ops. Reals of 16 bits would be rounded between
// two ops, so there the reference is in double precision; a number near a tie may go either way.
static void test_gelu_before_the_layer(void **state)
{
    (void)state;
    struct fp8_fixture t;
    fixture_open(&t, 25, 144, 208, 32);
    real *input = device_new(&t, t.inputs);
    ops_fp8_quantise_weights(&t.f, t.w);
    for (int64_t i = 0; i < t.inputs; i++) {
        double x = t.exact_x[i];
        t.exact_x[i] = 0.5 * x * (1 + tanh(sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
    }
    const double *expected = reference(&t).y;
    for (int measures = 0; measures < 2; measures++) {
        if (measures)
            t.f.own_amaxes = device_new(&t, OPS_FP8_TENSORS);
        ops_fp8_forward(&t.f, t.x, true, t.bias, t.y);
        const float *found = downloaded_reals(&t, t.y, t.outputs);
        const int64_t saved = ops_fp8_saved_floats(&t.s);
        const float *codes = downloaded(&t, t.f.saved, saved);
        ops_zero(t.f.saved, (size_t)saved * sizeof *codes);
        ops_fp8_forward(&t.f, t.x, true, t.bias, NULL);
        expect_same_bits(downloaded(&t, t.f.saved, saved), codes, saved, "what is saved alone");
        expect_nearer(0.02, found, expected, t.outputs, "y");
        ops_gelu_forward(t.inputs, t.x, input);
        ops_fp8_forward(&t.f, input, false, t.bias, t.y);
        if (ops_floats_for_reals(2) == 2)
            expect_same_bits(downloaded_reals(&t, t.y, t.outputs), found, t.outputs, "y");
    }
    fixture_close(&t);
}

static double slope_of_gelu(double x)
{
    double c = sqrt(2 / M_PI), t = tanh(c * (x + 0.044715 * x * x * x));
    return 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * c * (1 + 3 * 0.044715 * x * x);
}

static void test_gelu_after_the_layer(void **state)
{
    (void)state;
    struct fp8_fixture t;
    double *exact;
    fixture_open(&t, 26, 272, 48, 208);
    real *before = reals_random(&t, t.outputs, 4, &exact), *through = device_new(&t, t.outputs);
    ops_fp8_quantise_weights(&t.f, t.w);
    ops_fp8_forward(&t.f, t.x, false, NULL, t.y);
    for (int64_t i = 0; i < t.outputs; i++)
        t.exact_dy[i] *= slope_of_gelu(exact[i]);
    const struct fp8_results r = reference(&t);
    for (int measures = 0; measures < 2; measures++) {
        if (measures)
            t.f.own_amaxes = device_new(&t, OPS_FP8_TENSORS);
        ops_fp8_backward(&t.f, t.dy, before, t.dx, false, t.dw, false, t.db);
        const float *dx = downloaded_reals(&t, t.dx, t.inputs);
        const float *dw = downloaded(&t, t.dw, t.weights), *db = downloaded(&t, t.db, t.s.out);
        if (!measures) { // the scales are those of the reference
            expect_nearer(0.02, dx, r.dx, t.inputs, "dx");
            expect_nearer(0.02, dw, r.dw, t.weights, "dw");
        }
        expect_nearer(1e-5, db, r.db, t.s.out, "db");
        ops_gelu_backward(t.outputs, before, t.dy, through);
        ops_fp8_backward(&t.f, through, NULL, t.dx, false, t.dw, false, t.db);
        if (ops_floats_for_reals(2) == 2) {
            expect_same_bits(downloaded_reals(&t, t.dx, t.inputs), dx, t.inputs, "dx");
            expect_same_bits(downloaded(&t, t.dw, t.weights), dw, t.weights, "dw");
            expect_same_bits(downloaded(&t, t.db, t.s.out), db, t.s.out, "db");
        }
    }
    fixture_close(&t);
}

static void test_results_are_added(void **state)
{
    (void)state;
    struct fp8_fixture t;
    fixture_open(&t, 30, 32, 48, 64);
    struct fp8_results r = reference(&t);
    ops_fp8_quantise_weights(&t.f, t.w);
    ops_fp8_forward(&t.f, t.x, false, NULL, t.y);
    for (int i = 0; i < 3; i++)
        ops_fp8_backward(&t.f, t.dy, NULL, t.dx, i > 0, t.dw, i > 0, NULL);
    for (int64_t i = 0; i < t.outputs; i++)
        r.y[i] -= t.exact_bias[i % t.s.out];
    for (int64_t i = 0; i < t.inputs; i++)
        r.dx[i] *= 3;
    for (int64_t i = 0; i < t.weights; i++)
        r.dw[i] *= 3;
    expect_near(downloaded_reals(&t, t.y, t.outputs), r.y, t.outputs, "y without bias");
    expect_near(downloaded_reals(&t, t.dx, t.inputs), r.dx, t.inputs, "dx three times");
    expect_near(downloaded(&t, t.dw, t.weights), r.dw, t.weights, "dw three times");
    ops_fp8_backward(&t.f, t.dy, NULL, NULL, false, t.dw, true, NULL);
    for (int64_t i = 0; i < t.weights; i++)
        r.dw[i] *= 4.0 / 3;
    expect_near(downloaded(&t, t.dw, t.weights), r.dw, t.weights, "dw four times, without dx");
    fixture_close(&t);
}

static void expect_amaxes(struct fp8_fixture *t, const float expected[OPS_FP8_TENSORS])
{
    const float *found = downloaded(t, (const float *)t->f.amaxes, OPS_FP8_TENSORS);
    for (int i = 0; i < OPS_FP8_TENSORS; i++)
        if (found[i] != expected[i])
            fail_msg("amax %d: expected %.9g, found %.9g", i, (double)expected[i],
                     (double)found[i]);
}

static float largest_of(const double *x, int64_t n)
{
    double largest = 0;
    for (int64_t i = 0; i < n; i++)
        largest = fmax(largest, fabs(x[i]));
    return (float)largest;
}

static void run_layer(struct fp8_fixture *t)
{
    ops_fp8_quantise_weights(&t->f, t->w);
    ops_fp8_forward(&t->f, t->x, false, t->bias, t->y);
    ops_fp8_backward(&t->f, t->dy, NULL, t->dx, false, t->dw, false, t->db);
}

static void test_amaxes_are_maxima(void **state)
{
    (void)state;
    struct fp8_fixture t;
    fixture_open(&t, 40, 144, 80, 48);
    float expected[] = {largest_of(t.exact_x, t.inputs), largest_of(t.exact_w, t.weights),
                        largest_of(t.exact_dy, t.outputs)};
    run_layer(&t);
    expect_amaxes(&t, expected);
    const float before[] = {0.5f, 100.0f, 0x1p-20f};
    ops_upload(t.f.amaxes, before, sizeof before);
    run_layer(&t);
    expected[OPS_FP8_W] = 100.0f;
    expect_amaxes(&t, expected);
    fixture_close(&t);
}

// A layer that measures first chooses the scales of the exponents, and computes the same bits.
static void test_a_layer_measures_first(void **state)
{
    (void)state;
    struct fp8_fixture t;
    fixture_open(&t, 50, 64, 32, 48);
    run_layer(&t);
    const float *y = downloaded_reals(&t, t.y, t.outputs);
    const float *dx = downloaded_reals(&t, t.dx, t.inputs);
    const float *dw = downloaded(&t, t.dw, t.weights);
    const float *scales = downloaded(&t, t.f.scales[0], 2 * OPS_FP8_TENSORS);
    ops_zero(t.f.scales, OPS_FP8_TENSORS * sizeof *t.f.scales);
    t.f.own_amaxes = device_new(&t, OPS_FP8_TENSORS);
    run_layer(&t);
    expect_same_bits(downloaded(&t, t.f.scales[0], 2 * OPS_FP8_TENSORS), scales,
                     2 * OPS_FP8_TENSORS, "the scales");
    expect_same_bits(downloaded_reals(&t, t.y, t.outputs), y, t.outputs, "y");
    expect_same_bits(downloaded_reals(&t, t.dx, t.inputs), dx, t.inputs, "dx");
    expect_same_bits(downloaded(&t, t.dw, t.weights), dw, t.weights, "dw");
    // A tensor of zeros and one of tiny numbers have scales, too.
    ops_zero(t.w, (size_t)t.weights * sizeof *t.w);
    float *tiny = floats_new(&t.a, t.outputs);
    for (int64_t i = 0; i < t.outputs; i++)
        tiny[i] = 0x1p-100f;
    ops_upload_reals(t.outputs, tiny, t.dy);
    run_layer(&t);
    scales = downloaded(&t, t.f.scales[0], 2 * OPS_FP8_TENSORS);
    assert_true(scales[2 * OPS_FP8_W] == ops_fp8_scale(OPS_FP8_W, OPS_FP8_EXPONENT_OF_ZERO));
    assert_true(scales[2 * OPS_FP8_DY] == ops_fp8_scale(OPS_FP8_DY, OPS_FP8_EXPONENT_MIN));
    assert_true(scales[2 * OPS_FP8_DY] * scales[2 * OPS_FP8_DY + 1] == 1);
    fixture_close(&t);
}

// The amax shows a number that is not finite, and it reaches the outputs that depend on it.
static void test_not_finite(void **state)
{
    (void)state;
    const float odd[] = {NAN, INFINITY, -INFINITY};
    for (size_t k = 0; k < sizeof odd / sizeof odd[0]; k++) {
        struct fp8_fixture t;
        fixture_open(&t, 60, 32, 64, 16);
        float *numbers = downloaded_reals(&t, t.x, t.inputs);
        numbers[5 * t.s.in + 37] = odd[k];
        ops_upload_reals(t.inputs, numbers, t.x);
        run_layer(&t);
        const float *found = downloaded(&t, (const float *)t.f.amaxes, OPS_FP8_TENSORS);
        const float *y = downloaded_reals(&t, t.y, t.outputs);
        const float *dw = downloaded(&t, t.dw, t.weights);
        assert_false((bool)isfinite(found[OPS_FP8_X]));
        assert_true((bool)isfinite(found[OPS_FP8_W]));
        for (int64_t i = 0; i < t.outputs; i++)
            assert_true((bool)isnan(y[i]) == (i / t.s.out == 5));
        for (int64_t i = 0; i < t.weights; i++)
            assert_true((bool)isnan(dw[i]) == (i / t.s.out == 37));
        fixture_close(&t);
    }
}

static int open_device(void **state)
{
    (void)state;
    struct error e;
    if (!ops_open(OPS_FP8, &e)) {
        ops_init_thread();
        return 0;
    }
    bool skip = e.code == ERR_NOT_FOUND || e.code == ERR_VERSION; // no GPU, or an older one
    printf("%s: %s\n", skip ? "skipped" : "failed", e.text);
    exit(skip ? SKIPPED : 1);
}

static int close_device(void **state)
{
    (void)state;
    ops_close();
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_products),
        cmocka_unit_test(test_every_number_of_the_formats),
        cmocka_unit_test(test_other_exponents),
        cmocka_unit_test(test_gelu_before_the_layer),
        cmocka_unit_test(test_gelu_after_the_layer),
        cmocka_unit_test(test_results_are_added),
        cmocka_unit_test(test_amaxes_are_maxima),
        cmocka_unit_test(test_a_layer_measures_first),
        cmocka_unit_test(test_not_finite),
    };
    return cmocka_run_group_tests(tests, open_device, close_device);
}
