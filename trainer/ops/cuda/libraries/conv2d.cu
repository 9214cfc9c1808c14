// Convolutions by cuDNN with images in NHWC. Its kernels want the weights of an output channel
// together, while in our layout they are furthest apart. The weights are reordered once after they
// have changed (ops_conv_reorder_weights()), and their gradient at each call.
//
// cuDNN's kernels process channels in groups of eight. A convolution of pixels (three channels)
// with stride 2 is therefore folded: 2x2 pixels become one place with all their channels. Then a
// 7x7 kernel becomes a 4x4 kernel with stride 1, and few products involve padding channels. The
// folded kernel sees one more row and column, with weights of zero: NaN may reach a neighbouring
// place.
#include <stdio.h>
#include <stdlib.h>

#include "trainer/ops/cuda/kernels/bias_gradient.h"
#include "trainer/ops/cuda/kernels/vectors.h"
#include "trainer/ops/cuda/libraries/cudnn_graph.h"

extern "C" {
#include "base/arena.h"
#include "base/log.h"
#include "trainer/ops/image.h"
}

enum { X = 1, W, Y }; // tensors of a plan
enum { TILE = 32, TILE_ROWS = 8 };

// A folded convolution: the image's places, with `channels` each, and the kernel.
struct conv_folding {
    int64_t rows, columns, channels; // channels 0: not folded
    int64_t kernel;
    int64_t border; // places before the first one of the image
    int64_t shift;  // position of the kernel's first row and column within 2x2 pixels
};

struct ops_conv {
    struct ops_conv_shape shape;
    int64_t rows, columns, weights; // rows and columns of y; number of weights
    struct conv_folding fold;
    int64_t reordered; // floats of scratch for the weights
    int64_t folded; // floats of scratch for the image, after the weights; cuDNN's workspace follows
    void *kept;     // the reordered weights in device memory; NULL: reordered at each call
    const real *kept_of;
    struct graph_plan forward, data, gradient;
};

static int64_t extent(int64_t in, const struct ops_conv_shape *s)
{
    return (in + 2 * s->padding - s->kernel) / s->stride + 1;
}

// cuDNN orders sizes as N, C, H, W, whatever the memory layout is.
static struct graph_layout image_layout(int64_t n, int64_t height, int64_t width, int64_t channels)
{
    return {{n, channels, height, width},
            {height * width * channels, 1, width * channels, channels}};
}

static struct conv_folding folding_of(const struct ops_conv *c, bool data_gradient)
{
    enum { FOLDED_MAX = 16, UNIT = 8 };
    const struct ops_conv_shape *s = &c->shape;
    if (data_gradient || s->groups > 1 || s->stride != 2 || 4 * s->in > FOLDED_MAX)
        return {};
    int64_t shift = s->padding % 2, kernel = (s->kernel - 1 + shift) / 2 + 1;
    return {.rows = c->rows + kernel - 1,
            .columns = c->columns + kernel - 1,
            .channels = ceil_div(4 * s->in, UNIT) * UNIT,
            .kernel = kernel,
            .border = (s->padding + shift) / 2,
            .shift = shift};
}

static int compile_pass(struct ops_conv *c, cudnnBackendDescriptorType_t pass, const char *name,
                        struct graph_plan *out, struct error *e)
{
    const struct ops_conv_shape *s = &c->shape;
    const struct conv_folding *f = &c->fold;
    struct graph_convolution convolution = {s->stride, s->padding};
    cudnnDataType_t reals = cuda_reals_are_bf16() ? CUDNN_DATA_BFLOAT16 : CUDNN_DATA_FLOAT;
    struct graph_layout x = image_layout(s->samples, s->height, s->width, s->in);
    struct graph_layout w = image_layout(s->out, s->kernel, s->kernel, s->in / s->groups);
    struct graph_layout y = image_layout(s->samples, c->rows, c->columns, s->out);
    struct graph g = {};
    if (f->channels > 0) {
        convolution = {1, 0};
        x = image_layout(s->samples, f->rows, f->columns, f->channels);
        w = image_layout(s->out, f->kernel, f->kernel, f->channels);
    }
    graph_convolve(&g, pass, &convolution, graph_tensor(&g, &x, reals, X),
                   graph_tensor(&g, &w, reals, W), graph_tensor(&g, &y, reals, Y));
    char what[160];
    snprintf(what, sizeof what, "%s of a %lldx%lld convolution from %lld to %lld channels", name,
             (long long)s->kernel, (long long)s->kernel, (long long)s->in, (long long)s->out);
    int rc = graph_compile(&g, what, out, e);
    graph_free(&g);
    return rc;
}

