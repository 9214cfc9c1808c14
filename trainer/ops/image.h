// Arithmetic on images: forward and backward. The rules of ops.h hold.
#ifndef MUSTER_TRAINER_OPS_IMAGE_H
#define MUSTER_TRAINER_OPS_IMAGE_H

#include "trainer/ops/ops.h"

// --- conv2d, zero padding on all sides. Weights are [kernel, kernel, in, out]; with groups
// [groups, kernel, kernel, in / groups, out / groups].
struct ops_conv_shape {
    int64_t samples, height, width, in, out, kernel, stride, padding;
    int64_t groups; // divides in and out; each sees in / groups channels
    bool bias;      // else bias and db are NULL
};
struct ops_conv; // compiled for one shape; owned by the caller of ops_conv_new()
int ops_conv_new(const struct ops_conv_shape *s, bool data_gradient, struct ops_conv **out,
                 struct error *e); // ERR_INTERNAL when oneDNN has no kernel
void ops_conv_free(struct ops_conv *c);
// 3x3 kernels over many channels go by Winograd's algorithm, where processor and shape allow: sums
// are rounded up to some 1e-5 of their terms off, and NaN may reach places beside its own.
// `scratch` (NULL for none) has room for this many floats, and keeps nothing from pass to pass.
int64_t ops_conv_scratch(const struct ops_conv *c);
// Passes that read these weights may read a copy of them, as they are now, in an order that is
// quicker to read. So whoever calls it calls it again when they have changed.
void ops_conv_reorder_weights(struct ops_conv *c, const real *w);
void ops_conv_forward(struct ops_conv *c, const real *x, const real *w, const real *bias,
                      float *scratch, real *y);
void ops_conv_backward_data(struct ops_conv *c, const real *w, const real *dy, float *scratch,
                            real *dx);
void ops_conv_backward_weights(struct ops_conv *c, const real *x, const real *dy, float *scratch,
                               float *dw, float *db);

// --- max_pool and avg_pool: places left over at the right and bottom edge are not looked at. The
// border of `padding` < kernel is less than any number for a maximum, and not counted in an
// average. Of equal numbers the first is the maximum; NaN is larger than any.
enum ops_pool_kind { OPS_POOL_MAX, OPS_POOL_AVERAGE };
struct ops_pool_shape {
    enum ops_pool_kind kind;
    int64_t samples, height, width, channels, kernel, stride, padding;
};
struct ops_pool; // for one shape; remembers where the last forward pass found its maxima
int ops_pool_new(const struct ops_pool_shape *s, struct ops_pool **out,
                 struct error *e); // ERR_INVALID: an image of more than 2^31 - 1 floats
void ops_pool_free(struct ops_pool *p);
// From now on max(0, y): what relu before or after a max_pool gives, and its gradient.
void ops_pool_add_relu(struct ops_pool *p);
void ops_pool_forward(struct ops_pool *p, const real *x, real *y);
void ops_pool_backward(struct ops_pool *p, const real *dy, real *dx);

// --- global_pool: the mean over height and width, y[samples, channels]
void ops_global_pool_forward(int64_t samples, int64_t places, int64_t channels, const real *x,
                             real *y);
void ops_global_pool_backward(int64_t samples, int64_t places, int64_t channels, const real *dy,
                              real *dx);

#endif
