// One block per row of logits. It reads the row from memory once: maximum and sum of exponentials
// are computed together (Milakov & Gimelshein 2018, "Online normalizer calculation for softmax").
// The gradient reads the row a second time, from the cache if it is still there.
#include "trainer/ops/cuda/kernels/vectors.h"

#include <float.h>

enum { THREADS_MAX = 512, WARPS_MAX = THREADS_MAX / WARP };

// The softmax of some logits: the e^(x - largest) add up to `sum`. NaN shows in the sum.
struct softmax {
    float largest, sum;
};

// Other sums of a row.
struct logits_row {
    float total;     // sum of the logits
    int32_t earlier; // logits that rank before the target
};

static __device__ float row_sum(float v)
{
    __shared__ float part[WARPS_MAX];
    return block_sum(v, part);
}

static __device__ int32_t row_count(int32_t v)
{
    __shared__ int32_t part[WARPS_MAX];
    return block_sum(v, part);
}

static __device__ float row_maximum(float v)
{
    __shared__ float part[WARPS_MAX];
    v = warp_maximum(v);
    if (threadIdx.x % WARP == 0)
        part[threadIdx.x / WARP] = v;
    __syncthreads();
    for (unsigned i = 0; i < blockDim.x / WARP; i++)
        v = part[i] > v ? part[i] : v;
    return v;
}

// The start of a thread's first pack. Packs are aligned to their size, so the first and the last
// pack of a row may be partial.
template <typename T> static __device__ int64_t first_pack(bool in_packs, const T *row)
{
    int64_t before =
        in_packs ? (int64_t)((uintptr_t)row % sizeof(pack<T, PACK<T>>) / sizeof(T)) : 0;
    return threadIdx.x * PACK<T> - before;
}

// Loads a pack; numbers outside of the row become zero.
template <typename T>
static __device__ void load_pack(bool in_packs, const T *row, int64_t at, int64_t classes, float *v)
{
    if (in_packs && at >= 0 && at + PACK<T> <= classes) {
        load<PACK<T>>(row + at, v);
        return;
    }
#pragma unroll
    for (int k = 0; k < PACK<T>; k++)
        v[k] = at + k >= 0 && at + k < classes ? as_float(row[at + k]) : 0.0f;
}

template <typename T>
static __device__ void store_pack(bool in_packs, const float *v, int64_t at, int64_t classes,
                                  T *row)
{
    if (in_packs && at >= 0 && at + PACK<T> <= classes) {
        store<PACK<T>>(v, row + at);
        return;
    }
#pragma unroll
    for (int k = 0; k < PACK<T>; k++)
        if (at + k >= 0 && at + k < classes)
            store_rounded(row + at + k, v[k]);
}

// The numbers [first, end) of the pack at `at` are in the row, and number `target` is the target.
// All are small, so that loops over a pack compare short integers.
struct within {
    int first, end, target;
};

template <typename T>
static __device__ struct within within_row(int64_t at, int64_t classes, int32_t target)
{
    int64_t left = classes - at;
    return {at < 0 ? (int)-at : 0, left < PACK<T> ? (int)left : PACK<T>, (int)(target - at)};
}

// The largest number of a pack is found first, so that the sum is scaled once.
template <int N>
static __device__ void add_logits(struct softmax *s, const struct within &w, const float *v)
{
    float largest = s->largest;
#pragma unroll
    for (int k = 0; k < N; k++)
        largest = k >= w.first && k < w.end && v[k] > largest ? v[k] : largest;
    if (largest > s->largest) {
        s->sum *= expf(s->largest - largest);
        s->largest = largest;
    }
#pragma unroll
    for (int k = 0; k < N; k++)
        s->sum += k >= w.first && k < w.end ? expf(v[k] - largest) : 0.0f;
}

