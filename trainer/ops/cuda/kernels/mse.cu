#include "trainer/ops/cuda/kernels/vectors.h"

enum { THREADS = 128 }; // one warp per sample

template <typename T>
static __global__ void mse_kernel(int64_t samples, int64_t outputs, const T *y,
                                  const float *targets, float *losses, float factor, T *dy)
{
    int64_t s = ((int64_t)blockIdx.x * THREADS + threadIdx.x) / WARP;
    if (s >= samples)
        return;
    float sum = 0;
    for (int64_t i = s * outputs + threadIdx.x % WARP; i < (s + 1) * outputs; i += WARP) {
        float d = as_float(y[i]) - targets[i];
        sum += d * d;
        if (dy)
            store_rounded(dy + i, factor * d);
    }
    sum = warp_sum(sum);
    if (threadIdx.x % WARP == 0)
        losses[s] = sum / (float)outputs;
}

template <typename T>
static void mse(int64_t samples, int64_t outputs, const T *y, const float *targets, float *losses,
                float scale, T *dy)
{
    LAUNCH(mse_kernel<T>, blocks_for(samples * WARP, THREADS), THREADS, 0, samples, outputs, y,
           targets, losses, 2 * scale / (float)outputs, dy);
}

extern "C" void ops_mse(int64_t samples, int64_t outputs, const real *y, const float *targets,
                        float *losses, float scale, real *dy)
{
    if (samples > 0)
        DISPATCH(T, mse<T>(samples, outputs, reals<T>(y), targets, losses, scale, reals<T>(dy)));
}
