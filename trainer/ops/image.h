// Image layers: forward and backward. The rules of ops.h apply.
#ifndef MUSTER_TRAINER_OPS_IMAGE_H
#define MUSTER_TRAINER_OPS_IMAGE_H

#include "trainer/ops/ops.h"

// --- pixels: images as bytes in the host's memory become reals on the device,
// (byte - mean) * factor. Each operation is rounded to a float, and the result to a real, as
// ops_upload_reals() rounds it.

// The change of one sample: it is shifted, then mirrored; then a rectangle becomes zero.
struct ops_pixel_change {
    int32_t down, right;                  // distance of the shift; new pixels are zero
    int32_t flip;                         // 1: left and right are swapped
    int32_t top, bottom, left, right_end; // [top, bottom) x [left, right_end)
};

struct ops_pixels {
    int64_t height, width, channels;
    uint8_t *bytes;                   // [samples, height, width, channels]
    struct ops_pixel_change *changes; // [samples]
    float *mean, *factor;             // [channels]
};

enum { OPS_PIXELS_MAX = 16 << 20, OPS_PIXEL_CHANNELS_MAX = 1024 }; // of one sample

void ops_upload_pixels(int64_t samples, const struct ops_pixels *p, real *y);

// --- conv2d with zero padding on all sides. Weights are [kernel, kernel, in, out]; with groups
// [groups, kernel, kernel, in / groups, out / groups].
struct ops_conv_shape {
    int64_t samples, height, width, in, out, kernel, stride, padding;
    int64_t groups; // divides in and out; each group sees in / groups channels
    bool bias;      // without it bias and db are NULL
};
struct ops_conv; // compiled for one shape; owned by the caller of ops_conv_new()
int ops_conv_new(const struct ops_conv_shape *s, bool data_gradient, struct ops_conv **out,
                 struct error *e); // ERR_INTERNAL when oneDNN has no kernel
void ops_conv_free(struct ops_conv *c);
// 3x3 kernels over many channels use Winograd's algorithm, if processor and shape allow it. Then
// rounding errors are up to about 1e-5 of the terms, and NaN may reach neighbouring places.
// `scratch` (NULL if the size is 0) has room for this many floats; its content is not kept between
// passes.
int64_t ops_conv_scratch_floats(const struct ops_conv *c);
// Passes may read a reordered copy of the weights, made by this call. Call it again whenever the
// weights have changed.
void ops_conv_reorder_weights(struct ops_conv *c, const real *w);
void ops_conv_forward(struct ops_conv *c, const real *x, const real *w, const real *bias,
                      float *scratch, real *y);
void ops_conv_backward_data(struct ops_conv *c, const real *w, const real *dy, float *scratch,
                            real *dx);
void ops_conv_backward_weights(struct ops_conv *c, const real *x, const real *dy, float *scratch,
                               float *dw, float *db);

// --- max_pool and avg_pool. Rows and columns that do not fill a window at the right and bottom
// edge are ignored. Padding (less than `kernel`) is smaller than any number for a maximum and is
// not counted in an average. The first of equal numbers is the maximum; NaN is larger than any
// number.
enum ops_pool_kind { OPS_POOL_MAX, OPS_POOL_AVERAGE };
struct ops_pool_shape {
    enum ops_pool_kind kind;
    int64_t samples, height, width, channels, kernel, stride, padding;
};
struct ops_pool; // for one shape; stores the positions of the maxima of the last forward pass
int ops_pool_new(const struct ops_pool_shape *s, struct ops_pool **out,
                 struct error *e); // ERR_INVALID: an image of more than 2^31 - 1 floats
void ops_pool_free(struct ops_pool *p);
// From now on the pool computes max(0, y) and its gradient: a max_pool fused with a relu.
void ops_pool_add_relu(struct ops_pool *p);
void ops_pool_forward(struct ops_pool *p, const real *x, real *y);
void ops_pool_backward(struct ops_pool *p, const real *dy, real *dx);

// --- global_pool: y[samples, channels] is the mean over height and width
void ops_global_pool_forward(int64_t samples, int64_t places, int64_t channels, const real *x,
                             real *y);
void ops_global_pool_backward(int64_t samples, int64_t places, int64_t channels, const real *dy,
                              real *dx);

#endif
