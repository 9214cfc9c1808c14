// Private to trainer/model: the compiled form of layers and models. Only the thread that drives the
// model uses these structs. A model is a flat list of layers that runs from first to last and then
// from last to first. Values between layers are tensors of the model's memory plan (memory_plan.h).
// A residual block becomes its inner layers and a `residual` layer that adds the value before them.
#ifndef MUSTER_TRAINER_MODEL_LAYER_H
#define MUSTER_TRAINER_MODEL_LAYER_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "trainer/model/fp8.h"
#include "trainer/model/memory_plan.h"
#include "trainer/ops/image.h"
#include "trainer/ops/norm.h"
#include "trainer/ops/sequence.h"

// indices of values and tensors: none; the images or features of a batch
enum { NONE = -1, INPUT = 0 };

// The shape of a value for one sample. Tokens are integers directly from the batch: rank 1,
// [context].
struct tensor_shape {
    bool tokens;
    int rank;
    int64_t dim[3]; // image: height, width, channels; sequence: context, width; features: one
};
int64_t tensor_shape_size(const struct tensor_shape *s);

enum { WEIGHT, BIAS, MEAN, VARIANCE, PARAMETERS_PER_LAYER }; // mean, variance: running statistics

struct gradient_sum { // into = a + b for parts of a gradient; `into` may be a or b; NONE: no sum
    int a, b, into;
};

struct layer {
    const struct layer_kind *kind;
    unsigned flags; // enum layer_flag
    char name[TENSOR_NAME_MAX];
    int position; // index in the list; keys the layer's dropout
    int block;    // residual block that it belongs to, counted from 0; NONE
    struct tensor_shape in, out;
    int input, other, output; // values of the graph; other: second summand of residual, else NONE
    int x, y;                 // tensors of input and output
    int added;                // tensor that is added to y; NONE
    int dy, dx;               // tensors of their gradients; NONE: not computed
    bool add;                 // dx is added to the content of its tensor (LAYER_ACCUMULATES_DX)
    struct gradient_sum sums[2];         // computed after the backward pass
    int saved;                           // tensor kept from the forward to the backward pass; NONE
    int table;                           // tensor that kind->fill fills once; NONE
    int parameter[PARAMETERS_PER_LAYER]; // index in the model's list; NONE
    bool add_gradient[PARAMETERS_PER_LAYER];  // tied: a later layer has written it before
    bool last_gradient[PARAMETERS_PER_LAYER]; // complete after this layer's backward pass
    bool again;           // runs forward once more before its block runs backward
    int again_from;       // in m->backward: first layer of the block that ends here; NONE
    double flops;         // forward pass of one sample; the gradient of x takes the same
    double flops_weights; // the gradient of the weights
    struct ops_linear linear;
    struct layer_fp8 fp8;
    struct ops_attention attention;
    struct ops_rotary rotary;
    double rate; // of dropout and attention
    struct ops_conv *conv;
    struct ops_pool *pool;
    int64_t op_bytes; // memory of the op outside the arena
    struct batch_norm {
        bool sync;   // statistics cover all micro-batches of the step
        bool relu;   // y is max(0, normalised x + `added`)
        size_t sums; // doubles at the start of `saved` from which the statistics are computed
        bool joins_gradients; // makes dy itself: a + b where y > 0; b may be NONE
        int a, b, y;          // tensors
    } norm;
};

struct initializer { // initial values of a parameter: constant + normal(0, deviation)
    float constant;
    double deviation;
};

struct loss_config {
    bool mse;              // mean squared error, else cross-entropy
    float label_smoothing; // in training only
};

struct compiled_model {
    struct sample_shape sample;
    struct loss_config loss;
    int64_t micro_batch, positions; // positions: predictions per sample
    int64_t input_size, outputs;    // numbers of a sample (not tokens), and of a prediction
    struct layer *layers;
    struct layer *backward; // the same with the tensors that the backward pass reads (recompute.c)
    int layer_count;
    bool recompute;        // blocks run forward again before they run backward
    int recomputed_blocks; // number of them
    struct parameter *parameters;
    struct initializer *initializers; // [parameter_count]
    int *gradients;                   // [parameter_count] tensors of the parameters' gradients
    int parameter_count;
    size_t block_size;
    struct memory_plan plan;
    int logits, dlogits;  // may be the same tensor
    int scratch;          // tensor shared by all ops that need temporary memory; NONE
    int row_losses, hits; // tensors [rows]: loss and correctness (0 or 1) of each prediction
    int losses, correct;  // tensors [micro_batch]
    struct staged { // tensors of the other parts of a batch, and of dropout keys; NONE: unused
        int labels, values, tokens, targets, samples, keys;
    } staged;
    uint64_t *keys;      // [layer_count] dropout keys on the host
    float *arena;        // plan.floats floats in the device's memory
    const float *floats; // the parameters as the optimizer has them
    const real *reals;   // and as ops read them
    real *real_block;    // memory for `reals` where real is not float
    struct model_fp8 fp8;
    struct batch *padded;             // used for incomplete batches
    json_t *list;                     // the list of layers that this was compiled from
    struct compiled_model **replicas; // copies of the model for the other micro-batches in lockstep
    int replica_count;
    double *step_sums;        // sums of all micro-batches of the step
    struct model_recordings { // recorded training passes, by kind of the sink
        struct gradient_sink sink;
        const float *floats;
        struct ops_recording *of[GRADIENT_KINDS];
    } recordings;
};

#endif
