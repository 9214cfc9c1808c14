// Inside trainer/model: a model under construction, and what the kinds of layers build it with.
#ifndef MUSTER_TRAINER_MODEL_COMPILER_H
#define MUSTER_TRAINER_MODEL_COMPILER_H

#include "trainer/model/pass.h"

// What one layer makes and others read.
struct graph_value {
    struct tensor_shape shape;
    int readers;         // layers that read it going forward
    int last;            // the last moment it is read, forward or backward
    bool needs_gradient; // for there are parameters before it
    int tensor;          // where it lies
    int gradient;        // tensor of what is known of its gradient so far; NONE
};

struct compiler {
    struct model *m;
    int layer_capacity;
    struct graph_value *values;
    int value_count, value_capacity;
    int current;     // the value so far
    int shortcut;    // what the residual layer that is built adds to it
    int64_t scratch; // floats
    int *holders;    // per tensor: values whose gradient lies there and is still to be read
};

// --- for the build functions of kinds; errors are ERR_INVALID unless told

// A parameter of the layer in one of its slots, named after both.
int compiler_add_parameter(struct compiler *c, struct layer *l, int slot, int rank,
                           const int64_t *shape, struct initializer initial, struct error *e);
// The layer's weight is that of the layer called `name`.
int compiler_tie_weight(struct compiler *c, struct layer *l, const char *name, struct error *e);
bool compiler_needs_gradient(const struct compiler *c, const struct layer *l); // of its input
void compiler_save(struct compiler *c, struct layer *l, int64_t floats);       // sets l->saved
void compiler_need_scratch(struct compiler *c, int64_t floats);

// A value of a specification within [min, max]; fallback < min: required.
int spec_int(const json_t *spec, const char *key, int64_t fallback, int64_t min, int64_t max,
             int64_t *out, struct error *e);
int spec_rate(const json_t *spec, const char *key, double *out, struct error *e); // [0, 1), or 0
double spec_rotary(const json_t *spec); // base of an attention's rotary positions; 0: it has none
// Normal with the deviation asked for, else gain / sqrt(fan_in), by default He et al. 2015.
struct initializer spec_normal(const json_t *spec, int64_t fan_in);

bool tensor_shape_equal(const struct tensor_shape *a, const struct tensor_shape *b);
enum { TENSOR_SHAPE_TEXT_MAX = 96 };
const char *tensor_shape_text(const struct tensor_shape *s,
                              char out[TENSOR_SHAPE_TEXT_MAX]); // "28x28x1", "64 tokens"

// What a layer takes: the error names what was expected, and what was found.
int layer_expect(const struct layer *l, bool fits, const char *expected, struct error *e);
int layer_expect_values(const struct layer *l, struct error *e);
int layer_expect_rows(const struct layer *l, struct error *e); // features, or a sequence of them
int layer_expect_sequence(const struct layer *l, struct error *e);
int layer_expect_image(const struct layer *l, struct error *e);
int64_t layer_width(const struct layer *l); // of the last dimension of its input

// --- kinds

extern const struct layer_kind *const layer_kinds[]; // those of the list of layers; ends with NULL
extern const struct layer_kind layer_linear, layer_relu, layer_gelu, layer_silu, layer_tanh,
    layer_flatten, layer_dropout, layer_residual;
extern const struct layer_kind layer_batch_norm, layer_layer_norm, layer_rms_norm;
extern const struct layer_kind layer_conv2d, layer_max_pool, layer_avg_pool, layer_global_pool;
extern const struct layer_kind layer_embedding, layer_position, layer_attention, layer_rotary;
// What a batch_norm before them has done already, or a max_pool after them does too.
extern const struct layer_kind layer_relu_fused, layer_residual_fused, layer_relu_fused_forward;
// What linear layers around it do; sums that are normalised on the way, and their norms.
extern const struct layer_kind layer_gelu_fused;
extern const struct layer_kind layer_residual_layer_norm, layer_layer_norm_fused;
extern const struct layer_kind layer_residual_rms_norm, layer_rms_norm_fused;

// --- the steps of model_compile()

// trainer.loss, checked against what the data has to predict. ERR_INVALID.
int loss_read(const json_t *spec, const struct sample_shape *shape, struct loss_config *out,
              struct error *e);
// The list of layers of trainer.model: a new reference. `wanted`: outputs of a family that does not
// name its classes. ERR_INVALID.
int family_expand(const json_t *spec, int64_t wanted, json_t **layers, struct error *e);
int model_compile_layers(json_t *list, const struct loss_config *loss,
                         const struct sample_shape *shape, int64_t micro_batch, struct model **out,
                         struct error *e);
// Gives everything of the graph its place in memory. ERR_TOO_LARGE, ERR_NO_MEMORY.
int compiler_place(struct compiler *c, struct error *e);

#endif
