// Measures the peak rate of large products with the ops themselves, on random numbers. A GPU
// multiplies zeros faster, because they take less power.
#include "trainer/ops/cuda/kernels/vectors.h"

extern "C" {
#include "base/clock.h"
}

enum { SIDE = 8192, RUNS = 5, PRODUCTS = 4, THREADS = 256 };

// Pseudo-random numbers in [-1, 1).
template <typename T> static __global__ void fill_kernel(uint32_t n, T *x)
{
    uint32_t i = blockIdx.x * THREADS + threadIdx.x, bits = i * 0x9E3779B9u;
    bits = (bits ^ bits >> 16) * 0x85EBCA6Bu;
    bits = (bits ^ bits >> 13) * 0xC2B2AE35u;
    if (i < n)
        store_rounded(x + i, (float)(int32_t)(bits ^ bits >> 16) * 0x1p-31f);
}

static void fill_random(real *x)
{
    const uint32_t n = SIDE * SIDE;
    DISPATCH(T, LAUNCH(fill_kernel<T>, blocks_for(n, THREADS), THREADS, 0, n, reals<T>(x)));
}

// Microseconds of the fastest run; 0: the device failed.
static int64_t fastest_run(const struct ops_linear *s, const real *x, const real *w, real *y)
{
    int64_t best = 0;
    for (int run = 0; run <= RUNS; run++) { // the first run is a warm-up
        int64_t begin = clock_mono_us();
        for (int i = 0; i < PRODUCTS; i++)
            ops_linear_forward(s, x, w, NULL, y);
        if (ops_synchronize(NULL))
            return 0;
        int64_t took = clock_mono_us() - begin;
        if (run == 1 || (run > 1 && took < best))
            best = took;
    }
    return best;
}

double ops_peak_flops(void)
{
    const size_t bytes = (size_t)ops_floats_for_reals((int64_t)SIDE * SIDE) * sizeof(float);
    struct ops_linear s = {SIDE, SIDE, SIDE, false, NULL};
    void *blocks[3] = {};
    int64_t best = 0;
    int err = ops_linear_compile(&s, NULL);
    for (int i = 0; i < 3 && !err; i++)
        err = ops_alloc(bytes, &blocks[i], NULL);
    for (int i = 0; i < 2 && !err; i++)
        fill_random((real *)blocks[i]);
    if (!err)
        best = fastest_run(&s, (const real *)blocks[0], (const real *)blocks[1], (real *)blocks[2]);
    for (int i = 0; i < 3; i++)
        ops_free(blocks[i]);
    ops_linear_free(&s);
    return best > 0 ? 2.0 * SIDE * SIDE * SIDE * PRODUCTS * 1e6 / (double)best : NAN;
}
