// Chooses what makes a training fit into the memory of its device: whether blocks are recomputed
// (trainer.recompute: auto) and, if the experiment leaves it open, the micro-batch size
// (trainer.micro_batch_size: 0). Compute thread.
#ifndef MUSTER_TRAINER_LOOP_SIZING_H
#define MUSTER_TRAINER_LOOP_SIZING_H

#include <jansson.h>

#include "trainer/model/model.h"

struct sizing_request {
    const json_t *trainer; // the `trainer` section with all defaults
    const struct sample_shape *shape;
    int64_t global_batch; // samples
    int64_t micro_batch;  // samples; 0: to be chosen
    size_t memory;        // bytes of the device that the training may use
};

// Plans the model: with the largest good micro-batch that fits, and with recomputation only where
// `auto` needs it. A larger micro-batch than a good one hardly trains faster, and it leaves less to
// share among slots; the number of slots has no influence on the choice. If nothing fits, the plan
// is the smallest one, and its allocation reports what is missing. The caller calls
// model_allocate() and frees the model. ERR_INVALID: no size is possible, or there is no block to
// recompute; the errors of model_plan().
int sizing_plan(const struct sizing_request *r, struct compiled_model **out, struct error *e);

// Bytes of the device that a training with this model needs: activations, weights, sums of
// gradients, and the optimizer's state.
size_t sizing_bytes(const json_t *trainer, const struct compiled_model *m);

#endif
