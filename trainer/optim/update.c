#include "trainer/optim/update.h"

#include <math.h>

#include "trainer/ops/loops.h"

// In each loop the numbers of the step are copied first, so that the compiler knows that writing an
// element does not change them.

LOOPS_CLONED void update_sgd(const struct update *u, size_t n, float *p, const float *g)
{
    struct update c = *u;
#pragma omp simd
    for (size_t i = 0; i < n; i++)
        p[i] -= c.rate * (g[i] * c.scale + c.decay * p[i]);
}

LOOPS_CLONED void update_momentum(const struct update *u, size_t n, float *p, const float *g,
                                  float *v)
{
    struct update c = *u;
#pragma omp simd
    for (size_t i = 0; i < n; i++) {
        v[i] = c.momentum * v[i] + (g[i] * c.scale + c.decay * p[i]);
        p[i] -= c.rate * v[i];
    }
}

LOOPS_CLONED void update_nesterov(const struct update *u, size_t n, float *p, const float *g,
                                  float *v)
{
    struct update c = *u;
#pragma omp simd
    for (size_t i = 0; i < n; i++) {
        float d = g[i] * c.scale + c.decay * p[i];
        v[i] = c.momentum * v[i] + d;
        p[i] -= c.rate * (d + c.momentum * v[i]);
    }
}

LOOPS_CLONED void update_adamw(const struct update *u, size_t n, float *p, const float *g, float *m,
                               float *v)
{
    struct update c = *u;
    float keep = 1.0f - c.rate * c.decay;
#pragma omp simd
    for (size_t i = 0; i < n; i++) {
        float d = g[i] * c.scale;
        m[i] = c.beta1 * m[i] + (1.0f - c.beta1) * d;
        v[i] = c.beta2 * v[i] + (1.0f - c.beta2) * (d * d);
        float size = sqrtf(v[i] * c.correction2) + c.epsilon;
        p[i] = keep * p[i] - c.rate * (m[i] * c.correction1) / size;
    }
}

enum { BLOCK = 4096, LANES = 8 };

LOOPS_CLONED double update_sum_of_squares(size_t n, const float *g)
{
    double total = 0;
    for (size_t start = 0; start < n; start += BLOCK) {
        size_t end = n - start < BLOCK ? n : start + BLOCK;
        double sums[LANES] = {0};
        for (size_t i = start; i < end; i++) {
            double x = (double)g[i];
            sums[i % LANES] += x * x; // exact product: the same with and without fused multiply-add
        }
        double sum = 0;
        for (int lane = 0; lane < LANES; lane++)
            sum += sums[lane];
        total += sum;
    }
    return total;
}
