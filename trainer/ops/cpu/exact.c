#include "trainer/ops/cpu/exact.h"

#include <math.h>
#include <string.h>

enum rule { PUT, ADD };

// The bodies are written once and compiled for each instruction set below; `rule` is a constant
// wherever they are inlined.
#define BODY static inline __attribute__((always_inline))

BODY int32_t magnitude(float x)
{
    int32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits & INT32_MAX;
}

BODY uint32_t probe_body(const float *g, size_t n)
{
    int32_t amax = 0;
    for (size_t i = 0; i < n; i++) {
        int32_t m = magnitude(g[i]);
        amax = m > amax ? m : amax;
    }
    return (uint32_t)amax;
}

// The comparisons turn NaN into -OPS_EXACT_CLAMP and compile to one minps and one maxps. Sums are
// taken modulo 2^32: a sum with clamped elements may overflow, but it is not used.
BODY uint32_t exact_body(int32_t *restrict sum, const float *restrict g, size_t n, float scale,
                         enum rule rule)
{
    int32_t amax = 0;
    for (size_t i = 0; i < n; i++) {
        int32_t m = magnitude(g[i]);
        amax = m > amax ? m : amax;
        float x = g[i] * scale;
        x = x > -OPS_EXACT_CLAMP ? x : -OPS_EXACT_CLAMP;
        x = x < OPS_EXACT_CLAMP ? x : OPS_EXACT_CLAMP;
        uint32_t q = (uint32_t)(int32_t)rintf(x);
        uint32_t old = rule == PUT ? 0 : (uint32_t)sum[i];
        sum[i] = (int32_t)(old + q);
    }
    return (uint32_t)amax;
}

// Sums and gradients use the same memory, one after the other.
#define ALIASED __attribute__((may_alias))

BODY void to_float_body(void *block, size_t n, float scale)
{
    const int32_t ALIASED *sum = block;
    float ALIASED *out = block;
    for (size_t i = 0; i < n; i++)
        out[i] = (float)sum[i] * scale;
}

BODY void add_float_body(float *restrict sum, const float *restrict g, size_t n)
{
    for (size_t i = 0; i < n; i++)
        sum[i] += g[i];
}

BODY void scale_float_body(float *sum, size_t n, float scale)
{
    for (size_t i = 0; i < n; i++)
        sum[i] *= scale;
}

#define DEFINE_KERNELS(set, attributes)                                                            \
    attributes static uint32_t probe_##set(const float *g, size_t n)                               \
    {                                                                                              \
        return probe_body(g, n);                                                                   \
    }                                                                                              \
    attributes static uint32_t put_##set(int32_t *restrict sum, const float *restrict g, size_t n, \
                                         float scale)                                              \
    {                                                                                              \
        return exact_body(sum, g, n, scale, PUT);                                                  \
    }                                                                                              \
    attributes static uint32_t add_##set(int32_t *restrict sum, const float *restrict g, size_t n, \
                                         float scale)                                              \
    {                                                                                              \
        return exact_body(sum, g, n, scale, ADD);                                                  \
    }                                                                                              \
    attributes static void to_float_##set(void *sum, size_t n, float scale)                        \
    {                                                                                              \
        to_float_body(sum, n, scale);                                                              \
    }                                                                                              \
    attributes static void add_float_##set(float *restrict sum, const float *restrict g, size_t n) \
    {                                                                                              \
        add_float_body(sum, g, n);                                                                 \
    }                                                                                              \
    attributes static void scale_float_##set(float *sum, size_t n, float scale)                    \
    {                                                                                              \
        scale_float_body(sum, n, scale);                                                           \
    }                                                                                              \
    static const struct exact_kernels kernels_##set = {                                            \
        .name = #set,                                                                              \
        .probe = probe_##set,                                                                      \
        .put = put_##set,                                                                          \
        .add = add_##set,                                                                          \
        .to_float = to_float_##set,                                                                \
        .add_float = add_float_##set,                                                              \
        .scale_float = scale_float_##set,                                                          \
    };

DEFINE_KERNELS(generic, )

const struct exact_kernels *exact_kernels_generic(void)
{
    return &kernels_generic;
}

#if defined(__x86_64__)
DEFINE_KERNELS(avx2, __attribute__((target("avx2"))))

const struct exact_kernels *exact_kernels(void)
{
    return __builtin_cpu_supports("avx2") ? &kernels_avx2 : &kernels_generic;
}
#else
const struct exact_kernels *exact_kernels(void)
{
    return &kernels_generic;
}
#endif

static void update_amax(uint32_t *amax, uint32_t found)
{
    *amax = found > *amax ? found : *amax;
}

void ops_exact_amax(size_t n, const float *g, uint32_t *amax)
{
    update_amax(amax, exact_kernels()->probe(g, n));
}

void ops_exact_store(int count, const struct ops_exact_part *parts)
{
    for (const struct ops_exact_part *p = parts; p < parts + count; p++)
        update_amax(p->amax, exact_kernels()->put(p->sum, p->g, p->n, *p->scale));
}

void ops_exact_add(int count, const struct ops_exact_part *parts)
{
    for (const struct ops_exact_part *p = parts; p < parts + count; p++)
        update_amax(p->amax, exact_kernels()->add(p->sum, p->g, p->n, *p->scale));
}

void ops_exact_to_float(size_t n, const float *scale, void *sum)
{
    exact_kernels()->to_float(sum, n, *scale);
}

void ops_float_add(size_t n, const float *g, float *sum)
{
    exact_kernels()->add_float(sum, g, n);
}

void ops_float_scale(size_t n, const float *scale, float *sum)
{
    exact_kernels()->scale_float(sum, n, *scale);
}
