// Activations stay NHWC; only the weights, which are small, are copied to and from the layout of
// oneDNN's kernels. Winograd's algorithm (Lavin & Gray 2015) computes 4x4 outputs of a 3x3 kernel
// with a quarter of the multiplications. It needs images in blocks of 16 channels, so these are
// copied too, at a twentieth of the time that it saves.
//
// Fewer than 8 output channels would leave most of a vector of 16 empty. Then pairs of neighbouring
// columns count as one place with twice the output channels: the kernel is one column wider and
// moves by two columns, and weights that do not exist are zero. The data gradient of few input
// channels is such a convolution too, of dy with the flipped kernel.
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/log.h"
#include "trainer/ops/cpu/onednn.h"
#include "trainer/ops/image.h"
#include "trainer/ops/loops.h"

enum conv_algorithm { DIRECT, WINOGRAD, PAIRS };

// An image of one of the passes, and its copy if the pass needs another layout.
struct conv_image {
    dnnl_memory_desc_t plain, wanted;
    bool copied;
    int64_t offset;             // of the copy in scratch
    struct onednn_call in, out; // reorders into the copy and out of it
};

struct ops_conv {
    struct onednn_device device;
    struct ops_conv_shape shape;
    enum conv_algorithm algorithm;
    int64_t places;              // of all samples
    float *wide;                 // PAIRS: weights, or their gradient, and bias
    struct ops_conv *transposed; // computes dx from dy and `flipped`; NULL: `data` computes it
    float *flipped;
    struct conv_image x, y;                   // or their gradients
    int64_t scratch;                          // floats
    struct onednn_call forward, weights_in;   // weights_in reorders the weights for `forward`
    struct onednn_call data, data_weights_in; // data_weights_in reorders them for `data`
    struct onednn_call weights, weights_out;  // weights_out reorders the result of `weights`
};

// Descriptors that the three passes share; oneDNN chooses the layout of the weights.
struct conv_layouts {
    dnnl_alg_kind_t algorithm;
    dnnl_memory_desc_t bias, plain, any;
    dnnl_dims_t strides, padding;
    const char *prefer_forward, *prefer_data;
};

static int64_t extent(int64_t in, const struct ops_conv_shape *s)
{
    return (in + 2 * s->padding - s->kernel) / s->stride + 1;
}

static dnnl_memory_desc_t weights_layout(const struct ops_conv_shape *s, dnnl_format_tag_t tag,
                                         dnnl_format_tag_t grouped, int64_t together)
{
    if (s->groups > 1) {
        dnnl_dims_t w = {s->groups, s->out / s->groups, s->in / s->groups, s->kernel, s->kernel};
        return onednn_layout(5, w, grouped);
    }
    dnnl_dims_t w = {s->out * together, s->in, s->kernel, s->kernel + together - 1};
    return onednn_layout(4, w, tag);
}

// oneDNN's default is slower for images with few channels: 1.2 to 1.5 times in the forward pass,
// and in the gradient of at most 8 channels, which fill a vector of 8 better than one of 16. The
// choice depends on the shape and not on a measurement, because the bits depend on it.
static struct conv_layouts layouts_of(const struct ops_conv_shape *s, enum conv_algorithm algorithm)
{
    int64_t together = algorithm == PAIRS ? 2 : 1;
    bool few = s->groups <= 1 && s->in < 8, half = s->groups <= 1 && s->in <= 8;
    return (struct conv_layouts){
        .algorithm = algorithm == WINOGRAD ? dnnl_convolution_winograd : dnnl_convolution_direct,
        .bias = onednn_layout(1, (dnnl_dims_t){s->out * together}, dnnl_a),
        .plain = weights_layout(s, dnnl_hwio, dnnl_ghwio, together),
        .any = weights_layout(s, dnnl_format_tag_any, dnnl_format_tag_any, together),
        .strides = {s->stride, s->stride * together},
        .padding = {s->padding, s->padding},
        .prefer_forward = few || algorithm == PAIRS ? "jit:avx512_core" : NULL,
        .prefer_data = half && algorithm != PAIRS ? "jit:avx2" : NULL,
    };
}

