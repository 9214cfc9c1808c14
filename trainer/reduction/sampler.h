// Who computes what: the order of samples and the shares of ranks. Pure functions, any thread.
//
// Training is one endless row of samples, counted by the data cursor; every epoch is a keyed
// permutation of the data set. A step takes the next global batch of the row, cut into
// micro-batches; ranks take runs of micro-batches. Which rank takes which changes nothing.
#ifndef MUSTER_TRAINER_REDUCTION_SAMPLER_H
#define MUSTER_TRAINER_REDUCTION_SAMPLER_H

#include <stdint.h>

struct sampler_share {
    int64_t first, count;
};

// Rank's share of `items`: equal parts, the first (items mod world) ranks take one more.
struct sampler_share sampler_share(int64_t items, int world, int rank);

// Indices of the n samples from `cursor` on, in a data set of `count` samples.
void sampler_indices(uint64_t seed, int64_t count, int64_t cursor, int64_t n, int64_t *indices);

#endif
