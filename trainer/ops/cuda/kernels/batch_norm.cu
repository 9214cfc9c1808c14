// Threads stay on their channels and walk down the rows (column_sums.h), so a channel's
// coefficients are read once for many rows.
#include "trainer/ops/cuda/kernels/column_sums.h"

extern "C" {
#include "trainer/ops/norm.h"
}

#define EPSILON 1e-5f

enum {
    FEW_CHANNELS = 4,  // per thread, where each channel needs many registers
    AHEAD = 6,         // rows that a thread loads ahead
    AHEAD_OF_TWO = 3,  // rows of each of two tensors
    AHEAD_OF_FOUR = 2, // rows of each of four tensors
    AT_A_TIME = 4,     // blocks on a multiprocessor
    WAVE = 528,        // blocks on 132 multiprocessors
    MAP_BLOCKS = 1024,
};

// struct ops_batch_norm with the element type of its reals.
template <typename T> struct inputs {
    bool relu;
    const T *x, *gain, *bias;
    const float *mean, *variance;
};

template <typename T> static struct inputs<T> inputs_of(const struct ops_batch_norm *n) {
    return {n->relu, reals<T>(n->x), reals<T>(n->gain), reals<T>(n->bias), n->mean, n->variance};
}

template <typename T>
static bool is_in_packs(int64_t channels, const T *x, const T *y)
{
    return channels % PACK<T> == 0 && is_aligned(x) && is_aligned(y);
}

// Like PACKED(), but with at most FEW_CHANNELS channels.
#define FEW(N, in_packs, ...)                                                                      \
    do {                                                                                           \
        if (in_packs) {                                                                            \
            constexpr int N = FEW_CHANNELS;                                                        \
            __VA_ARGS__;                                                                           \
        } else {                                                                                   \
            constexpr int N = 1;                                                                   \
            __VA_ARGS__;                                                                           \
        }                                                                                          \
    } while (0)

// --- sums of x -----------------------------------------------------------------------------------

// Keeps the compiler from moving code across this point; reordered code would need more registers
// than there are.
static __device__ void compiler_barrier(void)
{
    asm volatile("" ::: "memory");
}

// Float sums are relative to the first of their rows, so that the terms are small; the double sums
// are converted to zero.
template <typename T, int N>
static __global__ void __launch_bounds__(STRIPS_THREADS, AT_A_TIME)
    sums_kernel(struct strips c, const T *x, double *partial)
{
    struct strip_cursor at = strips_walk<N>(c);
    __shared__ struct column_sums<N> sums;
    strips_begin(&sums);
    while (at.column < c.width && at.row < at.end) {
        float pivot[N], first[N] = {}, second[N] = {}, v[N];
        int rows = 0;
        load<N>(x + at.row * c.width + at.column, pivot);
        while (rows < STRIPS_FOLD && at.row < at.end) {
            pack<T, N> next[AHEAD];
            strips_load(c, at, x, next);
#pragma unroll
            for (int i = 0; i < AHEAD; i++, rows++, at.row += c.down) {
                if (at.row >= at.end)
                    break;
                load<N>(next[i].at, v);
                for (int k = 0; k < N; k++) {
                    float d = v[k] - pivot[k];
                    first[k] += d;
                    second[k] += d * d;
                }
            }
        }
        for (int k = 0; k < N; k++) {
            double p = (double)pivot[k], sum = (double)first[k], all = (double)rows * p;
            sums.of[k][threadIdx.x] += sum + all;
            sums.of[N + k][threadIdx.x] += (double)second[k] + p * (2 * sum + all);
            compiler_barrier();
        }
    }
    strips_end<N>(c, &sums, partial);
}

template <typename T> static void sums_of(int64_t rows, int64_t channels, const T *x, double *sums)
{
    double *partial = (double *)cuda_workspace();
    FEW(N, is_in_packs<T>(channels, x, NULL), {
        struct strips c = strips_of(rows, channels, N, WAVE);
        LAUNCH((sums_kernel<T, N>), dim3(c.blocks, c.count), STRIPS_THREADS, 0, c, x, partial);
        strips_finish(c.count, c.width, sums, sums + channels);
    });
}

extern "C" void ops_batch_norm_sums(int64_t rows, int64_t channels, const real *x, double *sums)
{
    DISPATCH(T, sums_of<T>(rows, channels, reals<T>(x), sums));
}

