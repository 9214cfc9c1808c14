// The table of layer kinds, and the kinds without a file of their own: linear, elementwise,
// dropout, residual.
#include <string.h>

#include "base/limits.h"
#include "base/text/json.h"
#include "trainer/model/compiler.h"

const struct layer_kind *const layer_kinds[] = {
    &layer_linear,     &layer_conv2d,   &layer_batch_norm,
    &layer_layer_norm, &layer_rms_norm, &layer_relu,
    &layer_gelu,       &layer_silu,     &layer_tanh,
    &layer_max_pool,   &layer_avg_pool, &layer_global_pool,
    &layer_embedding,  &layer_position, &layer_attention,
    &layer_dropout,    &layer_flatten,  NULL,
};

// --- linear --------------------------------------------------------------------------------------

static int build_linear(struct compiler *c, struct layer *l, const json_t *spec, struct error *e)
{
    int64_t in = layer_width(l), out;
    const char *tied = jget_string(spec, "tied", NULL);
    int rc = layer_expect_rows(l, e);
    if (rc || (rc = spec_int(spec, "out", 0, 1, LIMIT_WIDTH, &out, e)))
        return rc;
    int64_t shape[] = {in, out};
    if (tied) {
        if ((rc = compiler_tie_weight(c, l, tied, e)))
            return rc;
        const struct parameter *w = &c->m->parameters[l->parameter[WEIGHT]];
        bool transposed = w->shape[0] == out && w->shape[1] == in;
        if (!transposed)
            return error_set(e, ERR_INVALID, "expected a tied weight of %lldx%lld, found %lldx%lld",
                             (long long)out, (long long)in, (long long)w->shape[0],
                             (long long)w->shape[1]);
    } else if ((rc = compiler_add_parameter(c, l, WEIGHT, 2, shape, spec_normal(spec, in), e))) {
        return rc;
    }
    if (jget_bool(spec, "bias", true) &&
        (rc = compiler_add_parameter(c, l, BIAS, 1, &out, (struct initializer){0}, e)))
        return rc;
    int64_t rows = tensor_shape_size(&l->in) / in;
    l->linear = (struct ops_linear){rows * c->m->micro_batch, in, out, tied != NULL, NULL};
    l->out.dim[l->out.rank - 1] = out;
    l->flops = l->flops_weights = 2.0 * (double)rows * (double)in * (double)out;
    return ops_linear_compile(&l->linear, e);
}

// Between two layers that quantise, gelu and its derivative are applied when their results are
// quantised: gelu by the second layer, its derivative by the first.
static bool gelu_is_between(const struct layer *first)
{
    return first->flags & LAYER_FUSED_GELU_AFTER && first[2].flags & LAYER_QUANTISES;
}

static void quantised_forward(const struct layer *l, const struct model_pass *p)
{
    const struct ops_fp8 f = pass_fp8(p, l);
    const bool gelu = l->flags & LAYER_FUSED_GELU_BEFORE;
    ops_fp8_forward(&f, pass_value(p, gelu ? l[-1].x : l->x), gelu, pass_parameter(p, l, BIAS),
                    pass_value(p, l->y));
    if (l->flags & LAYER_FUSED_GELU_AFTER && !gelu_is_between(l))
        ops_gelu_forward(l->linear.rows * l->linear.out, pass_value(p, l->y),
                         pass_value(p, l[1].y));
}

static void linear_forward(const struct layer *l, const struct model_pass *p)
{
    const real *x = pass_value(p, l->x), *w = pass_parameter(p, l, WEIGHT);
    const real *bias = pass_parameter(p, l, BIAS);
    if (p->fp8 && l->flags & LAYER_QUANTISES)
        quantised_forward(l, p);
    else if (l->flags & LAYER_FUSED_GELU_AFTER)
        ops_linear_gelu_forward(&l->linear, x, w, bias, pass_value(p, l->y), pass_value(p, l[1].y));
    else
        ops_linear_forward(&l->linear, x, w, bias, pass_value(p, l->y));
}

