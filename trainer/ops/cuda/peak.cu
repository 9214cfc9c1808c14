// The rate of large products, by ops' own: what a model's could reach.
#include "trainer/ops/cuda/launch.h"

extern "C" {
#include "base/clock.h"
}

enum { SIDE = 8192, RUNS = 5, PRODUCTS = 4 };

// Microseconds of the fastest run; 0: none came through.
static int64_t fastest_run(const struct ops_linear *s, const real *x, const real *w, real *y)
{
    int64_t best = 0;
    for (int run = 0; run <= RUNS; run++) { // the first only warms up
        int64_t begin = clock_mono_us();
        for (int i = 0; i < PRODUCTS; i++)
            ops_linear_forward(s, x, w, NULL, y);
        if (ops_wait(NULL))
            return 0;
        int64_t took = clock_mono_us() - begin;
        if (run == 1 || (run > 1 && took < best))
            best = took;
    }
    return best;
}

double ops_peak_flops(void)
{
    const size_t bytes = (size_t)ops_floats_of_reals((int64_t)SIDE * SIDE) * sizeof(float);
    struct ops_linear s = {SIDE, SIDE, SIDE, false, NULL};
    void *blocks[3] = {};
    int64_t best = 0;
    int err = ops_linear_compile(&s, NULL);
    for (int i = 0; i < 3 && !err; i++)
        err = ops_alloc(bytes, &blocks[i], NULL);
    if (!err)
        best = fastest_run(&s, (const real *)blocks[0], (const real *)blocks[1], (real *)blocks[2]);
    for (int i = 0; i < 3; i++)
        ops_free(blocks[i]);
    ops_linear_free(&s);
    return best > 0 ? 2.0 * SIDE * SIDE * SIDE * PRODUCTS * 1e6 / (double)best : NAN;
}