template <typename T>
static __device__ void read_row(int64_t classes, bool in_packs, const T *x, int32_t target,
                                struct softmax *s, struct logits_row *row)
{
    float wanted = as_float(x[target]);
    for (int64_t at = first_pack(in_packs, x); at < classes; at += blockDim.x * PACK<T>) {
        struct within w = within_row<T>(at, classes, target);
        float v[PACK<T>];
        load_pack(in_packs, x, at, classes, v); // zero outside of the row
        add_logits<PACK<T>>(s, w, v);
#pragma unroll
        for (int k = 0; k < PACK<T>; k++) {
            bool is_earlier = v[k] > wanted || (v[k] == wanted && k < w.target);
            row->total += v[k];
            row->earlier += k >= w.first && k < w.end && is_earlier;
        }
    }
}

// The gradient of a logit: factor e^(x - largest) - share; the target's is less by `whole`.
struct slope {
    float largest, factor, share, whole;
};

template <typename T>
static __device__ void write_gradient(int64_t classes, bool in_packs, const T *x, int32_t target,
                                      struct slope s, T *dx)
{
    for (int64_t at = first_pack(in_packs, x); at < classes; at += blockDim.x * PACK<T>) {
        struct within w = within_row<T>(at, classes, target);
        float v[PACK<T>];
        load_pack(in_packs, x, at, classes, v);
#pragma unroll
        for (int k = 0; k < PACK<T>; k++)
            v[k] = expf(v[k] - s.largest) * s.factor - s.share - (k == w.target ? s.whole : 0.0f);
        store_pack(in_packs, v, at, classes, dx);
    }
}

template <typename T>
static __global__ void cross_entropy_kernel(int64_t classes, bool in_packs, const T *logits,
                                            const int32_t *targets, float *losses, int32_t *correct,
                                            float smoothing, float scale, T *dlogits)
{
    const T *x = logits + blockIdx.x * classes;
    int32_t target = targets[blockIdx.x];
    float wanted = as_float(x[target]), share = smoothing / (float)classes;
    struct softmax mine = {-FLT_MAX, 0.0f};
    struct logits_row row = {0.0f, 0};
    read_row(classes, in_packs, x, target, &mine, &row);
    float largest = row_maximum(mine.largest);
    float sum = row_sum(mine.sum * expf(mine.largest - largest));
    if (smoothing > 0)
        row.total = row_sum(row.total);
    if (correct)
        row.earlier = row_count(row.earlier);
    if (threadIdx.x == 0) {
        float loss = logf(sum) + (largest - wanted);
        if (smoothing > 0) // mean of the logits weighted by the smoothed target
            loss += smoothing * wanted - share * row.total;
        losses[blockIdx.x] = loss;
        if (correct) // false for NaN
            correct[blockIdx.x] = row.earlier == 0 && wanted == wanted;
    }
    struct slope slope = {largest, scale / sum, scale * share, scale * (1 - smoothing)};
    if (dlogits)
        write_gradient(classes, in_packs, x, target, slope, dlogits + blockIdx.x * classes);
}

template <typename T>
static void cross_entropy(int64_t rows, int64_t classes, const T *logits, const int32_t *targets,
                          float *losses, int32_t *correct, float smoothing, float scale, T *dlogits)
{
    bool in_packs = is_aligned(logits) && is_aligned(dlogits);
    int64_t warps = ceil_div(classes, PACK<T> * WARP);
    int64_t threads = (warps < WARPS_MAX ? warps : (int64_t)WARPS_MAX) * WARP;
    LAUNCH(cross_entropy_kernel<T>, (unsigned)rows, (unsigned)threads, 0, classes, in_packs, logits,
           targets, losses, correct, smoothing, scale, dlogits);
}

extern "C" void ops_cross_entropy(int64_t rows, int64_t classes, const real *logits,
                                  const int32_t *targets, float *losses, int32_t *correct,
                                  float smoothing, float scale, real *dlogits)
{
    if (rows > 0)
        DISPATCH(T, cross_entropy<T>(rows, classes, reals<T>(logits), targets, losses, correct,
                                     smoothing, scale, reals<T>(dlogits)));
}
