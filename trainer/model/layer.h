// Inside trainer/model: what a compiled layer is, and what its passes ask for.
//
// A model is a flat list of layers run first to last, then last to first. Values between layers are
// tensors of the model's plan (plan.h). A residual block of the specification becomes its inner
// layers and a `residual` layer that adds the value from before them. Everything here belongs to
// the one thread that drives the model.
#ifndef MUSTER_TRAINER_MODEL_LAYER_H
#define MUSTER_TRAINER_MODEL_LAYER_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "trainer/model/memory_plan.h"
#include "trainer/model/model.h"
#include "trainer/ops/image.h"
#include "trainer/ops/norm.h"
#include "trainer/ops/sequence.h"

enum { NONE = -1, INPUT = 0 }; // values and tensors: none at all; images or features of a batch

// Shape of one sample's value. Tokens are integers straight from the batch: rank 1, [context].
struct tensor_shape {
    bool tokens;
    int rank;
    int64_t dim[3]; // image: height, width, channels; sequence: context, width; features: one
};
int64_t tensor_shape_size(const struct tensor_shape *s);

enum { WEIGHT, BIAS, MEAN, VARIANCE, PARAMETERS_PER_LAYER }; // mean and variance: statistics

struct gradient_sum { // into = a + b, the parts of a gradient; `into` may be one of them, or NONE:
                      // no sum
    int a, b, into;
};

struct layer {
    const struct layer_kind *kind;
    unsigned flags; // enum layer_flag
    char name[TENSOR_NAME_MAX];
    int position; // in the flat list; keys the layer's random draws
    struct tensor_shape in, out;
    int input, other, output;    // values of the graph; other: residual's second summand, else NONE
    int x, y;                    // tensors of input and output
    int added;                   // tensor that is added to y: of `other`, or given by fuse; NONE
    int dy, dx;                  // tensors of their gradients; NONE: not computed
    bool add;                    // dx is added to what its tensor holds (LAYER_ACCUMULATES_DX)
    struct gradient_sum sums[2]; // done after the backward pass
    int saved;                   // tensor from the forward to the backward pass; NONE
    int table;                   // tensor filled once, by kind->fill; NONE
    int parameter[PARAMETERS_PER_LAYER];      // index in the model's list; NONE
    bool add_gradient[PARAMETERS_PER_LAYER];  // a later layer has written it already (tied)
    bool last_gradient[PARAMETERS_PER_LAYER]; // complete after this layer's backward pass
    double flops;         // forward pass of one sample; as many for the gradient of x
    double flops_weights; // second product of the backward pass
    // What the kind keeps beside: which is meant follows from `kind`.
    struct ops_linear linear;
    struct ops_attention attention;
    struct ops_rotary rotary;
    double rate; // dropout, attention
    struct ops_conv *conv;
    struct ops_pool *pool;
    int64_t op_bytes; // bytes that the op keeps beside the arena
    struct batch_norm {
        bool sync;            // statistics are of all micro-batches of the step
        bool relu;            // y is max(0, normalised x + `added`)
        size_t sums;          // doubles in front of `saved` that the statistics follow from
        bool joins_gradients; // makes dy itself: a + b where y > 0; b may be NONE
        int a, b, y;          // tensors
    } norm;
};

struct initializer { // of one parameter: constant + normal(0, deviation)
    float constant;
    double deviation;
};

struct loss_config {
    bool mse;              // mse over the values of a sample; else cross-entropy
    float label_smoothing; // of labels, in training
};

struct model {
    struct sample_shape sample;
    struct loss_config loss;
    int64_t micro_batch, positions; // positions: predictions per sample
    int64_t input_size, outputs;    // values of a sample (not of tokens), and of a prediction
    struct layer *layers;
    int layer_count;
    struct parameter *parameters;
    struct initializer *initializers; // one per parameter
    int *gradients;                   // tensor of each parameter's gradient
    int parameter_count;
    size_t block_size;
    struct memory_plan plan;
    int logits, dlogits;  // may be the same tensor
    int scratch;          // tensor shared by all ops that need room of their own; NONE
    int row_losses, hits; // tensors [rows]: loss and 0/1 of each prediction
    int losses, correct;  // tensors [micro_batch]
    struct staged { // the rest of a batch, and keys of draws; tensors, NONE where there are no such
        int labels, values, tokens, targets, samples, keys;
    } staged;
    uint64_t *keys;          // [layer_count] to be staged
    float *arena;            // plan.floats floats of the device
    const float *floats;     // the parameters as they are learnt
    const real *reals;       // and as ops read them
    real *room;              // for these, where reals are no floats
    struct batch *padded;    // for batches that are not full
    json_t *list;            // of layers that this was compiled from
    struct model **replicas; // the same model again, for micro-batches that are computed together
    int replica_count;
    double *gathered;         // sums of the step's micro-batches
    struct model_recordings { // of training passes; of the sink's kinds
        struct gradient_sink sink;
        const float *floats;
        struct ops_recording *of[GRADIENT_KINDS];
    } recordings;
};

struct model_pass;
enum layer_flag {
    LAYER_IDENTITY = 1,        // y is x: its forward pass writes no value
    LAYER_IN_PLACE = 2,        // y may be written over x
    LAYER_NEEDS_X = 4,         // the backward pass reads x
    LAYER_NEEDS_Y = 8,         // the backward pass reads y
    LAYER_DX_IS_DY = 16,       // dx is dy: the backward pass writes none
    LAYER_DX_IN_PLACE = 32,    // dx may be written over dy
    LAYER_ACCUMULATES_DX = 64, // can add to dx
    LAYER_TIES_WEIGHT = 128,   // its weight can be another layer's too (and its gradient added)
    LAYER_FUSED_INTO_PREVIOUS = 256, // y is made by the layer before
    LAYER_FUSED_GELU_AFTER = 512,    // linear: makes the y of the gelu behind it, too
    LAYER_FUSED_GELU_BEFORE = 1024,  // linear: dx is that of the gelu before it
};

struct compiler;
struct layer_kind {
    const char *name; // in the list of layers
    unsigned flags;   // enum layer_flag
    // Infers l->out from l->in and the specification, adds parameters.
    int (*build)(struct compiler *c, struct layer *l, const json_t *spec, struct error *e);
    void (*forward)(const struct layer *l, const struct model_pass *p);  // NULL: nothing to do
    void (*backward)(const struct layer *l, const struct model_pass *p); // NULL: nothing to do
    // Before either, in training: fills l->norm.sums doubles, which are then, in sync, those of all
    // micro-batches of the step.
    void (*forward_sums)(const struct layer *l, const struct model_pass *p, double *sums);
    void (*backward_sums)(const struct layer *l, const struct model_pass *p, double *sums);
    void (*fill)(const struct layer *l, float *table);
};

#endif
