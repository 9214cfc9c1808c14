// Element-wise; a thread handles EACH numbers, a block's width apart. Threads combine their amaxes
// with atomicMax of bit patterns, whose order does not matter.
#include "trainer/ops/cuda/kernels/vectors.h"

extern "C" {
#include "trainer/ops/exact.h"
}

enum { THREADS = 256, EACH = 4 };
enum rule { PROBE, PUT, ADD };

static __device__ size_t first_of_mine(void)
{
    return (size_t)blockIdx.x * THREADS * EACH + threadIdx.x;
}

static unsigned blocks_of(size_t n)
{
    return blocks_for((int64_t)n, THREADS * EACH);
}

// The comparisons turn NaN into the lowest number. Sums are taken modulo 2^32: a sum with clamped
// elements may overflow, but it is not used.
static __device__ uint32_t integer_of(float x)
{
    x = x > -OPS_EXACT_CLAMP ? x : -OPS_EXACT_CLAMP;
    x = x < OPS_EXACT_CLAMP ? x : OPS_EXACT_CLAMP;
    return (uint32_t)(int32_t)rintf(x);
}

struct parts {
    struct ops_exact_part of[OPS_EXACT_PARTS];
};

// One row of blocks for each part; surplus blocks of a short part return at once.
static __global__ void sum_kernel(enum rule rule, struct parts parts)
{
    const struct ops_exact_part p = parts.of[blockIdx.y];
    uint32_t largest = 0;
    const float scale = rule == PROBE ? 0 : *p.scale;
#pragma unroll
    for (int k = 0; k < EACH; k++) {
        size_t i = first_of_mine() + (size_t)k * THREADS;
        if (i >= p.n)
            break;
        float x = p.g[i];
        uint32_t bits = (uint32_t)__float_as_int(x) & INT32_MAX;
        largest = bits > largest ? bits : largest;
        if (rule == PUT)
            p.sum[i] = (int32_t)integer_of(x * scale);
        else if (rule == ADD)
            p.sum[i] = (int32_t)((uint32_t)p.sum[i] + integer_of(x * scale));
    }
    for (int lane = WARP / 2; lane > 0; lane /= 2) {
        uint32_t other = __shfl_xor_sync(whole_warp, largest, lane);
        largest = other > largest ? other : largest;
    }
    if (threadIdx.x % WARP == 0 && largest > 0)
        atomicMax(p.amax, largest);
}

static void sum_of(enum rule rule, int count, const struct ops_exact_part *parts)
{
    struct parts all = {};
    size_t max_n = 0;
    for (int i = 0; i < count; i++) {
        all.of[i] = parts[i];
        max_n = parts[i].n > max_n ? parts[i].n : max_n;
    }
    if (max_n > 0)
        LAUNCH(sum_kernel, dim3(blocks_of(max_n), (unsigned)count), THREADS, 0, rule, all);
}

extern "C" void ops_exact_amax(size_t n, const float *g, uint32_t *amax)
{
    const struct ops_exact_part part = {n, g, NULL, NULL, amax};
    sum_of(PROBE, 1, &part);
}

extern "C" void ops_exact_store(int count, const struct ops_exact_part *parts)
{
    sum_of(PUT, count, parts);
}

extern "C" void ops_exact_add(int count, const struct ops_exact_part *parts)
{
    sum_of(ADD, count, parts);
}

static __global__ void to_float_kernel(size_t n, const float *scale_at, int32_t *sum)
{
    const float scale = *scale_at;
#pragma unroll
    for (int k = 0; k < EACH; k++) {
        size_t i = first_of_mine() + (size_t)k * THREADS;
        if (i < n)
            sum[i] = __float_as_int((float)sum[i] * scale);
    }
}

extern "C" void ops_exact_to_float(size_t n, const float *scale, void *sum)
{
    if (n > 0)
        LAUNCH(to_float_kernel, blocks_of(n), THREADS, 0, n, scale, (int32_t *)sum);
}

static __global__ void add_kernel(size_t n, const float *g, float *sum)
{
#pragma unroll
    for (int k = 0; k < EACH; k++) {
        size_t i = first_of_mine() + (size_t)k * THREADS;
        if (i < n)
            sum[i] += g[i];
    }
}

extern "C" void ops_float_add(size_t n, const float *g, float *sum)
{
    if (n > 0)
        LAUNCH(add_kernel, blocks_of(n), THREADS, 0, n, g, sum);
}

static __global__ void scale_kernel(size_t n, const float *scale_at, float *sum)
{
    const float scale = *scale_at;
#pragma unroll
    for (int k = 0; k < EACH; k++) {
        size_t i = first_of_mine() + (size_t)k * THREADS;
        if (i < n)
            sum[i] *= scale;
    }
}

extern "C" void ops_float_scale(size_t n, const float *scale, float *sum)
{
    if (n > 0)
        LAUNCH(scale_kernel, blocks_of(n), THREADS, 0, n, scale, sum);
}
