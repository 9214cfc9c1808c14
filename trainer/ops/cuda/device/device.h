// The GPU as the libraries' ops see it: their handles and the one stream that all work goes to.
// device.cu owns all of it from ops_open() to ops_close(); one thread calls.
//
// An op has no way to fail: what goes wrong with a launch or in a library is remembered with the
// name of the op, the first error alone, and told by ops_synchronize(). After it everything fails.
#ifndef MUSTER_TRAINER_OPS_CUDA_DEVICE_DEVICE_H
#define MUSTER_TRAINER_OPS_CUDA_DEVICE_DEVICE_H

#include <cublasLt.h>
#include <cudnn.h>

#include "trainer/ops/cuda/kernels/launch.h"

struct device {
    enum ops_precision precision;
    cudaStream_t stream;
    cublasLtHandle_t blas;
    cudnnHandle_t dnn;
    void *workspace; // CUDA_WORKSPACE_BYTES
    int capability;  // 90: compute capability 9.0
    int processors;  // multiprocessors
    // Of a device that is not there but for which cuDNN is to choose and compile kernels, so that a
    // test on any machine sees whether it has them. NULL: of the one that was opened.
    cudnnBackendDescriptor_t properties;
};
extern struct device device; // of this process

// Remember what went wrong, where `op` says; nothing did where the status says so.
void device_check_blas(cublasStatus_t status, const char *op);
void device_check_dnn(cudnnStatus_t status, const char *op);

void attention_forget_plans(void); // attention_cudnn.cu; the device is about to be closed

#endif
