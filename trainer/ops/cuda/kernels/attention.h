// Causal attention by kernels of our own, for what cuDNN does not do: any width of a head up to
// ATTENTION_KERNEL_WIDTH, floats, dropout by philox. The rules of ops.h hold. Scores are never
// stored (Dao et al. 2022, "FlashAttention"): the forward pass saves the logarithm of each query's
// sum of exponentials, from which the backward pass makes them again. It needs y.
#ifndef MUSTER_TRAINER_OPS_CUDA_KERNELS_ATTENTION_H
#define MUSTER_TRAINER_OPS_CUDA_KERNELS_ATTENTION_H

#include "trainer/ops/cuda/kernels/launch.h"

extern "C" {
#include "trainer/ops/sequence.h"
}

enum { ATTENTION_KERNEL_WIDTH = 256 };

bool attention_kernel_fits(const struct ops_attention *s);
int64_t attention_kernel_saved(const struct ops_attention *s);   // floats
int64_t attention_kernel_scratch(const struct ops_attention *s); // floats
void attention_kernel_forward(const struct ops_attention *s, const struct ops_dropout *draw,
                              const real *qkv, float *saved, real *y);
void attention_kernel_backward(const struct ops_attention *s, const struct ops_dropout *draw,
                               const real *qkv, const real *y, const float *saved, float *scratch,
                               const real *dy, real *dqkv);

#endif
