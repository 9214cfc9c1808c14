// Embedding, positions, rotary positions, causal attention and dropout compared with double
// precision.
#include "tests/unit/trainer/arithmetic.h"
#include "trainer/ops/sequence.h"

struct sequence {
    struct ops_attention attention;
    int64_t vocabulary;
    const int32_t *tokens;
    double rate;
    const uint8_t *keep; // attention: NULL without dropout
};

static void reference_embedding(const void *shape, double *const *in, double *y)
{
    const struct sequence *s = shape;
    int64_t context = s->attention.context, width = s->attention.width;
    for (int64_t row = 0; row < s->attention.samples * context; row++)
        for (int64_t i = 0; i < width; i++)
            y[row * width + i] =
                in[0][s->tokens[row] * width + i] + in[1][row % context * width + i];
}

static void check_embedding(struct arithmetic *a, const struct sequence *s)
{
    int64_t samples = s->attention.samples, context = s->attention.context;
    int64_t width = s->attention.width, rows = samples * context;
    int64_t words = s->vocabulary * width, places = context * width;
    float *table = floats_random(a, words, 1), *positions = floats_random(a, places, 1);
    float *y = floats_new(a, rows * width), *dy = floats_random(a, rows * width, 1);
    float *dtable = floats_new(a, words), *dpositions = floats_new(a, places);
    double *in[] = {doubles_of(a, table, words), doubles_of(a, positions, places)};
    double *expected = doubles_new(a, rows * width);
    struct reference r = {reference_embedding, s, in, rows * width};
    reference_embedding(s, in, expected);

    ops_embedding_forward(rows, width, s->tokens, table, y);
    ops_position_forward(samples, context, width, y, positions, y);
    expect_close(y, expected, rows * width, 1e-6, "y");
    ops_embedding_backward(rows, width, s->vocabulary, s->tokens, dy, dtable, false);
    ops_position_backward(samples, context, width, dy, dpositions);
    expect_gradient(a, &r, 0, words, dy, dtable, 1e-5, "dtable");
    expect_gradient(a, &r, 1, places, dy, dpositions, 1e-5, "dpositions");

    double *twice = doubles_of(a, dtable, words);
    for (int64_t i = 0; i < words; i++)
        twice[i] *= 2;
    ops_embedding_backward(rows, width, s->vocabulary, s->tokens, dy, dtable, true);
    expect_close(dtable, twice, words, 1e-5, "dtable added");
}

static void test_embedding(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 10; seed++) {
        struct arithmetic a = arithmetic_begin(seed);
        struct sequence s = {{between(&a, 1, 4), between(&a, 1, 9), 1, between(&a, 1, 40)},
                             between(&a, 2, 12),
                             NULL,
                             0,
                             NULL};
        s.tokens = integers_random(&a, s.attention.samples * s.attention.context, s.vocabulary);
        check_embedding(&a, &s);
        arithmetic_end(&a);
    }
}

// --- attention -----------------------------------------------------------------------------------

// One query of one head: writes the weights of keys 0..i to p.
static void reference_weights(const struct ops_attention *s, const double *qkv, int64_t head,
                              int64_t i, double *p)
{
    int64_t width = s->width / s->heads;
    double sum = 0;
    for (int64_t j = 0; j <= i; j++) {
        double score = 0;
        for (int64_t k = 0; k < width; k++)
            score += qkv[i * 3 * s->width + head * width + k] *
                     qkv[j * 3 * s->width + s->width + head * width + k];
        sum += p[j] = exp(score / sqrt((double)width));
    }
    for (int64_t j = 0; j <= i; j++)
        p[j] /= sum;
}

static void reference_attention(const void *shape, double *const *in, double *y)
{
    const struct sequence *q = shape;
    const struct ops_attention *s = &q->attention;
    int64_t width = s->width / s->heads, t = s->context;
    double p[256];
    must(t <= 256);
    memset(y, 0, (size_t)(s->samples * t * s->width) * sizeof *y);
    for (int64_t row = 0; row < s->samples * s->heads * t; row++) {
        int64_t i = row % t, head = row / t % s->heads, sample = row / t / s->heads;
        const double *qkv = in[0] + sample * t * 3 * s->width;
        double *out = y + (sample * t + i) * s->width + head * width;
        reference_weights(s, qkv, head, i, p);
        for (int64_t j = 0; j <= i; j++) {
            double weight = p[j];
            if (q->keep)
                weight = q->keep[row * t + j] ? weight / (1 - q->rate) : 0;
            for (int64_t k = 0; k < width; k++)
                out[k] += weight * qkv[j * 3 * s->width + 2 * s->width + head * width + k];
        }
    }
}