// The shapes for which Winograd's algorithm takes 0.4 to 0.75 of the time of the direct one. With
// fewer channels its transformations dominate; in small images too much of the 4x4 tiles is unused.
static bool suits_winograd(const struct ops_conv_shape *s)
{
    int64_t rows = extent(s->height, s), columns = extent(s->width, s);
    int64_t made = (rows + 3) / 4 * 4 * ((columns + 3) / 4 * 4);
    return s->kernel == 3 && s->stride == 1 && s->padding <= 1 && s->groups <= 1 && s->in >= 32 &&
           s->out >= 32 && s->in % 16 == 0 && s->out % 16 == 0 && 2 * rows * columns >= made;
}

static bool suits_pairs(const struct ops_conv_shape *s)
{
    bool vectors_of_16 =
        (dnnl_get_effective_cpu_isa() & dnnl_cpu_isa_avx512_core) == dnnl_cpu_isa_avx512_core;
    return vectors_of_16 && s->groups <= 1 && s->out < 8 && s->stride == 1 && s->kernel >= 3 &&
           extent(s->width, s) % 2 == 0;
}

// The shape of the convolution of dy that computes dx.
static struct ops_conv_shape transposed_shape(const struct ops_conv_shape *s)
{
    return (struct ops_conv_shape){.samples = s->samples,
                                   .height = extent(s->height, s),
                                   .width = extent(s->width, s),
                                   .in = s->out,
                                   .out = s->in,
                                   .kernel = s->kernel,
                                   .stride = 1,
                                   .padding = s->kernel - 1 - s->padding,
                                   .groups = 1};
}

static bool suits_transposed(const struct ops_conv_shape *s)
{
    const struct ops_conv_shape transposed = transposed_shape(s);
    return s->groups <= 1 && s->stride == 1 && suits_pairs(&transposed);
}

// --- pairs of columns ----------------------------------------------------------------------------

static int64_t wide_weights(const struct ops_conv_shape *s)
{
    return s->kernel * (s->kernel + 1) * s->in * 2 * s->out;
}

static void pair_weights(struct ops_conv *c, const float *w, const float *bias)
{
    const struct ops_conv_shape *s = &c->shape;
    size_t size = (size_t)s->out * sizeof *w;
    float *to = c->wide;
    for (int64_t i = 0; i < s->kernel * (s->kernel + 1) * s->in; i++)
        for (int64_t second = 0; second < 2; second++, to += s->out) {
            int64_t column = i / s->in % (s->kernel + 1) - second;
            int64_t row = i / s->in / (s->kernel + 1);
            int64_t from = (row * s->kernel + column) * s->in + i % s->in;
            if (column < 0 || column == s->kernel)
                memset(to, 0, size);
            else
                memcpy(to, w + from * s->out, size);
        }
    for (int64_t second = 0; bias && second < 2; second++, to += s->out)
        memcpy(to, bias, size);
}

// The gradient of a weight is the sum of the gradients at its two positions.
static void unpair_gradient(const struct ops_conv *c, float *dw)
{
    const struct ops_conv_shape *s = &c->shape;
    int64_t line = s->kernel * s->in, next = (2 * s->in + 1) * s->out;
    for (int64_t i = 0; i < s->kernel * line; i++) {
        const float *from = c->wide + (i + i / line * s->in) * 2 * s->out;
        for (int64_t o = 0; o < s->out; o++)
            dw[i * s->out + o] = from[o] + from[next + o];
    }
}

// Rotates the kernel by 180 degrees and exchanges input and output channels.
static void flip_weights(struct ops_conv *c, const float *w)
{
    const struct ops_conv_shape *s = &c->shape;
    int64_t places = s->kernel * s->kernel;
    for (int64_t k = 0; k < places; k++)
        for (int64_t i = 0; i < s->in; i++)
            for (int64_t o = 0; o < s->out; o++)
                c->flipped[((places - 1 - k) * s->out + o) * s->in + i] =
                    w[(k * s->in + i) * s->out + o];
}

