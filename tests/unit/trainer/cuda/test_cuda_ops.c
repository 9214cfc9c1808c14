// Properties of the GPU's ops that the tests of the CPU's ops do not cover. An op in bf16 must
// equal the op in float of the same numbers, rounded: each case runs in both. Also: embeddings
// whose tokens fill many chunks and tiles, blocks at odd addresses, sums of squares, and
// conversions of reals.
#include "tests/unit/trainer/arithmetic.h"
#include "trainer/ops/image.h"
#include "trainer/ops/norm.h"
#include "trainer/ops/sequence.h"
#include "trainer/ops/update.h"

// The same numbers as floats and as bf16: at[0] and at[1].
struct float_and_bf16 {
    int64_t n;
    float *at[2];
};

static void backend_use(int which)
{
    assert_int_equal(ops_open(which ? OPS_BF16 : OPS_FLOAT, NULL), 0);
}

#define IN_BOTH(k) for (int k = 0; k < 2 ? backend_use(k), 1 : (backend_use(0), 0); k++)

static struct float_and_bf16 both_new(struct arithmetic *a, int64_t n)
{
    return (struct float_and_bf16){n, {floats_new(a, n), floats_new(a, n)}};
}

static struct float_and_bf16 both_random(struct arithmetic *a, int64_t n, double size)
{
    struct float_and_bf16 b = {n, {floats_random(a, n, size), floats_new(a, n)}};
    backend_use(1);
    ops_upload_reals(n, b.at[0], b.at[1]);
    ops_download_reals(n, b.at[1], b.at[0]); // numbers that bf16 can represent
    backend_use(0);
    return b;
}

// `size`: the magnitude of intermediate values that were rounded, besides the result itself.
static void expect_rounded(struct arithmetic *a, const struct float_and_bf16 *b, double size,
                           const char *what)
{
    float *found = floats_new(a, b->n);
    backend_use(1);
    ops_download_reals(b->n, b->at[1], found);
    backend_use(0);
    for (int64_t i = 0; i < b->n; i++) {
        double expected = (double)b->at[0][i];
        if (!(fabs((double)found[i] - expected) <= 0x1p-8 * (fabs(expected) + size) + 1e-6))
            fail_msg("%s[%lld of %lld]: in float %.9g, in bf16 %.9g", what, (long long)i,
                     (long long)b->n, expected, (double)found[i]);
    }
}

static void expect_near(struct arithmetic *a, const float *found, const float *expected, int64_t n,
                        const char *what)
{
    expect_close(found, doubles_of(a, expected, n), n, 2e-5, what);
}

// Rounds numbers that bf16 cannot represent, its limits, and a NaN whose upper 16 bits alone would
// be an infinity.
static void test_rounding(void **state)
{
    (void)state;
    static const uint32_t bits[][2] = {
        {0x3f800000, 0x3f80}, {0x3f808000, 0x3f80}, {0x3f818000, 0x3f82}, {0x3f808001, 0x3f81},
        {0x80000000, 0x8000}, {0x7f7f0000, 0x7f7f}, {0x7f7f8000, 0x7f80}, {0x7f800000, 0x7f80},
        {0xff800000, 0xff80}, {0x00400000, 0x0040}, {0x00008001, 0x0001}, {0x7f800001, 0x7fff},
    };
    enum { N = sizeof bits / sizeof bits[0] };
    float numbers[N];
    uint16_t found[N];
    for (int i = 0; i < N; i++)
        memcpy(&numbers[i], &bits[i][0], sizeof numbers[i]);
    backend_use(1);
    ops_to_reals(N, numbers, (real *)found);
    backend_use(0);
    for (int i = 0; i < N; i++)
        if (found[i] != bits[i][1])
            fail_msg("%08x: expected %04x, found %04x", bits[i][0], bits[i][1], found[i]);
}

