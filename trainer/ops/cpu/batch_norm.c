// Batch normalisation is bound by memory, so each pass streams through the rows once. Rows are
// short (16 channels are one vector): a tile contains as many rows as fit, with the coefficients of
// its channels repeated, and a loop processes four tiles for each coefficient that it loads. Rows
// longer than a tile are cut into strips of channels.
#include <math.h>
#include <string.h>

#include "trainer/ops/loops.h"
#include "trainer/ops/norm.h"

enum {
    TILE = 256, // floats
    RUN = 4,    // tiles that are processed together
    BLOCK = 64, // tiles that are summed in float before the sum is added in double
};

static const float epsilon = 1e-5f;

struct batch_norm_strip {
    int64_t first, channels; // of each row
    int64_t rows;            // per tile
    int64_t width;           // floats in a tile: rows * channels
    int64_t step;            // distance of tiles
    int64_t end;             // floats from the start of the tensor to its end
};

LOOPS_INLINE struct batch_norm_strip strip_at(int64_t rows, int64_t channels, int64_t first)
{
    int64_t left = channels - first;
    struct batch_norm_strip s = {.first = first,
                                 .channels = left < TILE ? left : TILE,
                                 .rows = channels < TILE ? TILE / channels : 1,
                                 .end = rows * channels};
    s.width = s.rows * s.channels;
    s.step = s.rows * channels;
    return s;
}

// Returns whether RUN whole tiles lie between `at`, the start of a tile, and `end`.
LOOPS_INLINE bool run_at(const struct batch_norm_strip *s, int64_t at, int64_t end)
{
    return at + (RUN - 1) * s->step + s->width <= end;
}

// Floats of the tile at `at`; the last tile may have fewer rows.
LOOPS_INLINE int64_t width_at(const struct batch_norm_strip *s, int64_t at)
{
    return s->end - at < s->width ? s->end - at : s->width;
}

LOOPS_INLINE void repeat_channels(const struct batch_norm_strip *s, float *tile)
{
    for (int64_t r = 1; r < s->rows; r++)
        memcpy(tile + r * s->channels, tile, (size_t)s->channels * sizeof *tile);
}

// --- sums of x -----------------------------------------------------------------------------------

struct batch_norm_partial {
    _Alignas(64) float pivot[TILE];
    float first[TILE], second[TILE];
};

LOOPS_INLINE void add_tiles(int64_t width, int tiles, int64_t step, const float *x,
                            struct batch_norm_partial *p)
{
#pragma omp simd
    for (int64_t i = 0; i < width; i++) {
        float first = 0, second = 0;
#pragma GCC unroll 4
        for (int k = 0; k < tiles; k++) {
            float d = x[k * step + i] - p->pivot[i];
            first += d;
            second += d * d;
        }
        p->first[i] += first;
        p->second[i] += second;
    }
}

// Float sums are relative to the block's first row (the pivot), so that the terms are small.
LOOPS_INLINE void sum_block(const struct batch_norm_strip *s, const float *x, int64_t at,
                            int64_t end, struct batch_norm_partial *p)
{
    memset(p->first, 0, sizeof p->first);
    memset(p->second, 0, sizeof p->second);
    memcpy(p->pivot, x + at, (size_t)s->channels * sizeof *x);
    repeat_channels(s, p->pivot);
    for (; run_at(s, at, end); at += RUN * s->step)
        add_tiles(s->width, RUN, s->step, x + at, p);
    for (; at < end; at += s->step)
        add_tiles(width_at(s, at), 1, 0, x + at, p);
}

// Adds the sums in double, converted from the pivot to zero.
LOOPS_INLINE void add_block(const struct batch_norm_strip *s, int64_t rows,
                            const struct batch_norm_partial *p, double *first, double *second)
{
    for (int64_t c = 0; c < s->channels; c++) {
        double pivot = (double)p->pivot[c], sum = 0, squares = 0;
        for (int64_t i = c; i < s->width; i += s->channels) {
            sum += (double)p->first[i];
            squares += (double)p->second[i];
        }
        first[c] += sum + (double)rows * pivot;
        second[c] += squares + pivot * (2 * sum + (double)rows * pivot);
    }
}

LOOPS_CLONED void ops_batch_norm_sums(int64_t rows, int64_t channels, const float *x, double *sums)
{
    struct batch_norm_partial p;
    memset(sums, 0, 2 * (size_t)channels * sizeof *sums);
    for (int64_t first = 0; first < channels; first += TILE) {
        struct batch_norm_strip s = strip_at(rows, channels, first);
        for (int64_t at = 0; at < s.end; at += BLOCK * s.step) {
            int64_t end = s.end - at < BLOCK * s.step ? s.end : at + BLOCK * s.step;
            sum_block(&s, x + first, at, end, &p);
            add_block(&s, (end - at) / channels, &p, sums + first, sums + channels + first);
        }
    }
}

