#include "trainer/ops/cuda/kernels/gelu.h"
#include "trainer/ops/cuda/kernels/vectors.h"

enum { THREADS = 256 };

// y = f(a, b); b may be NULL. A thread reads a pack before it writes it, so y may be a or b.
typedef float binary_fn(float a, float b);

template <typename T, binary_fn *f>
static __global__ void map_kernel(int64_t n, bool aligned, const T *a, const T *b, T *y)
{
    int64_t at = ((int64_t)blockIdx.x * THREADS + threadIdx.x) * PACK<T>;
    if (at >= n)
        return;
    float u[PACK<T>], v[PACK<T>] = {};
    load_some<PACK<T>>(a + at, n - at, aligned, u);
    if (b)
        load_some<PACK<T>>(b + at, n - at, aligned, v);
#pragma unroll
    for (int k = 0; k < PACK<T>; k++)
        u[k] = f(u[k], v[k]);
    store_some<PACK<T>>(u, n - at, aligned, y + at);
}

template <typename T, binary_fn *f> static void map(int64_t n, const T *a, const T *b, T *y)
{
    bool aligned = is_aligned(a) && is_aligned(b) && is_aligned(y);
    if (n > 0)
        LAUNCH((map_kernel<T, f>), blocks_for(n, THREADS * PACK<T>), THREADS, 0, n, aligned, a, b,
               y);
}

static __device__ float add(float a, float b)
{
    return a + b;
}

static __device__ float relu(float x, float)
{
    return x < 0.0f ? 0.0f : x; // written this way NaN stays NaN
}

static __device__ float relu_slope(float y, float dy)
{
    return y > 0.0f ? dy : 0.0f;
}

static __device__ float tangent(float x, float)
{
    return tanhf(x);
}

static __device__ float tangent_slope(float y, float dy)
{
    return dy * (1.0f - y * y);
}

static __device__ float gelu(float x, float)
{
    return x * gelu_gate(x);
}

static __device__ float silu(float x, float)
{
    return x * logistic(x);
}

static __device__ float silu_slope(float x, float dy)
{
    float s = logistic(x);
    return dy * (s + x * s * (1.0f - s));
}

extern "C" void ops_add(int64_t n, const real *a, const real *b, real *y)
{
    DISPATCH(T, map<T, add>(n, reals<T>(a), reals<T>(b), reals<T>(y)));
}

extern "C" void ops_relu_forward(int64_t n, const real *x, real *y)
{
    DISPATCH(T, map<T, relu>(n, reals<T>(x), NULL, reals<T>(y)));
}

extern "C" void ops_relu_backward(int64_t n, const real *y, const real *dy, real *dx)
{
    DISPATCH(T, map<T, relu_slope>(n, reals<T>(y), reals<T>(dy), reals<T>(dx)));
}

extern "C" void ops_tanh_forward(int64_t n, const real *x, real *y)
{
    DISPATCH(T, map<T, tangent>(n, reals<T>(x), NULL, reals<T>(y)));
}

extern "C" void ops_tanh_backward(int64_t n, const real *y, const real *dy, real *dx)
{
    DISPATCH(T, map<T, tangent_slope>(n, reals<T>(y), reals<T>(dy), reals<T>(dx)));
}

extern "C" void ops_gelu_forward(int64_t n, const real *x, real *y)
{
    DISPATCH(T, map<T, gelu>(n, reals<T>(x), NULL, reals<T>(y)));
}

extern "C" void ops_gelu_backward(int64_t n, const real *x, const real *dy, real *dx)
{
    DISPATCH(T, map<T, gelu_slope>(n, reals<T>(x), reals<T>(dy), reals<T>(dx)));
}

extern "C" void ops_silu_forward(int64_t n, const real *x, real *y)
{
    DISPATCH(T, map<T, silu>(n, reals<T>(x), NULL, reals<T>(y)));
}

extern "C" void ops_silu_backward(int64_t n, const real *x, const real *dy, real *dx)
{
    DISPATCH(T, map<T, silu_slope>(n, reals<T>(x), reals<T>(dy), reals<T>(dx)));
}