// Data that goes to the device and back is rounded once, at any address and in parts of any size
// (the workspace holds 2^23 numbers). Neighbouring memory does not change.
static void check_reals(struct arithmetic *a, int64_t n, int64_t first)
{
    float *numbers = floats_random(a, n, 3), *back = floats_new(a, n + 1);
    for (int k = 0; k < 2; k++) {
        size_t size = k ? 2 : 4;
        unsigned char *room = aligned_block(a, (size_t)(first + n + 1) * size);
        backend_use(k);
        assert_int_equal(ops_floats_for_reals(n), k ? (n + 1) / 2 : n);
        real *reals = (real *)ops_reals_at((real *)room, (size_t)first);
        assert_ptr_equal(reals, room + (size_t)first * size);
        back[n] = 7;
        ops_upload_reals(n, numbers, reals);
        ops_download_reals(n, reals, back);
        backend_use(0);
        assert_true(back[n] == 7);
        for (size_t i = 0; i < size; i++)
            assert_int_equal(room[(size_t)(first + n) * size + i], 0x7f);
        for (int64_t i = 0; i < n; i++)
            if (k ? !(fabsf(back[i] - numbers[i]) <= 0x1p-8f * fabsf(numbers[i]))
                  : back[i] != numbers[i])
                fail_msg("number %lld: sent %.9g, found %.9g", (long long)i, (double)numbers[i],
                         (double)back[i]);
    }
}

static void test_reals(void **state)
{
    (void)state;
    const int64_t counts[] = {0, 1, 3, 4, 5, 1027, (1 << 23) + 5};
    for (uint64_t i = 0; i < 7; i++)
        for (int64_t first = 0; first < (i < 6 ? 3 : 1); first++) {
            struct arithmetic a = arithmetic_begin(i);
            check_reals(&a, counts[i], first);
            arithmetic_end(&a);
        }
}

static void check_elements(struct arithmetic *a, int64_t n)
{
    static void (*const forward[])(int64_t n, const real *x, real *y) = {
        ops_relu_forward, ops_tanh_forward, ops_gelu_forward, ops_silu_forward};
    static void (*const backward[])(int64_t n, const real *kept, const real *dy, real *dx) = {
        ops_relu_backward, ops_tanh_backward, ops_gelu_backward, ops_silu_backward, ops_add};
    struct float_and_bf16 x = both_random(a, n, 4), dy = both_random(a, n, 1), y = both_new(a, n);
    for (int i = 0; i < 4; i++) {
        IN_BOTH(k)
        forward[i](n, x.at[k], y.at[k]);
        expect_rounded(a, &y, 0, "y");
    }
    for (int i = 0; i < 5; i++) {
        IN_BOTH(k)
        backward[i](n, x.at[k], dy.at[k], y.at[k]);
        expect_rounded(a, &y, 0, "dx");
    }
}

static void test_elements(void **state)
{
    (void)state;
    const int64_t counts[] = {1, 7, 8, 9, 2053};
    for (uint64_t i = 0; i < 5; i++) {
        struct arithmetic a = arithmetic_begin(i);
        check_elements(&a, counts[i]);
        arithmetic_end(&a);
    }
}

int64_t cuda_products_with_gelu(void); // from emulate_blas.cc

// In bf16 gelu is fused with the product if its rows are whole packs.
static void check_linear(struct arithmetic *a, const struct ops_linear *shape, bool with_bias)
{
    int64_t inputs = shape->rows * shape->in, outputs = shape->rows * shape->out;
    struct float_and_bf16 x = both_random(a, inputs, 1),
                          w = both_random(a, shape->in * shape->out, 0.25);
    struct float_and_bf16 bias = both_random(a, shape->out, 1), before = both_new(a, outputs);
    struct float_and_bf16 y = both_new(a, outputs), dy = both_random(a, outputs, 1);
    struct float_and_bf16 kept = both_random(a, inputs, 3), dx = both_new(a, inputs);
    int64_t fused = cuda_products_with_gelu();
    IN_BOTH(k)
    {
        struct ops_linear s = *shape;
        assert_int_equal(ops_linear_compile(&s, NULL), 0);
        ops_linear_gelu_forward(&s, x.at[k], w.at[k], with_bias ? bias.at[k] : NULL, before.at[k],
                                y.at[k]);
        ops_linear_gelu_backward_data(&s, w.at[k], dy.at[k], kept.at[k], dx.at[k]);
        ops_linear_free(&s);
    }
    expect_rounded(a, &before, 0, "what is before gelu");
    expect_rounded(a, &y, shape->out % 8 ? 2 : 0, "gelu behind a product"); // of rounded numbers
    expect_rounded(a, &dx, shape->in % 8 ? 2 : 0, "the gradient through gelu");
    assert_int_equal(cuda_products_with_gelu() - fused,
                     (shape->out % 8 == 0) + (shape->in % 8 == 0));
}

