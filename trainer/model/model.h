// Models: a compiled graph of layers with planned memory. One thread drives a model at a time.
//
// The parameters are in one block that the caller owns; the model knows the name, shape and offset
// of each tensor. The forward and backward pass of a micro-batch hands each gradient to a sink as
// soon as it is complete (last layer first), so exact reduction quantises it while it is in the
// cache. The result of a micro-batch is a function of (parameters, samples, seed, step): it does
// not depend on the rank, the world size or earlier passes.
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
    // Greater than 0 for a running statistic (mean or variance of batch_norm), which has no
    // gradient. Its layer hands the sink the statistic of the micro-batch times its samples; the
    // sum divided by the global batch is the mean over the step, and the optimizer moves the
    // parameter towards it by `momentum`. So statistics are reduced, saved and broadcast like all
    // other parameters.
    double momentum;
};

// A tensor that linear layers quantise to FP8 (ops/fp8.h).
struct fp8_tensor {
    char name[TENSOR_NAME_MAX]; // "blocks.0.mlp.up.input", .weight or .gradient (of the output)
};

struct compiled_model; // opaque

struct model_config {
    const json_t *spec; // trainer.model with all defaults
    const json_t *loss; // trainer.loss; NULL: cross_entropy for classes or tokens, mse for values
    const struct sample_shape *shape;
    int64_t micro_batch; // samples
    bool recompute;      // keep only the values between blocks; the bits are the same
};

// Builds the graph and plans its memory. Errors about shapes name the layer, the expected and the
// actual shape. Call model_allocate() before any pass.
int model_plan(const struct model_config *config, struct compiled_model **out, struct error *e);
size_t model_memory(const struct compiled_model *m); // bytes of the device that it allocates
int model_allocate(struct compiled_model *m, struct error *e); // once. ERR_NO_MEMORY
// Both, without recomputation.
int model_compile(const json_t *spec, const json_t *loss, const struct sample_shape *shape,
                  int64_t micro_batch, struct compiled_model **out, struct error *e);
void model_free(struct compiled_model *m);
int model_recomputed_blocks(const struct compiled_model *m); // number of blocks
int64_t model_micro_batch(const struct compiled_model *m);
// Samples of a micro-batch beyond which attention has to use slower kernels; INT64_MAX: none.
int64_t model_attention_samples(const struct compiled_model *m);

// In forward order.
const struct parameter *model_parameters(const struct compiled_model *m, int *count);
size_t model_block_size(const struct compiled_model *m); // floats of all, with padding
double model_flops(const struct compiled_model *m);      // of one sample, forward and backward

// Describes the compiled model: {"layers": [{"name", "kind", "in", "out", "parameters", "flops",
// "activation_bytes", "recomputed"}], "parameters", "flops_per_sample", "parameter_bytes",
// "activation_bytes", "recomputed_blocks"}.
// Statistics are not counted as parameters; FLOP are those of matrix products, forward and
// backward. The activation_bytes of a layer are the memory that it keeps; those of the model are
// its allocation, in which layers share memory.
int model_describe(const struct compiled_model *m, json_t **out);

// Writes initial values, keyed by (seed, parameter index, element) and distributed as the
// literature of each layer has it. Padding is zeroed. `parameters` is in the device's memory.
void model_init(const struct compiled_model *m, uint64_t seed, float *parameters);

struct gradient_sink {
    // Called once per parameter. `gradient` (count floats) is the gradient of the sum of the
    // samples' losses; divide by the global batch to get that of the mean. It is valid until
    // done().
    void (*ready)(void *ctx, int parameter, const float *gradient);
    void (*done)(void *ctx); // all gradients of a layer have been handed over; may be NULL
    void *ctx;
    // The kind of the current pass, below GRADIENT_KINDS. In all passes of a kind the sink makes
    // the same calls to ops, so that a GPU may replay the first one (ops_replay()). NULL: passes
    // differ.
    const int *kind;
};
enum { GRADIENT_KINDS = 4 };

// Sets the parameters of all following passes (block_size floats in the device's memory, which the
// caller owns). Call it again after each change of the parameters.
void model_set_parameters(struct compiled_model *m, const float *parameters);

// The tensors that training quantises; none unless the device was opened for FP8.
const struct fp8_tensor *model_fp8_tensors(const struct compiled_model *m, int *count);

// Begins a step, after model_set_parameters(): quantises the weights. Training needs this call if
// model_fp8_tensors() returns tensors; otherwise it does nothing. `exponents` are those of the
// tensors' largest magnitudes, from which their scales follow (ops_fp8_scale()). NULL, before the
// first step: each pass measures its tensors before it quantises them. Into `amaxes`, in device
// memory and the same for all steps, the op writes the largest magnitudes of this step, as maxima.
void model_begin_step(struct compiled_model *m, const int32_t *exponents, uint32_t *amaxes);

// A training pass over batch->count == micro_batch samples. losses[i] is the loss of sample i (the
// mean over its positions or outputs), available after ops_synchronize(). The gradient is that of
// the sum of losses[]. ERR_CORRUPT names the sample and position of a label or token that is out of
// range.
int model_train(struct compiled_model *m, const struct batch *batch, const struct draw_key *key,
                const struct gradient_sink *sink, float *losses, struct error *e);

// Returns whether layers take statistics over the whole step (batch_norm with sync). Then the
// micro-batches of a step must be computed in lockstep, layer by layer, each with its own memory.
bool model_needs_lockstep(const struct compiled_model *m);

struct model_lockstep {
    const struct batch *const *batches; // [count] this rank's micro-batches of the step
    const struct gradient_sink *sinks;  // [count]
    float *losses;                      // [count * micro_batch]
    // they are first .. first + count - 1 of the step's step_count
    int64_t count, first, step_count;
    // Adds the bit patterns of `values`, as int64, over all ranks. Each rank passes the sums of its
    // own micro-batches and zeros in the places of the others. Every rank calls it equally often,
    // also a rank without micro-batches. At most model_lockstep_doubles() values at a time.
    int (*gather)(void *ctx, double *values, size_t count, struct error *e);
    void *ctx;
};
size_t model_lockstep_doubles(const struct compiled_model *m, int64_t step_count);

// model_train() for several micro-batches. The result does not depend on how ranks share the
// micro-batches of the step; without such layers it equals model_train() for each.
int model_train_lockstep(struct compiled_model *m, const struct model_lockstep *t,
                         const struct draw_key *key, struct error *e);

// An evaluation pass, without dropout, label smoothing and FP8; batch->count <= micro_batch.
// correct[i] counts correct predictions (0 or 1; 0..context for tokens; 0 for values).
int model_evaluate(struct compiled_model *m, const struct batch *batch, float *losses,
                   int32_t *correct, struct error *e);

// Computes the logits of the last position of a sequence of 1..context tokens, to sample text.
// ERR_INVALID for models that do not learn from tokens.
int model_next_logits(struct compiled_model *m, const int32_t *tokens, int64_t length,
                      float *logits, struct error *e);

#endif