static __global__ void statistics_kernel(double count, int64_t channels, const double *sums,
                                         float *mean, float *variance)
{
    int64_t c = (int64_t)blockIdx.x * STRIPS_THREADS + threadIdx.x;
    if (c >= channels)
        return;
    double m = sums[c] / count, v = sums[channels + c] / count - m * m;
    mean[c] = (float)m;
    variance[c] = v < 0 ? 0.0f : (float)v; // negative by rounding only; NaN stays NaN
}

extern "C" void ops_batch_norm_statistics(double count, int64_t channels, const double *sums,
                                          float *mean, float *variance)
{
    LAUNCH(statistics_kernel, blocks_for(channels, STRIPS_THREADS), STRIPS_THREADS, 0, count,
           channels, sums, mean, variance);
}

// --- forward -------------------------------------------------------------------------------------

static __device__ float inverse_deviation(float variance)
{
    return 1.0f / sqrtf(variance + EPSILON);
}

// y = (x - mean) scale + bias
template <int N> struct coefficients {
    float mean[N], scale[N], bias[N];
};

template <typename T, int N>
static __device__ void load_coefficients(const struct inputs<T> &n, int64_t column,
                                         struct coefficients<N> *c)
{
    for (int k = 0; k < N; k++) {
        c->mean[k] = n.mean[column + k];
        c->scale[k] = as_float(n.gain[column + k]) * inverse_deviation(n.variance[column + k]);
        c->bias[k] = as_float(n.bias[column + k]);
    }
}

template <typename T, int N>
static __global__ void forward_kernel(struct strips c, struct inputs<T> n, const T *add, T *y)
{
    struct strip_cursor at = strips_walk<N>(c);
    struct coefficients<N> f;
    if (at.column >= c.width)
        return;
    load_coefficients<T, N>(n, at.column, &f);
    for (; at.row < at.end; at.row += c.down) {
        int64_t here = at.row * c.width + at.column;
        float v[N], more[N] = {};
        load<N>(n.x + here, v);
        if (add)
            load<N>(add + here, more);
        for (int k = 0; k < N; k++) {
            v[k] = (v[k] - f.mean[k]) * f.scale[k] + f.bias[k] + more[k];
            v[k] = n.relu && v[k] < 0.0f ? 0.0f : v[k]; // NaN stays NaN
        }
        store<N>(v, y + here);
    }
}

template <typename T> static void forward(const struct ops_batch_norm *n, const T *add, T *y)
{
    struct inputs<T> t = inputs_of<T>(n);
    PACKED(T, N, is_in_packs(n->channels, t.x, y) && is_aligned(add), {
        struct strips c = strips_of(n->rows, n->channels, N, MAP_BLOCKS);
        LAUNCH((forward_kernel<T, N>), dim3(c.blocks, c.count), STRIPS_THREADS, 0, c, t, add, y);
    });
}

extern "C" void ops_batch_norm_forward(const struct ops_batch_norm *n, const real *add, real *y)
{
    DISPATCH(T, forward<T>(n, reals<T>(add), reals<T>(y)));
}

// --- backward ------------------------------------------------------------------------------------

// dy where relu passed x. It recomputes y with the arithmetic of the forward pass.
template <int N>
static __device__ float gradient_through_relu(const struct coefficients<N> &c, int k, float d,
                                              bool relu, float dy)
{
    return !relu || d * c.scale[k] + c.bias[k] > 0.0f ? dy : 0.0f;
}