static void check_attention(struct arithmetic *a, struct sequence *s)
{
    const struct ops_attention *n = &s->attention;
    int64_t outputs = n->samples * n->context * n->width, inputs = 3 * outputs;
    const int64_t matrices = n->samples * n->heads * n->context * n->context;
    const int64_t samples[] = {41, 7, 1000000007};
    struct ops_dropout draw = draw_new(a, 99, s->rate, samples, 3);
    float *qkv = floats_random(a, inputs, 1.5), *y = floats_new(a, outputs);
    float *saved = floats_new(a, ops_attention_saved_floats(n, s->rate)),
          *scratch = floats_new(a, ops_attention_scratch_floats(n));
    uint8_t *keep = aligned_block(a, (size_t)matrices);
    float *dy = floats_random(a, outputs, 1), *dqkv = floats_new(a, inputs);
    double *in[] = {doubles_of(a, qkv, inputs)}, *expected = doubles_new(a, outputs);
    struct reference r = {reference_attention, s, in, outputs};

    ops_attention_forward(n, &draw, qkv, saved, scratch, y);
    for (int64_t i = 0, one = matrices / n->samples; i < n->samples; i++)
        ops_dropout_mask(&draw, i, 0, one, keep + i * one);
    s->keep = s->rate > 0 ? keep : NULL;
    reference_attention(s, in, expected);
    expect_close(y, expected, outputs, 1e-5, "y");
    ops_attention_backward(n, &draw, qkv, y, saved, scratch, dy, dqkv);
    expect_gradient(a, &r, 0, inputs, dy, dqkv, 1e-4, "dqkv");
}

static void test_attention(void **state)
{
    (void)state;
    ops_init_thread();
    for (uint64_t seed = 1; seed <= 16; seed++) {
        struct arithmetic a = arithmetic_begin(seed);
        int64_t heads = between(&a, 1, 3);
        struct sequence s = {
            {between(&a, 1, 3), between(&a, 1, 30), heads, heads * between(&a, 1, 9)},
            0,
            NULL,
            seed % 2 ? 0 : 0.3,
            NULL};
        check_attention(&a, &s);
        arithmetic_end(&a);
    }
}

// Contexts longer than a block of queries, whole and partial.
static void test_attention_in_blocks(void **state)
{
    (void)state;
    ops_init_thread();
    const int64_t contexts[] = {64, 65, 130};
    for (int i = 0; i < 3; i++) {
        struct arithmetic a = arithmetic_begin(70 + (uint64_t)i);
        struct sequence s = {{1, contexts[i], 2, 6}, 0, NULL, i == 1 ? 0.2 : 0, NULL};
        check_attention(&a, &s);
        arithmetic_end(&a);
    }
}

// --- dropout -------------------------------------------------------------------------------------

static void test_draws(void **state)
{
    (void)state;
    const int64_t samples[] = {5, 6};
    enum { N = 40000 };
    struct arithmetic a = arithmetic_begin(1);
    struct ops_dropout d = draw_new(&a, ops_dropout_key(1, 2, 3), 0.25, samples, 2);
    uint8_t *all = aligned_block(&a, N), *part = aligned_block(&a, N);
    uint8_t *other = aligned_block(&a, N);
    ops_dropout_mask(&d, 0, 0, N, all);
    double kept = 0;
    for (int i = 0; i < N; i++)
        kept += all[i];
    assert_true(fabs(kept / N - 0.75) < 0.01);
    ops_dropout_mask(&d, 0, 13, 100, part); // a part of the mask equals that part of the whole
    assert_memory_equal(part, all + 13, 100);
    const int64_t moved[] = {6, 5};
    struct ops_dropout e = draw_new(&a, *d.key, 0.25, moved, 2);
    ops_dropout_mask(&e, 1, 0, N, other); // sample 5 as the second of its micro-batch
    assert_memory_equal(other, all, N);
    ops_dropout_mask(&d, 1, 0, N, other);
    assert_memory_not_equal(other, all, N);
    assert_true(ops_dropout_key(1, 2, 3) != ops_dropout_key(1, 3, 2));
    assert_true(ops_dropout_key(1, 2, 3) != ops_dropout_key(2, 2, 3));
    d.rate = 0;
    ops_dropout_mask(&d, 0, 0, N, all);
    for (int i = 0; i < N; i++)
        assert_int_equal(all[i], 1);
    arithmetic_end(&a);
}

