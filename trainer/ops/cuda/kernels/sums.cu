#include "trainer/ops/cuda/kernels/vectors.h"

enum { THREADS = 128 }; // one warp per sample

// The sum of a sample, in all lanes of its warp; the warp's number in the grid is the sample's.
template <typename V, typename X>
static __device__ V sum_of_sample(int64_t sample, int64_t positions, const X *x)
{
    V sum = 0;
    for (int64_t i = threadIdx.x % WARP; i < positions; i += WARP)
        sum += (V)x[sample * positions + i];
    return warp_sum(sum);
}

static __global__ void means_kernel(int64_t samples, int64_t positions, const float *x,
                                    float *means)
{
    int64_t s = ((int64_t)blockIdx.x * THREADS + threadIdx.x) / WARP;
    if (s >= samples)
        return;
    double sum = sum_of_sample<double>(s, positions, x);
    if (threadIdx.x % WARP == 0)
        means[s] = (float)(sum / (double)positions);
}

static __global__ void counts_kernel(int64_t samples, int64_t positions, const int32_t *x,
                                     int32_t *counts)
{
    int64_t s = ((int64_t)blockIdx.x * THREADS + threadIdx.x) / WARP;
    if (s >= samples)
        return;
    int32_t sum = sum_of_sample<int32_t>(s, positions, x);
    if (threadIdx.x % WARP == 0)
        counts[s] = sum;
}

extern "C" void ops_row_means(int64_t samples, int64_t positions, const float *x, float *means)
{
    if (samples > 0)
        LAUNCH(means_kernel, blocks_for(samples * WARP, THREADS), THREADS, 0, samples, positions, x,
               means);
}

extern "C" void ops_row_sums(int64_t samples, int64_t positions, const int32_t *x, int32_t *counts)
{
    if (samples > 0)
        LAUNCH(counts_kernel, blocks_for(samples * WARP, THREADS), THREADS, 0, samples, positions,
               x, counts);
}

struct scaled {
    struct ops_scaled of[OPS_SCALED];
};

static __global__ void scale_kernel(int64_t n, struct scaled all)
{
    int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x;
    const struct ops_scaled s = all.of[blockIdx.y];
    if (i < n)
        s.y[i] = (float)(s.factor * (s.x ? (double)s.x[i] : s.doubles[i]));
}

extern "C" void ops_scale(int64_t n, int count, const struct ops_scaled *s)
{
    struct scaled all = {};
    for (int i = 0; i < count; i++)
        all.of[i] = s[i];
    if (n > 0)
        LAUNCH(scale_kernel, dim3(blocks_for(n, THREADS), (unsigned)count), THREADS, 0, n, all);
}