void ops_batch_norm_statistics(double count, int64_t channels, const double *sums, float *mean,
                               float *variance)
{
    for (int64_t c = 0; c < channels; c++) {
        double m = sums[c] / count, v = sums[channels + c] / count - m * m;
        mean[c] = (float)m;
        variance[c] = v < 0 ? 0.0f : (float)v; // negative by rounding only; NaN stays NaN
    }
}

// --- forward -------------------------------------------------------------------------------------

struct batch_norm_coefficients {
    _Alignas(64) float mean[TILE];
    float scale[TILE], bias[TILE];  // y = (x - mean) scale + bias
    float share[TILE], slope[TILE]; // dx = scale (dy - share - (x - mean) slope)
};

static float inverse_deviation(float variance)
{
    return 1.0f / sqrtf(variance + epsilon);
}

LOOPS_INLINE void load_coefficients(const struct ops_batch_norm *n,
                                    const struct batch_norm_strip *s,
                                    struct batch_norm_coefficients *c)
{
    for (int64_t i = 0; i < s->channels; i++) {
        int64_t channel = s->first + i;
        c->mean[i] = n->mean[channel];
        c->scale[i] = n->gain[channel] * inverse_deviation(n->variance[channel]);
        c->bias[i] = n->bias[channel];
    }
    repeat_channels(s, c->mean);
    repeat_channels(s, c->scale);
    repeat_channels(s, c->bias);
}

LOOPS_INLINE void normalise_tiles(int64_t width, int tiles, int64_t step, const float *x,
                                  const struct batch_norm_coefficients *c, const float *add,
                                  bool relu, float *y)
{
#pragma omp simd
    for (int64_t i = 0; i < width; i++) {
#pragma GCC unroll 4
        for (int k = 0; k < tiles; k++) {
            float v = (x[k * step + i] - c->mean[i]) * c->scale[i] + c->bias[i];
            if (add)
                v += add[k * step + i];
            y[k * step + i] = relu && v < 0.0f ? 0.0f : v; // NaN stays NaN
        }
    }
}

LOOPS_INLINE void normalise(const struct ops_batch_norm *n, const float *add, bool relu, float *y)
{
    struct batch_norm_coefficients c;
    for (int64_t first = 0; first < n->channels; first += TILE) {
        struct batch_norm_strip s = strip_at(n->rows, n->channels, first);
        load_coefficients(n, &s, &c);
        int64_t at = 0;
        for (; run_at(&s, at, s.end); at += RUN * s.step)
            normalise_tiles(s.width, RUN, s.step, n->x + first + at, &c,
                            add ? add + first + at : NULL, relu, y + first + at);
        for (; at < s.end; at += s.step)
            normalise_tiles(width_at(&s, at), 1, 0, n->x + first + at, &c,
                            add ? add + first + at : NULL, relu, y + first + at);
    }
}

LOOPS_CLONED void ops_batch_norm_forward(const struct ops_batch_norm *n, const float *add, float *y)
{
    if (add && n->relu)
        normalise(n, add, true, y);
    else if (add)
        normalise(n, add, false, y);
    else if (n->relu)
        normalise(n, NULL, true, y);
    else
        normalise(n, NULL, false, y);
}

// --- backward ------------------------------------------------------------------------------------

// dy where relu passed x. It recomputes y with the arithmetic of the forward pass.
LOOPS_INLINE float gradient_through_relu(float d, const struct batch_norm_coefficients *c,
                                         int64_t i, bool relu, float dy)
{
    return !relu || d * c->scale[i] + c->bias[i] > 0.0f ? dy : 0.0f;
}

LOOPS_INLINE void add_gradient_tiles(int64_t width, int tiles, int64_t step, const float *x,
                                     const struct batch_norm_coefficients *c, bool relu,
                                     const float *dy, struct batch_norm_partial *p)
{
#pragma omp simd
    for (int64_t i = 0; i < width; i++) {
        float first = 0, second = 0;
#pragma GCC unroll 4
        for (int k = 0; k < tiles; k++) {
            float d = x[k * step + i] - c->mean[i];
            float g = gradient_through_relu(d, c, i, relu, dy[k * step + i]);
            first += g;
            second += g * d;
        }
        p->first[i] += first;
        p->second[i] += second;
    }
}

LOOPS_INLINE void add_gradient_block(const struct batch_norm_strip *s,
                                     const struct batch_norm_partial *p, double *first,
                                     double *second)
{
    for (int64_t c = 0; c < s->channels; c++)
        for (int64_t i = c; i < s->width; i += s->channels) {
            first[c] += (double)p->first[i];
            second[c] += (double)p->second[i];
        }
}

