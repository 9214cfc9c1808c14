// gelu, for kernels that apply it to numbers in registers. Included by .cu files only.
#ifndef MUSTER_TRAINER_OPS_CUDA_KERNELS_GELU_H
#define MUSTER_TRAINER_OPS_CUDA_KERNELS_GELU_H

#include "trainer/ops/cuda/kernels/launch.h"

static __device__ inline float logistic(float x)
{
    return __fdividef(1.0f, 1.0f + __expf(-x));
}

// gelu(x) = x/2 (1 + tanh(c (x + a x^3))) with c = sqrt(2 / pi). This equals x s(2 c (x + a x^3))
// with the logistic function s, which needs one exponential and one division.
#define GELU_2C 1.5957691216057308f
#define GELU_A  0.044715f

static __device__ inline float gelu_gate(float x)
{
    return logistic(GELU_2C * (x + GELU_A * (x * x * x)));
}

static __device__ inline float gelu_slope(float x, float dy)
{
    float s = gelu_gate(x);
    float slope = GELU_2C * (1.0f + 3.0f * GELU_A * (x * x));
    return dy * (s + x * s * (1.0f - s) * slope);
}

#endif