// --- images --------------------------------------------------------------------------------------

static int build_image(struct ops_conv *c, const dnnl_dims_t dims, bool blocks,
                       struct conv_image *i, struct error *e)
{
    i->plain = onednn_layout(4, dims, dnnl_nhwc);
    i->wanted = blocks ? onednn_layout(4, dims, dnnl_nChw16c) : i->plain;
    i->copied = blocks;
    if (!blocks)
        return 0;
    i->offset = c->scratch;
    c->scratch += (dims[0] * dims[1] * dims[2] * dims[3] + 15) / 16 * 16;
    int rc;
    if ((rc = onednn_compile_reorder(&c->device, &i->in, &i->plain, &i->wanted, e)) ||
        (rc = onednn_add_tensor(&c->device, &i->in, DNNL_ARG_FROM, &i->plain, e)) ||
        (rc = onednn_add_tensor(&c->device, &i->in, DNNL_ARG_TO, &i->wanted, e)) ||
        (rc = onednn_compile_reorder(&c->device, &i->out, &i->wanted, &i->plain, e)) ||
        (rc = onednn_add_tensor(&c->device, &i->out, DNNL_ARG_FROM, &i->wanted, e)))
        return rc;
    return onednn_add_tensor(&c->device, &i->out, DNNL_ARG_TO, &i->plain, e);
}

static int build_images(struct ops_conv *c, struct error *e)
{
    const struct ops_conv_shape *s = &c->shape;
    int64_t rows = extent(s->height, s), columns = extent(s->width, s);
    int64_t together = c->algorithm == PAIRS ? 2 : 1;
    bool blocks = c->algorithm == WINOGRAD;
    dnnl_dims_t x = {s->samples, s->in, s->height, s->width};
    dnnl_dims_t y = {s->samples, s->out * together, rows, columns / together};
    c->places = s->samples * rows * columns;
    int rc = build_image(c, x, blocks, &c->x, e);
    return rc ? rc : build_image(c, y, blocks, &c->y, e);
}

// Binds the input of a pass: the image, or its copy.
static void bind_in(const struct ops_conv *c, struct conv_image *i, const float *image,
                    float *scratch, struct onednn_call *pass, int argument)
{
    const float *wanted = i->copied ? scratch + i->offset : image;
    if (i->copied) {
        onednn_bind(&i->in, DNNL_ARG_FROM, image);
        onednn_bind(&i->in, DNNL_ARG_TO, wanted);
        onednn_run(&c->device, &i->in);
    }
    onednn_bind(pass, argument, wanted);
}

// Runs a pass that writes the image.
static void run_to(const struct ops_conv *c, struct conv_image *i, float *image, float *scratch,
                   struct onednn_call *pass, int argument)
{
    float *wanted = i->copied ? scratch + i->offset : image;
    onednn_bind(pass, argument, wanted);
    onednn_run(&c->device, pass);
    if (!i->copied)
        return;
    onednn_bind(&i->out, DNNL_ARG_FROM, wanted);
    onednn_bind(&i->out, DNNL_ARG_TO, image);
    onednn_run(&c->device, &i->out);
}

// --- the three passes ----------------------------------------------------------------------------

