// Causal attention by our own kernels, for the cases that cuDNN does not support: any head width up
// to ATTENTION_KERNEL_WIDTH, floats, dropout by philox. The rules of ops.h apply. Scores are never
// stored (Dao et al. 2022, "FlashAttention"): the forward pass saves the logarithm of each query's
// sum of exponentials, and the backward pass recomputes the scores from it. It reads y.
#ifndef MUSTER_TRAINER_OPS_CUDA_KERNELS_ATTENTION_H
#define MUSTER_TRAINER_OPS_CUDA_KERNELS_ATTENTION_H

#include "trainer/ops/cuda/kernels/launch.h"

extern "C" {
#include "trainer/ops/sequence.h"
}

enum { ATTENTION_KERNEL_WIDTH = 256 };

bool attention_kernel_fits(const struct ops_attention *s);
int64_t attention_kernel_saved_floats(const struct ops_attention *s);
int64_t attention_kernel_scratch_floats(const struct ops_attention *s);
void attention_kernel_forward(const struct ops_attention *s, const struct ops_dropout *draw,
                              const real *qkv, float *saved, real *y);
void attention_kernel_backward(const struct ops_attention *s, const struct ops_dropout *draw,
                               const real *qkv, const real *y, const float *saved, float *scratch,
                               const real *dy, real *dqkv);

#endif
