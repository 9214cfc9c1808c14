// A fake GPU and a fake NCCL: the calls that trainer/comm makes, with their prototypes, so that its
// logic can be tested without a GPU. Device memory is host memory. A stream is a thread that runs
// its work in order, so code that forgets to wait reads data that is not there yet. Ranks are
// processes that meet in shared memory. A forbidden call aborts the process.
#ifndef MUSTER_TESTS_TRAINER_FAKE_GPU_H
#define MUSTER_TESTS_TRAINER_FAKE_GPU_H

#include <nccl.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

// The faults of this process.
struct fake_faults {
    int version;            // of NCCL; 0: the version of the header
    bool no_memory;         // ncclMemAlloc() fails
    bool no_registration;   // ncclCommRegister() fails
    bool no_locked_memory;  // cudaMallocHost() fails
    bool never_connects;    // the communicator stays in progress
    ncclResult_t complaint; // asynchronous error of a communicator
};
extern struct fake_faults fake_faults;

// Controls of a GPU for tests: of the fake one or, with real_gpu.c, of a real one.
bool gpu_is_there(void);
bool gpu_is_real(void);   // faults cannot be injected
void gpu_begin(int rank); // first call in every rank
// gpu_work.c: keep the compute stream busy, for a time or until the counter has reached the value.
void gpu_compute_us(int64_t us);
void gpu_wait_for(const atomic_int *counter, int value);

// From fake_cuda.c for fake_nccl.c.
void fake_enqueue(cudaStream_t stream, void (*run)(void *arg), void *arg);
void fake_remember(void *memory, size_t bytes); // registers device memory
void fake_forget(void *memory);

#endif
