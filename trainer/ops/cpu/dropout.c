#include <math.h>

#include "base/rng.h"
#include "trainer/ops/loops.h"
#include "trainer/ops/ops.h"

uint64_t ops_dropout_key(uint64_t seed, int64_t step, uint64_t layer)
{
    uint32_t words[4];
    philox4x32(seed, layer, (uint64_t)step, words);
    return (uint64_t)words[1] << 32 | words[0];
}

void ops_dropout_mask(const struct ops_dropout *d, int64_t sample, uint64_t first, int64_t n,
                      uint8_t *keep)
{
    uint32_t threshold = (uint32_t)ldexp(d->rate, 32), words[4];
    uint64_t key = *d->key, counter = (uint64_t)d->samples[sample];
    for (int64_t i = 0; i < n; i++) {
        uint64_t element = first + (uint64_t)i;
        if (i == 0 || element % 4 == 0)
            philox4x32(key, counter, element / 4, words);
        keep[i] = words[element % 4] >= threshold;
    }
}

void ops_dropout_forward(int64_t samples, int64_t size, const struct ops_dropout *d, const float *x,
                         float *y, uint8_t *keep)
{
    for (int64_t s = 0; s < samples; s++)
        ops_dropout_mask(d, s, 0, size, keep + s * size);
    ops_dropout_backward(samples * size, d->rate, keep, x, y); // multiplies by the same mask
}

LOOPS_CLONED void ops_dropout_backward(int64_t n, double rate, const uint8_t *keep, const float *dy,
                                       float *dx)
{
    float scale = (float)(1.0 / (1.0 - rate));
#pragma omp simd
    for (int64_t i = 0; i < n; i++)
        dx[i] = keep[i] ? dy[i] * scale : 0.0f;
}
