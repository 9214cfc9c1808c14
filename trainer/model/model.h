// Models: a compiled graph of layers with planned memory. One thread drives a model at a time.
//
// Parameters live in one caller-owned block; the model knows name, shape and offset of each tensor.
// forward + backward of one micro-batch hands every parameter's gradient to a sink the moment it is
// complete (last layer first), which is where exact reduction quantises it while it is in cache.
// The result for a micro-batch is a function of (parameters, samples, seed, step) alone: it does
// not depend on rank, world size, or what was computed before.
#ifndef MUSTER_TRAINER_MODEL_MODEL_H
#define MUSTER_TRAINER_MODEL_MODEL_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "trainer/data/dataset.h"

enum { TENSOR_RANK_MAX = 5, TENSOR_NAME_MAX = 96 };

struct parameter {
    char name[TENSOR_NAME_MAX]; // "blocks.0.attention.query_key_value.weight"
    int rank;
    int64_t shape[TENSOR_RANK_MAX];
    size_t offset; // in floats, from the start of the block; multiple of 16
    size_t count;  // floats
    bool decay;    // weight decay applies (matrices and filters, not biases and norms)
    // A statistic (batch_norm's running mean and variance) is learnt by no gradient: what its layer
    // hands to the sink is the micro-batch's statistic times its samples, so that the sum divided
    // by the global batch is the step's mean, and the optimizer moves it there by `momentum`. So
    // statistics are reduced, stored and sent around like everything else. 0: not a statistic.
    double momentum;
};

struct model; // opaque

// Builds the graph of `spec` (trainer.model, complete with defaults) for samples of `shape` and
// micro-batches of `micro_batch` samples. `loss` is trainer.loss; NULL: cross_entropy where the
// data has classes or tokens, mse where it has values. Every mismatch names layer, expected and
// found shape.
int model_compile(const json_t *spec, const json_t *loss, const struct sample_shape *shape,
                  int64_t micro_batch, struct model **out, struct error *e);
void model_free(struct model *m);

const struct parameter *model_parameters(const struct model *m, int *count); // forward order
size_t model_block_size(const struct model *m); // floats of the parameter block, with padding
double model_flops(const struct model *m);      // forward + backward of one sample, in FLOP

// What was compiled, for a person: {"layers": [{"name", "kind", "in", "out", "parameters", "flops",
// "activation_bytes"}], "parameters", "flops_per_sample", "parameter_bytes", "activation_bytes"}.
// Statistics are no parameters; FLOP are those of matrix products, forward and backward. A layer's
// activation_bytes are what it adds to what is kept; the model's are what it allocates, in which
// layers share room.
int model_describe(const struct model *m, json_t **out);

// Initial values, keyed by (seed, parameter index, element): He or normal(0, 0.02) as the layer's
// literature has it. Padding is zeroed. `parameters` is in the device's memory.
void model_init(const struct model *m, uint64_t seed, float *parameters);

struct gradient_sink {
    // `gradient` (count floats, summed over the micro-batch's samples of the *mean-less* loss:
    // divide by the global batch afterwards) is valid until done(). Called once per parameter.
    void (*ready)(void *ctx, int parameter, const float *gradient);
    void (*done)(void *ctx); // those of a layer have been told; NULL: nobody wants to know
    void *ctx;
    // Of the pass at hand, below GRADIENT_KINDS: in all passes of a kind the sink asks the same of
    // ops, so that a GPU may repeat the first (ops_replay()). NULL: no two are known to be alike.
    const int *kind;
};
enum { GRADIENT_KINDS = 4 };

// The parameters of all passes from now on (block_size floats in the device's memory, which stay
// the caller's). Has to be called again whenever they have changed.
void model_set_parameters(struct model *m, const float *parameters);

// Training pass over batch->count == micro_batch samples. losses[i] is sample i's loss (for tokens
// the mean over its positions, for values over its outputs), there after ops_synchronize(). The
// gradient is of the sum of losses[]. ERR_CORRUPT names sample and position of a label or token out
// of range.
int model_train(struct model *m, const struct batch *batch, const struct draw_key *key,
                const struct gradient_sink *sink, float *losses, struct error *e);

// Whether layers take statistics over the whole step (batch_norm with sync), so that a step's
// micro-batches have to be computed together, layer by layer, each with memory of its own.
bool model_needs_lockstep(const struct model *m);

struct model_lockstep {
    const struct batch *const *batches; // [count], this rank's micro-batches of the step
    const struct gradient_sink *sinks;  // [count]
    float *losses;                      // [count * micro_batch]
    int64_t count, first, all;          // they are first .. first + count - 1 of the step's `all`
    // Adds up `values` over all ranks, their bit patterns as int64: each rank gives the sums of its
    // own micro-batches and zeros in the place of all others'. Every rank calls it the same number
    // of times, also one without micro-batches. At most model_lockstep_doubles() at a time.
    int (*gather)(void *ctx, double *values, size_t count, struct error *e);
    void *ctx;
};
size_t model_lockstep_doubles(const struct model *m, int64_t all);

// model_train() of several micro-batches. The result is the same however the step's micro-batches
// are shared among ranks; without such layers it is that of model_train() for each.
int model_train_lockstep(struct model *m, const struct model_lockstep *t,
                         const struct draw_key *key, struct error *e);

// Evaluation pass without dropout and label label_smoothing; batch->count <= micro_batch.
// correct[i]: right predictions of sample i (0 or 1; for tokens 0..context; for values 0).
int model_evaluate(struct model *m, const struct batch *batch, float *losses, int32_t *correct,
                   struct error *e);

// Logits of the last position of one token sequence of length 1..context, for sampling. ERR_INVALID
// for models that learn from no tokens.
int model_next_logits(struct model *m, const int32_t *tokens, int64_t length, float *logits,
                      struct error *e);

#endif
