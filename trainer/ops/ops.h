// Arithmetic of the layers: each op has forward and backward, one file per op and backend.
//
// Pure functions of their arguments: no state but the objects of products, convolution and pooling,
// which hold compiled primitives and may be used by one thread at a time. All else may be called by
// any thread of a CPU, and by one thread of a GPU's. Tensors are row-major, images NHWC, aligned to
// 64 bytes in the device's memory (device.h), and belong to the caller; outputs never overlap
// inputs unless an op says so. What layers hand to each other, and the weights they read, are
// reals; gradients of weights, statistics and losses are floats. The same inputs give the same bits
// on one kind of processor, whatever was computed before. Errors of arithmetic are the caller's:
// shapes are asserted by the model's compiler, not here.
#ifndef MUSTER_TRAINER_OPS_OPS_H
#define MUSTER_TRAINER_OPS_OPS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "trainer/ops/device.h"

// --- linear: y[rows, out] = x[rows, in] W + bias. W is [in, out]; [out, in] when `transposed`
// (a head tied to an embedding). bias and db may be NULL. One of the three products, the forward
// one when `transposed`, otherwise that of dx, has W the other way round; ops_linear_compile()
// makes it faster, with other rounding, and `product` is then used by one thread at a time.
struct ops_product; // opaque
struct ops_linear {
    int64_t rows, in, out;
    bool transposed;
    struct ops_product *product; // NULL: not compiled
};
int ops_linear_compile(struct ops_linear *s, struct error *e);
void ops_linear_free(struct ops_linear *s); // what compile made
void ops_linear_forward(const struct ops_linear *s, const real *x, const real *w, const real *bias,
                        real *y);
void ops_linear_backward_data(const struct ops_linear *s, const real *w, const real *dy, real *dx,
                              bool add); // add: dx += instead of dx =
void ops_linear_backward_weights(const struct ops_linear *s, const real *x, const real *dy,
                                 float *dw, bool add, float *db);
// With gelu behind it, y = gelu(before); and where x is gelu(before), the gradient of that. What
// compile finds a kernel for is one, else these are the two ops one after the other.
void ops_linear_gelu_forward(const struct ops_linear *s, const real *x, const real *w,
                             const real *bias, real *before, real *y); // both [rows, out]
void ops_linear_gelu_backward_data(const struct ops_linear *s, const real *w, const real *dy,
                                   const real *before, real *dx); // both [rows, in]

// --- element by element; y may be x, dx may be dy
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
// Softmax and cross-entropy in one: losses[rows] in nats. dlogits (NULL: not wanted; may be
// logits) is the gradient of scale * sum of losses. correct[rows] (NULL: not wanted) is 1 where the
// target is the first largest logit. `smoothing` in [0, 1) of the target is spread evenly over all
// classes (Szegedy et al. 2016).
void ops_cross_entropy(int64_t rows, int64_t classes, const real *logits, const int32_t *targets,
                       float *losses, int32_t *correct, float smoothing, float scale,
                       real *dlogits);

// Mean squared error over the outputs of a sample: losses[samples]; dy (NULL: not wanted; may be y)
// is the gradient of scale * sum of losses.
void ops_mse(int64_t samples, int64_t outputs, const real *y, const float *targets, float *losses,
             float scale, real *dy);

// --- small sums: of each sample's positions, x[samples, positions]
void ops_row_means(int64_t samples, int64_t positions, const float *x, float *means); // summed in
                                                                                      // double
void ops_row_sums(int64_t samples, int64_t positions, const int32_t *x, int32_t *counts);

// --- y = factor * x, rounded once, for several x of n floats or (x is NULL) doubles
enum { OPS_SCALED = 4 }; // at most
struct ops_scaled {
    double factor;
    const float *x;
    const double *doubles;
    float *y;
};
void ops_scale(int64_t n, int count, const struct ops_scaled *s);

// --- dropout. The draw of an element is a function of (key, sample, element) alone: philox keyed
// by `key` (of seed, step and layer), counter (sample's index in its data set, element / 4).
struct ops_dropout {
    const uint64_t *key;    // in the device's memory, like the samples
    double rate;            // probability of zero, 0 <= rate < 1
    const int64_t *samples; // index of each sample in its data set
};
uint64_t ops_dropout_key(uint64_t seed, int64_t step, uint64_t layer);
// keep[i] = element first + i of the sample is kept (1) or dropped (0).
void ops_dropout_mask(const struct ops_dropout *d, int64_t sample, uint64_t first, int64_t n,
                      uint8_t *keep);
// size: elements of a sample. keep: [samples, size], forward to backward. y may be x, dx may be dy.
void ops_dropout_forward(int64_t samples, int64_t size, const struct ops_dropout *d, const real *x,
                         real *y, uint8_t *keep);
void ops_dropout_backward(int64_t n, double rate, const uint8_t *keep, const real *dy, real *dx);

#endif
