#include <math.h>

#include "trainer/ops/loops.h"
#include "trainer/ops/ops.h"

LOOPS_INLINE float row_maximum(int64_t n, const float *x)
{
    float largest = x[0];
#pragma omp simd reduction(max : largest)
    for (int64_t i = 0; i < n; i++)
        largest = x[i] > largest ? x[i] : largest;
    return largest;
}

LOOPS_INLINE float sum_of_exponentials(int64_t n, const float *x, float largest)
{
    float sum = 0;
#pragma omp simd reduction(+ : sum)
    for (int64_t i = 0; i < n; i++)
        sum += loops_exp(x[i] - largest);
    return sum;
}

LOOPS_INLINE float sum_of(int64_t n, const float *x)
{
    float sum = 0;
#pragma omp simd reduction(+ : sum)
    for (int64_t i = 0; i < n; i++)
        sum += x[i];
    return sum;
}

static int32_t is_first_maximum(int64_t n, const float *x, int32_t target)
{
    for (int64_t i = 0; i < n; i++)
        if (x[i] > x[target] || (x[i] == x[target] && i < target))
            return 0;
    return x[target] == x[target]; // false for NaN
}

LOOPS_CLONED void ops_cross_entropy(int64_t rows, int64_t classes, const float *logits,
                                    const int32_t *targets, float *losses, int32_t *correct,
                                    float smoothing, float scale, float *dlogits)
{
    float share = smoothing / (float)classes; // of the target, for every class
    for (int64_t r = 0; r < rows; r++, logits += classes) {
        float largest = row_maximum(classes, logits);
        float sum = sum_of_exponentials(classes, logits, largest);
        losses[r] = logf(sum) + (largest - logits[targets[r]]);
        if (smoothing > 0) // mean of the logits weighted by the smoothed target
            losses[r] += smoothing * logits[targets[r]] - share * sum_of(classes, logits);
        if (correct)
            correct[r] = is_first_maximum(classes, logits, targets[r]);
        if (!dlogits)
            continue;
        float *d = dlogits + r * classes, factor = scale / sum;
#pragma omp simd
        for (int64_t i = 0; i < classes; i++)
            d[i] = loops_exp(logits[i] - largest) * factor - scale * share;
        d[targets[r]] -= scale * (1 - smoothing);
    }
}
