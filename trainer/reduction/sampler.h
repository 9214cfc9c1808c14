// The order of samples and their division among ranks. Pure functions; any thread may call them.
//
// The training set is an endless sequence of samples in which every epoch is a keyed permutation of
// the data set. The data cursor is a position in that sequence. A step takes the next global batch
// and cuts it into micro-batches; each rank takes consecutive micro-batches. The result of training
// does not depend on the assignment.
#ifndef MUSTER_TRAINER_REDUCTION_SAMPLER_H
#define MUSTER_TRAINER_REDUCTION_SAMPLER_H

#include <stdint.h>

struct sampler_share {
    int64_t first, count;
};

// The rank's share of `items`: equal shares, where the first (items mod world) ranks take one more.
struct sampler_share sampler_share(int64_t items, int world, int rank);

// Writes the indices of the n samples from `cursor` on, in a data set of `count` samples.
void sampler_indices(uint64_t seed, int64_t count, int64_t cursor, int64_t n, int64_t *indices);

#endif
