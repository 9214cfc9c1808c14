// Gradient synchronisation: sums the gradients of a step's micro-batches over all ranks.
//
// Exact (fixed point, order-free: the same bits for every world size) or float. Owned and called by
// the compute thread; collective like the communicator it uses. A step is:
//
//   sync_begin(); for each local micro-batch: sync_micro_batch(), model_train() into sync_sink();
//   sync_finish().
//
// Gradients are gathered in buckets that are cut from the parameter block from its end, so a
// bucket is complete, and sent, while the backward pass still works on the layers before it.
#ifndef MUSTER_TRAINER_SYNC_SYNC_H
#define MUSTER_TRAINER_SYNC_SYNC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "trainer/comm/comm.h"
#include "trainer/model/model.h"
#include "trainer/sync/fixed.h"

enum sync_reduction { SYNC_EXACT, SYNC_FLOAT };

struct sync_config {
    enum sync_reduction reduction;
    const struct parameter *parameters; // borrowed, as long as the sync lives
    int parameter_count;
    size_t block_size; // floats
    int64_t micro_batches, global_batch;
    size_t bucket_bytes; // 0: 4 MiB
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

// The exponent of every parameter's gradient: state of the training, part of its checkpoints
// (exact only; NULL for float). Before the first step they are measured: a pass over the step's
// micro-batches into the sink of sync_probe_begin(), then sync_probe_end().
const int32_t *sync_exponents(const struct sync *s);
void sync_set_exponents(struct sync *s, const int32_t *exponents);
bool sync_wants_probe(const struct sync *s);
struct gradient_sink sync_probe_begin(struct sync *s);
int sync_probe_end(struct sync *s, struct error *e);

void sync_begin(struct sync *s);
void sync_micro_batch(struct sync *s, bool last); // before each local micro-batch
struct gradient_sink sync_sink(struct sync *s);

// `gradients` (block_size floats, laid out like the parameters; padding stays as it is) receives
// the sum divided by the global batch; `totals` goes in with this rank's part and comes out with
// the whole. ERR_CORRUPT on every rank, naming the tensor: a gradient is not finite, or grew beyond
// what int64 holds.
int sync_finish(struct sync *s, float *gradients, struct sync_totals *totals, struct error *e);

// How many tensors of the last step this rank had to sum in int64.
int sync_promoted(const struct sync *s);

#endif