static void quantised_backward(const struct layer *l, const struct model_pass *p)
{
    const struct ops_fp8 f = pass_fp8(p, l);
    real *dx = pass_value(p, l->dx);
    ops_fp8_backward(&f, pass_value(p, l->dy), gelu_is_between(l) ? pass_value(p, l->y) : NULL, dx,
                     l->add, pass_gradient(p, l, WEIGHT), l->add_gradient[WEIGHT],
                     pass_gradient(p, l, BIAS));
    if (l->flags & LAYER_FUSED_GELU_BEFORE && !(l[-2].flags & LAYER_QUANTISES))
        ops_gelu_backward(l->linear.rows * l->linear.in, pass_value(p, l[-1].x), dx, dx);
}

static void linear_backward(const struct layer *l, const struct model_pass *p)
{
    const real *dy = pass_value(p, l->dy), *w = pass_parameter(p, l, WEIGHT);
    if (l->flags & LAYER_QUANTISES) {
        quantised_backward(l, p);
        return;
    }
    if (l->flags & LAYER_FUSED_GELU_BEFORE)
        ops_linear_gelu_backward_data(&l->linear, w, dy, pass_value(p, l[-1].x),
                                      pass_value(p, l->dx));
    else if (l->dx != NONE)
        ops_linear_backward_data(&l->linear, w, dy, pass_value(p, l->dx), l->add);
    ops_linear_backward_weights(&l->linear, pass_value(p, l->x), dy, pass_gradient(p, l, WEIGHT),
                                l->add_gradient[WEIGHT], pass_gradient(p, l, BIAS));
}

const struct layer_kind layer_linear = {
    .name = "linear",
    .flags = LAYER_NEEDS_X | LAYER_ACCUMULATES_DX | LAYER_TIES_WEIGHT,
    .build = build_linear,
    .forward = linear_forward,
    .backward = linear_backward,
};

// --- elementwise layers --------------------------------------------------------------------------

static int build_elementwise(struct compiler *c, struct layer *l, const json_t *spec,
                             struct error *e)
{
    (void)c, (void)spec;
    return layer_expect_values(l, e);
}

static void relu_forward(const struct layer *l, const struct model_pass *p)
{
    ops_relu_forward(pass_count(p, l), pass_value(p, l->x), pass_value(p, l->y));
}

static void relu_backward(const struct layer *l, const struct model_pass *p)
{
    ops_relu_backward(pass_count(p, l), pass_value(p, l->y), pass_value(p, l->dy),
                      pass_value(p, l->dx));
}

static void tanh_forward(const struct layer *l, const struct model_pass *p)
{
    ops_tanh_forward(pass_count(p, l), pass_value(p, l->x), pass_value(p, l->y));
}

static void tanh_backward(const struct layer *l, const struct model_pass *p)
{
    ops_tanh_backward(pass_count(p, l), pass_value(p, l->y), pass_value(p, l->dy),
                      pass_value(p, l->dx));
}

static void gelu_forward(const struct layer *l, const struct model_pass *p)
{
    ops_gelu_forward(pass_count(p, l), pass_value(p, l->x), pass_value(p, l->y));
}

static void gelu_backward(const struct layer *l, const struct model_pass *p)
{
    ops_gelu_backward(pass_count(p, l), pass_value(p, l->x), pass_value(p, l->dy),
                      pass_value(p, l->dx));
}

static void silu_forward(const struct layer *l, const struct model_pass *p)
{
    ops_silu_forward(pass_count(p, l), pass_value(p, l->x), pass_value(p, l->y));
}

static void silu_backward(const struct layer *l, const struct model_pass *p)
{
    ops_silu_backward(pass_count(p, l), pass_value(p, l->x), pass_value(p, l->dy),
                      pass_value(p, l->dx));
}

enum {
    BY_Y = LAYER_IN_PLACE | LAYER_DX_IN_PLACE | LAYER_NEEDS_Y, // the derivative is computed from y
    BY_X = LAYER_DX_IN_PLACE | LAYER_NEEDS_X,
};
const struct layer_kind layer_relu = {
    .name = "relu",
    .flags = BY_Y,
    .build = build_elementwise,
    .forward = relu_forward,
    .backward = relu_backward,
};
const struct layer_kind layer_tanh = {
    .name = "tanh",
    .flags = BY_Y,
    .build = build_elementwise,
    .forward = tanh_forward,
    .backward = tanh_backward,
};
const struct layer_kind layer_gelu = {
    .name = "gelu",
    .flags = BY_X,
    .build = build_elementwise,
    .forward = gelu_forward,
    .backward = gelu_backward,
};
const struct layer_kind layer_gelu_fused = {
    .name = "gelu",
    .flags = LAYER_FUSED_INTO_PREVIOUS | LAYER_DX_IS_DY | LAYER_NEEDS_X,
};
const struct layer_kind layer_silu = {
    .name = "silu",
    .flags = BY_X,
    .build = build_elementwise,
    .forward = silu_forward,
    .backward = silu_backward,
};