LOOPS_INLINE void sum_gradients(const struct ops_batch_norm *n, bool relu, const float *dy,
                                double *sums)
{
    struct batch_norm_coefficients c;
    struct batch_norm_partial p;
    for (int64_t first = 0; first < n->channels; first += TILE) {
        struct batch_norm_strip s = strip_at(n->rows, n->channels, first);
        load_coefficients(n, &s, &c);
        const float *x = n->x + first;
        for (int64_t at = 0; at < s.end;) {
            int64_t end = s.end - at < BLOCK * s.step ? s.end : at + BLOCK * s.step;
            memset(p.first, 0, sizeof p.first);
            memset(p.second, 0, sizeof p.second);
            for (; run_at(&s, at, end); at += RUN * s.step)
                add_gradient_tiles(s.width, RUN, s.step, x + at, &c, relu, dy + first + at, &p);
            for (; at < end; at += s.step)
                add_gradient_tiles(width_at(&s, at), 1, 0, x + at, &c, relu, dy + first + at, &p);
            add_gradient_block(&s, &p, sums + first, sums + n->channels + first);
        }
    }
}

LOOPS_CLONED void ops_batch_norm_gradient_sums(const struct ops_batch_norm *n, const float *dy,
                                               double *sums)
{
    memset(sums, 0, 2 * (size_t)n->channels * sizeof *sums);
    if (n->relu)
        sum_gradients(n, true, dy, sums);
    else
        sum_gradients(n, false, dy, sums);
    for (int64_t c = 0; c < n->channels; c++)
        sums[n->channels + c] *= (double)inverse_deviation(n->variance[c]);
}

// With h the normalised x and means over `count` rows:
// dx = gain / deviation (dy - mean(dy) - h mean(dy h)).
LOOPS_INLINE void load_shares(const struct ops_batch_norm *n, const struct batch_norm_strip *s,
                              double count, const double *sums, struct batch_norm_coefficients *c)
{
    double share = count > 0 ? 1 / count : 0;
    for (int64_t i = 0; i < s->channels; i++) {
        int64_t channel = s->first + i;
        c->share[i] = (float)(sums[channel] * share);
        c->slope[i] =
            (float)(sums[n->channels + channel] * share) * inverse_deviation(n->variance[channel]);
    }
    repeat_channels(s, c->share);
    repeat_channels(s, c->slope);
}

LOOPS_INLINE void backward_tiles(int64_t width, int tiles, int64_t step, const float *x,
                                 const struct batch_norm_coefficients *c, bool relu,
                                 const float *dy, float *dx)
{
#pragma omp simd
    for (int64_t i = 0; i < width; i++) {
#pragma GCC unroll 4
        for (int k = 0; k < tiles; k++) {
            float d = x[k * step + i] - c->mean[i];
            float g = gradient_through_relu(d, c, i, relu, dy[k * step + i]);
            dx[k * step + i] = c->scale[i] * (g - c->share[i] - d * c->slope[i]);
        }
    }
}

LOOPS_INLINE void backward(const struct ops_batch_norm *n, double count, const double *sums,
                           bool relu, const float *dy, float *dx)
{
    struct batch_norm_coefficients c;
    for (int64_t first = 0; first < n->channels; first += TILE) {
        struct batch_norm_strip s = strip_at(n->rows, n->channels, first);
        load_coefficients(n, &s, &c);
        load_shares(n, &s, count, sums, &c);
        int64_t at = first;
        for (; run_at(&s, at - first, s.end); at += RUN * s.step)
            backward_tiles(s.width, RUN, s.step, n->x + at, &c, relu, dy + at, dx + at);
        for (; at - first < s.end; at += s.step)
            backward_tiles(width_at(&s, at - first), 1, 0, n->x + at, &c, relu, dy + at, dx + at);
    }
}

void ops_batch_norm_residual_gradient_sums(const struct ops_batch_norm *n, const real *y,
                                           const real *a, const real *b, real *dy, double *sums)
{
    const int64_t count = n->rows * n->channels;
    if (b)
        ops_add(count, a, b, dy);
    ops_relu_backward(count, y, b ? dy : a, dy);
    ops_batch_norm_gradient_sums(n, dy, sums);
}

LOOPS_CLONED void ops_batch_norm_backward(const struct ops_batch_norm *n, double count,
                                          const double *sums, const float *dy, float *dx)
{
    if (n->relu)
        backward(n, count, sums, true, dy, dx);
    else
        backward(n, count, sums, false, dy, dx);
}
