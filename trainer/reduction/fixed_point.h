// Fixed point: exponents of gradients (their sums are ops/exact.h) and sums of losses. Pure
// functions, any thread.
#ifndef MUSTER_TRAINER_REDUCTION_FIXED_POINT_H
#define MUSTER_TRAINER_REDUCTION_FIXED_POINT_H

#include <stddef.h>
#include <stdint.h>

// Exponents: 2^(e-1) <= |x| < 2^e. The two marks are what no finite number has; as integers they
// stand on the right side of all exponents for a maximum.
enum { FIXED_ZERO = INT32_MIN, FIXED_NOT_FINITE = 1000 };

// The exponent of a peak, which is the largest bit pattern of |g|.
int32_t fixed_exponent(uint32_t peak);

// Sums of losses, in units of 2^-24, each clamped to 32,767: no order and no division of samples
// over ranks changes the total. Losses that are not finite are counted apart.
struct loss_sum {
    int64_t total, not_finite;
};
void loss_add(struct loss_sum *sum, const float *losses, int64_t n);
double loss_mean(const struct loss_sum *sum, int64_t count); // NaN when any was not finite

#endif