static int build_flatten(struct compiler *c, struct layer *l, const json_t *spec, struct error *e)
{
    (void)c, (void)spec;
    l->out = (struct tensor_shape){.rank = 1, .dim = {tensor_shape_size(&l->in)}};
    return layer_expect_values(l, e);
}

const struct layer_kind layer_flatten = {
    .name = "flatten",
    .flags = LAYER_IDENTITY | LAYER_DX_IS_DY,
    .build = build_flatten,
};

// --- dropout -------------------------------------------------------------------------------------

static int build_dropout(struct compiler *c, struct layer *l, const json_t *spec, struct error *e)
{
    int rc = layer_expect_values(l, e);
    if (!rc)
        rc = spec_rate(spec, "rate", &l->rate, e);
    if (!rc)
        // one byte per value
        compiler_save(c, l, (c->m->micro_batch * tensor_shape_size(&l->in) + 3) / 4);
    return rc;
}

static void dropout_forward(const struct layer *l, const struct model_pass *p)
{
    const real *x = pass_value(p, l->x);
    real *y = pass_value(p, l->y);
    struct ops_dropout draw = pass_draw(p, l);
    int64_t size = tensor_shape_size(&l->in);
    uint8_t *keep = pass_value(p, l->saved);
    if (!y) // recomputed: the mask alone
        for (int64_t i = 0; i < p->model->micro_batch; i++)
            ops_dropout_mask(&draw, i, 0, size, keep + i * size);
    else if (p->training)
        ops_dropout_forward(p->model->micro_batch, size, &draw, x, y, keep);
    else if (x != y)
        ops_copy(y, x, (size_t)ops_floats_for_reals(pass_count(p, l)) * sizeof(float));
}

static void dropout_backward(const struct layer *l, const struct model_pass *p)
{
    ops_dropout_backward(pass_count(p, l), l->rate, pass_value(p, l->saved), pass_value(p, l->dy),
                         pass_value(p, l->dx));
}

const struct layer_kind layer_dropout = {
    .name = "dropout",
    .flags = LAYER_IN_PLACE | LAYER_DX_IN_PLACE | LAYER_SAVED_WITHOUT_X,
    .build = build_dropout,
    .forward = dropout_forward,
    .backward = dropout_backward,
};

// --- residual: the sum at the end of a residual block --------------------------------------------

static int build_residual(struct compiler *c, struct layer *l, const json_t *spec, struct error *e)
{
    const struct tensor_shape *wanted = &c->values[c->shortcut].shape;
    char expected[TENSOR_SHAPE_TEXT_MAX], found[TENSOR_SHAPE_TEXT_MAX];
    l->other = c->shortcut;
    if (tensor_shape_equal(wanted, &l->in))
        return 0;
    return error_set(e, ERR_INVALID, "expected %s, as %s, found %s",
                     tensor_shape_text(wanted, expected),
                     jget(spec, "shortcut") ? "the shortcut gives" : "it came in",
                     tensor_shape_text(&l->in, found));
}

static void residual_forward(const struct layer *l, const struct model_pass *p)
{
    ops_add(pass_count(p, l), pass_value(p, l->x), pass_value(p, l->added), pass_value(p, l->y));
}

const struct layer_kind layer_residual = {
    .name = "residual",
    .flags = LAYER_IN_PLACE | LAYER_DX_IS_DY,
    .build = build_residual,
    .forward = residual_forward,
};

// --- layers that a batch_norm before them or a max_pool after them computes ----------------------

const struct layer_kind layer_relu_fused = {
    .name = "relu",
    .flags = LAYER_IDENTITY | LAYER_DX_IS_DY,
};
const struct layer_kind layer_residual_fused = {
    .name = "residual",
    .flags = LAYER_IDENTITY | LAYER_DX_IS_DY,
};
const struct layer_kind layer_relu_fused_forward = {
    .name = "relu",
    .flags = LAYER_IDENTITY | LAYER_DX_IN_PLACE | LAYER_NEEDS_Y,
    .backward = relu_backward,
};