int ops_conv_new(const struct ops_conv_shape *s, bool data_gradient, struct ops_conv **out,
                 struct error *e)
{
    struct ops_conv *c = (struct ops_conv *)xcalloc(1, sizeof *c);
    c->shape = *s;
    c->rows = extent(s->height, s);
    c->columns = extent(s->width, s);
    c->weights = s->kernel * s->kernel * s->in / s->groups * s->out;
    c->fold = folding_of(c, data_gradient);
    int64_t folded = c->fold.kernel * c->fold.kernel * c->fold.channels * s->out;
    c->reordered = ceil_div(folded > c->weights ? folded : c->weights, 64) * 64;
    folded = s->samples * c->fold.rows * c->fold.columns * c->fold.channels;
    c->folded = ceil_div(ops_floats_for_reals(folded), 64) * 64;
    int rc = compile_pass(c, CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR,
                          "the forward pass", &c->forward, e);
    if (!rc && data_gradient)
        rc = compile_pass(c, CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR,
                          "the gradient of the image", &c->data, e);
    if (!rc)
        rc = compile_pass(c, CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR,
                          "the gradient of the weights", &c->gradient, e);
    if (rc) {
        ops_conv_free(c);
        c = NULL;
    }
    *out = c;
    return rc;
}

void ops_conv_free(struct ops_conv *c)
{
    if (!c)
        return;
    graph_plan_free(&c->forward);
    graph_plan_free(&c->data);
    graph_plan_free(&c->gradient);
    ops_free(c->kept);
    free(c);
}

int64_t ops_conv_scratch_floats(const struct ops_conv *c)
{
    int64_t workspace = graph_workspace_floats(&c->forward),
            data = graph_workspace_floats(&c->data);
    int64_t gradient = graph_workspace_floats(&c->gradient);
    workspace = data > workspace ? data : workspace;
    return c->reordered + c->folded + (gradient > workspace ? gradient : workspace);
}

// The index of weight (in, out) at one place of the kernel in one group, in our and cuDNN's layout.
static __device__ int64_t our_index(int64_t slice, int64_t in, int64_t out, int64_t i, int64_t o)
{
    return (slice * in + i) * out + o;
}

static __device__ int64_t cudnn_index(int64_t slice, int64_t places, int64_t in, int64_t out,
                                      int64_t i, int64_t o)
{
    int64_t group = slice / places, place = slice % places;
    return ((group * out + o) * places + place) * in + i;
}

// Reorders to cuDNN's layout, or `back` to ours. A block transposes a tile of one slice (a group's
// place of the kernel) in shared memory, so that reads and writes are contiguous.
template <typename T, typename U, bool back>
static __global__ void reorder_kernel(int64_t slices, int64_t places, int64_t in, int64_t out,
                                      const T *from, U *to)
{
    __shared__ float tile[TILE][TILE + 1];
    int across = (int)threadIdx.x % TILE, down = (int)threadIdx.x / TILE;
    int64_t i0 = (int64_t)blockIdx.x * TILE, o0 = (int64_t)blockIdx.y * TILE;
    for (int64_t slice = blockIdx.z; slice < slices; slice += gridDim.z) {
        for (int k = down; k < TILE; k += TILE_ROWS) {
            int64_t i = i0 + (back ? across : k), o = o0 + (back ? k : across);
            if (i < in && o < out)
                tile[k][across] = as_float(from[back ? cudnn_index(slice, places, in, out, i, o)
                                                     : our_index(slice, in, out, i, o)]);
        }
        __syncthreads();
        for (int k = down; k < TILE; k += TILE_ROWS) {
            int64_t i = i0 + (back ? k : across), o = o0 + (back ? across : k);
            if (i < in && o < out)
                store_rounded(&to[back ? our_index(slice, in, out, i, o)
                                       : cudnn_index(slice, places, in, out, i, o)],
                              tile[across][k]);
        }
        __syncthreads();
    }
}

