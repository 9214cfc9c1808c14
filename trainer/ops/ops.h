// The arithmetic of the layers: each op has a forward and a backward function, one file per op and
// backend.
//
// Ops are pure functions of their arguments. The objects of linear, convolution and pooling layers
// contain compiled primitives; one thread at a time may use them. Any thread of a CPU may call the
// other ops; on a GPU one thread calls all. Tensors are row-major, images NHWC, aligned to 64 bytes
// in device memory (device.h), and belong to the caller. Outputs do not overlap inputs unless an op
// allows it. Activations and weights are reals; gradients of weights, statistics and losses are
// floats. The same inputs give the same bits on one kind of processor, independent of earlier
// calls. Ops do not check shapes; the compiler of the model does.
#ifndef MUSTER_TRAINER_OPS_OPS_H
#define MUSTER_TRAINER_OPS_OPS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "trainer/ops/device.h"

// --- linear: y[rows, out] = x[rows, in] W + bias. W is [in, out], or [out, in] when `transposed`
// (a head tied to an embedding). bias and db may be NULL. One of the three products reads W
// transposed: the forward one when `transposed`, otherwise the one of dx. ops_linear_compile()
// makes that product faster (with other rounding); then one thread at a time may use `product`.
struct ops_product; // opaque
struct ops_linear {
    int64_t rows, in, out;
    bool transposed;
    struct ops_product *product; // NULL: not compiled
};
int ops_linear_compile(struct ops_linear *s, struct error *e);
void ops_linear_free(struct ops_linear *s); // frees what ops_linear_compile() created
void ops_linear_forward(const struct ops_linear *s, const real *x, const real *w, const real *bias,
                        real *y);
void ops_linear_backward_data(const struct ops_linear *s, const real *w, const real *dy, real *dx,
                              bool add); // add: dx += ..; otherwise dx = ..
void ops_linear_backward_weights(const struct ops_linear *s, const real *x, const real *dy,
                                 float *dw, bool add, float *db);
// Fused with gelu: y = gelu(before), and the gradient of x = gelu(before). If no fused kernel was
// found when compiling, they run as two ops.
void ops_linear_gelu_forward(const struct ops_linear *s, const real *x, const real *w,
                             const real *bias, real *before, real *y); // both [rows, out]
void ops_linear_gelu_backward_data(const struct ops_linear *s, const real *w, const real *dy,
                                   const real *before, real *dx); // both [rows, in]

// --- element-wise ops; y may be x, dx may be dy
void ops_add(int64_t n, const real *a, const real *b, real *y); // y may be a
void ops_relu_forward(int64_t n, const real *x, real *y);
void ops_relu_backward(int64_t n, const real *y, const real *dy, real *dx);
void ops_tanh_forward(int64_t n, const real *x, real *y);
void ops_tanh_backward(int64_t n, const real *y, const real *dy, real *dx);
void ops_gelu_forward(int64_t n, const real *x, real *y); // tanh form (Hendrycks & Gimpel 2016)
void ops_gelu_backward(int64_t n, const real *x, const real *dy, real *dx);

// --- silu: y = x / (1 + e^-x) (Elfwing et al. 2017)
void ops_silu_forward(int64_t n, const real *x, real *y);
void ops_silu_backward(int64_t n, const real *x, const real *dy, real *dx);

// --- losses
// Softmax and cross-entropy: losses[rows] in nats. dlogits (may be NULL or logits) is the gradient
// of scale * sum of losses. correct[rows] (may be NULL) is 1 where the target is the first largest
// logit. `smoothing` in [0, 1) is the share of the target that is spread evenly over all classes
// (Szegedy et al. 2016).
void ops_cross_entropy(int64_t rows, int64_t classes, const real *logits, const int32_t *targets,
                       float *losses, int32_t *correct, float smoothing, float scale,
                       real *dlogits);

// Mean squared error over the outputs of a sample: losses[samples]; dy (may be NULL or y) is the
// gradient of scale * sum of losses.
void ops_mse(int64_t samples, int64_t outputs, const real *y, const float *targets, float *losses,
             float scale, real *dy);

// --- reductions over the positions of each sample; x is [samples, positions]. Means sum in double.
void ops_row_means(int64_t samples, int64_t positions, const float *x, float *means);
void ops_row_sums(int64_t samples, int64_t positions, const int32_t *x, int32_t *counts);

// --- y = factor * x, rounded once, for several arrays of n floats or (if x is NULL) doubles
enum { OPS_SCALED = 4 }; // at most this many in one call
struct ops_scaled {
    double factor;
    const float *x;
    const double *doubles;
    float *y;
};
void ops_scale(int64_t n, int count, const struct ops_scaled *s);

// --- dropout. The random number of an element depends only on (key, sample, element): philox with
// `key` (derived from seed, step and layer) and counter (the sample's index in its data set,
// element / 4).
struct ops_dropout {
    const uint64_t *key;    // in device memory, like `samples`
    double rate;            // probability of zero, 0 <= rate < 1
    const int64_t *samples; // index of each sample in its data set
};
uint64_t ops_dropout_key(uint64_t seed, int64_t step, uint64_t layer);
// keep[i] is 1 if element first + i of the sample is kept, 0 if it is dropped.
void ops_dropout_mask(const struct ops_dropout *d, int64_t sample, uint64_t first, int64_t n,
                      uint8_t *keep);
// size: elements of a sample. keep: [samples, size], passed from forward to backward. y may be x,
// dx may be dy.
void ops_dropout_forward(int64_t samples, int64_t size, const struct ops_dropout *d, const real *x,
                         real *y, uint8_t *keep);
void ops_dropout_backward(int64_t n, double rate, const uint8_t *keep, const real *dy, real *dx);

#endif
