#include <string.h>

#include "trainer/ops/image.h"
#include "trainer/ops/loops.h"

enum { STRIP = 256 }; // channels that are summed together, in double

LOOPS_CLONED void ops_global_pool_forward(int64_t samples, int64_t places, int64_t channels,
                                          const float *x, float *y)
{
    double sums[STRIP];
    for (int64_t s = 0; s < samples; s++, x += places * channels, y += channels)
        for (int64_t first = 0; first < channels; first += STRIP) {
            int64_t width = channels - first < STRIP ? channels - first : STRIP;
            memset(sums, 0, sizeof sums);
            for (int64_t p = 0; p < places; p++)
#pragma omp simd
                for (int64_t i = 0; i < width; i++)
                    sums[i] += (double)x[p * channels + first + i];
            for (int64_t i = 0; i < width; i++)
                y[first + i] = (float)(sums[i] / (double)places);
        }
}

LOOPS_CLONED void ops_global_pool_backward(int64_t samples, int64_t places, int64_t channels,
                                           const float *dy, float *dx)
{
    float share = 1.0f / (float)places;
    for (int64_t s = 0; s < samples; s++, dy += channels)
        for (int64_t p = 0; p < places; p++, dx += channels)
#pragma omp simd
            for (int64_t i = 0; i < channels; i++)
                dx[i] = share * dy[i];
}
