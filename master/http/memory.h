// Memory goes back to the system: malloc keeps what was freed in its arenas, one or two for every
// thread, and a fraction of each is enough to hold on to all of it.
#ifndef MUSTER_MASTER_HTTP_MEMORY_H
#define MUSTER_MASTER_HTTP_MEMORY_H

#include <stdatomic.h>

#include "master/http/offload.h"

struct memory { // zeroed
    struct job job;
    atomic_bool under_way;
    atomic_int_least64_t next; // look, monotonic
};

void memory_set_up(void); // of the process, before it has threads

// A call has ended that held so many bytes: a worker trims the arenas, at once after a large one,
// else every half a minute.
void memory_used(struct memory *m, struct offload *workers, size_t bytes);

#endif
