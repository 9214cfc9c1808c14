// Memory for tests that host and GPU can access at the same address, instead of the C library's.
// Include it before the first line of the code that allocates.
#ifndef MUSTER_TESTS_TRAINER_GPU_HOST_MEMORY_H
#define MUSTER_TESTS_TRAINER_GPU_HOST_MEMORY_H

#include <stdlib.h>

void *host_memory_alloc(size_t alignment, size_t bytes);
void host_memory_free(void *p);

#define aligned_alloc host_memory_alloc
#define malloc(bytes) host_memory_alloc(1, bytes)
#define free          host_memory_free

#endif