static void test_linear(void **state)
{
    (void)state;
    const struct ops_linear shapes[] = {
        {.rows = 9, .in = 16, .out = 24}, {.rows = 5, .in = 8, .out = 40, .transposed = true},
        {.rows = 7, .in = 12, .out = 8},  {.rows = 3, .in = 16, .out = 17},
        {.rows = 1, .in = 1, .out = 1},
    };
    for (uint64_t i = 0; i < 10; i++) {
        struct arithmetic a = arithmetic_begin(i);
        check_linear(&a, &shapes[i / 2], i % 2);
        arithmetic_end(&a);
    }
}

static void check_norms(struct arithmetic *a, int64_t rows, int64_t width)
{
    int64_t n = rows * width;
    struct float_and_bf16 x = both_random(a, n, 2), gain = both_random(a, width, 1),
                          y = both_new(a, n);
    struct float_and_bf16 bias = both_random(a, width, 1), dy = both_random(a, n, 1),
                          dx = both_new(a, n);
    struct float_and_bf16 more = both_random(a, n, 2), sum = both_new(a, n), found = both_new(a, n);
    float *statistics[2] = {floats_new(a, 2 * rows), floats_new(a, 2 * rows)};
    float *dgain[2] = {floats_new(a, width), floats_new(a, width)};
    float *dbias[2] = {floats_new(a, width), floats_new(a, width)};
    IN_BOTH(k)
    {
        ops_add_layer_norm_forward(rows, width, x.at[k], more.at[k], sum.at[k], gain.at[k],
                                   bias.at[k], y.at[k], statistics[k]);
        ops_layer_norm_forward(rows, width, sum.at[k], gain.at[k], bias.at[k], found.at[k],
                               statistics[k]);
        assert_memory_equal(y.at[k], found.at[k], (size_t)n * (k ? 2 : 4));
        ops_layer_norm_forward(rows, width, x.at[k], gain.at[k], bias.at[k], y.at[k],
                               statistics[k]);
        ops_layer_norm_backward(rows, width, x.at[k], gain.at[k], statistics[k], dy.at[k], dx.at[k],
                                false, dgain[k], dbias[k]);
    }
    expect_rounded(a, &sum, 0, "sum before a norm");
    expect_rounded(a, &y, 0, "layer norm's y");
    expect_rounded(a, &dx, 0, "layer norm's dx");
    expect_near(a, dgain[1], dgain[0], width, "layer norm's dgain");
    expect_near(a, dbias[1], dbias[0], width, "layer norm's dbias");
    IN_BOTH(k)
    {
        ops_rms_norm_forward(rows, width, x.at[k], gain.at[k], y.at[k], statistics[k]);
        ops_rms_norm_backward(rows, width, x.at[k], gain.at[k], statistics[k], dy.at[k], dx.at[k],
                              false, dgain[k]);
    }
    expect_rounded(a, &y, 0, "rms norm's y");
    expect_rounded(a, &dx, 0, "rms norm's dx");
    expect_near(a, dgain[1], dgain[0], width, "rms norm's dgain");
}

static void check_batch_norm(struct arithmetic *a, int64_t rows, int64_t channels)
{
    int64_t n = rows * channels;
    struct float_and_bf16 x = both_random(a, n, 2), gain = both_random(a, channels, 1),
                          y = both_new(a, n);
    struct float_and_bf16 bias = both_random(a, channels, 1), add = both_random(a, n, 1);
    struct float_and_bf16 dy = both_random(a, n, 1), dx = both_new(a, n);
    double *sums = doubles_new(a, 2 * channels);
    float *mean[2] = {floats_new(a, channels), floats_new(a, channels)};
    float *variance[2] = {floats_new(a, channels), floats_new(a, channels)};
    IN_BOTH(k)
    {
        struct ops_batch_norm norm = {rows,    channels,    true,       x.at[k],
                                      mean[k], variance[k], gain.at[k], bias.at[k]};
        ops_batch_norm_sums(rows, channels, x.at[k], sums);
        ops_batch_norm_statistics((double)rows, channels, sums, mean[k], variance[k]);
        ops_batch_norm_gradient_sums(&norm, dy.at[k], sums);
        ops_batch_norm_backward(&norm, (double)rows, sums, dy.at[k], dx.at[k]);
        ops_batch_norm_forward(&norm, add.at[k], y.at[k]);
    }
    expect_near(a, mean[1], mean[0], channels, "mean");
    expect_near(a, variance[1], variance[0], channels, "variance");
    expect_rounded(a, &y, 0, "batch norm's y");
    expect_rounded(a, &dx, 0, "batch norm's dx");
}

