// The random numbers of dropout on a device: bit-identical to philox4x32 (base/rng.h) and to
// ops_dropout_mask(). Included by .cu files only; pure.
#ifndef MUSTER_TRAINER_OPS_CUDA_KERNELS_PHILOX_H
#define MUSTER_TRAINER_OPS_CUDA_KERNELS_PHILOX_H

#include "trainer/ops/cuda/kernels/launch.h"

// The parameters of dropout for a kernel.
struct dropout_draw {
    const uint64_t *key; // in device memory, like `samples`
    const int64_t *samples;
    uint32_t threshold; // random numbers below it drop their element
    float scale;        // of kept elements
};

static inline struct dropout_draw draw_of(const struct ops_dropout *d)
{
    return {d->key, d->samples, (uint32_t)ldexp(d->rate, 32), (float)(1.0 / (1.0 - d->rate))};
}

static __device__ inline void philox(uint64_t key, uint64_t counter_hi, uint64_t counter_lo,
                                     uint32_t out[4])
{
    uint32_t k0 = (uint32_t)key, k1 = (uint32_t)(key >> 32);
    uint32_t c0 = (uint32_t)counter_lo, c1 = (uint32_t)(counter_lo >> 32);
    uint32_t c2 = (uint32_t)counter_hi, c3 = (uint32_t)(counter_hi >> 32);
#pragma unroll
    for (int round = 0; round < 10; round++) {
        uint64_t p0 = (uint64_t)0xD2511F53u * c0, p1 = (uint64_t)0xCD9E8D57u * c2;
        c0 = (uint32_t)(p1 >> 32) ^ c1 ^ k0;
        c1 = (uint32_t)p1;
        c2 = (uint32_t)(p0 >> 32) ^ c3 ^ k1;
        c3 = (uint32_t)p0;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    out[0] = c0;
    out[1] = c1;
    out[2] = c2;
    out[3] = c3;
}

// Returns whether the elements first .. first + 3 of a sample are kept; first is a multiple of 4.
static __device__ inline void draw_four(const struct dropout_draw *d, int64_t sample,
                                        uint64_t first, bool keep[4])
{
    uint32_t words[4];
    philox(*d->key, (uint64_t)sample, first / 4, words);
#pragma unroll
    for (int k = 0; k < 4; k++)
        keep[k] = words[k] >= d->threshold;
}

#endif
