// Processes one head of one sample at a time, so that its matrices stay in the second-level cache.
// Queries are processed in blocks of BLOCK rows, each with the keys up to its own end only. This
// saves the half of the work that the causal mask would discard.
#include <math.h>
#include <string.h>

#include "trainer/ops/cpu/gemm.h"
#include "trainer/ops/loops.h"
#include "trainer/ops/sequence.h"

enum { BLOCK = 32 };

// One head. Query, key, value, output and their gradients are columns of wider matrices.
struct cpu_attention_head {
    int64_t context, width; // width of this head
    int64_t ld, ld_out;     // leading dimensions of qkv and y, in floats
    const float *query, *key, *value;
    float scale;
};

static struct cpu_attention_head head_of(const struct ops_attention *s, const float *qkv,
                                         int64_t sample, int64_t index)
{
    int64_t width = s->width / s->heads;
    const float *query = qkv + sample * s->context * 3 * s->width + index * width;
    return (struct cpu_attention_head){s->context,
                                       width,
                                       3 * s->width,
                                       s->width,
                                       query,
                                       query + s->width,
                                       query + 2 * s->width,
                                       1.0f / sqrtf((float)width)};
}

static int64_t smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

// Row i contains the scores of keys 0..columns-1; keys 0..i count, the others become 0.
LOOPS_CLONED static void causal_softmax(int64_t first, int64_t rows, int64_t columns, int64_t ld,
                                        float *scores)
{
    for (int64_t r = 0; r < rows; r++) {
        float *p = scores + r * ld, largest = p[0], sum = 0;
        int32_t last = (int32_t)(first + r);
        // Processes whole vectors, so that short rows have no scalar tail.
        int32_t n = (int32_t)smaller(columns, (last + 16) / 16 * 16);
#pragma omp simd reduction(max : largest)
        for (int32_t i = 0; i < n; i++) {
            float seen = i <= last ? p[i] : largest;
            largest = seen > largest ? seen : largest;
        }
#pragma omp simd reduction(+ : sum)
        for (int32_t i = 0; i < n; i++) {
            float e = loops_exp(p[i] - largest);
            p[i] = i <= last ? e : 0.0f;
            sum += p[i];
        }
        float factor = 1.0f / sum;
#pragma omp simd
        for (int32_t i = 0; i < n; i++)
            p[i] *= factor;
        memset(p + n, 0, (size_t)(columns - n) * sizeof *p);
    }
}

// ds = p * (dp - sum of p dp) for each row, in place of dp.
LOOPS_CLONED static void softmax_backward(int64_t rows, int64_t columns, int64_t ld, const float *p,
                                          float *dp)
{
    for (int64_t r = 0; r < rows; r++, p += ld, dp += ld) {
        float sum = 0;
#pragma omp simd reduction(+ : sum)
        for (int64_t i = 0; i < columns; i++)
            sum += p[i] * dp[i];
#pragma omp simd
        for (int64_t i = 0; i < columns; i++)
            dp[i] = p[i] * (dp[i] - sum);
    }
}

static int64_t matrices_floats(const struct ops_attention *s)
{
    return s->samples * s->heads * s->context * s->context;
}

// The probabilities, followed by the dropout mask (bytes).
int64_t ops_attention_saved_floats(const struct ops_attention *s, double rate)
{
    return matrices_floats(s) + (rate > 0 ? (matrices_floats(s) + 3) / 4 : 0);
}

int64_t ops_attention_scratch_floats(const struct ops_attention *s)
{
    return 2 * s->context * s->context; // probabilities after dropout; gradient of the scores
}

int64_t ops_attention_samples(const struct ops_attention *s)
{
    (void)s;
    return INT64_MAX;
}

