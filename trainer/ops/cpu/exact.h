// The loops of ops/exact.h, compiled for one instruction set. All sets give the same results.
#ifndef MUSTER_TRAINER_OPS_CPU_EXACT_H
#define MUSTER_TRAINER_OPS_CPU_EXACT_H

#include "trainer/ops/exact.h"

struct exact_kernels { // functions that read g return its amax
    const char *name;  // "avx2", "generic"
    uint32_t (*probe)(const float *g, size_t n);
    uint32_t (*put)(int32_t *restrict sum, const float *restrict g, size_t n, float scale);
    uint32_t (*add)(int32_t *restrict sum, const float *restrict g, size_t n, float scale);
    void (*to_float)(void *sum, size_t n, float scale);
    void (*add_float)(float *restrict sum, const float *restrict g, size_t n);
    void (*scale_float)(float *sum, size_t n, float scale);
};

const struct exact_kernels *exact_kernels(void);         // the best for this processor
const struct exact_kernels *exact_kernels_generic(void); // for comparison

#endif