static void test_norms(void **state)
{
    (void)state;
    const int64_t widths[] = {8, 70, 264}, wide[] = {520, 2051, 4104};
    for (uint64_t i = 0; i < 3; i++) {
        struct arithmetic a = arithmetic_begin(i);
        check_norms(&a, 37, widths[i]);
        check_norms(&a, 5, wide[i]);
        check_batch_norm(&a, 301, widths[i]);
        arithmetic_end(&a);
    }
}

static void check_losses(struct arithmetic *a, int64_t rows, int64_t classes)
{
    int64_t n = rows * classes;
    struct float_and_bf16 x = both_random(a, n, 5), dx = both_new(a, n);
    float *losses[2] = {floats_new(a, rows), floats_new(a, rows)};
    float *wanted = floats_random(a, n, 5);
    int32_t *targets = integers_random(a, rows, classes), *correct[2];
    for (int k = 0; k < 2; k++)
        correct[k] = integers_random(a, rows, 9);
    IN_BOTH(k)
    ops_cross_entropy(rows, classes, x.at[k], targets, losses[k], correct[k], 0.1f, 1, dx.at[k]);
    expect_rounded(a, &dx, 0, "dlogits");
    expect_near(a, losses[1], losses[0], rows, "cross-entropy");
    assert_memory_equal(correct[1], correct[0], (size_t)rows * sizeof *correct[0]);
    backend_use(1);
    ops_cross_entropy(rows, classes, x.at[1], targets, losses[1], NULL, 0.1f, 1, x.at[1]);
    backend_use(0);
    assert_memory_equal(x.at[1], dx.at[1], (size_t)n * 2); // in place
    x = both_random(a, n, 5);
    IN_BOTH(k)
    ops_mse(rows, classes, x.at[k], wanted, losses[k], 1, dx.at[k]);
    expect_rounded(a, &dx, 0, "dy of mse");
    expect_near(a, losses[1], losses[0], rows, "mse");
}

static void test_losses(void **state)
{
    (void)state;
    const int64_t classes[] = {2, 64, 257,
                               4101}; // the last has more packs than a block has threads
    for (uint64_t i = 0; i < 4; i++) {
        struct arithmetic a = arithmetic_begin(i);
        check_losses(&a, 5, classes[i]);
        arithmetic_end(&a);
    }
}

static void check_attention(struct arithmetic *a, int64_t head, double rate)
{
    struct ops_attention s = {2, 70, 2, 2 * head};
    struct ops_rotary r = {2, 70, 2, 2 * head, 10000};
    int64_t outputs = s.samples * s.context * s.width;
    const int64_t samples[] = {3, 1000000007};
    struct ops_dropout draw = draw_new(a, 99, rate, samples, 2);
    struct float_and_bf16 qkv = both_random(a, 3 * outputs, 1), y = both_new(a, outputs);
    struct float_and_bf16 dy = both_random(a, outputs, 1), dqkv = both_new(a, 3 * outputs);
    float *saved = floats_new(a, ops_attention_saved_floats(&s, rate));
    float *scratch = floats_new(a, ops_attention_scratch_floats(&s));
    float *table = floats_new(a, ops_rotary_table_floats(&r));
    IN_BOTH(k)
    {
        ops_attention_forward(&s, &draw, qkv.at[k], saved, scratch, y.at[k]);
        ops_attention_backward(&s, &draw, qkv.at[k], y.at[k], saved, scratch, dy.at[k], dqkv.at[k]);
    }
    expect_rounded(a, &y, 0, "y of attention");
    expect_rounded(a, &dqkv, 1, "dqkv"); // y was rounded
    ops_rotary_table(&r, table);
    IN_BOTH(k)
    ops_rotary_apply(&r, table, false, qkv.at[k]);
    expect_rounded(a, &qkv, 0, "turned");
}

