#include "trainer/ops/cuda/row_norm.h"

extern "C" {
#include "trainer/ops/norm.h"
}

extern "C" void ops_rms_norm_forward(int64_t rows, int64_t width, const real *x, const real *gain,
                                     real *y, float *statistics)
{
    ops_add_rms_norm_forward(rows, width, x, NULL, NULL, gain, y, statistics);
}

extern "C" void ops_add_rms_norm_forward(int64_t rows, int64_t width, const real *a, const real *b,
                                         real *sum, const real *gain, real *y, float *statistics)
{
    DISPATCH(T, row_norm_forward<T, false>({rows, width, reals<T>(a), reals<T>(b), reals<T>(sum),
                                            reals<T>(gain), NULL, reals<T>(y), statistics}));
}

extern "C" void ops_rms_norm_backward(int64_t rows, int64_t width, const real *x, const real *gain,
                                      const float *statistics, const real *dy, real *dx, bool add,
                                      float *dgain)
{
    DISPATCH(T, row_norm_backward<T, false>({rows, width, reals<T>(x), reals<T>(gain), statistics,
                                             reals<T>(dy), reals<T>(dx), add, dgain, NULL}));
}
