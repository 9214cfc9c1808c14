// Conversion of floats to the numbers of FP8 (ops/fp8.h), as floats. Pure; any thread may call it.
#ifndef MUSTER_TRAINER_OPS_CPU_FP8_ROUND_H
#define MUSTER_TRAINER_OPS_CPU_FP8_ROUND_H

#include <math.h>
#include <stdbool.h>

#include "trainer/ops/loops.h"

// x * scale, rounded to a number of E4M3 or, if `wide`, of E5M2. `scale` is a power of two.
//
// From the smallest normal number on, the bits of the mantissa that the format lacks are rounded
// away. Below it the numbers of the format are the multiples of one quantum; adding 1.5 * 2^23
// quanta rounds to them.
LOOPS_INLINE float fp8_round(bool wide, float x, float scale)
{
    const int lost = wide ? 21 : 20; // of the 23 bits of a float's mantissa
    const float largest = wide ? 57344.0f : 448.0f, normal = wide ? 0x1p-14f : 0x1p-6f;
    const float shift = 0x1.8p23f * (wide ? 0x1p-16f : 0x1p-9f);
    float v = x * scale;
    v = v < -largest ? -largest : v;
    v = v > largest ? largest : v;
    uint32_t bits = loops_bits_of_float(v);
    uint32_t up = (1u << (lost - 1)) - 1 + (bits >> lost & 1);
    float large = loops_float_of_bits((bits + up) & ~((1u << lost) - 1));
    float small = (v + shift) - shift;
    float rounded = fabsf(v) < normal ? small : large;
    return fabsf(x) < INFINITY ? rounded : NAN;
}

#endif