static void test_sequences(void **state)
{
    (void)state;
    const int64_t heads[] = {16, 80, 160}; // one width for each number of columns per lane
    for (uint64_t i = 0; i < 3; i++) {
        struct arithmetic a = arithmetic_begin(i);
        check_attention(&a, heads[i], i == 1 ? 0.2 : 0);
        arithmetic_end(&a);
    }
}

static void check_pool(struct arithmetic *a, const struct ops_pool_shape *s, int64_t places)
{
    int64_t inputs = s->samples * s->height * s->width * s->channels;
    int64_t outputs = s->samples * places * s->channels, means = s->samples * s->channels;
    struct float_and_bf16 x = both_random(a, inputs, 1), dx = both_new(a, inputs);
    struct float_and_bf16 y = both_new(a, outputs), dy = both_random(a, outputs, 1),
                          mean = both_new(a, means);
    IN_BOTH(k)
    {
        struct ops_pool *p;
        assert_int_equal(ops_pool_new(s, &p, NULL), 0);
        ops_pool_forward(p, x.at[k], y.at[k]);
        ops_pool_backward(p, dy.at[k], dx.at[k]);
        ops_pool_free(p);
    }
    expect_rounded(a, &y, 0, "y of pool");
    expect_rounded(a, &dx, 0, "dx of pool");
    IN_BOTH(k)
    {
        ops_global_pool_forward(s->samples, s->height * s->width, s->channels, x.at[k], mean.at[k]);
        ops_global_pool_backward(s->samples, s->height * s->width, s->channels, dy.at[k], dx.at[k]);
    }
    expect_rounded(a, &mean, 0, "means");
    expect_rounded(a, &dx, 0, "dx of means");
}

static void test_pools(void **state)
{
    (void)state;
    for (uint64_t i = 0; i < 4; i++) {
        struct arithmetic a = arithmetic_begin(i);
        struct ops_pool_shape s = {
            i % 2 ? OPS_POOL_MAX : OPS_POOL_AVERAGE, 2, 7, 7, i < 2 ? 16 : 5, 3, 2, 1};
        check_pool(&a, &s, 16);
        arithmetic_end(&a);
    }
}

// A group whose channels fill several tiles of the kernel that reorders weights, and one that fills
// less than one tile.
static void check_conv(struct arithmetic *a, const struct ops_conv_shape *s, int64_t places)
{
    int64_t inputs = s->samples * s->height * s->width * s->in, outputs = places * s->out;
    int64_t weights = s->kernel * s->kernel * s->in / s->groups * s->out;
    struct float_and_bf16 x = both_random(a, inputs, 1), w = both_random(a, weights, 1);
    struct float_and_bf16 bias = both_random(a, s->out, 1), y = both_new(a, outputs);
    struct float_and_bf16 dy = both_random(a, outputs, 1), dx = both_new(a, inputs);
    float *dw[2] = {floats_new(a, weights), floats_new(a, weights)};
    float *db[2] = {floats_new(a, s->out), floats_new(a, s->out)};
    IN_BOTH(k)
    {
        struct ops_conv *c;
        assert_int_equal(ops_conv_new(s, true, &c, NULL), 0);
        float *scratch = floats_new(a, ops_conv_scratch_floats(c));
        ops_conv_forward(c, x.at[k], w.at[k], bias.at[k], scratch, y.at[k]);
        ops_conv_backward_data(c, w.at[k], dy.at[k], scratch, dx.at[k]);
        ops_conv_backward_weights(c, x.at[k], dy.at[k], scratch, dw[k], db[k]);
        ops_conv_free(c);
    }
    expect_rounded(a, &y, 4, "y of conv"); // it was rounded before the bias was added
    expect_rounded(a, &dx, 0, "dx of conv");
    expect_near(a, db[1], db[0], s->out, "db of conv");
    for (int64_t i = 0; i < weights; i++)
        assert_true(fabsf(dw[1][i] - dw[0][i]) <= 0x1p-8f * fabsf(dw[0][i]) + 1e-5f);
}

