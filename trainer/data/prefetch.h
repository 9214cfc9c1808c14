// Prefetch: the samples of the next micro-batches, fetched by a thread while the compute thread is
// busy, so that pages that must be read from a disk are there in time.
//
// The thread takes only what processor time is left over (SCHED_IDLE), and nobody waits for it:
// what it has not finished when it is wanted the caller fetches himself, which gives the same
// samples. So it costs a rank with a core of its own next to nothing, and takes nothing from
// others.
//
// new, ask, take and free belong to one thread; the data set outlives the prefetch.
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

// Of micro-batches of `size` samples. Makes a thread; without one (no more threads) it fetches
// nothing ahead.
struct prefetch *prefetch_new(const struct dataset *d, int64_t size);
void prefetch_free(struct prefetch *p);

// Says what is wanted soon, in that order. What is asked for already, or more than can be fetched
// ahead, is passed over.
void prefetch_request(struct prefetch *p, const struct prefetch_request *ask);

// Fills *batch, the caller's own of the data set's shape, with the samples of `ask`, or exchanges
// it for one that holds them. Asks before its cursor are forgotten. Errors are those of
// dataset_fetch().
int prefetch_get(struct prefetch *p, const struct prefetch_request *ask, struct batch **batch,
                 struct error *e);

int64_t prefetch_hits(const struct prefetch *p); // takes that found all done

#endif