static void head_forward(const struct cpu_attention_head *h, double rate, const uint8_t *keep,
                         float *p, float *dropped, float *y)
{
    int64_t t = h->context;
    for (int64_t row = 0; row < t; row += BLOCK) {
        int64_t rows = smaller(BLOCK, t - row), columns = row + rows;
        float *scores = p + row * t;
        const float *weights = scores;
        gemm('N', 'T', rows, columns, h->width, h->scale, h->query + row * h->ld, h->ld, h->key,
             h->ld, 0.0f, scores, t);
        causal_softmax(row, rows, columns, t, scores);
        if (rate > 0) {
            for (int64_t r = 0; r < rows; r++)
                ops_dropout_backward(columns, rate, keep + (row + r) * t, scores + r * t,
                                     dropped + r * t);
            weights = dropped;
        }
        gemm('N', 'N', rows, h->width, columns, 1.0f, weights, t, h->value, h->ld, 0.0f,
             y + row * h->ld_out, h->ld_out);
    }
}

// `weights` are the probabilities after dropout; `ds` is scratch for the gradient of the scores.
static void head_backward(const struct cpu_attention_head *h, double rate, const uint8_t *keep,
                          const float *p, const float *weights, float *ds, const float *dy,
                          float *dquery)
{
    int64_t t = h->context;
    float *dkey = dquery + (h->key - h->query), *dvalue = dquery + (h->value - h->query);
    for (int64_t row = 0; row < t; row += BLOCK) {
        int64_t rows = smaller(BLOCK, t - row), columns = row + rows;
        float *d = ds + row * t;
        gemm('N', 'T', rows, columns, h->width, 1.0f, dy + row * h->ld_out, h->ld_out, h->value,
             h->ld, 0.0f, d, t);
        if (rate > 0)
            for (int64_t r = 0; r < rows; r++)
                ops_dropout_backward(columns, rate, keep + (row + r) * t, d + r * t, d + r * t);
        softmax_backward(rows, columns, t, p + row * t, d);
        gemm('N', 'N', rows, h->width, columns, h->scale, d, t, h->key, h->ld, 0.0f,
             dquery + row * h->ld, h->ld);
    }
    for (int64_t column = 0; column < t; column += BLOCK) {
        int64_t columns = smaller(BLOCK, t - column), rows = t - column;
        int64_t corner = column * t + column; // queries before this block do not see its keys
        gemm('T', 'N', columns, h->width, rows, h->scale, ds + corner, t, h->query + column * h->ld,
             h->ld, 0.0f, dkey + column * h->ld, h->ld);
        gemm('T', 'N', columns, h->width, rows, 1.0f, weights + corner, t, dy + column * h->ld_out,
             h->ld_out, 0.0f, dvalue + column * h->ld, h->ld);
    }
}

void ops_attention_forward(const struct ops_attention *s, const struct ops_dropout *draw,
                           const float *qkv, float *saved, float *scratch, float *y)
{
    int64_t matrix = s->context * s->context, one = s->heads * matrix;
    uint8_t *keep = (uint8_t *)(saved + matrices_floats(s));
    for (int64_t sample = 0; sample < s->samples; sample++) {
        if (draw->rate > 0)
            ops_dropout_mask(draw, sample, 0, one, keep + sample * one);
        for (int64_t i = 0; i < s->heads; i++) {
            struct cpu_attention_head h = head_of(s, qkv, sample, i);
            int64_t at = sample * one + i * matrix;
            head_forward(&h, draw->rate, keep + at, saved + at, scratch,
                         y + sample * s->context * s->width + i * h.width);
        }
    }
}

void ops_attention_backward(const struct ops_attention *s, const struct ops_dropout *draw,
                            const float *qkv, const float *y, const float *saved, float *scratch,
                            const float *dy, float *dqkv)
{
    int64_t matrix = s->context * s->context, one = s->heads * matrix;
    const uint8_t *keep = (const uint8_t *)(saved + matrices_floats(s));
    double rate = draw->rate;
    (void)y;
    for (int64_t sample = 0; sample < s->samples; sample++) {
        for (int64_t i = 0; i < s->heads; i++) {
            struct cpu_attention_head h = head_of(s, qkv, sample, i);
            int64_t at = sample * one + i * matrix;
            const float *weights = saved + at;
            if (rate > 0) {
                ops_dropout_backward(matrix, rate, keep + at, weights, scratch);
                weights = scratch;
            }
            head_backward(&h, rate, keep + at, saved + at, weights, scratch + matrix,
                          dy + sample * s->context * s->width + i * h.width,
                          dqkv + (h.query - qkv));
        }
    }
}