static void test_conv(void **state)
{
    (void)state;
    const struct ops_conv_shape shapes[] = {{1, 3, 3, 70, 33, 2, 1, 0, 1, true},
                                            {2, 5, 4, 6, 10, 3, 1, 1, 2, true}};
    const int64_t places[] = {4, 40};
    for (uint64_t i = 0; i < 2; i++) {
        struct arithmetic a = arithmetic_begin(i);
        check_conv(&a, &shapes[i], places[i]);
        arithmetic_end(&a);
    }
}

static void test_dropout(void **state)
{
    (void)state;
    enum { SAMPLES = 3 };
    const int64_t samples[] = {5, 0, 77}, sizes[] = {64, 101};
    for (uint64_t i = 0; i < 2; i++) {
        struct arithmetic a = arithmetic_begin(i);
        int64_t n = SAMPLES * sizes[i];
        struct ops_dropout d = draw_new(&a, 42, 0.3, samples, SAMPLES);
        struct float_and_bf16 x = both_random(&a, n, 1), y = both_new(&a, n), dx = both_new(&a, n);
        uint8_t *keep[2] = {aligned_block(&a, (size_t)n), aligned_block(&a, (size_t)n)};
        IN_BOTH(k)
        {
            ops_dropout_forward(SAMPLES, sizes[i], &d, x.at[k], y.at[k], keep[k]);
            ops_dropout_backward(n, d.rate, keep[k], x.at[k], dx.at[k]);
        }
        assert_memory_equal(keep[1], keep[0], (size_t)n);
        expect_rounded(&a, &y, 0, "y of dropout");
        expect_rounded(&a, &dx, 0, "dx of dropout");
        arithmetic_end(&a);
    }
}

// Float sums of a token's rows, chunk by chunk, are close to the sums in double; a repetition gives
// the same bits.
static void check_embedding(struct arithmetic *a, int64_t rows, int64_t width, int64_t words)
{
    int64_t n = words * width;
    struct float_and_bf16 table = both_random(a, n, 1), y = both_new(a, rows * width);
    struct float_and_bf16 dy = both_random(a, rows * width, 1);
    float *found[2] = {floats_new(a, n), floats_new(a, n)}, *again = floats_new(a, n);
    int32_t *tokens = integers_random(a, rows, words);
    double *expected = doubles_new(a, n);
    memset(expected, 0, (size_t)n * sizeof *expected);
    for (int64_t i = 0; i < rows * width; i++)
        expected[tokens[i / width] * width + i % width] += (double)dy.at[0][i];
    IN_BOTH(k)
    {
        ops_embedding_forward(rows, width, tokens, table.at[k], y.at[k]);
        ops_embedding_backward(rows, width, words, tokens, dy.at[k], found[k], false);
    }
    expect_rounded(a, &y, 0, "rows of the table");
    expect_close(found[0], expected, n, 2e-5, "dtable");
    expect_same_bits(found[1], found[0], n, "dtable in bf16");
    ops_embedding_backward(rows, width, words, tokens, dy.at[0], again, false);
    expect_same_bits(again, found[0], n, "dtable again");
}

static void test_embedding(void **state)
{
    (void)state;
    const int64_t shapes[][3] = {{5000, 3, 2},  {3000, 8, 1},  {64, 4, 3},
                                 {129, 5, 300}, {2500, 4, 70}, {1500, 1, 70000}};
    for (uint64_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        struct arithmetic a = arithmetic_begin(i);
        check_embedding(&a, shapes[i][0], shapes[i][1], shapes[i][2]);
        arithmetic_end(&a);
    }
}

// All rows of a token are added to the table as one sum; added singly each 1 would be lost to 1e8.
static void test_a_token_is_written_once(void **state)
{
    (void)state;
    enum { ROWS = 9000, WIDTH = 4 };
    const int64_t words[] = {3, 600, 1 << 9};
    for (uint64_t k = 0; k < 3; k++) {
        struct arithmetic a = arithmetic_begin(k);
        int32_t *tokens = integers_random(&a, ROWS, words[k]),
                *counts = integers_random(&a, 600, 1);
        float *ones = floats_new(&a, ROWS * WIDTH), *table = floats_new(&a, 600 * WIDTH);
        for (int i = 0; i < ROWS * WIDTH; i++)
            ones[i] = 1;
        for (int i = 0; i < 600 * WIDTH; i++)
            table[i] = 1e8f;
        for (int i = 0; i < ROWS; i++)
            counts[tokens[i]]++;
        ops_embedding_backward(ROWS, WIDTH, words[k], tokens, ones, table, true);
        for (int64_t i = 0; i < 600 * WIDTH; i++)
            assert_true(table[i] == 1e8f + (float)counts[i / WIDTH]);
        arithmetic_end(&a);
    }
}

