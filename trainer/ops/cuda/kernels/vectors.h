// Helpers of kernels: vectorised loads and stores of 16 bytes ("packs"), sums over a warp and a
// block. All arithmetic is in float, for either type of reals. Included by .cu files only.
#ifndef MUSTER_TRAINER_OPS_CUDA_KERNELS_VECTORS_H
#define MUSTER_TRAINER_OPS_CUDA_KERNELS_VECTORS_H

#include "trainer/ops/cuda/kernels/launch.h"

enum { WARP = 32 };
static const unsigned whole_warp = 0xffffffffu;

template <typename T> constexpr int PACK = 16 / (int)sizeof(T); // numbers of a 16-byte load

template <typename T, int N> struct alignas(N * sizeof(T)) pack {
    T at[N];
};

static __device__ inline float as_float(float x)
{
    return x;
}

static __device__ inline float as_float(__nv_bfloat16 x)
{
    return __bfloat162float(x);
}

static __device__ inline void store_rounded(float *to, float x)
{
    *to = x;
}

static __device__ inline void store_rounded(__nv_bfloat16 *to, float x)
{
    *to = __float2bfloat16_rn(x);
}

// Loads N numbers from an address that is a multiple of their size.
template <int N, typename T> __device__ inline void load(const T *from, float *v)
{
    pack<T, N> p = *reinterpret_cast<const pack<T, N> *>(from);
#pragma unroll
    for (int k = 0; k < N; k++)
        v[k] = as_float(p.at[k]);
}

template <int N, typename T> __device__ inline void store(const float *v, T *to)
{
    pack<T, N> p;
#pragma unroll
    for (int k = 0; k < N; k++)
        store_rounded(&p.at[k], v[k]);
    *reinterpret_cast<pack<T, N> *>(to) = p;
}

// The same if only `count` numbers remain or the address is not aligned; missing numbers are zero.
template <int N, typename T>
__device__ inline void load_some(const T *from, int64_t count, bool aligned, float *v)
{
    if (aligned && count >= N) {
        load<N>(from, v);
        return;
    }
#pragma unroll
    for (int k = 0; k < N; k++)
        v[k] = k < count ? as_float(from[k]) : 0.0f;
}

template <int N, typename T>
__device__ inline void store_some(const float *v, int64_t count, bool aligned, T *to)
{
    if (aligned && count >= N) {
        store<N>(v, to);
        return;
    }
#pragma unroll
    for (int k = 0; k < N; k++)
        if (k < count)
            store_rounded(to + k, v[k]);
}

// PACKED(T, N, in_packs, f<T, N>(...)) runs the call with N the numbers of a pack of T, or with 1.
#define PACKED(T, N, in_packs, ...)                                                                \
    do {                                                                                           \
        if (in_packs) {                                                                            \
            constexpr int N = PACK<T>;                                                             \
            __VA_ARGS__;                                                                           \
        } else {                                                                                   \
            constexpr int N = 1;                                                                   \
            __VA_ARGS__;                                                                           \
        }                                                                                          \
    } while (0)

// Returns whether the address allows 16-byte loads; true for NULL.
static inline bool is_aligned(const void *p)
{
    return (uintptr_t)p % 16 == 0;
}

// Every lane receives the same bits: each step adds two numbers, whose order does not matter.
template <typename V> __device__ inline V warp_sum(V v)
{
#pragma unroll
    for (int lane = WARP / 2; lane > 0; lane /= 2)
        v += __shfl_xor_sync(whole_warp, v, lane);
    return v;
}

static __device__ inline float warp_maximum(float v)
{
#pragma unroll
    for (int lane = WARP / 2; lane > 0; lane /= 2) {
        float other = __shfl_xor_sync(whole_warp, v, lane);
        v = other > v ? other : v;
    }
    return v;
}

// a = quotient * b + rest for non-negative numbers. Most fit into 32 bits and are divided faster.
struct quotient {
    int64_t quotient, rest;
};

static __device__ inline struct quotient divide(int64_t a, int64_t b)
{
    if ((uint64_t)(a | b) >> 32 == 0) {
        uint32_t quotient = (uint32_t)a / (uint32_t)b;
        return {(int64_t)quotient, (int64_t)((uint32_t)a - quotient * (uint32_t)b)};
    }
    int64_t quotient = a / b;
    return {quotient, a - quotient * b};
}

// Sum over a block of whole warps, returned to all threads. `part` is shared memory, one number per
// warp; it may be reused at once.
template <typename V> __device__ inline V block_sum(V v, V *part)
{
    v = warp_sum(v);
    if (threadIdx.x % WARP == 0)
        part[threadIdx.x / WARP] = v;
    __syncthreads();
    V sum = part[0];
    for (unsigned i = 1; i < blockDim.x / WARP; i++)
        sum += part[i];
    __syncthreads();
    return sum;
}

#endif
