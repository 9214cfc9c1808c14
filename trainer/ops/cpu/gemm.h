// Matrix products of ops/cpu, by oneDNN.
#ifndef MUSTER_TRAINER_OPS_CPU_GEMM_H
#define MUSTER_TRAINER_OPS_CPU_GEMM_H

#include <oneapi/dnnl/dnnl.h>

#include "base/log.h"

// Row-major C[m, n] = alpha op(A)[m, k] op(B)[k, n] + beta C, with 'N' for plain and 'T' for
// transposed. If beta is 0, C is not read.
static inline void gemm(char op_a, char op_b, int64_t m, int64_t n, int64_t k, float alpha,
                        const float *a, int64_t lda, const float *b, int64_t ldb, float beta,
                        float *c, int64_t ldc)
{
    must(dnnl_sgemm(op_a, op_b, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc) == dnnl_success);
}

#endif
