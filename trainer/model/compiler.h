// Private to trainer/model: a model under construction, and the functions that layer kinds build it
// with.
#ifndef MUSTER_TRAINER_MODEL_COMPILER_H
#define MUSTER_TRAINER_MODEL_COMPILER_H

#include "trainer/model/pass.h"

// A value between layers: the output of one layer, which others read.
struct graph_value {
    struct tensor_shape shape;
    int readers;         // number of layers that read it in the forward pass
    int last;            // the last moment at which `tensor` is read
    bool needs_gradient; // there are parameters before it
    int tensor;          // tensor that holds the value
    int gradient;        // tensor that holds its gradient as computed so far; NONE
    int block;           // the only block that makes and reads it, if it is recomputed; NONE
    bool wanted;         // it is computed again
    int again;           // tensor that then holds it; else `tensor`
    int again_last;      // the last moment at which that is read
};

struct compiler {
    struct compiled_model *m;
    int layer_capacity;
    struct graph_value *values;
    int value_count, value_capacity;
    int current;     // output of the last layer
    int shortcut;    // value that the next residual layer adds
    int64_t scratch; // floats
    int *holders; // [tensor] number of values whose gradient it holds and that will still be read
    int block;    // top-level residual block that is being compiled; NONE
    int block_count;             // blocks so far
    int *again_at, *backward_at; // [layer] moments of its second forward run, and backward
    int end;                     // the last moment
};

// --- for the build functions of kinds; errors are ERR_INVALID by default -------------------------

// Adds a parameter in one of the slots of the layer; its name consists of layer and slot.
int compiler_add_parameter(struct compiler *c, struct layer *l, int slot, int rank,
                           const int64_t *shape, struct initializer initial, struct error *e);
// Makes the layer share the weight of the layer called `name`.
int compiler_tie_weight(struct compiler *c, struct layer *l, const char *name, struct error *e);
bool compiler_needs_gradient(const struct compiler *c, const struct layer *l); // of its input
void compiler_save(struct compiler *c, struct layer *l, int64_t floats);       // sets l->saved
void compiler_need_scratch(struct compiler *c, int64_t floats);

// Reads an integer of the specification within [min, max]. It is required if fallback < min.
int spec_int(const json_t *spec, const char *key, int64_t fallback, int64_t min, int64_t max,
             int64_t *out, struct error *e);
// in [0, 1); default 0
int spec_rate(const json_t *spec, const char *key, double *out, struct error *e);
double spec_rotary(const json_t *spec); // base of the rotary positions of an attention; 0: none
// A normal distribution with the given `deviation`, or else gain / sqrt(fan_in); the default gain
// is that of He et al. 2015.
struct initializer spec_normal(const json_t *spec, int64_t fan_in);

bool tensor_shape_equal(const struct tensor_shape *a, const struct tensor_shape *b);
enum { TENSOR_SHAPE_TEXT_MAX = 96 };
const char *tensor_shape_text(const struct tensor_shape *s,
                              char out[TENSOR_SHAPE_TEXT_MAX]); // "28x28x1", "64 tokens"

// Checks of a layer's input. The error names the expected and the actual shape.
int layer_expect(const struct layer *l, bool fits, const char *expected, struct error *e);
int layer_expect_values(const struct layer *l, struct error *e);
int layer_expect_rows(const struct layer *l, struct error *e); // features, or a sequence of them
int layer_expect_sequence(const struct layer *l, struct error *e);
int layer_expect_image(const struct layer *l, struct error *e);
int64_t layer_width(const struct layer *l); // last dimension of its input

// --- kinds ---------------------------------------------------------------------------------------

// the kinds that a specification may name; ends with NULL
extern const struct layer_kind *const layer_kinds[];
extern const struct layer_kind layer_linear, layer_relu, layer_gelu, layer_silu, layer_tanh,
    layer_flatten, layer_dropout, layer_residual;
extern const struct layer_kind layer_batch_norm, layer_layer_norm, layer_rms_norm;
extern const struct layer_kind layer_conv2d, layer_max_pool, layer_avg_pool, layer_global_pool;
extern const struct layer_kind layer_embedding, layer_position, layer_attention, layer_rotary;
// Kinds of fused layers. A batch_norm before them, or a max_pool after them, does their work.
extern const struct layer_kind layer_relu_fused, layer_residual_fused, layer_relu_fused_forward;
// Linear layers around it do its work.
extern const struct layer_kind layer_gelu_fused;
extern const struct layer_kind layer_residual_layer_norm, layer_layer_norm_fused;
extern const struct layer_kind layer_residual_rms_norm, layer_rms_norm_fused;

// --- the steps of model_compile() ----------------------------------------------------------------

// Reads trainer.loss and checks it against the targets of the data. ERR_INVALID.
int loss_read(const json_t *spec, const struct sample_shape *shape, struct loss_config *out,
              struct error *e);
// Returns the list of layers of trainer.model, a new reference. `outputs`: number of outputs of a
// family that does not name its classes. ERR_INVALID.
int family_expand(const json_t *spec, int64_t outputs, json_t **layers, struct error *e);
// `config->spec` and `config->loss` are not read.
int model_compile_layers(json_t *list, const struct loss_config *loss,
                         const struct model_config *config, struct compiled_model **out,
                         struct error *e);
// Chooses the layers that quantise (fp8.c). ERR_INVALID: the device is to, and no layer can.
int compiler_quantise(struct compiler *c, struct error *e);
// Fuses consecutive layers that can be computed in one pass over memory (fuse.c).
void compiler_fuse(struct compiler *c);
void layer_replace_kind(struct layer *l, const struct layer_kind *kind);
// Assigns a place in the arena to everything in the graph (place.c). ERR_TOO_LARGE.
int compiler_place(struct compiler *c, struct error *e);
int64_t compiler_float_count(const struct compiler *c, int64_t size); // of so many reals a sample

// --- recomputation (recompute.c) -----------------------------------------------------------------

// Chooses the blocks, and the layers and values in them that are computed again, and sets the
// moments of all layers. Without m->recompute there are no blocks.
void compiler_choose_recomputed(struct compiler *c);
// Whether l->saved lives from the forward to the backward pass: outside of blocks, and where it is
// small beside the output, like the statistics of a norm.
bool compiler_keeps_saved(const struct compiler *c, const struct layer *l);
// Notes that the backward pass of the layer reads the value.
void compiler_note_backward_read(struct compiler *c, const struct layer *l, int value);
// Notes what the second forward runs read.
void compiler_note_again_reads(struct compiler *c);
// Gives tensors to the values that are computed again, and makes m->backward. Call it last.
void compiler_place_recomputed(struct compiler *c);

#endif
