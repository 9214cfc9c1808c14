// Optimizers and schedules: element-wise updates over the parameter block. Owned and called by the
// compute thread; the caller keeps parameters and gradients, the optimizer its state blocks.
// Gradients arrive already divided by the global batch.
//
// A step may be shared among ranks: each updates the ranges that it owns. Whatever is not
// element-wise (the norms of clipping and trust ratios) is a sum over units, a unit being the part
// of one parameter that lies in one cell of the block: its owner sums it up in a fixed order, and
// all are added in a fixed order. So the bits depend neither on the ranges nor on who owns them.
#ifndef MUSTER_TRAINER_OPTIM_OPTIMIZER_H
#define MUSTER_TRAINER_OPTIM_OPTIMIZER_H

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "trainer/model/model.h"
#include "trainer/ops/update.h"

enum { OPTIMIZER_STATES_MAX = 2 };
enum {
    OPTIMIZER_CELL = OPS_UNIT_MAX
}; // floats; ranges begin and end at multiples, or with the block

struct optimizer; // opaque

struct optimizer_config {
    const json_t *spec;     // trainer.optimizer
    const json_t *schedule; // trainer.schedule; NULL: constant
    int64_t steps;          // of the whole training
    int64_t global_batch;   // what the learning rate is scaled to, where it is
    int64_t base_batch; // global batch that the learning rate is meant for, where `spec` is silent
    double clip_norm;   // longest gradient; 0: any
    const struct parameter *parameters; // in the order of their offsets; copied
    int parameter_count;
    size_t block_size; // floats
};

// ERR_INVALID: a key of the specification has no sense.
int optimizer_new(const struct optimizer_config *config, struct optimizer **out, struct error *e);
void optimizer_free(struct optimizer *o); // NULL is fine

// State blocks (momentum; first and second moment), each laid out like the parameter block.
int optimizer_state_count(const struct optimizer *o);
const char *optimizer_state_name(const struct optimizer *o, int i); // "momentum", "moment1", ..
float *optimizer_state(struct optimizer *o, int i);

double optimizer_learning_rate(const struct optimizer *o, int64_t step); // of step 0..steps-1

struct optimizer_range {
    size_t first, last; // [first, last) of the block, in floats
};

struct optimizer_peers { // NULL: this rank owns everything
    // sums[count] goes in zero where others own and comes out complete, the same on every rank.
    // Collective: every rank calls it equally often with equal counts.
    int (*combine)(void *ctx, double *sums, size_t count, struct error *e);
    void *ctx;
};

size_t optimizer_sums(const struct optimizer *o); // the most doubles of one combine()

// One step: updates `parameters` and the state in `ranges` (none and no peers: the whole block) by
// the gradients there, which are only read. The gradient is scaled down to clip_norm where it is
// longer; its norm before that, of all ranges of all ranks, goes to `gradient_norm` (NULL: not
// wanted). Statistics move to the value in the gradients' place. ERR_CORRUPT, on every rank: a
// gradient is not finite; the first such tensor is named. After an error parameters and state
// may be updated in part: training can only go on from a checkpoint.
int optimizer_step(struct optimizer *o, int64_t step, float *parameters, const float *gradients,
                   const struct optimizer_range *ranges, int range_count,
                   const struct optimizer_peers *peers, double *gradient_norm, struct error *e);

#endif
