// Memory of this process as the kernel counts it. Any thread.
#ifndef MUSTER_TRAINER_LOOP_PROCESS_MEMORY_H
#define MUSTER_TRAINER_LOOP_PROCESS_MEMORY_H

#include <stdint.h>

struct process_memory { // bytes; zeros where /proc does not tell
    int64_t resident, peak;
    int64_t anonymous, files, shared; // the parts of `resident`: own, mapped files, shared memory
};

void process_memory_read(struct process_memory *out);
int64_t process_mapped_bytes(void); // bytes, resident or not; 0 where /proc does not tell

#endif
