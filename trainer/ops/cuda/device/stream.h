// The device's stream, for code beside ops that must keep their order (the communicator), and
// declarations that the C sources of ops/cuda share. device.cu defines them; only the device's
// thread calls them.
#ifndef MUSTER_TRAINER_OPS_CUDA_DEVICE_STREAM_H
#define MUSTER_TRAINER_OPS_CUDA_DEVICE_STREAM_H

#include <cuda_runtime_api.h>

#ifdef __cplusplus
extern "C" {
#endif
#include "trainer/ops/trace.h"
#ifdef __cplusplus
}
#endif

#ifdef __cplusplus
extern "C" {
#endif
cudaStream_t cuda_stream(void); // NULL: the device is not open

// Records an error, unless the status is success; the first error is kept for ops_synchronize().
// cuda_redirect_errors() sends errors to another buffer (NULL: back to the normal one).
enum { CUDA_ERROR_MAX = 512 };
void cuda_check(cudaError_t status, const char *op);
void cuda_redirect_errors(char buffer[CUDA_ERROR_MAX]);

void cuda_finish_copies(void); // copies.c; the device has done all its work
void cuda_free_copies(void);   // the device is about to be closed
void cuda_free_phases(void);   // phases.c; likewise
// Reports phases that begin from now on (NULL: ends the reports); the GPU is here at begin_us.
void cuda_trace_phases(ops_trace_fn *listener, void *ctx, double begin_us);
#ifdef __cplusplus
}
#endif

#endif
