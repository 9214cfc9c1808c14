#include <math.h>
#include <string.h>

#include "trainer/ops/loops.h"
#include "trainer/ops/norm.h"

static const float epsilon = 1e-5f;

LOOPS_INLINE void row_statistics(int64_t width, const float *x, float *statistics)
{
    float sum = 0;
#pragma omp simd reduction(+ : sum)
    for (int64_t i = 0; i < width; i++)
        sum += x[i];
    float mean = sum / (float)width, squares = 0;
#pragma omp simd reduction(+ : squares)
    for (int64_t i = 0; i < width; i++)
        squares += (x[i] - mean) * (x[i] - mean);
    statistics[0] = mean;
    statistics[1] = 1.0f / sqrtf(squares / (float)width + epsilon);
}

LOOPS_INLINE void row_forward(int64_t width, const float *x, const float *gain, const float *bias,
                              float *y, float *statistics)
{
    row_statistics(width, x, statistics);
    float mean = statistics[0], scale = statistics[1];
    if (bias)
#pragma omp simd
        for (int64_t i = 0; i < width; i++)
            y[i] = (x[i] - mean) * scale * gain[i] + bias[i];
    else
#pragma omp simd
        for (int64_t i = 0; i < width; i++)
            y[i] = (x[i] - mean) * scale * gain[i];
}

LOOPS_CLONED void ops_layer_norm_forward(int64_t rows, int64_t width, const float *x,
                                         const float *gain, const float *bias, float *y,
                                         float *statistics)
{
    for (int64_t r = 0; r < rows; r++, x += width, y += width, statistics += 2)
        row_forward(width, x, gain, bias, y, statistics);
}

// The row is still in cache.
LOOPS_CLONED void ops_add_layer_norm_forward(int64_t rows, int64_t width, const float *a,
                                             const float *b, float *sum, const float *gain,
                                             const float *bias, float *y, float *statistics)
{
    for (int64_t r = 0; r < rows; r++, a += width, b += width, sum += width, y += width) {
#pragma omp simd
        for (int64_t i = 0; i < width; i++)
            sum[i] = a[i] + b[i];
        row_forward(width, sum, gain, bias, y, statistics + 2 * r);
    }
}

// With h the normalised x and g = dy * gain: dx = (g - mean(g) - h mean(g h)) / deviation.
LOOPS_INLINE void row_backward(int64_t width, const float *x, const float *gain, float mean,
                               float scale, const float *dy, float *dx, bool add)
{
    float sum = 0, product = 0;
#pragma omp simd reduction(+ : sum, product)
    for (int64_t i = 0; i < width; i++) {
        float g = dy[i] * gain[i];
        sum += g;
        product += g * ((x[i] - mean) * scale);
    }
    sum /= (float)width;
    product /= (float)width;
    if (add)
#pragma omp simd
        for (int64_t i = 0; i < width; i++)
            dx[i] += scale * (dy[i] * gain[i] - sum - (x[i] - mean) * scale * product);
    else
#pragma omp simd
        for (int64_t i = 0; i < width; i++)
            dx[i] = scale * (dy[i] * gain[i] - sum - (x[i] - mean) * scale * product);
}

LOOPS_CLONED void ops_layer_norm_backward(int64_t rows, int64_t width, const float *x,
                                          const float *gain, const float *statistics,
                                          const float *dy, float *dx, bool add, float *dgain,
                                          float *dbias)
{
    memset(dgain, 0, (size_t)width * sizeof *dgain);
    if (dbias)
        memset(dbias, 0, (size_t)width * sizeof *dbias);
    for (int64_t r = 0; r < rows; r++, x += width, dy += width, statistics += 2) {
        float mean = statistics[0], scale = statistics[1];
#pragma omp simd
        for (int64_t i = 0; i < width; i++)
            dgain[i] += dy[i] * ((x[i] - mean) * scale);
        if (dbias)
#pragma omp simd
            for (int64_t i = 0; i < width; i++)
                dbias[i] += dy[i];
        if (dx)
            row_backward(width, x, gain, mean, scale, dy, dx + r * width, add);
    }
}
