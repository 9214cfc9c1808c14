// A thread handles a pack of channels: forward of one output, backward of one place of the image.
// The backward pass visits the windows that contain the place, in order, so that no two threads add
// to the same number.
#include "trainer/ops/cuda/kernels/vectors.h"

#include <stdlib.h>

extern "C" {
#include "trainer/ops/image.h"
}

enum { THREADS = 128 };

struct ops_pool {
    struct ops_pool_shape shape;
    int64_t rows, columns; // of the output
    bool relu;             // the maxima become max(0, y)
    int32_t *maxima;       // in device memory, for each output: offset of its maximum in the
                           // image, without the channel; -1: not above zero
};

static int64_t extent(int64_t in, const struct ops_pool_shape *s)
{
    return (in + 2 * s->padding - s->kernel) / s->stride + 1;
}

extern "C" int ops_pool_new(const struct ops_pool_shape *s, struct ops_pool **out, struct error *e)
{
    *out = NULL;
    if (s->height * s->width * s->channels > INT32_MAX)
        return error_set(e, ERR_INVALID, "an image of %lldx%lldx%lld is too large for a pool",
                         (long long)s->height, (long long)s->width, (long long)s->channels);
    struct ops_pool *p = (struct ops_pool *)calloc(1, sizeof *p);
    if (!p)
        return error_set(e, ERR_NO_MEMORY, "no memory for a pool");
    p->shape = *s;
    p->rows = extent(s->height, s);
    p->columns = extent(s->width, s);
    size_t outputs = (size_t)(s->samples * p->rows * p->columns * s->channels);
    int rc = s->kind == OPS_POOL_MAX
                 ? ops_alloc(outputs * sizeof *p->maxima, (void **)&p->maxima, e)
                 : 0;
    if (rc < 0) {
        free(p);
        return rc;
    }
    *out = p;
    return 0;
}

extern "C" void ops_pool_free(struct ops_pool *p)
{
    if (!p)
        return;
    ops_free(p->maxima);
    free(p);
}

extern "C" void ops_pool_add_relu(struct ops_pool *p)
{
    p->relu = true;
}

// The position of a thread: a pack of channels of one place of a sample's image or output.
struct pool_position {
    int64_t sample, row, column, channel;
};

template <int N>
static __device__ struct pool_position thread_position(int64_t rows, int64_t columns,
                                                       int64_t channels)
{
    struct quotient i = divide(((int64_t)blockIdx.x * THREADS + threadIdx.x) * N, channels);
    struct quotient at = divide(i.quotient, columns), row = divide(at.quotient, rows);
    return {row.quotient, row.rest, at.rest, i.rest};
}

struct cuda_pool_span {
    int64_t first, end;
};

// The part of the window of output i that lies in the image.
static __device__ struct cuda_pool_span window_at(const struct ops_pool_shape &s, int64_t i,
                                                  int64_t in)
{
    int64_t first = i * s.stride - s.padding, end = first + s.kernel;
    return {first < 0 ? 0 : first, end > in ? in : end};
}

template <int N> using places = pack<int32_t, N>; // offsets in the image

// The first maximum of a window; NaN is larger than any number.
template <int N> struct maximum {
    float value[N];
    places<N> at;
};

template <int N>
static __device__ void update_maximum(struct maximum<N> *m, bool is_first, const float *v,
                                      int32_t at)
{
    for (int k = 0; k < N; k++) {
        bool larger = is_first || !(v[k] <= m->value[k] || m->value[k] != m->value[k]);
        m->value[k] = larger ? v[k] : m->value[k];
        m->at.at[k] = larger ? at : m->at.at[k];
    }
}

template <typename T, int N>
static __global__ void maximum_kernel(struct ops_pool p, const T *x, T *y)
{
    const struct ops_pool_shape &s = p.shape;
    struct pool_position o = thread_position<N>(p.rows, p.columns, s.channels);
    if (o.sample >= s.samples)
        return;
    struct cuda_pool_span v = window_at(s, o.row, s.height), h = window_at(s, o.column, s.width);
    struct maximum<N> m = {
    };
    x += o.sample * s.height * s.width * s.channels + o.channel;
    for (int64_t i = v.first; i < v.end; i++)
        for (int64_t j = h.first; j < h.end; j++) {
            float here[N];
            int64_t at = (i * s.width + j) * s.channels;
            load<N>(x + at, here);
            update_maximum(&m, i == v.first && j == h.first, here, (int32_t)at);
        }
    int64_t out = ((o.sample * p.rows + o.row) * p.columns + o.column) * s.channels + o.channel;
    for (int k = 0; k < N; k++)
        if (p.relu) {
            m.at.at[k] = m.value[k] > 0.0f ? m.at.at[k] : -1;
            m.value[k] = m.value[k] < 0.0f ? 0.0f : m.value[k]; // NaN stays NaN
        }
    store<N>(m.value, y + out);
    *reinterpret_cast<places<N> *>(p.maxima + out) = m.at;
}

