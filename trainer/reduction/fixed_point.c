#include "trainer/reduction/fixed_point.h"

#include <math.h>

#define LOSS_SCALE 0x1p24
#define LOSS_CLAMP 32767.0f

int32_t fixed_exponent(uint32_t amax)
{
    enum { EXPONENT_SHIFT = 23, EXPONENT_BIAS = 126, INFINITE = 0x7f800000 };
    if (amax >= INFINITE)
        return FIXED_NOT_FINITE;
    return amax == 0 ? FIXED_ZERO : (int32_t)(amax >> EXPONENT_SHIFT) - EXPONENT_BIAS;
}

void loss_add(struct loss_sum *sum, const float *losses, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        float x = losses[i];
        if (!isfinite(x)) {
            sum->not_finite++;
            continue;
        }
        x = fminf(fmaxf(x, -LOSS_CLAMP), LOSS_CLAMP);
        sum->total += (int64_t)rint((double)x * LOSS_SCALE);
    }
}

double loss_mean(const struct loss_sum *sum, int64_t count)
{
    if (sum->not_finite > 0 || count <= 0)
        return NAN;
    return (double)sum->total / LOSS_SCALE / (double)count;
}
