// A warp for each row: its lanes go through the row in packs, and what they read again comes from
// the cache. The gradient of gain is a sum over rows.
#include "trainer/ops/cuda/strips.h"

extern "C" {
#include "trainer/ops/norm.h"
}

enum { THREADS = 256, ROWS = THREADS / WARP };

#define EPSILON 1e-5f

template <typename T, int N>
static __global__ void forward_kernel(int64_t rows, int64_t width, const T *x, const T *gain, T *y,
                                      float *statistics)
{
    int64_t row = (int64_t)blockIdx.x * ROWS + threadIdx.x / WARP;
    int64_t first = threadIdx.x % WARP * N;
    if (row >= rows)
        return;
    float v[N], g[N], squares = 0;
    for (int64_t i = first; i < width; i += WARP * N) {
        load<N>(x + row * width + i, v);
        for (int k = 0; k < N; k++)
            squares += v[k] * v[k];
    }
    float scale = 1.0f / sqrtf(warp_sum(squares) / (float)width + EPSILON);
    for (int64_t i = first; i < width; i += WARP * N) {
        load<N>(x + row * width + i, v);
        load<N>(gain + i, g);
        for (int k = 0; k < N; k++)
            v[k] = v[k] * scale * g[k];
        store<N>(v, y + row * width + i);
    }
    if (first == 0)
        statistics[row] = scale;
}

template <typename T>
static void forward(int64_t rows, int64_t width, const T *x, const T *gain, T *y, float *statistics)
{
    bool in_packs = width % PACK<T> == 0 && is_aligned(x) && is_aligned(gain) && is_aligned(y);
    PACKED(T, N, in_packs,
           LAUNCH((forward_kernel<T, N>), blocks_for(rows, ROWS), THREADS, 0, rows, width, x, gain,
                  y, statistics));
}

extern "C" void ops_rms_norm_forward(int64_t rows, int64_t width, const real *x, const real *gain,
                                     real *y, float *statistics)
{
    if (rows > 0)
        DISPATCH(T, forward<T>(rows, width, reals<T>(x), reals<T>(gain), reals<T>(y), statistics));
}

// With h the normalised x and g = dy * gain: dx = (g - h mean(g h)) / rms.
template <typename T, int N>
static __global__ void backward_kernel(int64_t rows, int64_t width, const T *x, const T *gain,
                                       const float *statistics, const T *dy, T *dx, bool add)
{
    int64_t row = (int64_t)blockIdx.x * ROWS + threadIdx.x / WARP;
    int64_t first = threadIdx.x % WARP * N;
    if (row >= rows)
        return;
    x += row * width;
    dy += row * width;
    dx += row * width;
    float scale = statistics[row], v[N], g[N], d[N], old[N] = {}, product = 0;
    for (int64_t i = first; i < width; i += WARP * N) {
        load<N>(x + i, v);
        load<N>(gain + i, g);
        load<N>(dy + i, d);
        for (int k = 0; k < N; k++)
            product += d[k] * g[k] * (v[k] * scale);
    }
    product = warp_sum(product) / (float)width;
    for (int64_t i = first; i < width; i += WARP * N) {
        load<N>(x + i, v);
        load<N>(gain + i, g);
        load<N>(dy + i, d);
        if (add)
            load<N>(dx + i, old);
        for (int k = 0; k < N; k++)
            v[k] = old[k] + scale * (d[k] * g[k] - v[k] * scale * product);
        store<N>(v, dx + i);
    }
}

template <typename T, int N>
static __global__ void sums_kernel(struct strips c, const T *x, const float *statistics,
                                   const T *dy, double *partial)
{
    struct walk at = strips_walk<N>(c);
    double sums[N] = {};
    while (at.column < c.width && at.row < at.end) {
        float gain[N] = {}, v[N], d[N];
        for (int i = 0; i < STRIPS_FOLD && at.row < at.end; i++, at.row += c.down) {
            load<N>(x + at.row * c.width + at.column, v);
            load<N>(dy + at.row * c.width + at.column, d);
            for (int k = 0; k < N; k++)
                gain[k] += d[k] * (v[k] * statistics[at.row]);
        }
        for (int k = 0; k < N; k++)
            sums[k] += (double)gain[k];
    }
    strips_fold<N>(c, sums, 0, partial);
}

template <typename T, int N>
static void backward(int64_t rows, int64_t width, const T *x, const T *gain,
                     const float *statistics, const T *dy, T *dx, bool add, float *dgain)
{
    struct strips c = strips_of(rows, width, N);
    LAUNCH((sums_kernel<T, N>), dim3(c.blocks, c.count), STRIPS_THREADS, 0, c, x, statistics, dy,
           (double *)cuda_workspace());
    strips_finish<float>(c, dgain, NULL);
    if (dx)
        LAUNCH((backward_kernel<T, N>), blocks_for(rows, ROWS), THREADS, 0, rows, width, x, gain,
               statistics, dy, dx, add);
}

template <typename T>
static void backward_of(int64_t rows, int64_t width, const T *x, const T *gain,
                        const float *statistics, const T *dy, T *dx, bool add, float *dgain)
{
    bool in_packs = width % PACK<T> == 0 && is_aligned(x) && is_aligned(gain) && is_aligned(dy) &&
                    is_aligned(dx);
    PACKED(T, N, in_packs, backward<T, N>(rows, width, x, gain, statistics, dy, dx, add, dgain));
}

extern "C" void ops_rms_norm_backward(int64_t rows, int64_t width, const real *x, const real *gain,
                                      const float *statistics, const real *dy, real *dx, bool add,
                                      float *dgain)
{
    if (rows > 0)
        DISPATCH(T, backward_of<T>(rows, width, reals<T>(x), reals<T>(gain), statistics,
                                   reals<T>(dy), reals<T>(dx), add, dgain));
}
