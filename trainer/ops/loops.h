// For the hot loops of the CPU backend: plain C that the compiler vectorises, once per instruction
// set, and an exponential and a hyperbolic tangent that vectorise with it.
#ifndef MUSTER_TRAINER_OPS_LOOPS_H
#define MUSTER_TRAINER_OPS_LOOPS_H

#include <stdint.h>
#include <string.h>

// Compiles a function three times; the program chooses one version when it is loaded. Thread
// sanitizer's runtime is not initialised at that time, so its build has one version only.
#if defined(__x86_64__) && !defined(__SANITIZE_THREAD__)
#define LOOPS_CLONED      __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#define LOOPS_HAVE_CLONES 1
#else
#define LOOPS_CLONED
#define LOOPS_HAVE_CLONES 0
#endif

#define LOOPS_INLINE static inline __attribute__((always_inline))

LOOPS_INLINE float loops_float_of_bits(uint32_t bits)
{
    float f;
    memcpy(&f, &bits, sizeof f);
    return f;
}

LOOPS_INLINE uint32_t loops_bits_of_float(float f)
{
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    return bits;
}

// e^x for x in [-87, 88], clamped outside; relative error below 1.2e-7. e^x = 2^n e^r with |r| <=
// ln(2)/2; adding 1.5 * 2^23 rounds n, and ln 2 is split into two parts. e^r is the polynomial of
// Cephes (S. Moshier, expf). NaN stays NaN.
LOOPS_INLINE float loops_exp(float x)
{
    x = x < -87.0f ? -87.0f : x;
    x = x > 88.0f ? 88.0f : x;
    float shifted = x * 1.44269504f + 12582912.0f;
    float n = shifted - 12582912.0f;
    float r = x - n * 0.693359375f + n * 2.12194440e-4f;
    float p = 1.9875691500e-4f;
    p = p * r + 1.3981999507e-3f;
    p = p * r + 8.3334519073e-3f;
    p = p * r + 4.1665795894e-2f;
    p = p * r + 1.6666665459e-1f;
    p = p * r + 5.0000001201e-1f;
    p = p * (r * r) + r + 1.0f;
    return loops_float_of_bits(loops_bits_of_float(p) + (loops_bits_of_float(shifted) << 23));
}

// tanh x; relative error below 3e-7. Near zero it uses the polynomial of Cephes (tanhf), because
// 1 - 2 / (e^2x + 1) would lose small values.
LOOPS_INLINE float loops_tanh(float x)
{
    float size = x < 0 ? -x : x;
    float far = 1.0f - 2.0f / (loops_exp(2.0f * size) + 1.0f);
    far = x < 0 ? -far : far;
    float z = x * x;
    float p = -5.70498872745e-3f;
    p = p * z + 2.06390887954e-2f;
    p = p * z - 5.37397155531e-2f;
    p = p * z + 1.33314422036e-1f;
    p = p * z - 3.33332819422e-1f;
    float near = x + x * (z * p);
    return size < 0.625f ? near : far;
}

#endif
