// The device's stream, for what stands beside ops and must keep their order: the communicator.
// Defined by device.cu; the device's thread enqueues.
#ifndef MUSTER_TRAINER_OPS_CUDA_STREAM_H
#define MUSTER_TRAINER_OPS_CUDA_STREAM_H

#include <cuda_runtime_api.h>

#ifdef __cplusplus
extern "C" {
#endif
cudaStream_t cuda_stream(void);
#ifdef __cplusplus
}
#endif

#endif
