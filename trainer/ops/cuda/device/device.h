// The GPU for ops that use libraries: their handles, and the one stream for all work. device.cu
// owns it from ops_open() to ops_close(); one thread calls.
//
// Ops do not return errors. The first error of a launch or a library is kept, with the name of its
// op, and ops_synchronize() returns it. After it all work is undefined.
#ifndef MUSTER_TRAINER_OPS_CUDA_DEVICE_DEVICE_H
#define MUSTER_TRAINER_OPS_CUDA_DEVICE_DEVICE_H

#include <cublasLt.h>
#include <cudnn.h>

#include "trainer/ops/cuda/kernels/launch.h"

struct cuda_device {
    enum ops_precision precision;
    cudaStream_t stream;
    cublasLtHandle_t blas;
    cudnnHandle_t dnn;
    void *workspace; // CUDA_WORKSPACE_BYTES
    int capability;  // 90 for compute capability 9.0
    int processors;  // multiprocessors
    // Describes a device that is not present, for which cuDNN chooses and compiles kernels; tests
    // use it on any machine. NULL: the opened device.
    cudnnBackendDescriptor_t properties;
};
extern struct cuda_device device; // of this process

// Record an error of a library with the op's name, unless the status is success.
void device_check_blas(cublasStatus_t status, const char *op);
void device_check_dnn(cudnnStatus_t status, const char *op);

void attention_free_plans(void); // attention_cudnn.cu; called before the device is closed

#endif
