// Normalisation layers: forward and backward. The rules of ops.h apply.
#ifndef MUSTER_TRAINER_OPS_NORM_H
#define MUSTER_TRAINER_OPS_NORM_H

#include "trainer/ops/ops.h"

// --- layer_norm over the last dimension (Ba et al. 2016), epsilon 1e-5. statistics: [rows, 2],
// mean and 1 / deviation, passed from forward to backward. bias and dbias may be NULL.
void ops_layer_norm_forward(int64_t rows, int64_t width, const real *x, const real *gain,
                            const real *bias, real *y, float *statistics);
void ops_layer_norm_backward(int64_t rows, int64_t width, const real *x, const real *gain,
                             const float *statistics, const real *dy, real *dx, bool add,
                             float *dgain, float *dbias); // dx may be NULL
// Fused with ops_add(): sum = a + b, then layer_norm of the sum. It joins the end of a residual
// block with the next norm. sum may be a or b.
void ops_add_layer_norm_forward(int64_t rows, int64_t width, const real *a, const real *b,
                                real *sum, const real *gain, const real *bias, real *y,
                                float *statistics);

// --- rms_norm over the last dimension (Zhang & Sennrich 2019), epsilon 1e-5: y = gain x / rms(x).
// statistics: [rows], 1 / rms, passed from forward to backward.
void ops_rms_norm_forward(int64_t rows, int64_t width, const real *x, const real *gain, real *y,
                          float *statistics);
void ops_rms_norm_backward(int64_t rows, int64_t width, const real *x, const real *gain,
                           const float *statistics, const real *dy, real *dx, bool add,
                           float *dgain); // dx may be NULL
void ops_add_rms_norm_forward(int64_t rows, int64_t width, const real *a, const real *b, real *sum,
                              const real *gain, real *y, float *statistics); // fused with ops_add()

// --- batch_norm over the rows of x[rows, channels], where rows = samples * height * width (Ioffe &
// Szegedy 2015), epsilon 1e-5: y = gain (x - mean) / deviation + bias; with `relu` max(0, y). It is
// split into several functions, so that the statistics can come from a micro-batch, from several,
// or from the learnt averages. Sums are in double, in a fixed order, and about zero; a mean of a
// thousand deviations costs no accuracy.
struct ops_batch_norm {
    int64_t rows, channels;
    bool relu;
    const real *x;
    const float *mean, *variance; // the population variance (divided by count)
    const real *gain, *bias;
};
// sums: [2, channels], the sums of x and of x^2. Sums of disjoint rows may be added.
void ops_batch_norm_sums(int64_t rows, int64_t channels, const real *x, double *sums);
// Computes mean[channels] and variance[channels] >= 0 of `count` rows from their sums.
void ops_batch_norm_statistics(double count, int64_t channels, const double *sums, float *mean,
                               float *variance);
// y may be x if no backward pass follows. `add` [rows, channels] (may be NULL or y) is added before
// relu, for the end of a residual block.
void ops_batch_norm_forward(const struct ops_batch_norm *n, const real *add, real *y);
// sums: [2, channels], the sums of dy and of dy * normalised x: the gradients of bias and gain.
// With n->relu, dy counts only where relu passed x, which is recomputed from x. After a forward
// pass with `add` that is not possible: call ops_relu_backward() first (its result is also the
// gradient of `add`), then this function and ops_batch_norm_backward() without n->relu.
void ops_batch_norm_gradient_sums(const struct ops_batch_norm *n, const real *dy, double *sums);
// The same for the end of a residual block, where relu followed the sum with `add` and gave y:
// first computes dy = a + b where y > 0, otherwise 0. This dy is also the gradient of `add`. b may
// be NULL; dy may be a or b. n->relu is false.
void ops_batch_norm_residual_gradient_sums(const struct ops_batch_norm *n, const real *y,
                                           const real *a, const real *b, real *dy, double *sums);
// Computes dx if mean and variance come from `count` rows with these sums; dx may be dy. With count
// 0 mean and variance are constants.
void ops_batch_norm_backward(const struct ops_batch_norm *n, double count, const double *sums,
                             const real *dy, real *dx);

#endif