template <typename T, typename U, bool back>
static void reorder(const struct ops_conv_shape *s, const T *from, U *to)
{
    int64_t in = s->in / s->groups, out = s->out / s->groups, places = s->kernel * s->kernel;
    int64_t slices = s->groups * places;
    dim3 grid((unsigned)ceil_div(in, TILE), (unsigned)ceil_div(out, TILE),
              (unsigned)(slices < UINT16_MAX ? slices : UINT16_MAX));
    LAUNCH((reorder_kernel<T, U, back>), grid, TILE * TILE_ROWS, 0, slices, places, in, out, from,
           to);
}

template <typename T>
static __global__ void bias_kernel(int64_t n, int64_t width, bool aligned, const T *bias, T *y)
{
    int64_t at = ((int64_t)blockIdx.x * blockDim.x + threadIdx.x) * PACK<T>;
    if (at >= n)
        return;
    int64_t column = at % width;
    float v[PACK<T>];
    load_some<PACK<T>>(y + at, n - at, aligned, v);
#pragma unroll
    for (int k = 0; k < PACK<T>; k++) {
        v[k] += as_float(bias[column]);
        column = column + 1 < width ? column + 1 : 0;
    }
    store_some<PACK<T>>(v, n - at, aligned, y + at);
}

template <typename T> static void add_bias(int64_t n, int64_t width, const T *bias, T *y)
{
    enum { THREADS = 256 };
    LAUNCH((bias_kernel<T>), blocks_for(n, THREADS * PACK<T>), THREADS, 0, n, width, is_aligned(y),
           bias, y);
}

// --- folding -------------------------------------------------------------------------------------

enum { FOLD_THREADS = 256 };

// A thread computes one place of the folded image: the channels of 2x2 pixels. Pixels outside of
// the image are zero.
template <typename T>
static __global__ void fold_kernel(struct ops_conv_shape s, struct conv_folding f, const T *x, T *y)
{
    int64_t place = (int64_t)blockIdx.x * FOLD_THREADS + threadIdx.x;
    struct quotient at = divide(place, f.columns), row = divide(at.quotient, f.rows);
    if (row.quotient >= s.samples)
        return;
    int64_t first_row = 2 * (row.rest - f.border), first_column = 2 * (at.rest - f.border);
    x += row.quotient * s.height * s.width * s.in;
    for (int64_t channel = 0; channel < f.channels; channel += PACK<T>) {
        float v[PACK<T>];
#pragma unroll
        for (int k = 0; k < PACK<T>; k++) {
            int pixel = (int)(channel + k) / (int)s.in, color = (int)(channel + k) % (int)s.in;
            int64_t i = first_row + pixel / 2, j = first_column + pixel % 2;
            bool there = pixel < 4 && i >= 0 && i < s.height && j >= 0 && j < s.width;
            v[k] = there ? as_float(x[(i * s.width + j) * s.in + color]) : 0.0f;
        }
        store<PACK<T>>(v, y + place * f.channels + channel);
    }
}

// The index in our layout of number `at` of the folded weights [out, kernel, kernel, channels]; -1:
// a zero weight.
static __device__ int64_t unfolded(const struct ops_conv_shape &s, const struct conv_folding &f,
                                   int64_t at)
{
    struct quotient channel = divide(at, f.channels), column = divide(channel.quotient, f.kernel);
    struct quotient row = divide(column.quotient, f.kernel), pixel = divide(channel.rest, s.in);
    int64_t i = 2 * row.rest + pixel.quotient / 2 - f.shift;
    int64_t j = 2 * column.rest + pixel.quotient % 2 - f.shift;
    if (pixel.quotient >= 4 || i < 0 || i >= s.kernel || j < 0 || j >= s.kernel)
        return -1;
    return ((i * s.kernel + j) * s.in + pixel.rest) * s.out + row.quotient;
}

