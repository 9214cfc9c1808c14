#include "trainer/ops/cuda/kernels/philox.h"
#include "trainer/ops/cuda/kernels/vectors.h"

extern "C" {
#include "base/rng.h"
}

enum { THREADS = 256 };

extern "C" uint64_t ops_dropout_key(uint64_t seed, int64_t step, uint64_t layer)
{
    uint32_t words[4];
    philox4x32(seed, layer, (uint64_t)step, words);
    return (uint64_t)words[1] << 32 | words[0];
}

// As many mask bytes as a pack has numbers.
template <int N>
static __device__ void load_bytes(const uint8_t *from, int64_t count, bool aligned, bool *flags)
{
    pack<uint8_t, N> p;
    if (aligned && count >= N)
        p = *reinterpret_cast<const pack<uint8_t, N> *>(from);
    else
        for (int k = 0; k < N; k++)
            p.at[k] = k < count ? from[k] : 0;
#pragma unroll
    for (int k = 0; k < N; k++)
        flags[k] = p.at[k] != 0;
}

template <int N>
static __device__ void store_bytes(const bool *flags, int64_t count, bool aligned, uint8_t *to)
{
    pack<uint8_t, N> p;
#pragma unroll
    for (int k = 0; k < N; k++)
        p.at[k] = flags[k];
    if (aligned && count >= N)
        *reinterpret_cast<pack<uint8_t, N> *>(to) = p;
    else
        for (int k = 0; k < N && k < count; k++)
            to[k] = p.at[k];
}

// --- the mask alone: a thread handles four elements, whose mask comes from one philox counter

static __global__ void draw_kernel(struct dropout_draw d, int64_t sample, uint64_t first, int64_t n,
                                   uint8_t *keep)
{
    uint64_t four = first / 4 * 4 + ((uint64_t)blockIdx.x * THREADS + threadIdx.x) * 4;
    bool kept[4];
    if (four >= first + (uint64_t)n)
        return;
    draw_four(&d, d.samples[sample], four, kept);
    for (uint64_t k = 0; k < 4; k++)
        if (four + k >= first && four + k < first + (uint64_t)n)
            keep[four + k - first] = kept[k];
}

extern "C" void ops_dropout_mask(const struct ops_dropout *d, int64_t sample, uint64_t first,
                                 int64_t n, uint8_t *keep)
{
    if (n > 0)
        LAUNCH(draw_kernel, blocks_for(n + 3, THREADS * 4) + 1, THREADS, 0, draw_of(d), sample,
               first, n, keep);
}

// --- a thread handles a pack of a sample; blockIdx.y is the sample, then every gridDim.y-th ------

static const int64_t samples_at_once = 65535;

template <typename T>
static __global__ void forward_kernel(int64_t samples, int64_t size, bool aligned,
                                      struct dropout_draw d, const T *x, T *y, uint8_t *keep)
{
    int64_t at = ((int64_t)blockIdx.x * THREADS + threadIdx.x) * PACK<T>, left = size - at;
    if (left <= 0)
        return;
    for (int64_t s = blockIdx.y; s < samples; s += gridDim.y) {
        float v[PACK<T>];
        bool kept[PACK<T>];
        load_some<PACK<T>>(x + s * size + at, left, aligned, v);
#pragma unroll
        for (int k = 0; k < PACK<T>; k += 4)
            draw_four(&d, d.samples[s], (uint64_t)(at + k), kept + k);
#pragma unroll
        for (int k = 0; k < PACK<T>; k++)
            v[k] = kept[k] ? v[k] * d.scale : 0.0f;
        store_some<PACK<T>>(v, left, aligned, y + s * size + at);
        store_bytes<PACK<T>>(kept, left, aligned, keep + s * size + at);
    }
}

template <typename T>
static void forward(int64_t samples, int64_t size, const struct ops_dropout *d, const T *x, T *y,
                    uint8_t *keep)
{
    bool aligned = size % PACK<T> == 0 && is_aligned(x) && is_aligned(y) && is_aligned(keep);
    dim3 grid(blocks_for(size, THREADS * PACK<T>),
              (unsigned)(samples < samples_at_once ? samples : samples_at_once));
    LAUNCH(forward_kernel<T>, grid, THREADS, 0, samples, size, aligned, draw_of(d), x, y, keep);
}

extern "C" void ops_dropout_forward(int64_t samples, int64_t size, const struct ops_dropout *d,
                                    const real *x, real *y, uint8_t *keep)
{
    if (samples > 0 && size > 0)
        DISPATCH(T, forward<T>(samples, size, d, reals<T>(x), reals<T>(y), keep));
}

template <typename T>
static __global__ void backward_kernel(int64_t n, bool aligned, float scale, const uint8_t *keep,
                                       const T *dy, T *dx)
{
    int64_t at = ((int64_t)blockIdx.x * THREADS + threadIdx.x) * PACK<T>, left = n - at;
    if (left <= 0)
        return;
    float v[PACK<T>];
    bool kept[PACK<T>];
    load_some<PACK<T>>(dy + at, left, aligned, v);
    load_bytes<PACK<T>>(keep + at, left, aligned, kept);
#pragma unroll
    for (int k = 0; k < PACK<T>; k++)
        v[k] = kept[k] ? v[k] * scale : 0.0f;
    store_some<PACK<T>>(v, left, aligned, dx + at);
}

template <typename T>
static void backward(int64_t n, double rate, const uint8_t *keep, const T *dy, T *dx)
{
    bool aligned = is_aligned(keep) && is_aligned(dy) && is_aligned(dx);
    LAUNCH(backward_kernel<T>, blocks_for(n, THREADS * PACK<T>), THREADS, 0, n, aligned,
           (float)(1.0 / (1.0 - rate)), keep, dy, dx);
}

extern "C" void ops_dropout_backward(int64_t n, double rate, const uint8_t *keep, const real *dy,
                                     real *dx)
{
    if (n > 0)
        DISPATCH(T, backward<T>(n, rate, keep, reals<T>(dy), reals<T>(dx)));
}
