// Gradients as integers, so that the order of their sum does not matter (trainer/reduction chooses
// the scales). The rules of ops.h apply; all blocks are in device memory, also the scales, so that
// they may vary in replayed work.
//
// With *scale = 2^s an element g becomes rint(g * *scale). The multiplication is exact and the
// rounding follows IEEE 754, so the integer is the same on every machine and instruction set.
// Elements beyond OPS_EXACT_CLAMP are clamped and NaN becomes -OPS_EXACT_CLAMP; the amax shows
// both. *amax becomes the maximum of its old value and the bits of the largest |g|.
#ifndef MUSTER_TRAINER_OPS_EXACT_H
#define MUSTER_TRAINER_OPS_EXACT_H

#include "trainer/ops/device.h"

#define OPS_EXACT_CLAMP 0x1p30f

void ops_exact_amax(size_t n, const float *g, uint32_t *amax);
// Slices of several gradients, each with a scale, a sum and an amax of its own.
enum { OPS_EXACT_PARTS = 4 }; // at most this many in one call
struct ops_exact_part {
    size_t n;
    const float *g, *scale;
    int32_t *sum;
    uint32_t *amax;
};
void ops_exact_store(int count, const struct ops_exact_part *parts); // sum =
void ops_exact_add(int count, const struct ops_exact_part *parts);   // sum +=
void ops_exact_to_float(size_t n, const float *scale, void *sum); // int32 becomes float, in place

// Sums in float, for comparison.
void ops_float_add(size_t n, const float *g, float *sum); // sum += g
void ops_float_scale(size_t n, const float *scale, float *sum);

#endif