template <typename T, int N>
static __global__ void average_kernel(struct ops_pool p, const T *x, T *y)
{
    const struct ops_pool_shape &s = p.shape;
    struct pool_position o = thread_position<N>(p.rows, p.columns, s.channels);
    if (o.sample >= s.samples)
        return;
    struct cuda_pool_span v = window_at(s, o.row, s.height), h = window_at(s, o.column, s.width);
    float sum[N] = {}, share = 1.0f / (float)((v.end - v.first) * (h.end - h.first));
    x += o.sample * s.height * s.width * s.channels + o.channel;
    for (int64_t i = v.first; i < v.end; i++)
        for (int64_t j = h.first; j < h.end; j++) {
            float here[N];
            load<N>(x + (i * s.width + j) * s.channels, here);
            for (int k = 0; k < N; k++)
                sum[k] += share * here[k];
        }
    int64_t out = ((o.sample * p.rows + o.row) * p.columns + o.column) * s.channels + o.channel;
    store<N>(sum, y + out);
}

template <typename T> static void forward(struct ops_pool *p, const T *x, T *y)
{
    const struct ops_pool_shape *s = &p->shape;
    int64_t outputs = s->samples * p->rows * p->columns * s->channels;
    PACKED(T, N, s->channels % PACK<T> == 0 && is_aligned(x) && is_aligned(y), {
        unsigned blocks = blocks_for(outputs, THREADS * N);
        if (s->kind == OPS_POOL_MAX)
            LAUNCH((maximum_kernel<T, N>), blocks, THREADS, 0, *p, x, y);
        else
            LAUNCH((average_kernel<T, N>), blocks, THREADS, 0, *p, x, y);
    });
}

extern "C" void ops_pool_forward(struct ops_pool *p, const real *x, real *y)
{
    DISPATCH(T, forward<T>(p, reals<T>(x), reals<T>(y)));
}

// The outputs whose windows contain place i.
static __device__ struct cuda_pool_span windows_of(const struct ops_pool_shape &s, int64_t i,
                                                   int64_t outputs)
{
    int64_t last = divide(i + s.padding, s.stride).quotient, before = i + s.padding - s.kernel;
    int64_t first = before < 0 ? 0 : divide(before, s.stride).quotient + 1;
    return {first, last < outputs ? last + 1 : outputs};
}

// The share of the place at `at` in the gradient of the output at (row, column).
template <typename T, int N>
static __device__ void add_gradient(const struct ops_pool &p, int64_t row, int64_t column,
                                    int64_t out, int32_t at, const T *dy, float *sum)
{
    const struct ops_pool_shape &s = p.shape;
    float d[N], share = 0;
    load<N>(dy + out, d);
    if (!p.maxima) {
        struct cuda_pool_span v = window_at(s, row, s.height), h = window_at(s, column, s.width);
        share = 1.0f / (float)((v.end - v.first) * (h.end - h.first));
    }
    if (!p.maxima)
        for (int k = 0; k < N; k++)
            sum[k] += share * d[k];
    else {
        places<N> maxima = *reinterpret_cast<const places<N> *>(p.maxima + out);
        for (int k = 0; k < N; k++)
            sum[k] += maxima.at[k] == at ? d[k] : 0.0f;
    }
}

template <typename T, int N>
static __global__ void backward_kernel(struct ops_pool p, const T *dy, T *dx)
{
    const struct ops_pool_shape &s = p.shape;
    struct pool_position o = thread_position<N>(s.height, s.width, s.channels);
    if (o.sample >= s.samples)
        return;
    struct cuda_pool_span v = windows_of(s, o.row, p.rows), h = windows_of(s, o.column, p.columns);
    int64_t at = (o.row * s.width + o.column) * s.channels;
    float sum[N] = {};
    for (int64_t i = v.first; i < v.end; i++)
        for (int64_t j = h.first; j < h.end; j++) {
            int64_t out = ((o.sample * p.rows + i) * p.columns + j) * s.channels + o.channel;
            add_gradient<T, N>(p, i, j, out, (int32_t)at, dy, sum);
        }
    store<N>(sum, dx + o.sample * s.height * s.width * s.channels + at + o.channel);
}

template <typename T> static void backward(const struct ops_pool *p, const T *dy, T *dx)
{
    const struct ops_pool_shape *s = &p->shape;
    int64_t inputs = s->samples * s->height * s->width * s->channels;
    PACKED(
        T, N, s->channels % PACK<T> == 0 && is_aligned(dy) && is_aligned(dx),
        LAUNCH((backward_kernel<T, N>), blocks_for(inputs, THREADS * N), THREADS, 0, *p, dy, dx));
}

extern "C" void ops_pool_backward(struct ops_pool *p, const real *dy, real *dx)
{
    DISPATCH(T, backward<T>(p, reals<T>(dy), reals<T>(dx)));
}