template <typename T, int N>
static __global__ void __launch_bounds__(STRIPS_THREADS, AT_A_TIME)
    gradient_sums_kernel(struct strips c, struct inputs<T> n, const T *dy, double *partial)
{
    struct strip_cursor at = strips_walk<N>(c);
    struct coefficients<N> f;
    __shared__ struct column_sums<N> sums;
    strips_begin(&sums);
    if (at.column < c.width)
        load_coefficients<T, N>(n, at.column, &f);
    while (at.column < c.width && at.row < at.end) {
        float first[N] = {}, second[N] = {}, v[N], g[N];
        for (int rows = 0; rows < STRIPS_FOLD && at.row < at.end; rows += AHEAD_OF_TWO) {
            pack<T, N> xs[AHEAD_OF_TWO], dys[AHEAD_OF_TWO];
            strips_load(c, at, n.x, xs);
            strips_load(c, at, dy, dys);
#pragma unroll
            for (int i = 0; i < AHEAD_OF_TWO; i++, at.row += c.down) {
                if (at.row >= at.end)
                    break;
                load<N>(xs[i].at, v);
                load<N>(dys[i].at, g);
                for (int k = 0; k < N; k++) {
                    float d = v[k] - f.mean[k];
                    g[k] = gradient_through_relu(f, k, d, n.relu, g[k]);
                    first[k] += g[k];
                    second[k] += g[k] * d;
                }
            }
        }
        for (int k = 0; k < N; k++) {
            float scale = inverse_deviation(n.variance[at.column + k]);
            sums.of[k][threadIdx.x] += (double)first[k];
            sums.of[N + k][threadIdx.x] += (double)second[k] * (double)scale;
            compiler_barrier();
        }
    }
    strips_end<N>(c, &sums, partial);
}

template <typename T>
static void gradient_sums(const struct ops_batch_norm *n, const T *dy, double *sums)
{
    double *partial = (double *)cuda_workspace();
    struct inputs<T> t = inputs_of<T>(n);
    FEW(N, is_in_packs(n->channels, t.x, dy), {
        struct strips c = strips_of(n->rows, n->channels, N, WAVE);
        LAUNCH((gradient_sums_kernel<T, N>), dim3(c.blocks, c.count), STRIPS_THREADS, 0, c, t, dy,
               partial);
        strips_finish(c.count, c.width, sums, sums + n->channels);
    });
}

extern "C" void ops_batch_norm_gradient_sums(const struct ops_batch_norm *n, const real *dy,
                                             double *sums)
{
    DISPATCH(T, gradient_sums<T>(n, reals<T>(dy), sums));
}

// The gradient at the end of a residual block: its inputs and its result.
template <typename T> struct joined {
    const T *y, *a, *b; // b may be NULL
    T *dy;              // may be a or b
};

// The values of some rows that a thread has loaded, and its running sums.
template <typename T, int N> struct joined_rows {
    pack<T, N> x[AHEAD_OF_FOUR], y[AHEAD_OF_FOUR], a[AHEAD_OF_FOUR], b[AHEAD_OF_FOUR];
};

// dy rounded, as later readers see it, and added to the sums.
template <typename T, int N>
static __device__ void join_gradient(const struct joined_rows<T, N> &r, int i, bool both,
                                     pack<T, N> *dy)
{
    float a[N], b[N], y[N];
    load<N>(r.a[i].at, a);
    load<N>(r.b[i].at, b);
    load<N>(r.y[i].at, y);
#pragma unroll
    for (int k = 0; k < N; k++) {
        store_rounded(&dy->at[k], both ? a[k] + b[k] : a[k]);
        if (!(y[k] > 0.0f))
            store_rounded(&dy->at[k], 0.0f);
    }
}

template <typename T, int N>
static __global__ void __launch_bounds__(STRIPS_THREADS, AT_A_TIME)
    joined_sums_kernel(struct strips c, struct inputs<T> n, struct joined<T> j, double *partial)
{
    struct strip_cursor at = strips_walk<N>(c);
    float mean[N] = {};
    __shared__ struct column_sums<N> sums;
    strips_begin(&sums);
    for (int k = 0; k < N && at.column < c.width; k++)
        mean[k] = n.mean[at.column + k];
    while (at.column < c.width && at.row < at.end) {
        float first[N] = {}, second[N] = {}, v[N], g[N];
        for (int rows = 0; rows < STRIPS_FOLD && at.row < at.end; rows += AHEAD_OF_FOUR) {
            struct joined_rows<T, N> r = {
            };
            strips_load(c, at, n.x, r.x);
            strips_load(c, at, j.y, r.y);
            strips_load(c, at, j.a, r.a);
            if (j.b)
                strips_load(c, at, j.b, r.b);
#pragma unroll
            for (int i = 0; i < AHEAD_OF_FOUR; i++, at.row += c.down) {
                pack<T, N> dy;
                if (at.row >= at.end)
                    break;
                join_gradient(r, i, j.b != NULL, &dy);
                *reinterpret_cast<pack<T, N> *>(j.dy + at.row * c.width + at.column) = dy;
                load<N>(r.x[i].at, v);
                load<N>(dy.at, g);
                for (int k = 0; k < N; k++) {
                    first[k] += g[k];
                    second[k] += g[k] * (v[k] - mean[k]);
                }
            }
        }
        for (int k = 0; k < N; k++) {
            float scale = inverse_deviation(n.variance[at.column + k]);
            sums.of[k][threadIdx.x] += (double)first[k];
            sums.of[N + k][threadIdx.x] += (double)second[k] * (double)scale;
            compiler_barrier();
        }
    }
    strips_end<N>(c, &sums, partial);
}

