// Threads keep to their channels and go down the rows (strips.h), so a channel's coefficients are
// read once for many rows.
#include "trainer/ops/cuda/strips.h"

extern "C" {
#include "trainer/ops/norm.h"
}

#define EPSILON 1e-5f

enum {
    AHEAD = 4,
    AHEAD_OF_TWO = 2
}; // rows on their way to a thread, of one or each of two tensors

// struct ops_batch_norm with its reals by type.
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

// --- sums of x

// Sums in float are about the first of their rows, so that they see small numbers only; in double
// they are moved to zero.
template <typename T, int N>
static __global__ void __launch_bounds__(STRIPS_THREADS, 2)
    sums_kernel(struct strips c, const T *x, double *partial)
{
    struct walk at = strips_walk<N>(c);
    struct column_sums<N> sums = {
    };
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
            sums.first[k] += sum + all;
            sums.second[k] += (double)second[k] + p * (2 * sum + all);
        }
    }
    strips_end<N>(c, sums, partial);
}

template <typename T> static void sums_of(int64_t rows, int64_t channels, const T *x, double *sums)
{
    double *partial = (double *)cuda_workspace();
    PACKED(T, N, is_in_packs<T>(channels, x, NULL), {
        struct strips c = strips_of(rows, channels, N);
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
    variance[c] = v < 0 ? 0.0f : (float)v; // rounding only; NaN stays NaN
}

extern "C" void ops_batch_norm_statistics(double count, int64_t channels, const double *sums,
                                          float *mean, float *variance)
{
    LAUNCH(statistics_kernel, blocks_for(channels, STRIPS_THREADS), STRIPS_THREADS, 0, count,
           channels, sums, mean, variance);
}

// --- forward

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
    struct walk at = strips_walk<N>(c);
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
        struct strips c = strips_of(n->rows, n->channels, N);
        LAUNCH((forward_kernel<T, N>), dim3(c.blocks, c.count), STRIPS_THREADS, 0, c, t, add, y);
    });
}

extern "C" void ops_batch_norm_forward(const struct ops_batch_norm *n, const real *add, real *y)
{
    DISPATCH(T, forward<T>(n, reals<T>(add), reals<T>(y)));
}

// --- backward

// dy where relu let x pass; the same arithmetic as forward, so the same answer.
template <int N>
static __device__ float passed(const struct coefficients<N> &c, int k, float d, bool relu, float dy)
{
    return !relu || d * c.scale[k] + c.bias[k] > 0.0f ? dy : 0.0f;
}

template <typename T, int N>
static __global__ void __launch_bounds__(STRIPS_THREADS, 2)
    gradient_sums_kernel(struct strips c, struct inputs<T> n, const T *dy, double *partial)
{
    struct walk at = strips_walk<N>(c);
    struct coefficients<N> f;
    struct column_sums<N> sums = {
    };
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
                    g[k] = passed(f, k, d, n.relu, g[k]);
                    first[k] += g[k];
                    second[k] += g[k] * d;
                }
            }
        }
        for (int k = 0; k < N; k++) {
            float scale = inverse_deviation(n.variance[at.column + k]);
            sums.first[k] += (double)first[k];
            sums.second[k] += (double)second[k] * (double)scale;
        }
    }
    strips_end<N>(c, sums, partial);
}

template <typename T>
static void gradient_sums(const struct ops_batch_norm *n, const T *dy, double *sums)
{
    double *partial = (double *)cuda_workspace();
    struct inputs<T> t = inputs_of<T>(n);
    PACKED(T, N, is_in_packs(n->channels, t.x, dy), {
        struct strips c = strips_of(n->rows, n->channels, N);
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

// With h the normalised x and all means over `count` rows:
// dx = gain / deviation (dy - mean(dy) - h mean(dy h)).
template <typename T, int N>
static __global__ void backward_kernel(struct strips c, struct inputs<T> n, double share,
                                       const double *sums, const T *dy, T *dx)
{
    struct walk at = strips_walk<N>(c);
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
    for (; at.row < at.end; at.row += c.down) {
        int64_t here = at.row * c.width + at.column;
        float v[N], g[N];
        load<N>(n.x + here, v);
        load<N>(dy + here, g);
        for (int k = 0; k < N; k++) {
            float d = v[k] - f.mean[k];
            v[k] = f.scale[k] * (passed(f, k, d, n.relu, g[k]) - mean[k] - d * slope[k]);
        }
        store<N>(v, dx + here);
    }
}

template <typename T>
static void backward(const struct ops_batch_norm *n, double count, const double *sums, const T *dy,
                     T *dx)
{
    struct inputs<T> t = inputs_of<T>(n);
    double share = count > 0 ? 1 / count : 0;
    PACKED(T, N, is_in_packs(n->channels, t.x, dy) && is_aligned(dx), {
        struct strips c = strips_of(n->rows, n->channels, N);
        LAUNCH((backward_kernel<T, N>), dim3(c.blocks, c.count), STRIPS_THREADS, 0, c, t, share,
               sums, dy, dx);
    });
}

extern "C" void ops_batch_norm_backward(const struct ops_batch_norm *n, double count,
                                        const double *sums, const real *dy, real *dx)
{
    DISPATCH(T, backward<T>(n, count, sums, reals<T>(dy), reals<T>(dx)));
}
