// Normalisations: forward and backward. The rules of ops.h hold.
#ifndef MUSTER_TRAINER_OPS_NORM_H
#define MUSTER_TRAINER_OPS_NORM_H

#include "trainer/ops/ops.h"

// --- layer_norm over the last dimension (Ba et al. 2016), epsilon 1e-5. statistics: [rows, 2],
// mean and 1 / deviation, forward to backward. bias and dbias may be NULL.
void ops_layer_norm_forward(int64_t rows, int64_t width, const real *x, const real *gain,
                            const real *bias, real *y, float *statistics);
void ops_layer_norm_backward(int64_t rows, int64_t width, const real *x, const real *gain,
                             const float *statistics, const real *dy, real *dx, bool add,
                             float *dgain, float *dbias); // dx may be NULL
// The same of sum = a + b, as ops_add() makes it: the end of a residual block and the norm behind
// it. sum may be a or b.
void ops_add_layer_norm_forward(int64_t rows, int64_t width, const real *a, const real *b,
                                real *sum, const real *gain, const real *bias, real *y,
                                float *statistics);

// --- rms_norm over the last dimension (Zhang & Sennrich 2019), epsilon 1e-5: y = gain x / rms(x).
// statistics: [rows], 1 / rms.
void ops_rms_norm_forward(int64_t rows, int64_t width, const real *x, const real *gain, real *y,
                          float *statistics);
void ops_rms_norm_backward(int64_t rows, int64_t width, const real *x, const real *gain,
                           const float *statistics, const real *dy, real *dx, bool add,
                           float *dgain); // dx may be NULL
void ops_add_rms_norm_forward(int64_t rows, int64_t width, const real *a, const real *b, real *sum,
                              const real *gain, real *y, float *statistics); // of sum = a + b

// --- batch_norm over the rows of x[rows, channels], rows being samples * height * width (Ioffe &
// Szegedy 2015), epsilon 1e-5: y = gain (x - mean) / deviation + bias, of that max(0, y) with
// `relu`. It comes in parts, so that statistics can be of a micro-batch, of more, or those learnt:
// sums first, then what follows from them. Sums are in double, in a fixed order, and exact enough
// about zero that an offset of a thousand deviations costs nothing.
struct ops_batch_norm {
    int64_t rows, channels;
    bool relu;
    const real *x;
    const float *mean, *variance; // of the population, not of a sample
    const real *gain, *bias;
};
// sums: [2, channels], sum of x and of x^2. Sums of parts of the rows may be added up.
void ops_batch_norm_sums(int64_t rows, int64_t channels, const real *x, double *sums);
// mean[channels] and variance[channels] >= 0 of `count` rows from their sums.
void ops_batch_norm_statistics(double count, int64_t channels, const double *sums, float *mean,
                               float *variance);
// y may be x, when no backward pass follows. `add` [rows, channels] (NULL: nothing; may be y) is
// added before relu: the end of a residual block in one pass.
void ops_batch_norm_forward(const struct ops_batch_norm *n, const real *add, real *y);
// sums: [2, channels], sum of dy and of dy * normalised x: the gradients of bias and gain. With
// n->relu, dy counts where relu let x pass, which is seen from x alone: after a forward pass with
// `add` call ops_relu_backward(), whose result is also the gradient of `add`, then this and
// ops_batch_norm_backward() without n->relu.
void ops_batch_norm_gradient_sums(const struct ops_batch_norm *n, const real *dy, double *sums);
// The same of a block's end, where relu came after the sum with `add` and y is what it made: the
// gradient is first put together, dy = a + b where y > 0 and else 0. b may be NULL; dy may be a or
// b. It is the gradient of `add`, too. n->relu is false.
void ops_batch_norm_residual_gradient_sums(const struct ops_batch_norm *n, const real *y,
                                           const real *a, const real *b, real *dy, double *sums);
// dx, where mean and variance are of `count` rows with these sums; dx may be dy. count 0: mean and
// variance are constants.
void ops_batch_norm_backward(const struct ops_batch_norm *n, double count, const double *sums,
                             const real *dy, real *dx);

#endif