static void test_dropout(void **state)
{
    (void)state;
    struct arithmetic a = arithmetic_begin(8);
    enum { SAMPLES = 3, SIZE = 101, N = SAMPLES * SIZE };
    const int64_t samples[] = {0, 17, 3};
    struct ops_dropout d = draw_new(&a, 77, 0.5, samples, SAMPLES);
    float *x = floats_random(&a, N, 1), *y = floats_new(&a, N), *dx = floats_new(&a, N);
    uint8_t *keep = aligned_block(&a, N), *wanted = aligned_block(&a, SIZE);
    ops_dropout_forward(SAMPLES, SIZE, &d, x, y, keep);
    ops_dropout_backward(N, d.rate, keep, x, dx);
    expect_same_bits(dx, y, N, "dx of dy = x");
    for (int i = 0; i < N; i++) {
        if (i % SIZE == 0)
            ops_dropout_mask(&d, i / SIZE, 0, SIZE, wanted);
        assert_true(y[i] == (wanted[i % SIZE] ? 2 * x[i] : 0));
    }
    arithmetic_end(&a);
}

static void reference_rotary(const void *shape, double *const *in, double *y)
{
    const struct ops_rotary *s = shape;
    int64_t head = s->width / s->heads;
    for (int64_t i = 0; i < s->samples * s->context * 3 * s->width; i++) {
        int64_t t = i / (3 * s->width) % s->context, at = i % (3 * s->width), k = at % head;
        y[i] = in[0][i];
        if (at >= 2 * s->width)
            continue; // values are not rotated
        bool second = k >= head / 2;
        double angle = (double)t * pow(s->base, -2.0 * (double)(k % (head / 2)) / (double)head);
        double other = in[0][second ? i - head / 2 : i + head / 2];
        y[i] = in[0][i] * cos(angle) + (second ? other : -other) * sin(angle);
    }
}

static void check_rotary(struct arithmetic *a, const struct ops_rotary *s)
{
    int64_t n = s->samples * s->context * 3 * s->width;
    float *qkv = floats_random(a, n, 1), *table = floats_new(a, ops_rotary_table_floats(s));
    float *dy = floats_random(a, n, 1), *dx = floats_new(a, n);
    double *in[] = {doubles_of(a, qkv, n)}, *expected = doubles_new(a, n);
    struct reference r = {reference_rotary, s, in, n};
    reference_rotary(s, in, expected);
    ops_rotary_table(s, table);
    ops_rotary_apply(s, table, false, qkv);
    expect_close(qkv, expected, n, 1e-6, "y");
    memcpy(dx, dy, (size_t)n * sizeof *dx);
    ops_rotary_apply(s, table, true, dx);
    expect_gradient(a, &r, 0, n, dy, dx, 1e-5, "dx");
    ops_rotary_apply(s, table, true, qkv);
    expect_close(qkv, in[0], n, 1e-6, "turned back");
}

static void test_rotary(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 16; seed++) {
        struct arithmetic a = arithmetic_begin(seed);
        struct ops_rotary s = {.samples = between(&a, 1, 3),
                               .context = between(&a, 1, 70),
                               .heads = between(&a, 1, 4),
                               .base = seed % 2 ? 10000 : 500};
        s.width = s.heads * 2 * between(&a, 1, 20);
        check_rotary(&a, &s);
        arithmetic_end(&a);
    }
}

// The purpose of rotary positions: the score of a query and a key depends on their distance, not on
// where they are.
static void test_rotary_is_relative(void **state)
{
    (void)state;
    struct arithmetic a = arithmetic_begin(2);
    struct ops_rotary s = {.samples = 1, .context = 90, .heads = 1, .width = 32, .base = 10000};
    float *one = floats_random(&a, 96, 1), *qkv = floats_new(&a, 90 * 96);
    float *table = floats_new(&a, ops_rotary_table_floats(&s));
    for (int t = 0; t < 90; t++)
        memcpy(qkv + t * 96, one, 96 * sizeof *one);
    ops_rotary_table(&s, table);
    ops_rotary_apply(&s, table, false, qkv);
    double expected = 0;
    for (int first = 0; first + 7 < 90; first++) {
        double score = 0;
        for (int i = 0; i < 32; i++)
            score += (double)qkv[(first + 7) * 96 + i] * (double)qkv[first * 96 + 32 + i];
        expected = first == 0 ? score : expected;
        assert_true(fabs(score - expected) < 1e-5);
    }
    arithmetic_end(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_embedding),
        cmocka_unit_test(test_rotary),
        cmocka_unit_test(test_rotary_is_relative),
        cmocka_unit_test(test_attention),
        cmocka_unit_test(test_attention_in_blocks),
        cmocka_unit_test(test_draws),
        cmocka_unit_test(test_dropout),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
