// A GPU and NCCL that are none: the calls that trainer/comm makes, with their prototypes, so that
// its logic runs where there is no GPU. Device memory is memory of the host. A stream is a thread
// that does one thing after the other, so that whoever forgets to wait reads what is not there yet;
// ranks are processes that meet in shared memory. What a caller may not do ends the process.
#ifndef MUSTER_TESTS_TRAINER_FAKE_GPU_H
#define MUSTER_TESTS_TRAINER_FAKE_GPU_H

#include <nccl.h>
#include <stdbool.h>
#include <stdint.h>

// What goes wrong in this process.
struct fake_faults {
    int version;            // of NCCL; 0: that of the header
    bool no_memory;         // ncclMemAlloc() fails
    bool no_registration;   // ncclCommRegister() fails
    bool no_locked_memory;  // cudaMallocHost() fails
    bool never_connects;    // the communicator stays in progress
    ncclResult_t complaint; // what a communicator says of itself
};
extern struct fake_faults fake_faults;

// What tests do with a GPU, the fake one or, with real_gpu.c in its place, the real one.
bool gpu_is_there(void);
bool gpu_is_real(void);          // nothing can be made to go wrong
void gpu_begin(int rank);        // in every rank, first
void gpu_compute_us(int64_t us); // keeps the compute stream busy for a while

// Of fake_cuda.c, for fake_nccl.c.
void fake_enqueue(cudaStream_t stream, void (*run)(void *arg), void *arg);
void fake_remember(void *memory, size_t bytes); // of the device
void fake_forget(void *memory);

#endif
