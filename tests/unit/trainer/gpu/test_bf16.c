// The libraries' ops in bf16 on a GPU: compared with double precision on the same, rounded inputs,
// and with a second run, which must give the same bits.
#include <stdio.h>

#include "tests/unit/trainer/arithmetic.h"
#include "trainer/ops/image.h"
#include "trainer/ops/norm.h"
#include "trainer/ops/sequence.h"

enum { SKIPPED = 77, TENSORS_MAX = 32 };

// A tensor of a test on the device.
static void *blocks[TENSORS_MAX];
static int block_count;

struct bf16_tensor {
    int64_t n;
    real *at;      // on the device
    double *exact; // its content, or the expected result
};

static void *device_new(int64_t floats)
{
    struct error e;
    must(block_count < TENSORS_MAX);
    if (ops_alloc((size_t)floats * sizeof(float), &blocks[block_count], &e))
        fail_msg("%s", e.text);
    return blocks[block_count++];
}

static void device_wait(void)
{
    struct error e;
    if (ops_synchronize(&e))
        fail_msg("%s", e.text);
}

static void device_free(void)
{
    while (block_count > 0)
        ops_free(blocks[--block_count]);
}

static struct bf16_tensor tensor_empty(struct arithmetic *a, int64_t n)
{
    struct bf16_tensor t = {n, device_new(n), doubles_new(a, n)};
    memset(t.exact, 0, (size_t)n * sizeof *t.exact);
    return t;
}

static struct bf16_tensor tensor_random(struct arithmetic *a, int64_t n)
{
    struct bf16_tensor t = tensor_empty(a, n);
    float *numbers = floats_random(a, n, 1);
    ops_upload_reals(n, numbers, t.at);
    ops_download_reals(n, t.at, numbers);
    device_wait();
    for (int64_t i = 0; i < n; i++)
        t.exact[i] = (double)numbers[i];
    return t;
}

static float *reals_of(struct arithmetic *a, const struct bf16_tensor *t)
{
    float *found = floats_new(a, t->n);
    ops_download_reals(t->n, t->at, found);
    device_wait();
    return found;
}

static float *floats_of(struct arithmetic *a, const struct bf16_tensor *t)
{
    float *found = floats_new(a, t->n);
    ops_download(found, t->at, (size_t)t->n * sizeof *found);
    device_wait();
    return found;
}

// --- linear --------------------------------------------------------------------------------------

static void exact_linear(const struct ops_linear *s, const struct bf16_tensor *x,
                         const struct bf16_tensor *w, const struct bf16_tensor *bias,
                         const struct bf16_tensor *dy, const struct bf16_tensor *y,
                         const struct bf16_tensor *dx, const struct bf16_tensor *dw,
                         const struct bf16_tensor *db)
{
    for (int64_t r = 0; r < s->rows; r++)
        for (int64_t o = 0; o < s->out; o++) {
            double d = dy->exact[r * s->out + o], sum = bias->exact[o];
            for (int64_t i = 0; i < s->in; i++) {
                int64_t at = s->transposed ? o * s->in + i : i * s->out + o;
                sum += x->exact[r * s->in + i] * w->exact[at];
                dx->exact[r * s->in + i] += d * w->exact[at];
                dw->exact[at] += d * x->exact[r * s->in + i];
            }
            y->exact[r * s->out + o] = sum;
            db->exact[o] += d;
        }
}

static void check_linear(struct ops_linear s)
{
    struct arithmetic a = arithmetic_begin(7);
    struct bf16_tensor x = tensor_random(&a, s.rows * s.in), w = tensor_random(&a, s.in * s.out);
    struct bf16_tensor bias = tensor_random(&a, s.out), dy = tensor_random(&a, s.rows * s.out);
    struct bf16_tensor y = tensor_empty(&a, s.rows * s.out), dx = tensor_empty(&a, s.rows * s.in);
    struct bf16_tensor dw = tensor_empty(&a, s.in * s.out), db = tensor_empty(&a, s.out);
    struct error e;
    exact_linear(&s, &x, &w, &bias, &dy, &y, &dx, &dw, &db);
    if (ops_linear_compile(&s, &e))
        fail_msg("%s", e.text);
    ops_linear_forward(&s, x.at, w.at, bias.at, y.at);
    ops_linear_backward_data(&s, w.at, dy.at, dx.at, false);
    ops_linear_backward_weights(&s, x.at, dy.at, (float *)dw.at, false, (float *)db.at);
    expect_close(reals_of(&a, &y), y.exact, y.n, 0.01, "y");
    expect_close(reals_of(&a, &dx), dx.exact, dx.n, 0.01, "dx");
    expect_close(floats_of(&a, &db), db.exact, db.n, 1e-4, "db");
    float *first = floats_of(&a, &dw);
    expect_close(first, dw.exact, dw.n, 1e-4, "dw");
    ops_linear_backward_weights(&s, x.at, dy.at, (float *)dw.at, false, NULL);
    expect_same_bits(floats_of(&a, &dw), first, dw.n, "dw again");
    ops_linear_backward_weights(&s, x.at, dy.at, (float *)dw.at, true, NULL);
    for (int64_t i = 0; i < dw.n; i++)
        dw.exact[i] *= 2;
    expect_close(floats_of(&a, &dw), dw.exact, dw.n, 1e-4, "dw added");
    ops_linear_free(&s);
    device_free();
    arithmetic_end(&a);
}

