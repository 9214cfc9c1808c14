// Conversion of a matrix x, gelu(x) or the gradient through gelu to codes of FP8 (ops/fp8.h), in
// its own order and turned. One thread; the numbers of rows and columns are multiples of
// OPS_FP8_MULTIPLE.
#ifndef MUSTER_TRAINER_OPS_CUDA_KERNELS_QUANTISE_H
#define MUSTER_TRAINER_OPS_CUDA_KERNELS_QUANTISE_H

#include "trainer/ops/cuda/kernels/launch.h"

extern "C" {
#include "trainer/ops/fp8.h"
}

struct quantise_job {           // all addresses are in device memory
    enum ops_fp8_tensor tensor; // E5M2 for OPS_FP8_DY, otherwise E4M3
    int64_t rows, columns;
    bool gelu;             // converts gelu(x); not for OPS_FP8_DY
    const real *before;    // not NULL: x is the gradient of gelu(before), and that of `before` is
                           // converted; only for OPS_FP8_DY
    float *scale;          // [2]: the scale and its inverse
    uint32_t *amax;        // becomes the maximum of its old value and the bits of the largest |x|
    uint32_t *own_amax;    // not NULL: measures first, and writes *scale
    unsigned char *codes;  // [rows, columns]; NULL: not wanted
    unsigned char *turned; // [columns, rows]
    float *sums; // [quantise_parts(), columns]: of each column of what is converted, sums of parts,
                 // in float; only for OPS_FP8_DY; NULL: not wanted
};
int64_t quantise_parts(int64_t rows);
void quantise_reals(const struct quantise_job *job, const real *x);
void quantise_floats(const struct quantise_job *job, const float *x); // weights

#endif
