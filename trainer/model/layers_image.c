// Layer kinds for images: convolution and pooling.
#include <stdio.h>

#include "base/limits.h"
#include "base/text/json.h"
#include "trainer/model/compiler.h"

// A window of kernel x kernel pixels that moves over the image by `stride`.
struct window {
    int64_t kernel, stride, padding;
};

static int read_window(const struct layer *l, const json_t *spec, bool own_stride, struct window *w,
                       struct error *e)
{
    int rc = layer_expect_image(l, e);
    if (rc || (rc = spec_int(spec, "kernel", 0, 1, LIMIT_KERNEL, &w->kernel, e)) ||
        (rc = spec_int(spec, "stride", own_stride ? 1 : w->kernel, 1, LIMIT_KERNEL, &w->stride,
                       e)) ||
        (rc = spec_int(spec, "padding", 0, 0, w->kernel - 1, &w->padding, e)))
        return rc;
    int64_t min_size = w->kernel - 2 * w->padding;
    char expected[64];
    snprintf(expected, sizeof expected, "an image of at least %lldx%lld", (long long)min_size,
             (long long)min_size);
    return layer_expect(l, min_size <= l->in.dim[0] && min_size <= l->in.dim[1], expected, e);
}

static void set_window_shape(struct layer *l, const struct window *w, int64_t channels)
{
    for (int i = 0; i < 2; i++)
        l->out.dim[i] = (l->in.dim[i] + 2 * w->padding - w->kernel) / w->stride + 1;
    l->out.dim[2] = channels;
}

// --- conv2d --------------------------------------------------------------------------------------

static int read_groups(const struct layer *l, const json_t *spec, int64_t out, int64_t *groups,
                       struct error *e)
{
    int64_t in = l->in.dim[2];
    int rc = spec_int(spec, "groups", 1, 1, LIMIT_WIDTH, groups, e);
    if (rc || (in % *groups == 0 && out % *groups == 0))
        return rc;
    return error_set(e, ERR_INVALID,
                     "expected channels that %lld groups divide, found %lld in and %lld out",
                     (long long)*groups, (long long)in, (long long)out);
}

static int build_conv2d(struct compiler *c, struct layer *l, const json_t *spec, struct error *e)
{
    struct window w;
    int64_t out, groups;
    int rc = read_window(l, spec, true, &w, e);
    if (rc || (rc = spec_int(spec, "out", 0, 1, LIMIT_WIDTH, &out, e)) ||
        (rc = read_groups(l, spec, out, &groups, e)))
        return rc;
    const struct ops_conv_shape s = {.samples = c->m->micro_batch,
                                     .height = l->in.dim[0],
                                     .width = l->in.dim[1],
                                     .in = l->in.dim[2],
                                     .out = out,
                                     .kernel = w.kernel,
                                     .stride = w.stride,
                                     .padding = w.padding,
                                     .groups = groups,
                                     .bias = jget_bool(spec, "bias", true)};
    const int64_t shape[] = {groups, w.kernel, w.kernel, s.in / groups, out / groups};
    int64_t fan_in = w.kernel * w.kernel * s.in / groups;
    int lead = groups == 1; // a single group has no dimension of its own
    if ((rc = compiler_add_parameter(c, l, WEIGHT, 5 - lead, shape + lead,
                                     spec_normal(spec, fan_in), e)) ||
        (s.bias &&
         (rc = compiler_add_parameter(c, l, BIAS, 1, &out, (struct initializer){0}, e))) ||
        (rc = ops_conv_new(&s, compiler_needs_gradient(c, l), &l->conv, e)))
        return rc;
    set_window_shape(l, &w, out);
    compiler_need_scratch(c, ops_conv_scratch_floats(l->conv));
    // oneDNN keeps the filters once more for each product, in its own order.
    l->op_bytes = (compiler_needs_gradient(c, l) ? 3 : 2) * fan_in * out * (int64_t)sizeof(float);
    l->flops = l->flops_weights = 2.0 * (double)tensor_shape_size(&l->out) * (double)fan_in;
    return 0;
}