static void test_linear(void **state)
{
    (void)state;
    check_linear((struct ops_linear){.rows = 1, .in = 1, .out = 1});
    check_linear((struct ops_linear){.rows = 33, .in = 17, .out = 5});
    check_linear((struct ops_linear){.rows = 256, .in = 384, .out = 64});
    check_linear((struct ops_linear){.rows = 256, .in = 64, .out = 257, .transposed = true});
    check_linear((struct ops_linear){.rows = 4096, .in = 32, .out = 64});  // a long sum for dw
    check_linear((struct ops_linear){.rows = 512, .in = 384, .out = 512}); // whole tiles
}

// --- gelu after and before a product, in its tanh form -------------------------------------------

static double gelu_inner(double x)
{
    return tanh(sqrt(2 / M_PI) * (x + 0.044715 * x * x * x));
}

static double gelu_slope(double x)
{
    double t = gelu_inner(x);
    return (1 + t) / 2 + x * (1 - t * t) / 2 * sqrt(2 / M_PI) * (1 + 3 * 0.044715 * x * x);
}

// y is gelu(x W + bias), and x itself is treated as the gelu of `kept`.
static void check_gelu(struct ops_linear s, bool with_bias)
{
    struct arithmetic a = arithmetic_begin(10);
    struct bf16_tensor x = tensor_random(&a, s.rows * s.in), w = tensor_random(&a, s.in * s.out);
    struct bf16_tensor bias = tensor_random(&a, s.out), dy = tensor_random(&a, s.rows * s.out);
    struct bf16_tensor kept = tensor_random(&a, s.rows * s.in),
                       dx = tensor_empty(&a, s.rows * s.in);
    struct bf16_tensor before = tensor_empty(&a, s.rows * s.out),
                       y = tensor_empty(&a, s.rows * s.out);
    struct bf16_tensor dw = tensor_empty(&a, s.in * s.out), db = tensor_empty(&a, s.out);
    struct error e;
    if (!with_bias)
        memset(bias.exact, 0, (size_t)s.out * sizeof *bias.exact);
    exact_linear(&s, &x, &w, &bias, &dy, &before, &dx, &dw, &db);
    for (int64_t i = 0; i < y.n; i++)
        y.exact[i] = before.exact[i] * (1 + gelu_inner(before.exact[i])) / 2;
    for (int64_t i = 0; i < dx.n; i++)
        dx.exact[i] *= gelu_slope(kept.exact[i]);
    if (ops_linear_compile(&s, &e))
        fail_msg("%s", e.text);
    ops_linear_gelu_forward(&s, x.at, w.at, with_bias ? bias.at : NULL, before.at, y.at);
    ops_linear_gelu_backward_data(&s, w.at, dy.at, kept.at, dx.at);
    float *first = reals_of(&a, &y), *slopes = reals_of(&a, &dx);
    expect_close(reals_of(&a, &before), before.exact, before.n, 0.01, "what is before gelu");
    expect_close(first, y.exact, y.n, 0.01, "gelu behind a product");
    expect_close(slopes, dx.exact, dx.n, 0.01, "the gradient through gelu");
    ops_linear_gelu_forward(&s, x.at, w.at, with_bias ? bias.at : NULL, before.at, y.at);
    ops_linear_gelu_backward_data(&s, w.at, dy.at, kept.at, dx.at);
    expect_same_bits(reals_of(&a, &y), first, y.n, "gelu again");
    expect_same_bits(reals_of(&a, &dx), slopes, dx.n, "the gradient again");
    ops_linear_free(&s);
    device_free();
    arithmetic_end(&a);
}

