// Fixed point: the exponents of gradients and the sums of losses. (ops/exact.h converts and sums
// gradients.) Pure functions; any thread may call them.
#ifndef MUSTER_TRAINER_REDUCTION_FIXED_POINT_H
#define MUSTER_TRAINER_REDUCTION_FIXED_POINT_H

#include <stddef.h>
#include <stdint.h>

// The exponent e of x satisfies 2^(e-1) <= |x| < 2^e. The two special values lie below and above
// all exponents of finite numbers, so that a maximum over integers treats them correctly.
enum { FIXED_ZERO = INT32_MIN, FIXED_NOT_FINITE = 1000 };

// The exponent of `amax`, the largest |g|, which is given as the bits of a float.
int32_t fixed_exponent(uint32_t amax);

// A sum of losses in units of 2^-24; each loss is clamped to 32,767. The total does not depend on
// the order of the samples or on their division among ranks. Losses that are not finite are counted
// separately.
struct loss_sum {
    int64_t total, not_finite;
};
void loss_add(struct loss_sum *sum, const float *losses, int64_t n);
double loss_mean(const struct loss_sum *sum, int64_t count); // NaN if any loss was not finite

#endif