static int build_forward(struct ops_conv *c, const struct conv_layouts *l,
                         dnnl_primitive_desc_t *out, struct error *e)
{
    dnnl_convolution_desc_t op;
    must(dnnl_convolution_forward_desc_init(&op, dnnl_forward_training, l->algorithm, &c->x.wanted,
                                            &l->any, c->shape.bias ? &l->bias : NULL, &c->y.wanted,
                                            l->strides, l->padding, l->padding) == dnnl_success);
    int rc = onednn_describe(&c->device, &op, NULL, l->prefer_forward, "a convolution", out, e);
    if (rc)
        return rc;
    const dnnl_memory_desc_t *w = dnnl_primitive_desc_query_md(*out, dnnl_query_weights_md, 0);
    struct onednn_call *f = &c->forward;
    if ((rc = onednn_compile(f, *out, e)) ||
        (rc = onednn_add_tensor(&c->device, f, DNNL_ARG_SRC, &c->x.wanted, e)) ||
        (rc = onednn_add_memory(&c->device, f, DNNL_ARG_WEIGHTS, w, e)) ||
        (rc = onednn_add_tensor(&c->device, f, DNNL_ARG_DST, &c->y.wanted, e)) ||
        (c->shape.bias && (rc = onednn_add_tensor(&c->device, f, DNNL_ARG_BIAS, &l->bias, e))) ||
        (rc = onednn_compile_reorder(&c->device, &c->weights_in, &l->plain, w, e)) ||
        (rc = onednn_add_tensor(&c->device, &c->weights_in, DNNL_ARG_FROM, &l->plain, e)))
        return rc;
    onednn_add_borrowed(&c->weights_in, DNNL_ARG_TO, f, DNNL_ARG_WEIGHTS);
    return 0;
}

static int build_data(struct ops_conv *c, const struct conv_layouts *l,
                      const_dnnl_primitive_desc_t forward, struct error *e)
{
    dnnl_convolution_desc_t op;
    must(dnnl_convolution_backward_data_desc_init(&op, l->algorithm, &c->x.wanted, &l->any,
                                                  &c->y.wanted, l->strides, l->padding,
                                                  l->padding) == dnnl_success);
    dnnl_primitive_desc_t described = NULL;
    int rc = onednn_describe(&c->device, &op, forward, l->prefer_data,
                             "a convolution's data gradient", &described, e);
    if (rc)
        return rc;
    const dnnl_memory_desc_t *w = dnnl_primitive_desc_query_md(described, dnnl_query_weights_md, 0);
    struct onednn_call *d = &c->data;
    if ((rc = onednn_compile(d, described, e)) ||
        (rc = onednn_add_tensor(&c->device, d, DNNL_ARG_DIFF_DST, &c->y.wanted, e)) ||
        (rc = onednn_add_memory(&c->device, d, DNNL_ARG_WEIGHTS, w, e)) ||
        (rc = onednn_add_tensor(&c->device, d, DNNL_ARG_DIFF_SRC, &c->x.wanted, e)) ||
        (rc = onednn_compile_reorder(&c->device, &c->data_weights_in, &l->plain, w, e)) ||
        (rc = onednn_add_tensor(&c->device, &c->data_weights_in, DNNL_ARG_FROM, &l->plain, e)))
        goto out;
    onednn_add_borrowed(&c->data_weights_in, DNNL_ARG_TO, d, DNNL_ARG_WEIGHTS);
out:
    dnnl_primitive_desc_destroy(described);
    return rc;
}

static int build_weights(struct ops_conv *c, const struct conv_layouts *l,
                         const_dnnl_primitive_desc_t forward, struct error *e)
{
    dnnl_convolution_desc_t op;
    must(dnnl_convolution_backward_weights_desc_init(&op, l->algorithm, &c->x.wanted, &l->any, NULL,
                                                     &c->y.wanted, l->strides, l->padding,
                                                     l->padding) == dnnl_success);
    dnnl_primitive_desc_t described = NULL;
    int rc = onednn_describe(&c->device, &op, forward, NULL, "a convolution's weight gradient",
                             &described, e);
    if (rc)
        return rc;
    const dnnl_memory_desc_t *dw =
        dnnl_primitive_desc_query_md(described, dnnl_query_diff_weights_md, 0);
    struct onednn_call *w = &c->weights;
    if ((rc = onednn_compile(w, described, e)) ||
        (rc = onednn_add_tensor(&c->device, w, DNNL_ARG_SRC, &c->x.wanted, e)) ||
        (rc = onednn_add_tensor(&c->device, w, DNNL_ARG_DIFF_DST, &c->y.wanted, e)) ||
        (rc = onednn_add_memory(&c->device, w, DNNL_ARG_DIFF_WEIGHTS, dw, e)) ||
        (rc = onednn_compile_reorder(&c->device, &c->weights_out, dw, &l->plain, e)) ||
        (rc = onednn_add_tensor(&c->device, &c->weights_out, DNNL_ARG_TO, &l->plain, e)))
        goto out;
    onednn_add_borrowed(&c->weights_out, DNNL_ARG_FROM, w, DNNL_ARG_DIFF_WEIGHTS);
out:
    dnnl_primitive_desc_destroy(described);
    return rc;
}

