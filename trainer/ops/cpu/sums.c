#include "trainer/ops/ops.h"

void ops_row_means(int64_t samples, int64_t positions, const float *x, float *means)
{
    for (int64_t s = 0; s < samples; s++, x += positions) {
        double sum = 0;
        for (int64_t i = 0; i < positions; i++)
            sum += (double)x[i];
        means[s] = (float)(sum / (double)positions);
    }
}

void ops_row_sums(int64_t samples, int64_t positions, const int32_t *x, int32_t *counts)
{
    for (int64_t s = 0; s < samples; s++, x += positions) {
        counts[s] = 0;
        for (int64_t i = 0; i < positions; i++)
            counts[s] += x[i];
    }
}

void ops_scale(int64_t n, int count, const struct ops_scaled *s)
{
    for (; count > 0; count--, s++)
        for (int64_t i = 0; i < n; i++)
            s->y[i] = (float)(s->factor * (s->x ? (double)s->x[i] : s->doubles[i]));
}
