// The memory of this process as the kernel counts it. Any thread.
#ifndef MUSTER_TRAINER_LOOP_PROCESS_MEMORY_H
#define MUSTER_TRAINER_LOOP_PROCESS_MEMORY_H

#include <stdint.h>

struct process_memory { // bytes; zero where /proc does not say
    int64_t resident, peak;
    // the parts of `resident`: private, mapped files, shared memory
    int64_t anonymous, files, shared;
};

void process_memory_read(struct process_memory *out);
int64_t process_mapped_bytes(void); // of mapped files, resident or not; 0 where /proc does not say

#endif
