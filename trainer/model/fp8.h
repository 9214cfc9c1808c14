// Private to trainer/model: linear layers whose products are quantised to FP8 (ops/fp8.h), if the
// device was opened for it. compiler_quantise() chooses the layers; the scales of a step come from
// outside (model_begin_step()).
#ifndef MUSTER_TRAINER_MODEL_FP8_H
#define MUSTER_TRAINER_MODEL_FP8_H

#include "trainer/model/model.h"
#include "trainer/ops/fp8.h"

struct layer_fp8 { // of a layer with LAYER_QUANTISES
    struct ops_fp8_plan *plan;
    int first;       // index of its first tensor
    int64_t weights; // offset of its quantised weights, in floats
};

struct model_fp8 {
    struct fp8_tensor *tensors; // [count] on the host
    int count;                  // OPS_FP8_TENSORS for each layer that quantises
    int64_t weight_floats;
    // In device memory, from model_allocate() to model_free().
    float (*scales)[2];   // [count]
    uint32_t *own_amaxes; // [count]
    float *weights;       // [weight_floats] of all layers
    // From model_begin_step().
    uint32_t *amaxes; // [count] in device memory, not owned; NULL: before the first step
    bool measures;    // the passes find the scales themselves
};

size_t model_fp8_bytes(const struct model_fp8 *s);            // of model_fp8_allocate()
int model_fp8_allocate(struct model_fp8 *s, struct error *e); // ERR_NO_MEMORY
void model_fp8_free(struct model_fp8 *s);

// Lets the passes of a replica find scales of their own, as those of m do (m->fp8.measures).
void model_fp8_measure_replica(struct compiled_model *replica, const struct compiled_model *m);

#endif
