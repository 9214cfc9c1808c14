// Gradients as integers, so that the order of their sum cannot matter (trainer/reduction says how
// their scale is chosen). The rules of ops.h hold: all blocks are in the device's memory.
//
// Scales are read from the device's memory, too, so that they may vary in work that is repeated.
// With *scale = 2^s an element g becomes rint(g * *scale). The multiplication is exact and the
// rounding is IEEE's, so the integer is the same on every machine and instruction set. Elements
// beyond OPS_EXACT_CLAMP are clamped, NaN to its negative, which the peak tells: the largest bit
// pattern of |g|, or what *peak held before, if that was larger.
#ifndef MUSTER_TRAINER_OPS_EXACT_H
#define MUSTER_TRAINER_OPS_EXACT_H

#include "trainer/ops/device.h"

#define OPS_EXACT_CLAMP 0x1p30f

void ops_exact_amax(size_t n, const float *g, uint32_t *peak);
// The parts of several gradients, each with a scale, a sum and a peak of its own.
enum { OPS_EXACT_PARTS = 4 }; // at most
struct ops_exact_part {
    size_t n;
    const float *g, *scale;
    int32_t *sum;
    uint32_t *peak;
};
void ops_exact_store(int count, const struct ops_exact_part *parts); // sum =
void ops_exact_add(int count, const struct ops_exact_part *parts);   // sum +=
void ops_exact_to_float(size_t n, const float *scale, void *sum); // int32 becomes float, in place

// For comparison, sums that are not exact.
void ops_float_add(size_t n, const float *g, float *sum); // sum += g
void ops_float_scale(size_t n, const float *scale, float *sum);

#endif