template <typename T, typename U, bool back>
static __global__ void fold_weights_kernel(struct ops_conv_shape s, struct conv_folding f,
                                           int64_t n, const T *from, U *to)
{
    int64_t at = (int64_t)blockIdx.x * FOLD_THREADS + threadIdx.x;
    if (at >= n)
        return;
    int64_t ours = unfolded(s, f, at);
    if (!back)
        store_rounded(to + at, ours < 0 ? 0.0f : as_float(from[ours]));
    else if (ours >= 0)
        store_rounded(to + ours, as_float(from[at]));
}

// Reorders weights to cuDNN's layout, or `back` to ours.
template <typename T, typename U, bool back>
static void reorder_folded(const struct ops_conv *c, const T *from, U *to)
{
    const struct conv_folding *f = &c->fold;
    int64_t n = c->shape.out * f->kernel * f->kernel * f->channels;
    if (n == 0)
        reorder<T, U, back>(&c->shape, from, to);
    else
        LAUNCH((fold_weights_kernel<T, U, back>), blocks_for(n, FOLD_THREADS), FOLD_THREADS, 0,
               c->shape, *f, n, from, to);
}

// The image and the weights as cuDNN reads them; copies are in scratch.
static const void *image_of(const struct ops_conv *c, const real *x, float *scratch)
{
    const struct conv_folding *f = &c->fold;
    int64_t places = c->shape.samples * f->rows * f->columns;
    if (places == 0)
        return x;
    DISPATCH(T, LAUNCH(fold_kernel<T>, blocks_for(places, FOLD_THREADS), FOLD_THREADS, 0, c->shape,
                       *f, reals<T>(x), (T *)(scratch + c->reordered)));
    return scratch + c->reordered;
}

static const void *weights_of(const struct ops_conv *c, const real *w, float *scratch)
{
    if (c->kept && c->kept_of == w)
        return c->kept;
    DISPATCH(T, reorder_folded<T, T, false>(c, reals<T>(w), (T *)scratch));
    return scratch;
}

void ops_conv_reorder_weights(struct ops_conv *c, const real *w)
{
    size_t bytes = (size_t)ops_floats_for_reals(c->reordered) * sizeof(float);
    if (!c->kept && ops_alloc(bytes, &c->kept, NULL))
        c->kept = NULL; // the weights are reordered at each call
    c->kept_of = c->kept ? w : NULL;
    if (c->kept)
        DISPATCH(T, reorder_folded<T, T, false>(c, reals<T>(w), (T *)c->kept));
}

// --- passes --------------------------------------------------------------------------------------

static void run_pass(const struct ops_conv *c, const struct graph_plan *plan, const void *x,
                     const void *w, const void *y, float *scratch, const char *op)
{
    const struct graph_argument arguments[] = {{X, x}, {W, w}, {Y, y}};
    graph_run(plan, arguments, 3, scratch + c->reordered + c->folded, op);
}

void ops_conv_forward(struct ops_conv *c, const real *x, const real *w, const real *bias,
                      float *scratch, real *y)
{
    const struct ops_conv_shape *s = &c->shape;
    must(s->bias == (bias != NULL));
    run_pass(c, &c->forward, image_of(c, x, scratch), weights_of(c, w, scratch), y, scratch,
             "ops_conv_forward");
    if (bias)
        DISPATCH(T, add_bias(s->samples * c->rows * c->columns * s->out, s->out, reals<T>(bias),
                             reals<T>(y)));
}

void ops_conv_backward_data(struct ops_conv *c, const real *w, const real *dy, float *scratch,
                            real *dx)
{
    run_pass(c, &c->data, dx, weights_of(c, w, scratch), dy, scratch, "ops_conv_backward_data");
}

void ops_conv_backward_weights(struct ops_conv *c, const real *x, const real *dy, float *scratch,
                               float *dw, float *db)
{
    const struct ops_conv_shape *s = &c->shape;
    must(s->bias == (db != NULL));
    run_pass(c, &c->gradient, image_of(c, x, scratch), scratch, dy, scratch,
             "ops_conv_backward_weights");
    DISPATCH(T, reorder_folded<T, float, true>(c, (const T *)scratch, dw));
    if (db)
        bias_gradient_sum(s->samples * c->rows * c->columns, s->out, dy, db);
}