enum passes { FORWARD = 1, DATA = 2, WEIGHTS = 4 };

static int conv_create(const struct ops_conv_shape *s, unsigned passes, struct ops_conv **out,
                       struct error *e);

// Builds the computation of dx: the transposed convolution, or oneDNN's own pass.
static int build_dx(struct ops_conv *c, const struct conv_layouts *l,
                    const_dnnl_primitive_desc_t forward, struct error *e)
{
    const struct ops_conv_shape *s = &c->shape, transposed = transposed_shape(s);
    if (!suits_transposed(s))
        return build_data(c, l, forward, e);
    c->flipped = xcalloc((size_t)(s->kernel * s->kernel * s->in * s->out), sizeof *c->flipped);
    return conv_create(&transposed, FORWARD, &c->transposed, e);
}

static int conv_build(struct ops_conv *c, const struct ops_conv_shape *s,
                      enum conv_algorithm algorithm, unsigned passes, struct error *e)
{
    const struct conv_layouts l = layouts_of(s, algorithm);
    dnnl_primitive_desc_t forward = NULL;
    c->shape = *s;
    c->algorithm = algorithm;
    if (algorithm == PAIRS)
        c->wide = xcalloc((size_t)(wide_weights(s) + 2 * s->out), sizeof *c->wide);
    int rc = onednn_open(&c->device, e);
    if (!rc)
        rc = build_images(c, e);
    if (!rc)
        rc = build_forward(c, &l, &forward, e);
    if (!rc && passes & DATA)
        rc = build_dx(c, &l, forward, e);
    if (!rc && passes & WEIGHTS)
        rc = build_weights(c, &l, forward, e);
    if (forward)
        dnnl_primitive_desc_destroy(forward);
    return rc;
}

static void conv_clear(struct ops_conv *c)
{
    onednn_destroy(&c->x.in);
    onednn_destroy(&c->x.out);
    onednn_destroy(&c->y.in);
    onednn_destroy(&c->y.out);
    onednn_destroy(&c->weights_in);
    onednn_destroy(&c->forward);
    onednn_destroy(&c->data_weights_in);
    onednn_destroy(&c->data);
    onednn_destroy(&c->weights_out);
    onednn_destroy(&c->weights);
    onednn_close(&c->device);
    ops_conv_free(c->transposed);
    free(c->wide);
    free(c->flipped);
    *c = (struct ops_conv){0};
}

static int conv_create(const struct ops_conv_shape *s, unsigned passes, struct ops_conv **out,
                       struct error *e)
{
    struct ops_conv *c = xcalloc(1, sizeof *c);
    struct error refused; // Winograd fails on processors without AVX-512
    *out = c;
    if (suits_winograd(s) && !conv_build(c, s, WINOGRAD, passes, &refused))
        return 0;
    conv_clear(c);
    int rc = conv_build(c, s, suits_pairs(s) ? PAIRS : DIRECT, passes, e);
    if (rc) {
        ops_conv_free(c);
        *out = NULL;
    }
    return rc;
}

int ops_conv_new(const struct ops_conv_shape *s, bool data_gradient, struct ops_conv **out,
                 struct error *e)
{
    return conv_create(s, FORWARD | WEIGHTS | (data_gradient ? DATA : 0), out, e);
}

