#include "trainer/ops/cuda/kernels/vectors.h"

extern "C" {
#include "trainer/ops/image.h"
}

enum { THREADS = 128 };

// A thread handles one pack of the channels of a sample and sums in double.
template <typename T, int N>
static __global__ void forward_kernel(int64_t packs, int64_t places, int64_t channels, const T *x,
                                      T *y)
{
    int64_t i = ((int64_t)blockIdx.x * THREADS + threadIdx.x) * N;
    if (i >= packs * N)
        return;
    struct quotient at = divide(i, channels); // sample and channel
    double sums[N] = {};
    float v[N];
    for (int64_t p = 0; p < places; p++) {
        load<N>(x + (at.quotient * places + p) * channels + at.rest, v);
        for (int k = 0; k < N; k++)
            sums[k] += (double)v[k];
    }
    for (int k = 0; k < N; k++)
        v[k] = (float)(sums[k] / (double)places);
    store<N>(v, y + i);
}

template <typename T, int N>
static __global__ void backward_kernel(int64_t packs, int64_t places, int64_t channels, const T *dy,
                                       T *dx)
{
    int64_t i = ((int64_t)blockIdx.x * THREADS + threadIdx.x) * N;
    if (i >= packs * N)
        return;
    struct quotient at = divide(i, channels); // place and channel
    float v[N], share = 1.0f / (float)places;
    load<N>(dy + divide(at.quotient, places).quotient * channels + at.rest, v);
    for (int k = 0; k < N; k++)
        v[k] *= share;
    store<N>(v, dx + i);
}

template <typename T> static bool is_in_packs(int64_t channels, const T *x, const T *y)
{
    return channels % PACK<T> == 0 && is_aligned(x) && is_aligned(y);
}

template <typename T>
static void forward(int64_t samples, int64_t places, int64_t channels, const T *x, T *y)
{
    PACKED(T, N, is_in_packs(channels, x, y), {
        int64_t packs = samples * channels / N;
        LAUNCH((forward_kernel<T, N>), blocks_for(packs, THREADS), THREADS, 0, packs, places,
               channels, x, y);
    });
}

template <typename T>
static void backward(int64_t samples, int64_t places, int64_t channels, const T *dy, T *dx)
{
    PACKED(T, N, is_in_packs(channels, dy, dx), {
        int64_t packs = samples * places * channels / N;
        LAUNCH((backward_kernel<T, N>), blocks_for(packs, THREADS), THREADS, 0, packs, places,
               channels, dy, dx);
    });
}

extern "C" void ops_global_pool_forward(int64_t samples, int64_t places, int64_t channels,
                                        const real *x, real *y)
{
    DISPATCH(T, forward<T>(samples, places, channels, reals<T>(x), reals<T>(y)));
}

extern "C" void ops_global_pool_backward(int64_t samples, int64_t places, int64_t channels,
                                         const real *dy, real *dx)
{
    DISPATCH(T, backward<T>(samples, places, channels, reals<T>(dy), reals<T>(dx)));
}
