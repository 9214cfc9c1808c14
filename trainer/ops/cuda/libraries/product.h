// Matrix products by cuBLASLt, which uses column-major matrices. Read by rows, its product
// C = op(A) op(B) is C' = op(B)' op(A)', so the weights come first. The kernel of a shape is chosen
// once, and only among deterministic ones: split products keep their partial sums separately, in
// float, and a kernel adds them in order. Only the thread that drives the device may call this.
#ifndef MUSTER_TRAINER_OPS_CUDA_LIBRARIES_PRODUCT_H
#define MUSTER_TRAINER_OPS_CUDA_LIBRARIES_PRODUCT_H

#include "trainer/ops/cuda/device/device.h"

// Codes of FP8 have a scale. Their products exist only with A transposed and B not: both are summed
// along their columns in memory.
enum operand_type { OPERAND_REALS, OPERAND_E4M3, OPERAND_E5M2 };

// C[m, n] = op(A) op(B) in column-major order; k is the summed dimension. Matrices have no padding.
struct product_shape {
    bool transpose_a, transpose_b; // op transposes
    int64_t m, n, k;
    bool bias;      // [m], added to each column
    bool gelu;      // also writes C before gelu
    bool slope;     // multiplies C by the derivative of gelu
    bool float_sum; // C contains floats, otherwise reals
    enum operand_type a, b;
};

// The operands of a product.
struct product_operands {
    const void *a, *b, *bias;
    const void *before; // values before gelu: written with `gelu`, read with `slope`
    bool add;           // C += ..
    void *c;
    // For codes: factors in device memory by which A and B are multiplied.
    const float *scale_a, *scale_b;
};

struct multiplier {
    cublasLtMatmulDesc_t op;
    cublasLtMatrixLayout_t a, b, c;
    cublasLtMatmulAlgo_t algorithm;
};

cublasStatus_t multiplier_make(const struct product_shape *s, struct multiplier *p);
void multiplier_free(struct multiplier *p); // also after a failure
cublasStatus_t multiplier_run(struct multiplier *p, const struct product_operands *f);

#endif
