// Optimizers: element-wise updates of the parameter block. The compute thread owns and calls an
// optimizer. The caller keeps the parameters and gradients, the optimizer its state blocks.
// Gradients arrive already divided by the global batch.
//
// Ranks may share a step: each updates the ranges that it owns. Everything that is not element-wise
// (the norms for clipping and trust ratios) is a sum over units. The block is divided into cells of
// OPTIMIZER_CELL floats; a unit is the part of one parameter that lies in one cell. The owner of a
// unit sums it in a fixed order, and the units' sums are added in a fixed order. So the bits depend
// neither on the ranges nor on their owners.
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
}; // floats; ranges begin and end at multiples of it, or at the end of the block

struct optimizer; // opaque

struct optimizer_config {
    const json_t *spec;     // trainer.optimizer
    const json_t *schedule; // trainer.schedule; NULL: constant
    int64_t steps;          // of the whole training
    int64_t global_batch;   // the learning rate is scaled to it if there is a base batch
    int64_t base_batch; // global batch for which the learning rate is meant; `spec` may override it
    double clip_norm;   // largest norm of the gradient; 0: no limit
    const struct parameter *parameters; // in the order of their offsets; copied
    int parameter_count;
    size_t block_size; // floats
};

// ERR_INVALID: a key of the specification has an invalid value.
int optimizer_new(const struct optimizer_config *config, struct optimizer **out, struct error *e);
void optimizer_free(struct optimizer *o); // NULL is fine

int optimizer_states_of(const json_t *spec); // their number for trainer.optimizer; 0: unknown name
// State blocks (momentum; first and second moment), each laid out like the parameter block.
int optimizer_state_count(const struct optimizer *o);
const char *optimizer_state_name(const struct optimizer *o, int i); // "momentum", "moment1", ..
float *optimizer_state(struct optimizer *o, int i);

double optimizer_learning_rate(const struct optimizer *o, int64_t step); // step is in 0..steps-1

struct optimizer_range {
    size_t first, last; // [first, last) in the block, in floats
};

struct optimizer_peers { // NULL: this rank owns everything
    // Sums over the ranks: sums[count] contains zeros where other ranks own the unit, and returns
    // the complete values, the same on every rank. Collective: all ranks make the same calls with
    // the same counts.
    int (*combine)(void *ctx, double *sums, size_t count, struct error *e);
    void *ctx;
};

size_t optimizer_sums(const struct optimizer *o); // the largest count of one combine()

// One step: updates `parameters` and the state in `ranges` (no ranges and no peers: the whole
// block) with `gradients`, which are only read. If the gradient's norm exceeds clip_norm, the
// gradient is scaled down to it; `gradient_norm` (may be NULL) receives the norm before that, over
// all ranges of all ranks. Statistics move towards the values in the gradients' place. ERR_CORRUPT,
// on every rank: a gradient is not finite; the error names the first such tensor. After an error
// the parameters and the state may be partly updated; training can continue from a checkpoint only.
int optimizer_step(struct optimizer *o, int64_t step, float *parameters, const float *gradients,
                   const struct optimizer_range *ranges, int range_count,
                   const struct optimizer_peers *peers, double *gradient_norm, struct error *e);

#endif