void ops_conv_free(struct ops_conv *c)
{
    if (!c)
        return;
    conv_clear(c);
    free(c);
}

int64_t ops_conv_scratch_floats(const struct ops_conv *c)
{
    return c->scratch;
}

void ops_conv_reorder_weights(struct ops_conv *c, const float *w)
{
    (void)c, (void)w; // passes reorder the weights at each call, which takes little time
}

void ops_conv_forward(struct ops_conv *c, const float *x, const float *w, const float *bias,
                      float *scratch, float *y)
{
    must(c->shape.bias == (bias != NULL));
    if (c->algorithm == PAIRS) {
        pair_weights(c, w, bias);
        w = c->wide;
        bias = bias ? c->wide + wide_weights(&c->shape) : NULL;
    }
    onednn_bind(&c->weights_in, DNNL_ARG_FROM, w);
    onednn_run(&c->device, &c->weights_in);
    if (bias)
        onednn_bind(&c->forward, DNNL_ARG_BIAS, bias);
    bind_in(c, &c->x, x, scratch, &c->forward, DNNL_ARG_SRC);
    run_to(c, &c->y, y, scratch, &c->forward, DNNL_ARG_DST);
}

void ops_conv_backward_data(struct ops_conv *c, const float *w, const float *dy, float *scratch,
                            float *dx)
{
    if (c->transposed) {
        flip_weights(c, w);
        ops_conv_forward(c->transposed, dy, c->flipped, NULL, NULL, dx);
        return;
    }
    if (c->algorithm == PAIRS) {
        pair_weights(c, w, NULL);
        w = c->wide;
    }
    onednn_bind(&c->data_weights_in, DNNL_ARG_FROM, w);
    onednn_run(&c->device, &c->data_weights_in);
    bind_in(c, &c->y, dy, scratch, &c->data, DNNL_ARG_DIFF_DST);
    run_to(c, &c->x, dx, scratch, &c->data, DNNL_ARG_DIFF_SRC);
}

// oneDNN's own bias gradient takes as long as the weights' gradient when channels are few. Here a
// tile contains as many places as fit, and four tiles are added together.
LOOPS_CLONED static void sum_places(int64_t places, int64_t channels, const float *dy, float *db)
{
    enum { TILE = 256 };
    for (int64_t first = 0; first < channels; first += TILE) {
        int64_t strip = channels - first < TILE ? channels - first : TILE;
        int64_t rows = channels < TILE ? TILE / channels : 1, step = rows * channels;
        int64_t width = rows * strip, at = first, end = places * channels;
        double sums[TILE] = {0};
        for (; at + 3 * step + width <= end; at += 4 * step)
#pragma omp simd
            for (int64_t i = 0; i < width; i++) {
                const float *d = dy + at + i;
                sums[i] += (double)((d[0] + d[step]) + (d[2 * step] + d[3 * step]));
            }
        for (; at < end; at += channels)
            for (int64_t i = 0; i < strip; i++)
                sums[i] += (double)dy[at + i];
        for (int64_t i = strip; i < width; i++)
            sums[i % strip] += sums[i];
        for (int64_t i = 0; i < strip; i++)
            db[first + i] = (float)sums[i];
    }
}

void ops_conv_backward_weights(struct ops_conv *c, const float *x, const float *dy, float *scratch,
                               float *dw, float *db)
{
    must(c->shape.bias == (db != NULL));
    bind_in(c, &c->x, x, scratch, &c->weights, DNNL_ARG_SRC);
    bind_in(c, &c->y, dy, scratch, &c->weights, DNNL_ARG_DIFF_DST);
    onednn_run(&c->device, &c->weights);
    onednn_bind(&c->weights_out, DNNL_ARG_TO, c->algorithm == PAIRS ? c->wide : dw);
    onednn_run(&c->device, &c->weights_out);
    if (c->algorithm == PAIRS)
        unpair_gradient(c, dw);
    if (db)
        sum_places(c->places, c->shape.out, dy, db);
}