static void test_gelu(void **state)
{
    (void)state;
    for (int bias = 0; bias < 2; bias++) {
        check_gelu((struct ops_linear){.rows = 512, .in = 256, .out = 384}, bias);
        check_gelu((struct ops_linear){.rows = 100, .in = 64, .out = 384}, bias);
        check_gelu((struct ops_linear){.rows = 33, .in = 64, .out = 72, .transposed = true}, bias);
        check_gelu((struct ops_linear){.rows = 33, .in = 17, .out = 5}, bias); // no fused kernel
    }
}

// --- layer_norm ----------------------------------------------------------------------------------

static void exact_norm_row(int64_t width, const double *x, const double *gain, const double *bias,
                           const double *dy, double *y, double *dx, double *dgain, double *dbias)
{
    double n = (double)width, mean = 0, variance = 0, g = 0, gh = 0;
    for (int64_t i = 0; i < width; i++)
        mean += x[i] / n;
    for (int64_t i = 0; i < width; i++)
        variance += (x[i] - mean) * (x[i] - mean) / n;
    double scale = 1 / sqrt(variance + 1e-5);
    for (int64_t i = 0; i < width; i++) {
        double h = (x[i] - mean) * scale;
        y[i] = h * gain[i] + bias[i];
        dgain[i] += dy[i] * h;
        dbias[i] += dy[i];
        g += dy[i] * gain[i] / n;
        gh += dy[i] * gain[i] * h / n;
    }
    for (int64_t i = 0; i < width; i++)
        dx[i] += scale * (dy[i] * gain[i] - g - (x[i] - mean) * scale * gh);
}

// Checks the norm that is fused with a sum; dx is added to its old value.
static void check_norm(int64_t rows, int64_t width)
{
    struct arithmetic a = arithmetic_begin(11);
    struct bf16_tensor x = tensor_random(&a, rows * width), sum = tensor_random(&a, rows * width);
    struct bf16_tensor y = tensor_empty(&a, rows * width), dy = tensor_random(&a, rows * width);
    struct bf16_tensor gain = tensor_random(&a, width), bias = tensor_random(&a, width);
    struct bf16_tensor dx = tensor_random(&a, rows * width);
    struct bf16_tensor dgain = tensor_empty(&a, width), dbias = tensor_empty(&a, width);
    float *statistics = device_new(2 * rows);
    ops_add_layer_norm_forward(rows, width, x.at, sum.at, sum.at, gain.at, bias.at, y.at,
                               statistics);
    float *rounded = reals_of(&a, &sum);
    for (int64_t i = 0; i < sum.n; i++) {
        assert_true(fabs((double)rounded[i] - x.exact[i] - sum.exact[i]) <= 0x1p-8);
        sum.exact[i] = (double)rounded[i];
    }
    for (int64_t r = 0; r < rows; r++)
        exact_norm_row(width, sum.exact + r * width, gain.exact, bias.exact, dy.exact + r * width,
                       y.exact + r * width, dx.exact + r * width, dgain.exact, dbias.exact);
    ops_layer_norm_backward(rows, width, sum.at, gain.at, statistics, dy.at, dx.at, true,
                            (float *)dgain.at, (float *)dbias.at);
    expect_close(reals_of(&a, &y), y.exact, y.n, 0.01, "y");
    expect_close(reals_of(&a, &dx), dx.exact, dx.n, 0.01, "dx");
    float *first = floats_of(&a, &dgain);
    expect_close(first, dgain.exact, width, 1e-4, "dgain");
    expect_close(floats_of(&a, &dbias), dbias.exact, width, 1e-4, "dbias");
    ops_layer_norm_backward(rows, width, sum.at, gain.at, statistics, dy.at, NULL, false,
                            (float *)dgain.at, (float *)dbias.at);
    expect_same_bits(floats_of(&a, &dgain), first, width, "dgain again");
    device_free();
    arithmetic_end(&a);
}

static void test_norm(void **state)
{
    (void)state;
    check_norm(1, 8);
    check_norm(5000, 64); // more rows than blocks
    check_norm(300, 768);
    check_norm(300, 771);
    check_norm(70, 4096);
    check_norm(3, 16384); // wider than the rows of a block
}

// --- conv2d --------------------------------------------------------------------------------------

