// Private to trainer/model: the kinds of layers. A kind is a constant table of functions; struct
// layer is one of its uses in a model.
#ifndef MUSTER_TRAINER_MODEL_LAYER_KIND_H
#define MUSTER_TRAINER_MODEL_LAYER_KIND_H

#include "trainer/model/layer.h"

struct model_pass;
enum layer_flag {
    LAYER_IDENTITY = 1,        // y is x: the forward pass writes nothing
    LAYER_IN_PLACE = 2,        // y may overwrite x
    LAYER_NEEDS_X = 4,         // the backward pass reads x
    LAYER_NEEDS_Y = 8,         // the backward pass reads y
    LAYER_DX_IS_DY = 16,       // dx is dy: the backward pass writes nothing
    LAYER_DX_IN_PLACE = 32,    // dx may overwrite dy
    LAYER_ACCUMULATES_DX = 64, // can add to dx
    LAYER_TIES_WEIGHT = 128,   // may share its weight with another layer and add to its gradient
    LAYER_FUSED_INTO_PREVIOUS = 256, // the layer before computes y
    LAYER_FUSED_GELU_AFTER = 512,    // linear: also computes the y of the gelu after it
    LAYER_FUSED_GELU_BEFORE = 1024,  // linear: its dx is that of the gelu before it
    LAYER_SAVED_WITHOUT_X = 2048,    // can write `saved` alone, without x, if y is NONE
    // linear: training multiplies in FP8, and can write `saved` alone, from x, if y is NONE
    LAYER_QUANTISES = 4096,
};

struct compiler;
struct layer_kind {
    const char *name; // in the list of layers
    unsigned flags;   // enum layer_flag
    // Infers l->out from l->in and the specification, and adds parameters.
    int (*build)(struct compiler *c, struct layer *l, const json_t *spec, struct error *e);
    void (*forward)(const struct layer *l, const struct model_pass *p);  // NULL: nothing to do
    void (*backward)(const struct layer *l, const struct model_pass *p); // NULL: nothing to do
    // Training runs these first: they write l->norm.sums doubles, which sync sums over the step.
    void (*forward_sums)(const struct layer *l, const struct model_pass *p, double *sums);
    void (*backward_sums)(const struct layer *l, const struct model_pass *p, double *sums);
    void (*fill)(const struct layer *l, float *table);
    // of a kind that is fused into the layer before: the kind that computes the same y by itself
    const struct layer_kind *alone;
};

#endif
