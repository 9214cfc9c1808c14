// LAUNCH starts a kernel of ops/cuda on the device's stream, for either element type. Device memory
// belongs to the caller; only the thread that drives the device may use these functions. Nothing
// here waits, allocates or reads back, so CUDA graphs can capture it.
//
// The unit tests compile the same files for the host, where LAUNCH is a loop
// (tests/unit/trainer/cuda/emulate.h); kernels use only the features of CUDA that are emulated
// there. The shape alone determines the order of sums: no float atomics, no dependence on the
// number of multiprocessors.
#ifndef MUSTER_TRAINER_OPS_CUDA_KERNELS_LAUNCH_H
#define MUSTER_TRAINER_OPS_CUDA_KERNELS_LAUNCH_H

#include <cuda_bf16.h>
#include <math.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

extern "C" {
#include "trainer/ops/ops.h"
}

#ifndef LAUNCH // not the emulation
#include <cuda_runtime.h>

#include "trainer/ops/cuda/device/stream.h"

// A kernel must request more than 48 KiB of shared memory explicitly.
#define LAUNCH(kernel, grid, block, shared_bytes, ...)                                             \
    do {                                                                                           \
        if ((shared_bytes) > 48 * 1024)                                                            \
            cuda_check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,   \
                                            (int)(shared_bytes)),                                  \
                       #kernel);                                                                   \
        kernel<<<(grid), (block), (shared_bytes), cuda_stream()>>>(__VA_ARGS__);                   \
        cuda_check(cudaGetLastError(), #kernel);                                                   \
    } while (0)

// Shared memory whose size is an argument of the launch.
#define SHARED_BYTES(name) extern __shared__ __align__(16) unsigned char name[]
#endif

// Defined by device.cu. Each op may use the whole workspace while its kernels run.
bool cuda_reals_are_bf16(void);
void *cuda_workspace(void);
enum { CUDA_WORKSPACE_BYTES = 32 << 20 };

// DISPATCH(T, add<T>(n, reals<T>(a), ...)) runs the call with T as the type of reals.
#define DISPATCH(T, ...)                                                                           \
    do {                                                                                           \
        if (cuda_reals_are_bf16()) {                                                               \
            typedef __nv_bfloat16 T;                                                               \
            __VA_ARGS__;                                                                           \
        } else {                                                                                   \
            typedef float T;                                                                       \
            __VA_ARGS__;                                                                           \
        }                                                                                          \
    } while (0)

template <typename T> static inline T *reals(real *p)
{
    return reinterpret_cast<T *>(p);
}

template <typename T> static inline const T *reals(const real *p)
{
    return reinterpret_cast<const T *>(p);
}

static inline int64_t ceil_div(int64_t a, int64_t b)
{
    return (a + b - 1) / b;
}

// The number of blocks for n threads.
static inline unsigned blocks_for(int64_t n, int threads)
{
    return (unsigned)ceil_div(n, threads);
}

#endif
