// Column sums: the gradient of a bias. One thread; uses the workspace.
#ifndef MUSTER_TRAINER_OPS_CUDA_KERNELS_BIAS_GRADIENT_H
#define MUSTER_TRAINER_OPS_CUDA_KERNELS_BIAS_GRADIENT_H

#include "trainer/ops/cuda/kernels/launch.h"

// sums[width] of x[rows, width], in float; the shape alone determines the order.
void bias_gradient_sum(int64_t rows, int64_t width, const real *x, float *sums);
void bias_gradient_sum_floats(int64_t rows, int64_t width, const float *x, float *sums);

#endif
