// Conversion between reals and floats. Copies to and from the host go as floats through the
// workspace; the device rounds.
#include "trainer/ops/cuda/kernels/vectors.h"

enum { THREADS = 256, PART = CUDA_WORKSPACE_BYTES / sizeof(float) };

template <typename T, typename U>
static __global__ void convert_kernel(int64_t n, bool aligned, const T *x, U *y)
{
    enum { N = 4 };
    int64_t at = ((int64_t)blockIdx.x * THREADS + threadIdx.x) * N;
    if (at >= n)
        return;
    float v[N];
    load_some<N>(x + at, n - at, aligned, v);
    store_some<N>(v, n - at, aligned, y + at);
}

template <typename T, typename U> static void convert(int64_t n, const T *x, U *y)
{
    if (n > 0)
        LAUNCH((convert_kernel<T, U>), blocks_for(n, THREADS * 4), THREADS, 0, n,
               is_aligned(x) && is_aligned(y), x, y);
}

static size_t real_size(void)
{
    return cuda_reals_are_bf16() ? sizeof(__nv_bfloat16) : sizeof(float);
}

static int64_t smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

int64_t ops_floats_for_reals(int64_t n)
{
    return ceil_div(n * (int64_t)real_size(), sizeof(float));
}

const real *ops_reals_at(const real *p, size_t index)
{
    return (const real *)((const unsigned char *)p + index * real_size());
}

void ops_to_reals(int64_t n, const float *x, real *y)
{
    DISPATCH(T, convert(n, x, reals<T>(y)));
}

void ops_upload_reals(int64_t n, const float *host, real *to)
{
    float *staging = (float *)cuda_workspace();
    for (int64_t at = 0; at < n; at += PART) {
        int64_t part = smaller(PART, n - at);
        ops_upload(staging, host + at, (size_t)part * sizeof *staging);
        ops_to_reals(part, staging, (real *)ops_reals_at(to, (size_t)at));
    }
}

void ops_download_reals(int64_t n, const real *from, float *host)
{
    float *staging = (float *)cuda_workspace();
    for (int64_t at = 0; at < n; at += PART) {
        int64_t part = smaller(PART, n - at);
        const real *x = ops_reals_at(from, (size_t)at);
        DISPATCH(T, convert(part, reals<T>(x), staging));
        ops_download(host + at, staging, (size_t)part * sizeof *staging);
    }
}