static void exact_conv(const struct ops_conv_shape *s, int64_t rows, int64_t columns,
                       const struct bf16_tensor *x, const struct bf16_tensor *w,
                       const struct bf16_tensor *dy, const struct bf16_tensor *y,
                       const struct bf16_tensor *dx, const struct bf16_tensor *dw)
{
    int64_t in = s->in / s->groups, out = s->out / s->groups;
    for (int64_t at = 0; at < y->n; at++)
        for (int64_t k = 0; k < s->kernel * s->kernel; k++) {
            int64_t o = at % s->out, group = o / out, column = at / s->out % columns;
            int64_t row = at / s->out / columns % rows, sample = at / s->out / columns / rows;
            int64_t iy = row * s->stride + k / s->kernel - s->padding;
            int64_t ix = column * s->stride + k % s->kernel - s->padding;
            if (iy < 0 || iy >= s->height || ix < 0 || ix >= s->width)
                continue;
            for (int64_t c = 0; c < in; c++) {
                int64_t xi = ((sample * s->height + iy) * s->width + ix) * s->in + group * in + c;
                int64_t wi = ((group * s->kernel * s->kernel + k) * in + c) * out + o % out;
                y->exact[at] += x->exact[xi] * w->exact[wi];
                dx->exact[xi] += dy->exact[at] * w->exact[wi];
                dw->exact[wi] += dy->exact[at] * x->exact[xi];
            }
        }
}

static void check_conv(const struct ops_conv_shape *s)
{
    struct arithmetic a = arithmetic_begin(8);
    int64_t rows = (s->height + 2 * s->padding - s->kernel) / s->stride + 1;
    int64_t columns = (s->width + 2 * s->padding - s->kernel) / s->stride + 1;
    int64_t inputs = s->samples * s->height * s->width * s->in;
    int64_t outputs = s->samples * rows * columns * s->out;
    int64_t weights = s->kernel * s->kernel * s->in / s->groups * s->out;
    struct bf16_tensor x = tensor_random(&a, inputs), w = tensor_random(&a, weights);
    struct bf16_tensor dy = tensor_random(&a, outputs), y = tensor_empty(&a, outputs);
    struct bf16_tensor dx = tensor_empty(&a, inputs), dw = tensor_empty(&a, weights);
    struct ops_conv *c;
    struct error e;
    exact_conv(s, rows, columns, &x, &w, &dy, &y, &dx, &dw);
    if (ops_conv_new(s, true, &c, &e))
        fail_msg("%s", e.text);
    float *scratch = device_new(ops_conv_scratch_floats(c));
    ops_conv_forward(c, x.at, w.at, NULL, scratch, y.at);
    ops_conv_backward_data(c, w.at, dy.at, scratch, dx.at);
    ops_conv_backward_weights(c, x.at, dy.at, scratch, (float *)dw.at, NULL);
    expect_close(reals_of(&a, &y), y.exact, y.n, 0.01, "y");
    expect_close(reals_of(&a, &dx), dx.exact, dx.n, 0.01, "dx");
    float *first = floats_of(&a, &dw);
    expect_close(first, dw.exact, dw.n, 0.01, "dw");
    ops_conv_backward_weights(c, x.at, dy.at, scratch, (float *)dw.at, NULL);
    expect_same_bits(floats_of(&a, &dw), first, dw.n, "dw again");
    ops_conv_free(c);
    device_free();
    arithmetic_end(&a);
}

static void test_conv(void **state)
{
    (void)state;
    check_conv(&(struct ops_conv_shape){4, 16, 16, 32, 64, 3, 1, 1, 1, false});
    check_conv(&(struct ops_conv_shape){4, 15, 17, 3, 16, 7, 2, 3, 1, false});
    check_conv(&(struct ops_conv_shape){2, 9, 8, 16, 32, 1, 2, 0, 1, false});
    check_conv(&(struct ops_conv_shape){2, 9, 8, 32, 32, 3, 1, 1, 4, false});
    check_conv(&(struct ops_conv_shape){2, 9, 8, 16, 16, 3, 2, 1, 16, false});
    // shapes of ResNet-50
    check_conv(&(struct ops_conv_shape){2, 14, 14, 128, 128, 3, 1, 1, 1, false});
    check_conv(&(struct ops_conv_shape){2, 14, 14, 128, 128, 3, 2, 1, 1, false});
    check_conv(&(struct ops_conv_shape){2, 14, 14, 256, 64, 1, 1, 0, 1, false});
}

