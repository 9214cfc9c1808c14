// Gradient synchronisation: sums the gradients of a step's micro-batches over all ranks, each rank
// its part, and brings the weights that were updated in parts to everybody.
//
// Exact (fixed point, order-free: the same bits for every world size) or float. Owned and called by
// the compute thread; collective like the communicator it uses. A step is:
//
//   sync_begin(); for each local micro-batch: sync_micro_batch(), model_train() into sync_sink();
//   sync_sum(), which may ask for that again; optimizer_step() over sync_ranges() with
//   sync_peers(); sync_send_weights(); and sync_await_weights() before the weights are read again.
//
// Gradients are gathered in one block like that of the parameters, cut into buckets of fusion_bytes
// from its end, so a bucket is complete, and sent, while the backward pass still works on the
// layers before it. Every rank owns a run of cells of each bucket: it sums them up, and it alone
// updates the weights and keeps the optimizer's state there. Bits depend neither on the buckets
// nor on the owners.
#ifndef MUSTER_TRAINER_SYNC_SYNC_H
#define MUSTER_TRAINER_SYNC_SYNC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "trainer/comm/comm.h"
#include "trainer/model/model.h"
#include "trainer/optim/optimizer.h"
#include "trainer/sync/fixed.h"

enum sync_reduction { SYNC_EXACT, SYNC_FLOAT };

struct sync_config {
    enum sync_reduction reduction;
    const struct parameter *parameters; // borrowed, as long as the sync lives
    int parameter_count;
    size_t block_size; // floats
    int64_t micro_batches, global_batch;
    size_t sums;         // most that sync_peers() will combine at once
    size_t fusion_bytes; // 0: the whole block, until sync_tune()
    int world;
};

// What goes round with the gradients: sums and a maximum over the ranks.
struct sync_totals {
    struct loss_sum loss;
    int32_t flag; // the largest of any rank: how all ranks agree to drain
};

struct sync; // opaque

// Bytes of communicator memory that sync_new() will take.
size_t sync_arena_bytes(const struct sync_config *config);
struct sync *sync_new(const struct sync_config *config, struct comm *comm);
void sync_free(struct sync *s); // NULL is fine

// Before the first step: measures how long the ranks take with each size of buckets, and all keep
// rank 0's choice.
int sync_tune(struct sync *s, struct error *e);
size_t sync_fusion_bytes(const struct sync *s);

// The weights, where the communicator can reach them, and what this rank owns of them.
float *sync_weights(struct sync *s); // [block_size] in the device's memory
const struct optimizer_range *sync_ranges(const struct sync *s, int *count);
struct optimizer_peers sync_peers(struct sync *s);
int sync_send_weights(struct sync *s, struct error *e);
int sync_await_weights(struct sync *s, struct error *e); // nothing sent: nothing to do
// Completes a block like that of the weights of which every rank has its parts, on rank 0. Takes
// the place of the gradients. In the device's memory.
int sync_collect(struct sync *s, float *block, struct error *e);

// The exponent of every parameter's gradient: state of the training, part of its checkpoints
// (exact only; NULL for float). Before the first step they are measured: a pass over the step's
// micro-batches into the sink of sync_probe_begin(), then sync_probe_end().
const int32_t *sync_exponents(const struct sync *s);
void sync_set_exponents(struct sync *s, const int32_t *exponents);
bool sync_wants_probe(const struct sync *s);
struct gradient_sink sync_probe_begin(struct sync *s);
int sync_probe_end(struct sync *s, struct error *e);

void sync_begin(struct sync *s);
void sync_micro_batch(struct sync *s, bool first, bool last); // before each local micro-batch
struct gradient_sink sync_sink(struct sync *s);

// `totals` goes in with this rank's part and comes out with the whole. *again, on every rank: a
// tensor has outgrown its exponent, which is larger now, and the step has to be gathered once more
// from sync_begin() on. ERR_CORRUPT on every rank, naming the tensor: a gradient is not finite, or
// exploded.
int sync_sum(struct sync *s, struct sync_totals *totals, bool *again, struct error *e);

// The sums in this rank's ranges, divided by the global batch (padding is 0), until sync_begin().
const float *sync_gradients(const struct sync *s);

// Microseconds that the communicator's own thread or stream has been at work so far, if it has
// one. What this rank's time goes to is OPS_EXCHANGE: waiting for peers, or for their numbers to be
// moved and added.
int64_t sync_aside_us(const struct sync *s);

// Compares the weights of all ranks, bit by bit. ERR_CORRUPT on every rank when they differ: who
// differs from the majority, and in which tensor first.
int sync_verify(struct sync *s, struct error *e);

#endif
