// Arithmetic of the layers: each op has forward and backward, one file per op and backend.
//
// Pure functions of their arguments: no state but the objects of convolution and pooling, which
// hold compiled primitives and may be used by one thread at a time. All else may be called by any
// thread. Tensors are row-major floats, images NHWC, aligned to 64 bytes, and belong to the caller;
// outputs never overlap inputs unless an op says so. The same inputs give the same bits on one kind
// of processor, whatever was computed before. Errors of arithmetic are the caller's: shapes are
// asserted by the model's compiler, not here.
#ifndef MUSTER_TRAINER_OPS_OPS_H
#define MUSTER_TRAINER_OPS_OPS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

// Holds oneDNN to one thread in the calling thread: a slot is one core. OpenMP keeps the number per
// thread, so whoever calls ops calls this first; it costs nothing to call again.
void ops_enter(void);

// What the bits depend on beside the inputs: library and its version, instruction set of library
// and own loops. "oneDNN 2.6.3 avx512_core, loops x86-64-v4". Returns out.
enum { OPS_FINGERPRINT_MAX = 128 };
const char *ops_fingerprint(char *out, size_t cap);

// --- linear: y[rows, out] = x[rows, in] W + bias. W is [in, out]; [out, in] when `transposed`
// (a head tied to an embedding). bias and db may be NULL.
struct ops_linear {
    int64_t rows, in, out;
    bool transposed;
};
void ops_linear_forward(const struct ops_linear *s, const float *x, const float *w,
                        const float *bias, float *y);
void ops_linear_backward_data(const struct ops_linear *s, const float *w, const float *dy,
                              float *dx, bool add); // add: dx += instead of dx =
void ops_linear_backward_weights(const struct ops_linear *s, const float *x, const float *dy,
                                 float *dw, bool add, float *db);

// --- element by element; y may be x, dx may be dy
void ops_add(int64_t n, const float *a, const float *b, float *y); // y may be a
void ops_relu_forward(int64_t n, const float *x, float *y);
void ops_relu_backward(int64_t n, const float *y, const float *dy, float *dx);
void ops_tanh_forward(int64_t n, const float *x, float *y);
void ops_tanh_backward(int64_t n, const float *y, const float *dy, float *dx);
void ops_gelu_forward(int64_t n, const float *x, float *y); // tanh form (Hendrycks & Gimpel 2016)
void ops_gelu_backward(int64_t n, const float *x, const float *dy, float *dx);

// --- layer_norm over the last dimension (Ba et al. 2016), epsilon 1e-5. statistics: [rows, 2],
// mean and 1 / deviation, forward to backward. bias and dbias may be NULL.
void ops_layer_norm_forward(int64_t rows, int64_t width, const float *x, const float *gain,
                            const float *bias, float *y, float *statistics);
void ops_layer_norm_backward(int64_t rows, int64_t width, const float *x, const float *gain,
                             const float *statistics, const float *dy, float *dx, bool add,
                             float *dgain, float *dbias); // dx may be NULL

// --- softmax and cross-entropy in one: losses[rows] in nats. dlogits (NULL: not wanted; may be
// logits) is the gradient of scale * sum of losses. correct[rows] (NULL: not wanted) is 1 where the
// target is the first largest logit.
void ops_cross_entropy(int64_t rows, int64_t classes, const float *logits, const int32_t *targets,
                       float *losses, int32_t *correct, float scale, float *dlogits);

// --- embedding: y[row] = table[tokens[row]]; position: y[s, t] = x[s, t] + table[t]. y may be x.
void ops_embedding_forward(int64_t rows, int64_t width, const int32_t *tokens, const float *table,
                           float *y);
void ops_embedding_backward(int64_t rows, int64_t width, int64_t vocabulary, const int32_t *tokens,
                            const float *dy, float *dtable, bool add);
void ops_position_forward(int64_t samples, int64_t context, int64_t width, const float *x,
                          const float *table, float *y);
void ops_position_backward(int64_t samples, int64_t context, int64_t width, const float *dy,
                           float *dtable);

// --- dropout. The draw of an element is a function of (key, sample, element) alone: philox keyed
// by `key` (of seed, step and layer), counter (sample's index in its data set, element / 4).
struct ops_draw {
    uint64_t key;
    double rate;            // probability of zero, 0 <= rate < 1
    const int64_t *samples; // index of each sample in its data set
};
uint64_t ops_draw_key(uint64_t seed, int64_t step, uint64_t layer);
// keep[i] = element first + i of the sample is kept (1) or dropped (0).
void ops_draw(const struct ops_draw *d, int64_t sample, uint64_t first, int64_t n, uint8_t *keep);
// size: elements of a sample. keep: [samples, size], forward to backward. y may be x, dx may be dy.
void ops_dropout_forward(int64_t samples, int64_t size, const struct ops_draw *d, const float *x,
                         float *y, uint8_t *keep);
void ops_dropout_backward(int64_t n, double rate, const uint8_t *keep, const float *dy, float *dx);

// --- causal self-attention. qkv: [samples, context, 3 * width], query, key and value each of
// `heads` heads; y: [samples, context, width]. probabilities [samples, heads, context, context] and
// keep (the same shape; only used when draw->rate > 0) go from forward to backward.
struct ops_attention {
    int64_t samples, context, heads, width; // width % heads == 0
};
int64_t ops_attention_scratch(const struct ops_attention *s); // floats that both passes need
void ops_attention_forward(const struct ops_attention *s, const struct ops_draw *draw,
                           const float *qkv, float *probabilities, uint8_t *keep, float *scratch,
                           float *y);
void ops_attention_backward(const struct ops_attention *s, double rate, const float *qkv,
                            const float *probabilities, const uint8_t *keep, float *scratch,
                            const float *dy, float *dqkv);

// --- conv2d, zero padding on all sides. Weights are [kernel, kernel, in, out].
struct ops_conv_shape {
    int64_t samples, height, width, in, out, kernel, stride, padding;
    bool bias; // else bias and db are NULL
};
struct ops_conv; // compiled for one shape; owned by the caller of ops_conv_new()
int ops_conv_new(const struct ops_conv_shape *s, bool data_gradient, struct ops_conv **out,
                 struct error *e); // ERR_INTERNAL when oneDNN has no kernel
void ops_conv_free(struct ops_conv *c);
void ops_conv_forward(struct ops_conv *c, const float *x, const float *w, const float *bias,
                      float *y);
void ops_conv_backward_data(struct ops_conv *c, const float *w, const float *dy, float *dx);
void ops_conv_backward_weights(struct ops_conv *c, const float *x, const float *dy, float *dw,
                               float *db);

// --- max_pool without padding: places left over at the right and bottom edge are not looked at.
struct ops_pool_shape {
    int64_t samples, height, width, channels, kernel, stride;
};
struct ops_pool; // compiled; remembers where the last forward pass found its maxima
int ops_pool_new(const struct ops_pool_shape *s, struct ops_pool **out, struct error *e);
void ops_pool_free(struct ops_pool *p);
void ops_pool_forward(struct ops_pool *p, const float *x, float *y);
void ops_pool_backward(struct ops_pool *p, const float *dy, float *dx);

#endif
