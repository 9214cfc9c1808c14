// Prefetch: a thread fetches the samples of the next micro-batches while the compute thread works,
// so that pages are read from the disk in time.
//
// The thread uses only idle processor time (SCHED_IDLE), and nobody waits for it: the caller
// fetches unfinished samples itself, with the same result. So it costs a rank almost nothing and
// takes nothing from other processes.
//
// One thread calls new, request, get and free; the data set outlives the prefetch.
#ifndef MUSTER_TRAINER_DATA_PREFETCH_H
#define MUSTER_TRAINER_DATA_PREFETCH_H

#include <stdint.h>

#include "trainer/data/dataset.h"

enum { PREFETCH_DEPTH = 2 }; // micro-batches fetched ahead

struct prefetch_request { // a micro-batch of training: its first sample, and the key of its draws
    int64_t cursor;
    struct draw_key key;
};

struct prefetch; // opaque

// For micro-batches of `size` samples. Starts a thread; if that fails, nothing is fetched ahead.
struct prefetch *prefetch_new(const struct dataset *d, int64_t size);
void prefetch_free(struct prefetch *p);

// Announces a micro-batch that is needed soon; call it in the order of need. A request that was
// made already, or that exceeds PREFETCH_DEPTH, is ignored.
void prefetch_request(struct prefetch *p, const struct prefetch_request *request);

// Fills *batch with the samples of the request, or exchanges it for a batch that holds them. Older
// requests are dropped. Errors are those of dataset_fetch().
int prefetch_get(struct prefetch *p, const struct prefetch_request *request, struct batch **batch,
                 struct error *e);

int64_t prefetch_hits(const struct prefetch *p); // how often prefetch_get() found the samples ready

#endif
