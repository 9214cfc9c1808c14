// The device's stream, for what stands beside ops and must keep their order: the communicator; and
// what the C sources of ops/cuda share. Defined by device.cu; the device's thread alone calls.
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

// Keeps what went wrong, the first error alone, for ops_synchronize() to tell; nothing did where
// the status says so. Meanwhile it may go elsewhere (NULL: back to there).
enum { CUDA_TROUBLE_MAX = 512 };
void cuda_check(cudaError_t status, const char *op);
void cuda_trouble_goes_to(char elsewhere[CUDA_TROUBLE_MAX]);

void cuda_end_copies(void);    // copies.c; the device has nothing more to do
void cuda_forget_copies(void); // the device is about to be closed
void cuda_forget_phases(void); // phases.c; likewise
// Phases that begin from here on are told (NULL: to nobody); the GPU is here at begin_us.
void cuda_trace_phases(ops_trace_fn *told, void *ctx, double begin_us);
#ifdef __cplusplus
}
#endif

#endif
