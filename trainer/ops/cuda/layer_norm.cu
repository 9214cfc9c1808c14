#include "trainer/ops/cuda/row_norm.h"

extern "C" {
#include "trainer/ops/norm.h"
}

extern "C" void ops_layer_norm_forward(int64_t rows, int64_t width, const real *x, const real *gain,
                                       const real *bias, real *y, float *statistics)
{
    ops_add_layer_norm_forward(rows, width, x, NULL, NULL, gain, bias, y, statistics);
}

extern "C" void ops_add_layer_norm_forward(int64_t rows, int64_t width, const real *a,
                                           const real *b, real *sum, const real *gain,
                                           const real *bias, real *y, float *statistics)
{
    DISPATCH(T,
             row_norm_forward<T, true>({rows, width, reals<T>(a), reals<T>(b), reals<T>(sum),
                                        reals<T>(gain), reals<T>(bias), reals<T>(y), statistics}));
}

extern "C" void ops_layer_norm_backward(int64_t rows, int64_t width, const real *x,
                                        const real *gain, const float *statistics, const real *dy,
                                        real *dx, bool add, float *dgain, float *dbias)
{
    DISPATCH(T, row_norm_backward<T, true>({rows, width, reals<T>(x), reals<T>(gain), statistics,
                                            reals<T>(dy), reals<T>(dx), add, dgain, dbias}));
}
