#include "trainer/ops/cuda/kernels/vectors.h"

extern "C" {
#include "trainer/ops/sequence.h"
}

enum { THREADS = 256 };

// table: [context, 2, head / 2], cosines and sines of a position.
static int64_t pairs_of(const struct ops_rotary *s)
{
    return s->width / s->heads / 2;
}

extern "C" int64_t ops_rotary_table_floats(const struct ops_rotary *s)
{
    return s->context * 2 * pairs_of(s);
}

static __global__ void table_kernel(int64_t context, int64_t pairs, double base, float *table)
{
    int64_t at = (int64_t)blockIdx.x * THREADS + threadIdx.x, t = at / pairs, i = at % pairs;
    if (t >= context)
        return;
    double angle = (double)t * pow(base, -(double)i / (double)pairs);
    table[t * 2 * pairs + i] = (float)cos(angle);
    table[t * 2 * pairs + pairs + i] = (float)sin(angle);
}

extern "C" void ops_rotary_table(const struct ops_rotary *s, float *table)
{
    int64_t pairs = pairs_of(s);
    LAUNCH(table_kernel, blocks_for(s->context * pairs, THREADS), THREADS, 0, s->context, pairs,
           s->base, table);
}

// A thread rotates N pairs of a head; the heads of the queries come first, then those of the keys.
template <typename T, int N>
static __global__ void rotate_kernel(struct ops_rotary s, int64_t pairs, const float *table,
                                     float direction, T *qkv)
{
    struct quotient i = divide(((int64_t)blockIdx.x * THREADS + threadIdx.x) * N, s.width);
    int64_t row = i.quotient; // a row has 2 heads * pairs = width pairs
    if (row >= s.samples * s.context)
        return;
    struct quotient head = divide(i.rest, pairs);
    const float *cosines = table + divide(row, s.context).rest * 2 * pairs + head.rest;
    T *first = qkv + row * 3 * s.width + head.quotient * 2 * pairs + head.rest;
    float a[N], b[N], turned[N];
    load<N>(first, a);
    load<N>(first + pairs, b);
    for (int k = 0; k < N; k++)
        turned[k] = a[k] * cosines[k] - b[k] * (direction * cosines[pairs + k]);
    store<N>(turned, first);
    for (int k = 0; k < N; k++)
        turned[k] = b[k] * cosines[k] + a[k] * (direction * cosines[pairs + k]);
    store<N>(turned, first + pairs);
}

template <typename T>
static void rotate(const struct ops_rotary *s, const float *table, bool back, T *qkv)
{
    int64_t pairs = pairs_of(s), n = s->samples * s->context * s->width;
    PACKED(T, N, pairs % PACK<T> == 0 && is_aligned(qkv),
           LAUNCH((rotate_kernel<T, N>), blocks_for(n, THREADS * N), THREADS, 0, *s, pairs, table,
                  back ? -1.0f : 1.0f, qkv));
}

extern "C" void ops_rotary_apply(const struct ops_rotary *s, const float *table, bool back,
                                 real *qkv)
{
    DISPATCH(T, rotate<T>(s, table, back, reals<T>(qkv)));
}