template <typename T>
static void joined_sums(const struct ops_batch_norm *n, const struct joined<T> &j, double *sums)
{
    double *partial = (double *)cuda_workspace();
    struct inputs<T> t = inputs_of<T>(n);
    bool in_packs = is_in_packs(n->channels, t.x, j.y) && is_aligned(j.a) && is_aligned(j.b) &&
                    is_aligned(j.dy);
    FEW(N, in_packs, {
        struct strips c = strips_of(n->rows, n->channels, N, WAVE);
        LAUNCH((joined_sums_kernel<T, N>), dim3(c.blocks, c.count), STRIPS_THREADS, 0, c, t, j,
               partial);
        strips_finish(c.count, c.width, sums, sums + n->channels);
    });
}

extern "C" void ops_batch_norm_residual_gradient_sums(const struct ops_batch_norm *n, const real *y,
                                                      const real *a, const real *b, real *dy,
                                                      double *sums)
{
    DISPATCH(T, joined_sums<T>(n, {reals<T>(y), reals<T>(a), reals<T>(b), reals<T>(dy)}, sums));
}

// With h the normalised x and means over `count` rows:
// dx = gain / deviation (dy - mean(dy) - h mean(dy h)).
template <typename T, int N>
static __global__ void __launch_bounds__(STRIPS_THREADS, AT_A_TIME)
    backward_kernel(struct strips c, struct inputs<T> n, double share, const double *sums,
                    const T *dy, T *dx)
{
    struct strip_cursor at = strips_walk<N>(c);
    struct coefficients<N> f;
    float mean[N], slope[N];
    if (at.column >= c.width)
        return;
    load_coefficients<T, N>(n, at.column, &f);
    for (int k = 0; k < N; k++) {
        int64_t channel = at.column + k;
        mean[k] = (float)(sums[channel] * share);
        slope[k] =
            (float)(sums[c.width + channel] * share) * inverse_deviation(n.variance[channel]);
    }
    while (at.row < at.end) {
        pack<T, N> xs[AHEAD_OF_TWO], dys[AHEAD_OF_TWO];
        strips_load(c, at, n.x, xs);
        strips_load(c, at, dy, dys);
#pragma unroll
        for (int i = 0; i < AHEAD_OF_TWO; i++, at.row += c.down) {
            float v[N], g[N];
            if (at.row >= at.end)
                break;
            load<N>(xs[i].at, v);
            load<N>(dys[i].at, g);
            for (int k = 0; k < N; k++) {
                float d = v[k] - f.mean[k];
                v[k] = f.scale[k] *
                       (gradient_through_relu(f, k, d, n.relu, g[k]) - mean[k] - d * slope[k]);
            }
            store<N>(v, dx + at.row * c.width + at.column);
        }
    }
}

template <typename T>
static void backward(const struct ops_batch_norm *n, double count, const double *sums, const T *dy,
                     T *dx)
{
    struct inputs<T> t = inputs_of<T>(n);
    double share = count > 0 ? 1 / count : 0;
    FEW(N, is_in_packs(n->channels, t.x, dy) && is_aligned(dx), {
        struct strips c = strips_of(n->rows, n->channels, N, 2 * WAVE);
        LAUNCH((backward_kernel<T, N>), dim3(c.blocks, c.count), STRIPS_THREADS, 0, c, t, share,
               sums, dy, dx);
    });
}

extern "C" void ops_batch_norm_backward(const struct ops_batch_norm *n, double count,
                                        const double *sums, const real *dy, real *dx)
{
    DISPATCH(T, backward<T>(n, count, sums, reals<T>(dy), reals<T>(dx)));
}