void cuda_columns_sum(int64_t rows, int64_t width, const real *x, float *sums); // from emulate.cc

static void test_sums_of_columns(void **state)
{
    (void)state;
    const int64_t shapes[][2] = {{1, 1}, {7, 300}, {600, 8}, {1023, 70}, {5000, 5}};
    for (uint64_t i = 0; i < 5; i++) {
        struct arithmetic a = arithmetic_begin(i);
        int64_t rows = shapes[i][0], width = shapes[i][1];
        struct float_and_bf16 x = both_random(&a, rows * width, 1);
        float *found = floats_new(&a, width);
        double *expected = doubles_new(&a, width);
        memset(expected, 0, (size_t)width * sizeof *expected);
        for (int64_t k = 0; k < rows * width; k++)
            expected[k % width] += (double)x.at[0][k];
        IN_BOTH(k)
        {
            cuda_columns_sum(rows, width, x.at[k], found);
            expect_close(found, expected, width, 2e-5, "sums of columns");
        }
        arithmetic_end(&a);
    }
}

// One number further, no address is a multiple of 16 bytes.
static void test_odd_addresses(void **state)
{
    (void)state;
    enum { ROWS = 9, WIDTH = 64, N = ROWS * WIDTH };
    struct arithmetic a = arithmetic_begin(4);
    float *x = floats_random(&a, N + 1, 2), *y = floats_new(&a, N), *odd = floats_new(&a, N + 1);
    float *gain = floats_random(&a, WIDTH, 1), statistics[2 * ROWS];
    double *wanted = doubles_new(&a, N);
    ops_gelu_forward(N, x, y);
    ops_gelu_forward(N, x, odd + 1);
    expect_same_bits(odd + 1, y, N, "gelu");
    ops_layer_norm_forward(ROWS, WIDTH, x, gain, NULL, y, statistics);
    ops_layer_norm_forward(ROWS, WIDTH, x, gain, NULL, odd + 1, statistics);
    for (int i = 0; i < N; i++)
        wanted[i] = (double)y[i];
    expect_close(odd + 1, wanted, N, 1e-6, "layer norm");
    arithmetic_end(&a);
}

static void test_sums_of_squares(void **state)
{
    (void)state;
    struct arithmetic a = arithmetic_begin(6);
    const struct ops_unit units[] = {{0, 1, 0}, {1, 255, 0}, {256, 4096, 1}, {4352, 257, 1}};
    float *p = floats_random(&a, 4609, 3), *g = floats_random(&a, 4609, 3);
    double weights[4], gradients[4];
    struct ops_units *u;
    assert_int_equal(ops_units_new(units, 4, 2, &u, NULL), 0);
    ops_units_measure(u, &(struct ops_blocks){.p = p, .g = g},
                      &(struct ops_squares){gradients, weights, NULL});
    assert_int_equal(ops_synchronize(NULL), 0);
    for (int i = 0; i < 4; i++) {
        double of_p = 0, of_g = 0;
        for (size_t k = units[i].at; k < units[i].at + units[i].count; k++) {
            of_p += (double)p[k] * (double)p[k];
            of_g += (double)g[k] * (double)g[k];
        }
        assert_true(fabs(weights[i] / of_p - 1) < 1e-13 && fabs(gradients[i] / of_g - 1) < 1e-13);
    }
    ops_units_free(u);
    arithmetic_end(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rounding),
        cmocka_unit_test(test_reals),
        cmocka_unit_test(test_conv),
        cmocka_unit_test(test_elements),
        cmocka_unit_test(test_linear),
        cmocka_unit_test(test_norms),
        cmocka_unit_test(test_losses),
        cmocka_unit_test(test_sequences),
        cmocka_unit_test(test_pools),
        cmocka_unit_test(test_dropout),
        cmocka_unit_test(test_embedding),
        cmocka_unit_test(test_a_token_is_written_once),
        cmocka_unit_test(test_sums_of_columns),
        cmocka_unit_test(test_odd_addresses),
        cmocka_unit_test(test_sums_of_squares),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
