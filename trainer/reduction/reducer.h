// Gradient reduction: sums the gradients of a step's micro-batches over all ranks and distributes
// the updated weights. PyTorch's DDP calls the corresponding object the reducer.
//
// The reduction is exact (fixed point: the same bits for every world size) or in float. The compute
// thread owns and calls a reducer; calls are collective, like those of its communicator. A step is:
//
//   1. reducer_begin_step()
//   2. for each local micro-batch: reducer_begin_micro_batch(), then model_train() into
//      reducer_sink()
//   3. reducer_finish_step(), which may ask to repeat from 1
//   4. optimizer_step() over reducer_ranges() with reducer_peers()
//   5. reducer_gather_weights(), and reducer_wait_weights() before the weights are read again
//
// The gradients form one block with the layout of the parameter block. The block is cut, from its
// end, into buckets of fusion_bytes, so a bucket can start while the backward pass still works on
// earlier layers. Every rank owns a part of each bucket: it receives the sum of that part and is
// the only one to update its weights and to keep its optimizer state (as in ZeRO). The bits depend
// neither on the buckets nor on their owners.
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
    const struct parameter *parameters; // borrowed for the life of the reducer
    int parameter_count;
    const struct fp8_tensor *quantised; // borrowed, too
    int quantised_count;
    size_t block_size; // floats
    int64_t micro_batches, global_batch;
    size_t sums;         // the largest count of one reducer_peers() combination
    size_t fusion_bytes; // 0: the whole block, until reducer_tune()
    int world;
};

// Totals over the ranks that are exchanged together with the gradients.
struct reducer_totals {
    struct loss_sum loss;
    int32_t flag; // becomes the maximum over the ranks; the ranks use it to agree on a drain
};

struct reducer; // opaque

// Bytes of communicator memory that reducer_new() allocates.
size_t reducer_arena_bytes(const struct reducer_config *config);
struct reducer *reducer_new(const struct reducer_config *config, struct comm *comm);
void reducer_free(struct reducer *s); // NULL is fine

// Call before the first step: measures each bucket size and sets the one that rank 0 chooses.
int reducer_tune(struct reducer *s, struct error *e);
size_t reducer_fusion_bytes(const struct reducer *s);

// The weights in the communicator's memory, and the ranges of them that this rank owns.
float *reducer_weights(struct reducer *s); // [block_size] in the device's memory
const struct optimizer_range *reducer_ranges(const struct reducer *s, int *count);
struct optimizer_peers reducer_peers(struct reducer *s);
int reducer_gather_weights(struct reducer *s, struct error *e);
int reducer_wait_weights(struct reducer *s, struct error *e); // returns at once if none started
// Gathers a block with the layout of the weights, of which every rank holds its own parts, on rank
// 0. Overwrites the gradients. `block` is in the device's memory.
int reducer_collect(struct reducer *s, float *block, struct error *e);

// The exponent of every parameter's gradient (exact reduction only; NULL for float) and of every
// quantised tensor (NULL before they are known, or without such tensors). They belong to the state
// of the training, thus to its checkpoints. Before the first step the exponents are calibrated: run
// the step's micro-batches into the sink of reducer_calibration_begin(), then call
// reducer_calibration_end().
const int32_t *reducer_exponents(const struct reducer *s);
const int32_t *reducer_quantised_exponents(const struct reducer *s);
void reducer_set_exponents(struct reducer *s, const int32_t *exponents);
void reducer_set_quantised_exponents(struct reducer *s, const int32_t *exponents);
uint32_t *reducer_quantised_amaxes(struct reducer *s); // in device memory, for model_begin_step()
bool reducer_needs_calibration(const struct reducer *s);
struct gradient_sink reducer_calibration_begin(struct reducer *s);
int reducer_calibration_end(struct reducer *s, struct error *e);

void reducer_begin_step(struct reducer *s);
void reducer_begin_micro_batch(struct reducer *s, bool first,
                               bool last); // before each local micro-batch
struct gradient_sink reducer_sink(struct reducer *s);

// `totals` contains this rank's contribution and returns the result over all ranks. *again is set
// on every rank if a tensor outgrew its exponent; the exponent has been raised, and the caller
// repeats the step from reducer_begin_step(). ERR_CORRUPT on every rank, naming the tensor: a
// gradient is not finite or exploded.
int reducer_finish_step(struct reducer *s, struct reducer_totals *totals, bool *again,
                        struct error *e);

// The sums in this rank's ranges, divided by the global batch (padding is 0). Valid until
// reducer_begin_step().
const float *reducer_gradients(const struct reducer *s);

// Microseconds that the communicator's own thread or stream has worked so far; 0 without one. This
// rank's own time for communication is counted as OPS_COMMUNICATION.
int64_t reducer_background_us(const struct reducer *s);

// Compares the weights of all ranks bit by bit. ERR_CORRUPT on every rank if they differ; the error
// names the ranks that differ from the majority and the first tensor that differs.
int reducer_verify(struct reducer *s, struct error *e);

#endif
