// Plain loops over the channels of a window's places. oneDNN's pools lose NaN and treat -infinity
// as less than the smallest number. If the channels are not a multiple of a vector, whole vectors
// are processed as far as the tensors extend: surplus outputs are overwritten by later places, and
// surplus gradients are increased by zero.
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/log.h"
#include "trainer/ops/image.h"
#include "trainer/ops/loops.h"

enum {
    RUN = 3,    // places that a loop processes together
    LANES = 16, // floats of the widest vector
};

struct ops_pool {
    struct ops_pool_shape shape;
    int64_t rows, columns; // of the output
    bool relu;             // the maxima become max(0, y)
    bool quarters;         // maxima of adjacent 2x2 windows
    int32_t *maxima;       // for each output: offset of its maximum in the image, without the
                           // channel; with `quarters` its number in the window; -1: not above zero
    int32_t *places;       // the current window: offsets of its places in the image
};

static int64_t extent(int64_t in, const struct ops_pool_shape *s)
{
    return (in + 2 * s->padding - s->kernel) / s->stride + 1;
}

int ops_pool_new(const struct ops_pool_shape *s, struct ops_pool **out, struct error *e)
{
    *out = NULL;
    if (s->height * s->width * s->channels > INT32_MAX)
        return error_set(e, ERR_INVALID, "an image of %lldx%lldx%lld is too large for a pool",
                         (long long)s->height, (long long)s->width, (long long)s->channels);
    struct ops_pool *p = xcalloc(1, sizeof *p);
    p->shape = *s;
    p->rows = extent(s->height, s);
    p->columns = extent(s->width, s);
    p->quarters = s->kind == OPS_POOL_MAX && s->kernel == 2 && s->stride == 2 && s->padding == 0;
    p->places = xcalloc((size_t)(s->kernel * s->kernel + RUN + 1), sizeof *p->places);
    if (s->kind == OPS_POOL_MAX)
        p->maxima = xcalloc((size_t)(s->samples * p->rows * p->columns * s->channels + LANES),
                            sizeof *p->maxima);
    *out = p;
    return 0;
}

void ops_pool_free(struct ops_pool *p)
{
    if (!p)
        return;
    free(p->places);
    free(p->maxima);
    free(p);
}

void ops_pool_add_relu(struct ops_pool *p)
{
    must(p->maxima);
    p->relu = true;
}

struct pool_span {
    int64_t first, end;
};

// The part of the window of output i that lies in the image.
LOOPS_INLINE struct pool_span window_at(const struct ops_pool_shape *s, int64_t i, int64_t in)
{
    int64_t first = i * s->stride - s->padding, end = first + s->kernel;
    return (struct pool_span){first < 0 ? 0 : first, end > in ? in : end};
}

// Returns how many channels to process, if so many floats remain from the window's last place and
// from the output on.
LOOPS_INLINE int64_t width_of(int64_t channels, int64_t left_in, int64_t left_out)
{
    int64_t whole = (channels + LANES - 1) / LANES * LANES;
    return whole <= left_in && whole <= left_out ? whole : channels;
}

LOOPS_INLINE int window_of(struct ops_pool *p, int64_t row, int64_t column)
{
    const struct ops_pool_shape *s = &p->shape;
    struct pool_span v = window_at(s, row, s->height), h = window_at(s, column, s->width);
    int count = 0;
    for (int64_t y = v.first; y < v.end; y++)
        for (int64_t x = h.first; x < h.end; x++)
            p->places[count++] = (int32_t)((y * s->width + x) * s->channels);
    return count;
}

// Updates y and maxima, which cover the places before `first`, with RUN more places. The selections
// have one condition each, which the compiler vectorises. NaN stays NaN.
LOOPS_INLINE void maximum_of_run(int64_t channels, const int32_t *places, const float *x,
                                 const float *before, int32_t first, const int32_t *maxima_before,
                                 float *y, int32_t *maxima)
{
    int32_t p[RUN];
#pragma GCC unroll 4
    for (int k = 0; k < RUN; k++)
        p[k] = places[k];
#pragma omp simd
    for (int64_t c = 0; c < channels; c++) {
        float largest = before[c];
        int32_t at = maxima_before ? maxima_before[c] : first;
#pragma GCC unroll 4
        for (int k = 0; k < RUN; k++) {
            float v = x[p[k] + c], larger = v <= largest ? largest : v;
            int32_t there = v <= largest ? at : p[k];
            at = largest != largest ? at : there;
            largest = largest != largest ? largest : larger;
        }
        y[c] = largest;
        maxima[c] = at;
    }
}

