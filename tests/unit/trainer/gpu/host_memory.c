// Runs a test of the CPU's ops on the GPU. The test's main() is called tested_main() and is linked
// with the GPU's ops, in float. Each launch waits for its kernel, so that results exist when an op
// returns.
#include <cuda_runtime_api.h>
#include <stdio.h>
#include <stdlib.h>

#include "tests/unit/trainer/gpu/host_memory.h"
#include "trainer/ops/device.h"

enum { SKIPPED = 77 };

int tested_main(void);

void *host_memory_alloc(size_t alignment, size_t bytes)
{
    void *p = NULL;
    (void)alignment; // the memory is aligned to at least a page
    return cudaHostAlloc(&p, bytes, cudaHostAllocMapped) == cudaSuccess ? p : NULL;
}

void host_memory_free(void *p)
{
    cudaFreeHost(p);
}

int main(void)
{
    struct error e;
    setenv("CUDA_LAUNCH_BLOCKING", "1", 1);
    if (ops_open(OPS_FLOAT, &e)) {
        printf("skipped: %s\n", e.text);
        return e.code == ERR_NOT_FOUND ? SKIPPED : 1;
    }
    int failed = tested_main();
    if (ops_synchronize(&e)) {
        printf("%s\n", e.text);
        failed = 1;
    }
    ops_close();
    return failed;
}