// --- attention -----------------------------------------------------------------------------------

// One head: its outputs, and the gradients of query, key and value.
static void exact_head(const struct ops_attention *s, int64_t sample, int64_t head,
                       const double *qkv, const double *dy, double *y, double *dqkv)
{
    int64_t t = s->context, d = s->width / s->heads, ld = 3 * s->width;
    int64_t first = sample * t * ld + head * d, out = sample * t * s->width + head * d;
    double scale = 1 / sqrt((double)d), *p = calloc((size_t)t, sizeof *p);
    double *dp = calloc((size_t)t, sizeof *dp);
    for (int64_t q = 0; q < t; q++) {
        double sum = 0, dot = 0;
        for (int64_t k = 0; k <= q; k++) {
            p[k] = dp[k] = 0;
            for (int64_t i = 0; i < d; i++) {
                p[k] += qkv[first + q * ld + i] * qkv[first + k * ld + s->width + i] * scale;
                dp[k] += dy[out + q * s->width + i] * qkv[first + k * ld + 2 * s->width + i];
            }
            sum += p[k] = exp(p[k]);
        }
        for (int64_t k = 0; k <= q; k++)
            dot += (p[k] /= sum) * dp[k];
        for (int64_t k = 0; k <= q; k++)
            for (int64_t i = 0; i < d; i++) {
                int64_t mine = first + q * ld + i, other = first + k * ld + i;
                double ds = p[k] * (dp[k] - dot) * scale;
                y[out + q * s->width + i] += p[k] * qkv[other + 2 * s->width];
                dqkv[mine] += ds * qkv[other + s->width];
                dqkv[other + s->width] += ds * qkv[mine];
                dqkv[other + 2 * s->width] += p[k] * dy[out + q * s->width + i];
            }
    }
    free(p);
    free(dp);
}

static void check_attention(struct ops_attention s)
{
    struct arithmetic a = arithmetic_begin(9);
    const struct ops_dropout draw = {0};
    int64_t outputs = s.samples * s.context * s.width;
    struct bf16_tensor qkv = tensor_random(&a, 3 * outputs), dy = tensor_random(&a, outputs);
    struct bf16_tensor y = tensor_empty(&a, outputs), dqkv = tensor_empty(&a, 3 * outputs);
    float *saved = device_new(ops_attention_saved_floats(&s, 0));
    float *scratch = device_new(ops_attention_scratch_floats(&s));
    for (int64_t i = 0; i < s.samples * s.heads; i++)
        exact_head(&s, i / s.heads, i % s.heads, qkv.exact, dy.exact, y.exact, dqkv.exact);
    ops_attention_forward(&s, &draw, qkv.at, saved, scratch, y.at);
    expect_close(reals_of(&a, &y), y.exact, y.n, 0.02, "y");
    ops_attention_backward(&s, &draw, qkv.at, y.at, saved, scratch, dy.at, dqkv.at);
    float *first = reals_of(&a, &dqkv);
    expect_close(first, dqkv.exact, dqkv.n, 0.03, "dqkv");
    ops_attention_backward(&s, &draw, qkv.at, y.at, saved, scratch, dy.at, dqkv.at);
    expect_same_bits(reals_of(&a, &dqkv), first, dqkv.n, "dqkv again");
    device_free();
    arithmetic_end(&a);
}

static void test_attention(void **state)
{
    (void)state;
    check_attention((struct ops_attention){2, 128, 2, 128});
    check_attention((struct ops_attention){2, 77, 3, 192});
    check_attention((struct ops_attention){1, 300, 2, 256});
    check_attention((struct ops_attention){1, 1024, 1, 64});
    check_attention((struct ops_attention){2, 1, 2, 64});
    check_attention((struct ops_attention){2, 50, 2, 40}); // a head width without cuDNN kernel
}

static int open_device(void **state)
{
    (void)state;
    struct error e;
    if (!ops_open(OPS_BF16, &e))
        return 0;
    printf("%s: %s\n", e.code == ERR_NOT_FOUND ? "skipped" : "failed", e.text);
    exit(e.code == ERR_NOT_FOUND ? SKIPPED : 1);
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
        cmocka_unit_test(test_linear),    cmocka_unit_test(test_gelu),
        cmocka_unit_test(test_norm),      cmocka_unit_test(test_conv),
        cmocka_unit_test(test_attention),
    };
    return cmocka_run_group_tests(tests, open_device, close_device);
}