static void conv2d_forward(const struct layer *l, const struct model_pass *p)
{
    ops_conv_forward(l->conv, pass_value(p, l->x), pass_parameter(p, l, WEIGHT),
                     pass_parameter(p, l, BIAS), pass_value(p, p->model->scratch),
                     pass_value(p, l->y));
}

static void conv2d_backward(const struct layer *l, const struct model_pass *p)
{
    const real *dy = pass_value(p, l->dy);
    float *scratch = pass_value(p, p->model->scratch);
    if (l->dx != NONE)
        ops_conv_backward_data(l->conv, pass_parameter(p, l, WEIGHT), dy, scratch,
                               pass_value(p, l->dx));
    ops_conv_backward_weights(l->conv, pass_value(p, l->x), dy, scratch,
                              pass_gradient(p, l, WEIGHT), pass_gradient(p, l, BIAS));
}

const struct layer_kind layer_conv2d = {
    .name = "conv2d",
    .flags = LAYER_NEEDS_X,
    .build = build_conv2d,
    .forward = conv2d_forward,
    .backward = conv2d_backward,
};

// --- max_pool, avg_pool --------------------------------------------------------------------------

static int build_pool(struct compiler *c, struct layer *l, const json_t *spec, struct error *e)
{
    struct window w;
    int rc = read_window(l, spec, false, &w, e);
    if (rc)
        return rc;
    if (2 * w.padding > w.kernel) // otherwise a window could consist of padding only
        return error_set(e, ERR_INVALID, "\"padding\" must be at most half of \"kernel\"");
    const struct ops_pool_shape s = {
        .kind = l->kind == &layer_max_pool ? OPS_POOL_MAX : OPS_POOL_AVERAGE,
        .samples = c->m->micro_batch,
        .height = l->in.dim[0],
        .width = l->in.dim[1],
        .channels = l->in.dim[2],
        .kernel = w.kernel,
        .stride = w.stride,
        .padding = w.padding,
    };
    set_window_shape(l, &w, s.channels);
    if (s.kind == OPS_POOL_MAX) // the positions of the maxima
        l->op_bytes = s.samples * tensor_shape_size(&l->out) * (int64_t)sizeof(int32_t);
    return ops_pool_new(&s, &l->pool, e);
}

static void pool_forward(const struct layer *l, const struct model_pass *p)
{
    ops_pool_forward(l->pool, pass_value(p, l->x), pass_value(p, l->y));
}

static void pool_backward(const struct layer *l, const struct model_pass *p)
{
    ops_pool_backward(l->pool, pass_value(p, l->dy), pass_value(p, l->dx));
}

const struct layer_kind layer_max_pool = {
    .name = "max_pool",
    .build = build_pool,
    .forward = pool_forward,
    .backward = pool_backward,
};
const struct layer_kind layer_avg_pool = {
    .name = "avg_pool",
    .build = build_pool,
    .forward = pool_forward,
    .backward = pool_backward,
};

// --- global_pool ---------------------------------------------------------------------------------

static int build_global_pool(struct compiler *c, struct layer *l, const json_t *spec,
                             struct error *e)
{
    (void)c, (void)spec;
    l->out = (struct tensor_shape){.rank = 1, .dim = {l->in.dim[2]}};
    return layer_expect_image(l, e);
}

static void global_pool_forward(const struct layer *l, const struct model_pass *p)
{
    ops_global_pool_forward(p->model->micro_batch, l->in.dim[0] * l->in.dim[1], l->in.dim[2],
                            pass_value(p, l->x), pass_value(p, l->y));
}

static void global_pool_backward(const struct layer *l, const struct model_pass *p)
{
    ops_global_pool_backward(p->model->micro_batch, l->in.dim[0] * l->in.dim[1], l->in.dim[2],
                             pass_value(p, l->dy), pass_value(p, l->dx));
}

const struct layer_kind layer_global_pool = {
    .name = "global_pool",
    .build = build_global_pool,
    .forward = global_pool_forward,
    .backward = global_pool_backward,
};
