#include <math.h>
#include <string.h>

#include "trainer/ops/loops.h"
#include "trainer/ops/norm.h"

static const float epsilon = 1e-5f;

LOOPS_INLINE void row_forward(int64_t width, const float *x, const float *gain, float *y,
                              float *statistics)
{
    float squares = 0;
#pragma omp simd reduction(+ : squares)
    for (int64_t i = 0; i < width; i++)
        squares += x[i] * x[i];
    float scale = 1.0f / sqrtf(squares / (float)width + epsilon);
    *statistics = scale;
#pragma omp simd
    for (int64_t i = 0; i < width; i++)
        y[i] = x[i] * scale * gain[i];
}

LOOPS_CLONED void ops_rms_norm_forward(int64_t rows, int64_t width, const float *x,
                                       const float *gain, float *y, float *statistics)
{
    for (int64_t r = 0; r < rows; r++, x += width, y += width)
        row_forward(width, x, gain, y, statistics + r);
}

// The row is still in cache.
LOOPS_CLONED void ops_add_rms_norm_forward(int64_t rows, int64_t width, const float *a,
                                           const float *b, float *sum, const float *gain, float *y,
                                           float *statistics)
{
    for (int64_t r = 0; r < rows; r++, a += width, b += width, sum += width, y += width) {
#pragma omp simd
        for (int64_t i = 0; i < width; i++)
            sum[i] = a[i] + b[i];
        row_forward(width, sum, gain, y, statistics + r);
    }
}

// With h the normalised x and g = dy * gain: dx = (g - h mean(g h)) / rms.
LOOPS_INLINE void row_backward(int64_t width, const float *x, const float *gain, float scale,
                               const float *dy, float *dx, bool add)
{
    float product = 0;
#pragma omp simd reduction(+ : product)
    for (int64_t i = 0; i < width; i++)
        product += dy[i] * gain[i] * (x[i] * scale);
    product /= (float)width;
    if (add)
#pragma omp simd
        for (int64_t i = 0; i < width; i++)
            dx[i] += scale * (dy[i] * gain[i] - x[i] * scale * product);
    else
#pragma omp simd
        for (int64_t i = 0; i < width; i++)
            dx[i] = scale * (dy[i] * gain[i] - x[i] * scale * product);
}

LOOPS_CLONED void ops_rms_norm_backward(int64_t rows, int64_t width, const float *x,
                                        const float *gain, const float *statistics, const float *dy,
                                        float *dx, bool add, float *dgain)
{
    memset(dgain, 0, (size_t)width * sizeof *dgain);
    for (int64_t r = 0; r < rows; r++, x += width, dy += width) {
        float scale = statistics[r];
#pragma omp simd
        for (int64_t i = 0; i < width; i++)
            dgain[i] += dy[i] * (x[i] * scale);
        if (dx)
            row_backward(width, x, gain, scale, dy, dx + r * width, add);
    }
}
