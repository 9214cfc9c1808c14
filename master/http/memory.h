// Returns freed memory to the system. malloc keeps freed blocks in its arenas, and one used block
// is enough to keep an arena large.
#ifndef MUSTER_MASTER_HTTP_MEMORY_H
#define MUSTER_MASTER_HTTP_MEMORY_H

#include <stdatomic.h>

#include "master/http/offload.h"

struct memory { // initialized by zeroing
    struct offload_job job;
    atomic_bool under_way;
    atomic_int_least64_t next; // monotonic time of the next trim
};

void memory_set_up(void); // for the process, before it has threads

// A call that held this many bytes has ended. A worker trims the arenas: at once after a large
// call, otherwise every half minute.
void memory_used(struct memory *m, struct offload *workers, size_t bytes);

#endif
