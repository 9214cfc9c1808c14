// Gradient synchronisation: sums the gradients of a step's micro-batches over all ranks, each rank
// its part, and brings the weights that were updated in parts to everybody.
//
// Exact (fixed point, order-free: the same bits for every world size) or float. Owned and called by
// the compute thread; collective like the communicator it uses. A step is:
//
//   reducer_begin_step(); for each local micro-batch: reducer_begin_micro_batch(), model_train()
//   into reducer_sink(); reducer_finish_step(), which may ask for that again; optimizer_step() over
//   reducer_ranges() with reducer_peers(); reducer_gather_weights(); and reducer_wait_weights()
//   before the weights are read again.
//
// Gradients are gathered in one block like that of the parameters, cut into buckets of fusion_bytes
// from its end, so a bucket is complete, and sent, while the backward pass still works on the
// layers before it. Every rank owns a run of cells of each bucket: it sums them up, and it alone
// updates the weights and keeps the optimizer's state there. Bits depend neither on the buckets
// nor on the owners.
#ifndef MUSTER_TRAINER_REDUCTION_REDUCER_H
#define MUSTER_TRAINER_REDUCTION_REDUCER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "trainer/comm/comm.h"
#include "trainer/model/model.h"
#include "trainer/optim/optimizer.h"
#include "trainer/reduction/fixed_point.h"

enum reduction_mode { REDUCTION_EXACT, REDUCTION_FLOAT };

struct reducer_config {
    enum reduction_mode reduction;
    const struct parameter *parameters; // borrowed, as long as the sync lives
    int parameter_count;
    size_t block_size; // floats
    int64_t micro_batches, global_batch;
    size_t sums;         // most that reducer_peers() will combine at once
    size_t fusion_bytes; // 0: the whole block, until reducer_tune()
    int world;
};

// What goes round with the gradients: sums and a maximum over the ranks.
struct reducer_totals {
    struct loss_sum loss;
    int32_t flag; // the largest of any rank: how all ranks agree to drain
};

struct reducer; // opaque

// Bytes of communicator memory that reducer_new() will take.
size_t reducer_arena_bytes(const struct reducer_config *config);
struct reducer *reducer_new(const struct reducer_config *config, struct comm *comm);
void reducer_free(struct reducer *s); // NULL is fine

// Before the first step: measures how long the ranks take with each size of buckets, and all keep
// rank 0's choice.
int reducer_tune(struct reducer *s, struct error *e);
size_t reducer_fusion_bytes(const struct reducer *s);

// The weights, where the communicator can reach them, and what this rank owns of them.
float *reducer_weights(struct reducer *s); // [block_size] in the device's memory
const struct optimizer_range *reducer_ranges(const struct reducer *s, int *count);
struct optimizer_peers reducer_peers(struct reducer *s);
int reducer_gather_weights(struct reducer *s, struct error *e);
int reducer_wait_weights(struct reducer *s, struct error *e); // nothing sent: nothing to do
// Completes a block like that of the weights of which every rank has its parts, on rank 0. Takes
// the place of the gradients. In the device's memory.
int reducer_collect(struct reducer *s, float *block, struct error *e);

// The exponent of every parameter's gradient: state of the training, part of its checkpoints
// (exact only; NULL for float). Before the first step they are measured: a pass over the step's
// micro-batches into the sink of reducer_calibration_begin(), then reducer_calibration_end().
const int32_t *reducer_exponents(const struct reducer *s);
void reducer_set_exponents(struct reducer *s, const int32_t *exponents);
bool reducer_needs_calibration(const struct reducer *s);
struct gradient_sink reducer_calibration_begin(struct reducer *s);
int reducer_calibration_end(struct reducer *s, struct error *e);

void reducer_begin_step(struct reducer *s);
void reducer_begin_micro_batch(struct reducer *s, bool first,
                               bool last); // before each local micro-batch
struct gradient_sink reducer_sink(struct reducer *s);

// `totals` goes in with this rank's part and comes out with the whole. *again, on every rank: a
// tensor has outgrown its exponent, which is larger now, and the step has to be gathered once more
// from reducer_begin_step() on. ERR_CORRUPT on every rank, naming the tensor: a gradient is not
// finite, or exploded.
int reducer_finish_step(struct reducer *s, struct reducer_totals *totals, bool *again,
                        struct error *e);

// The sums in this rank's ranges, divided by the global batch (padding is 0), until
// reducer_begin_step().
const float *reducer_gradients(const struct reducer *s);

// Microseconds that the communicator's own thread or stream has been at work so far, if it has
// one. What this rank's time goes to is OPS_COMMUNICATION: waiting for peers, or for their numbers
// to be moved and added.
int64_t reducer_background_us(const struct reducer *s);

// Compares the weights of all ranks, bit by bit. ERR_CORRUPT on every rank when they differ: who
// differs from the majority, and in which tensor first.
int reducer_verify(struct reducer *s, struct error *e);

#endif