LOOPS_INLINE void maximum_of(int64_t channels, int count, int32_t *places, const float *x, float *y,
                             int32_t *maxima)
{
    for (int k = count; k <= count + RUN; k++)
        places[k] = places[0]; // fills the run; a repeated place changes nothing
    maximum_of_run(channels, places + 1, x, x + places[0], places[0], NULL, y, maxima);
    for (int k = 1 + RUN; k < count; k += RUN)
        maximum_of_run(channels, places + k, x, y, 0, maxima, y, maxima);
}

LOOPS_INLINE void average_of(int64_t channels, int count, const int32_t *places, const float *x,
                             float *y)
{
    float share = 1.0f / (float)count;
    for (int k = 0; k < count; k++) {
        int32_t place = places[k];
#pragma omp simd
        for (int64_t c = 0; c < channels; c++)
            y[c] = (k ? y[c] : 0.0f) + share * x[place + c];
    }
}

// Where relu gave zero, no gradient flows back.
LOOPS_INLINE void rectify_maxima(int64_t width, float *y, int32_t *maxima)
{
#pragma omp simd
    for (int64_t c = 0; c < width; c++) {
        maxima[c] = y[c] > 0.0f ? maxima[c] : -1;
        y[c] = y[c] < 0.0f ? 0.0f : y[c]; // NaN stays NaN
    }
}

LOOPS_CLONED static void forward(struct ops_pool *p, const float *x, float *y)
{
    const struct ops_pool_shape *s = &p->shape;
    int64_t size = s->height * s->width * s->channels;
    int64_t left_in = s->samples * size, left = s->samples * p->rows * p->columns * s->channels;
    int32_t *maxima = p->maxima;
    for (int64_t i = 0; i < s->samples; i++, x += size, left_in -= size)
        for (int64_t at = 0; at < p->rows * p->columns; at++) {
            int count = window_of(p, at / p->columns, at % p->columns);
            int64_t width = width_of(s->channels, left_in - p->places[count - 1], left);
            if (maxima)
                maximum_of(width, count, p->places, x, y, maxima);
            else
                average_of(width, count, p->places, x, y);
            if (p->relu)
                rectify_maxima(width, y, maxima);
            maxima += maxima ? s->channels : 0;
            y += s->channels;
            left -= s->channels;
        }
}

LOOPS_INLINE void backward_at(const struct ops_pool *p, int64_t width, int count,
                              const int32_t *maxima, const float *dy, float *dx)
{
    int32_t channels = (int32_t)p->shape.channels;
    float share = 1.0f / (float)count;
    for (int k = 0; k < count; k++) {
        int32_t place = p->places[k];
        if (maxima)
#pragma omp simd
            for (int32_t c = 0; c < (int32_t)width; c++)
                dx[place + c] += (maxima[c] == place) & (c < channels) ? dy[c] : 0.0f;
        else
#pragma omp simd
            for (int32_t c = 0; c < (int32_t)width; c++)
                dx[place + c] += c < channels ? share * dy[c] : 0.0f;
    }
}

LOOPS_CLONED static void backward(struct ops_pool *p, const float *dy, float *dx)
{
    const struct ops_pool_shape *s = &p->shape;
    int64_t size = s->height * s->width * s->channels;
    int64_t left_in = s->samples * size, left = s->samples * p->rows * p->columns * s->channels;
    const int32_t *maxima = p->maxima;
    for (int64_t i = 0; i < s->samples; i++, dx += size, left_in -= size) {
        memset(dx, 0, (size_t)size * sizeof *dx);
        for (int64_t at = 0; at < p->rows * p->columns; at++) {
            int count = window_of(p, at / p->columns, at % p->columns);
            int64_t width = width_of(s->channels, left_in - p->places[count - 1], left);
            backward_at(p, width, count, maxima, dy, dx);
            maxima += maxima ? s->channels : 0;
            dy += s->channels;
            left -= s->channels;
        }
    }
}

// --- adjacent 2x2 windows, the most frequent pool. It needs no table, and every place of dx is
// written once. Up to LANES channels are one vector.

