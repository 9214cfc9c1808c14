#include "trainer/ops/loops.h"
#include "trainer/ops/ops.h"

LOOPS_CLONED void ops_add(int64_t n, const float *a, const float *b, float *y)
{
#pragma omp simd
    for (int64_t i = 0; i < n; i++)
        y[i] = a[i] + b[i];
}

LOOPS_CLONED void ops_relu_forward(int64_t n, const float *x, float *y)
{
#pragma omp simd
    for (int64_t i = 0; i < n; i++)
        y[i] = x[i] < 0.0f ? 0.0f : x[i]; // written this way NaN stays NaN
}

LOOPS_CLONED void ops_relu_backward(int64_t n, const float *y, const float *dy, float *dx)
{
#pragma omp simd
    for (int64_t i = 0; i < n; i++)
        dx[i] = y[i] > 0.0f ? dy[i] : 0.0f;
}

LOOPS_CLONED void ops_tanh_forward(int64_t n, const float *x, float *y)
{
#pragma omp simd
    for (int64_t i = 0; i < n; i++)
        y[i] = loops_tanh(x[i]);
}

LOOPS_CLONED void ops_tanh_backward(int64_t n, const float *y, const float *dy, float *dx)
{
#pragma omp simd
    for (int64_t i = 0; i < n; i++)
        dx[i] = dy[i] * (1.0f - y[i] * y[i]);
}

LOOPS_INLINE float logistic(float x)
{
    return 1.0f / (1.0f + loops_exp(-x));
}

// gelu(x) = x/2 (1 + tanh(c (x + a x^3))) with c = sqrt(2 / pi). This equals x s(2 c (x + a x^3))
// with the logistic function s, which needs one exponential and one division.
static const float gelu_2c = 1.5957691216057308f, gelu_a = 0.044715f;

LOOPS_INLINE float gelu_gate(float x)
{
    return logistic(gelu_2c * (x + gelu_a * (x * x * x)));
}

LOOPS_CLONED void ops_gelu_forward(int64_t n, const float *x, float *y)
{
#pragma omp simd
    for (int64_t i = 0; i < n; i++)
        y[i] = x[i] * gelu_gate(x[i]);
}

LOOPS_CLONED void ops_gelu_backward(int64_t n, const float *x, const float *dy, float *dx)
{
#pragma omp simd
    for (int64_t i = 0; i < n; i++) {
        float s = gelu_gate(x[i]);
        float slope = gelu_2c * (1.0f + 3.0f * gelu_a * (x[i] * x[i]));
        dx[i] = dy[i] * (s + x[i] * s * (1.0f - s) * slope);
    }
}

LOOPS_CLONED void ops_silu_forward(int64_t n, const float *x, float *y)
{
#pragma omp simd
    for (int64_t i = 0; i < n; i++)
        y[i] = x[i] * logistic(x[i]);
}

LOOPS_CLONED void ops_silu_backward(int64_t n, const float *x, const float *dy, float *dx)
{
#pragma omp simd
    for (int64_t i = 0; i < n; i++) {
        float s = logistic(x[i]);
        dx[i] = dy[i] * (s + x[i] * s * (1.0f - s));
    }
}