LOOPS_INLINE void maximum_of_four(int64_t lanes, int64_t channels, int64_t row, bool relu,
                                  const float *x, float *y, int32_t *maxima)
{
#pragma omp simd
    for (int64_t c = 0; c < lanes; c++) {
        const float others[] = {x[channels + c], x[row + c], x[row + channels + c]};
        float largest = x[c];
        int32_t at = 0;
#pragma GCC unroll 4
        for (int k = 0; k < 3; k++) {
            float v = others[k], larger = v <= largest ? largest : v;
            int32_t there = v <= largest ? at : k + 1;
            at = largest != largest ? at : there;
            largest = largest != largest ? largest : larger;
        }
        y[c] = relu && largest < 0.0f ? 0.0f : largest;
        maxima[c] = relu && !(largest > 0.0f) ? -1 : at;
    }
}

LOOPS_INLINE void maxima_of_quarters(struct ops_pool *p, bool relu, const float *x, float *y)
{
    const struct ops_pool_shape *s = &p->shape;
    int64_t channels = s->channels, row = s->width * channels;
    int64_t left_in = s->samples * s->height * row;
    int64_t left = s->samples * p->rows * p->columns * channels;
    int32_t *maxima = p->maxima;
    for (int64_t i = 0; i < s->samples * p->rows; i++) {
        int64_t start = (i / p->rows * s->height + i % p->rows * 2) * row;
        for (int64_t at = start; at < start + 2 * p->columns * channels; at += 2 * channels) {
            int64_t width = width_of(channels, left_in - at - row - channels, left), c = 0;
            for (; c + LANES <= width; c += LANES)
                maximum_of_four(LANES, channels, row, relu, x + at + c, y + c, maxima + c);
            if (c < width)
                maximum_of_four(width - c, channels, row, relu, x + at + c, y + c, maxima + c);
            maxima += channels;
            y += channels;
            left -= channels;
        }
    }
}

LOOPS_CLONED static void forward_quarters(struct ops_pool *p, const float *x, float *y)
{
    if (p->relu)
        maxima_of_quarters(p, true, x, y);
    else
        maxima_of_quarters(p, false, x, y);
}

// Computes one place of dx: the given number in the window.
LOOPS_INLINE void route_gradient(int64_t width, int32_t number, const int32_t *maxima,
                                 const float *dy, float *dx)
{
    int64_t at = 0;
    for (; at + LANES <= width; at += LANES)
#pragma omp simd
        for (int64_t c = at; c < at + LANES; c++)
            dx[c] = maxima[c] == number ? dy[c] : 0.0f;
    for (; at < width; at++)
        dx[at] = maxima[at] == number ? dy[at] : 0.0f;
}

// Writes from the first float to the last, so that surplus floats are overwritten.
LOOPS_CLONED static void backward_quarters(struct ops_pool *p, const float *dy, float *dx)
{
    const struct ops_pool_shape *s = &p->shape;
    int64_t channels = s->channels, row = s->width * channels, out_row = p->columns * channels;
    int64_t left_in = s->samples * s->height * row, left_out = s->samples * p->rows * out_row;
    for (int64_t i = 0; i < s->samples * s->height; i++, dx += row, left_in -= row) {
        int64_t y = i % s->height, from = (i / s->height * p->rows + y / 2) * out_row;
        int64_t end = y < 2 * p->rows ? out_row : 0;
        int32_t first = (int32_t)(y % 2 * 2);
        for (int64_t at = 0; at < end; at += channels) {
            int64_t width = width_of(channels, left_in - 2 * at - channels, left_out - from - at);
            const int32_t *maxima = p->maxima + from + at;
            route_gradient(width, first, maxima, dy + from + at, dx + 2 * at);
            route_gradient(width, first + 1, maxima, dy + from + at, dx + 2 * at + channels);
        }
        memset(dx + 2 * end, 0, (size_t)(row - 2 * end) * sizeof *dx);
    }
}

void ops_pool_forward(struct ops_pool *p, const float *x, float *y)
{
    if (p->quarters)
        forward_quarters(p, x, y);
    else
        forward(p, x, y);
}

void ops_pool_backward(struct ops_pool *p, const float *dy, float *dx)
{
    if (p->quarters)
        backward_quarters(p, dy, dx);
    else
        backward(p, dy, dx);
}
