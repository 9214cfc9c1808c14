// The table of kinds of layers: how each infers its shape, and which ops it is made of.
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "trainer/model/layer.h"

enum { EXTENT_MAX = 65536 }; // of any one dimension a specification may ask for

static float *value_of(const struct pass *p, int tensor)
{
    return pass_value(p, tensor);
}

static const float *parameter_of(const struct layer *l, const struct pass *p, int slot)
{
    return pass_parameter(p, l->parameter[slot]);
}

static float *gradient_of(const struct layer *l, const struct pass *p, int slot)
{
    return pass_gradient(p, l->parameter[slot]);
}

static int64_t value_count(const struct layer *l, const struct pass *p) // of x over the micro-batch
{
    return p->model->micro_batch * shape_size(&l->in);
}

static int expect(const struct layer *l, bool fits, const char *expected, struct error *e)
{
    return fits ? 0 : layer_mismatch(l, expected, e);
}

static int expect_values(const struct layer *l, struct error *e)
{
    return expect(l, !l->in.tokens, "values", e);
}

// Element-wise layers take any values and change no shape.
static int build_elementwise(struct compiler *c, struct layer *l, const json_t *spec,
                             struct error *e)
{
    (void)c, (void)spec;
    return expect_values(l, e);
}

// --- linear

// Normal with the deviation asked for, else gain / sqrt(fan_in), by default He et al. 2015.
static struct initial normal(const json_t *spec, int64_t fan_in)
{
    double scaled = jget_double(spec, "gain", sqrt(2)) / sqrt((double)fan_in);
    return (struct initial){.deviation = jget_double(spec, "deviation", scaled)};
}

static int build_linear(struct compiler *c, struct layer *l, const json_t *spec, struct error *e)
{
    int64_t in = l->in.dim[l->in.rank - 1], out;
    const char *tied = jget_string(spec, "tied", NULL);
    int rc = expect(l, !l->in.tokens && l->in.rank <= 2, "features or a sequence of them", e);
    if (rc || (rc = spec_int(spec, "out", 0, 1, EXTENT_MAX, &out, e)))
        return rc;
    int64_t shape[] = {in, out};
    if (tied) {
        if ((rc = compiler_tie_weight(c, l, tied, e)))
            return rc;
        const struct parameter *w = &compiler_model(c)->parameters[l->parameter[WEIGHT]];
        if (w->shape[0] != out || w->shape[1] != in)
            return error_set(e, ERR_INVALID, "expected a tied weight of %lldx%lld, found %lldx%lld",
                             (long long)out, (long long)in, (long long)w->shape[0],
                             (long long)w->shape[1]);
    } else if ((rc = compiler_add_parameter(c, l, WEIGHT, 2, shape, normal(spec, in), e))) {
        return rc;
    }
    if (jget_bool(spec, "bias", true) &&
        (rc = compiler_add_parameter(c, l, BIAS, 1, &out, (struct initial){0}, e)))
        return rc;
    int64_t rows = shape_size(&l->in) / in;
    l->linear = (struct ops_linear){rows * compiler_model(c)->micro_batch, in, out, tied != NULL};
    l->out.dim[l->out.rank - 1] = out;
    l->flops = l->flops_weights = 2.0 * (double)rows * (double)in * (double)out;
    return 0;
}

static void linear_forward(const struct layer *l, const struct pass *p)
{
    ops_linear_forward(&l->linear, value_of(p, l->x), parameter_of(l, p, WEIGHT),
                       parameter_of(l, p, BIAS), value_of(p, l->y));
}

static void linear_backward(const struct layer *l, const struct pass *p)
{
    const float *dy = value_of(p, l->dy);
    if (l->dx != NONE)
        ops_linear_backward_data(&l->linear, parameter_of(l, p, WEIGHT), dy, value_of(p, l->dx),
                                 l->add);
    ops_linear_backward_weights(&l->linear, value_of(p, l->x), dy, gradient_of(l, p, WEIGHT),
                                l->add_gradient[WEIGHT], gradient_of(l, p, BIAS));
}

// --- element by element

static void relu_forward(const struct layer *l, const struct pass *p)
{
    ops_relu_forward(value_count(l, p), value_of(p, l->x), value_of(p, l->y));
}

static void relu_backward(const struct layer *l, const struct pass *p)
{
    ops_relu_backward(value_count(l, p), value_of(p, l->y), value_of(p, l->dy), value_of(p, l->dx));
}

static void tanh_forward(const struct layer *l, const struct pass *p)
{
    ops_tanh_forward(value_count(l, p), value_of(p, l->x), value_of(p, l->y));
}

static void tanh_backward(const struct layer *l, const struct pass *p)
{
    ops_tanh_backward(value_count(l, p), value_of(p, l->y), value_of(p, l->dy), value_of(p, l->dx));
}

static void gelu_forward(const struct layer *l, const struct pass *p)
{
    ops_gelu_forward(value_count(l, p), value_of(p, l->x), value_of(p, l->y));
}

static void gelu_backward(const struct layer *l, const struct pass *p)
{
    ops_gelu_backward(value_count(l, p), value_of(p, l->x), value_of(p, l->dy), value_of(p, l->dx));
}

static int build_flatten(struct compiler *c, struct layer *l, const json_t *spec, struct error *e)
{
    (void)c, (void)spec;
    l->out = (struct shape){.rank = 1, .dim = {shape_size(&l->in)}};
    return expect_values(l, e);
}

static void residual_add_forward(const struct layer *l, const struct pass *p)
{
    ops_add(value_count(l, p), value_of(p, l->x), value_of(p, l->skip), value_of(p, l->y));
}

// --- dropout

static struct ops_draw draw_of(const struct layer *l, const struct pass *p)
{
    uint64_t key = ops_draw_key(p->key.seed, p->key.step, (uint64_t)l->position);
    return (struct ops_draw){key, p->training ? l->rate : 0, p->batch->samples};
}

// Bytes kept in a tensor of floats.
static uint8_t *bytes_of(const struct pass *p, int tensor)
{
    return (uint8_t *)value_of(p, tensor);
}

static int build_dropout(struct compiler *c, struct layer *l, const json_t *spec, struct error *e)
{
    int rc = expect_values(l, e);
    if (!rc)
        rc = spec_rate(spec, "rate", &l->rate, e);
    if (!rc)
        compiler_save(c, l, (compiler_model(c)->micro_batch * shape_size(&l->in) + 3) / 4);
    return rc;
}

static void dropout_forward(const struct layer *l, const struct pass *p)
{
    const float *x = value_of(p, l->x);
    float *y = value_of(p, l->y);
    struct ops_draw draw = draw_of(l, p);
    if (p->training)
        ops_dropout_forward(p->model->micro_batch, shape_size(&l->in), &draw, x, y,
                            bytes_of(p, l->saved));
    else if (x != y)
        memcpy(y, x, (size_t)value_count(l, p) * sizeof *y);
}

static void dropout_backward(const struct layer *l, const struct pass *p)
{
    ops_dropout_backward(value_count(l, p), l->rate, bytes_of(p, l->saved), value_of(p, l->dy),
                         value_of(p, l->dx));
}

// --- layer_norm

static int build_layer_norm(struct compiler *c, struct layer *l, const json_t *spec,
                            struct error *e)
{
    int64_t width = l->in.dim[l->in.rank - 1], rows = shape_size(&l->in) / width;
    int rc = expect(l, !l->in.tokens && l->in.rank <= 2, "features or a sequence of them", e);
    if (!rc)
        rc = compiler_add_parameter(c, l, WEIGHT, 1, &width, (struct initial){.constant = 1}, e);
    if (!rc && jget_bool(spec, "bias", true))
        rc = compiler_add_parameter(c, l, BIAS, 1, &width, (struct initial){0}, e);
    if (!rc)
        compiler_save(c, l, 2 * rows * compiler_model(c)->micro_batch);
    return rc;
}

static int64_t norm_width(const struct layer *l)
{
    return l->in.dim[l->in.rank - 1];
}

static void layer_norm_forward(const struct layer *l, const struct pass *p)
{
    int64_t width = norm_width(l);
    ops_layer_norm_forward(value_count(l, p) / width, width, value_of(p, l->x),
                           parameter_of(l, p, WEIGHT), parameter_of(l, p, BIAS), value_of(p, l->y),
                           value_of(p, l->saved));
}

static void layer_norm_backward(const struct layer *l, const struct pass *p)
{
    int64_t width = norm_width(l);
    ops_layer_norm_backward(value_count(l, p) / width, width, value_of(p, l->x),
                            parameter_of(l, p, WEIGHT), value_of(p, l->saved), value_of(p, l->dy),
                            value_of(p, l->dx), l->add, gradient_of(l, p, WEIGHT),
                            gradient_of(l, p, BIAS));
}

// --- sequences

static int build_embedding(struct compiler *c, struct layer *l, const json_t *spec, struct error *e)
{
    int64_t width, vocabulary, known = compiler_model(c)->sample.vocabulary;
    int rc = expect(l, l->in.tokens, "tokens", e);
    if (rc || (rc = spec_int(spec, "width", 0, 1, EXTENT_MAX, &width, e)) ||
        (rc = spec_int(spec, "vocabulary", known, 1, EXTENT_MAX, &vocabulary, e)))
        return rc;
    if (vocabulary != known)
        return error_set(e, ERR_INVALID,
                         "expected a vocabulary of %lld, as the data has, found "
                         "%lld",
                         (long long)known, (long long)vocabulary);
    int64_t shape[] = {vocabulary, width};
    l->out = (struct shape){.rank = 2, .dim = {l->in.dim[0], width}};
    return compiler_add_parameter(c, l, WEIGHT, 2, shape, normal(spec, 1), e);
}

static void embedding_forward(const struct layer *l, const struct pass *p)
{
    ops_embedding_forward(p->model->micro_batch * l->out.dim[0], l->out.dim[1], p->batch->tokens,
                          parameter_of(l, p, WEIGHT), value_of(p, l->y));
}

static void embedding_backward(const struct layer *l, const struct pass *p)
{
    ops_embedding_backward(p->model->micro_batch * l->out.dim[0], l->out.dim[1],
                           p->model->sample.vocabulary, p->batch->tokens, value_of(p, l->dy),
                           gradient_of(l, p, WEIGHT), l->add_gradient[WEIGHT]);
}

static int expect_sequence(const struct layer *l, struct error *e)
{
    return expect(l, !l->in.tokens && l->in.rank == 2, "a sequence (positions x width)", e);
}

static int build_position(struct compiler *c, struct layer *l, const json_t *spec, struct error *e)
{
    int rc = expect_sequence(l, e);
    return rc ? rc : compiler_add_parameter(c, l, WEIGHT, 2, l->in.dim, normal(spec, 1), e);
}

static void position_forward(const struct layer *l, const struct pass *p)
{
    ops_position_forward(p->model->micro_batch, l->in.dim[0], l->in.dim[1], value_of(p, l->x),
                         parameter_of(l, p, WEIGHT), value_of(p, l->y));
}

static void position_backward(const struct layer *l, const struct pass *p)
{
    ops_position_backward(p->model->micro_batch, l->in.dim[0], l->in.dim[1], value_of(p, l->dy),
                          gradient_of(l, p, WEIGHT));
}

static int build_attention(struct compiler *c, struct layer *l, const json_t *spec, struct error *e)
{
    int64_t samples = compiler_model(c)->micro_batch, context = l->in.dim[0], heads;
    int rc = expect_sequence(l, e);
    if (rc || (rc = spec_int(spec, "heads", 0, 1, EXTENT_MAX, &heads, e)) ||
        (rc = spec_rate(spec, "dropout", &l->rate, e)))
        return rc;
    int64_t width = l->in.dim[1] / 3;
    if (l->in.dim[1] != 3 * heads * (width / heads))
        return error_set(e, ERR_INVALID,
                         "expected a width of 3 (query, key, value) x %lld heads x any, found %lld",
                         (long long)heads, (long long)l->in.dim[1]);
    l->attention = (struct ops_attention){samples, context, heads, width};
    int64_t probabilities = samples * heads * context * context;
    // What follows the probabilities are the bytes of dropout's draws.
    compiler_save(c, l, probabilities + (l->rate > 0 ? (probabilities + 3) / 4 : 0));
    compiler_need_scratch(c, ops_attention_scratch(&l->attention));
    l->out.dim[1] = width;
    // Two products forward, four backward. Counted whole, as is usual, though half is never done.
    l->flops = l->flops_weights = 4.0 * (double)context * (double)context * (double)width;
    return 0;
}

static uint8_t *attention_draws(const struct layer *l, const struct pass *p)
{
    const struct ops_attention *a = &l->attention;
    return bytes_of(p, l->saved) + a->samples * a->heads * a->context * a->context * 4;
}

static void attention_forward(const struct layer *l, const struct pass *p)
{
    struct ops_draw draw = draw_of(l, p);
    ops_attention_forward(&l->attention, &draw, value_of(p, l->x), value_of(p, l->saved),
                          attention_draws(l, p), value_of(p, p->model->scratch), value_of(p, l->y));
}

static void attention_backward(const struct layer *l, const struct pass *p)
{
    ops_attention_backward(&l->attention, l->rate, value_of(p, l->x), value_of(p, l->saved),
                           attention_draws(l, p), value_of(p, p->model->scratch),
                           value_of(p, l->dy), value_of(p, l->dx));
}

// --- images

static int expect_image(const struct layer *l, struct error *e)
{
    return expect(l, !l->in.tokens && l->in.rank == 3, "an image (height x width x channels)", e);
}

// A kernel must fit into the image with its padding.
static int expect_fit(const struct layer *l, int64_t kernel, int64_t padding, struct error *e)
{
    if (kernel <= l->in.dim[0] + 2 * padding && kernel <= l->in.dim[1] + 2 * padding)
        return 0;
    char expected[64];
    snprintf(expected, sizeof expected, "an image of at least %lldx%lld",
             (long long)(kernel - 2 * padding), (long long)(kernel - 2 * padding));
    return layer_mismatch(l, expected, e);
}

static int build_conv2d(struct compiler *c, struct layer *l, const json_t *spec, struct error *e)
{
    struct ops_conv_shape s = {.samples = compiler_model(c)->micro_batch,
                               .height = l->in.dim[0],
                               .width = l->in.dim[1],
                               .in = l->in.dim[2],
                               .bias = jget_bool(spec, "bias", true)};
    int rc = expect_image(l, e);
    if (rc || (rc = spec_int(spec, "out", 0, 1, EXTENT_MAX, &s.out, e)) ||
        (rc = spec_int(spec, "kernel", 0, 1, 1024, &s.kernel, e)) ||
        (rc = spec_int(spec, "stride", 1, 1, 1024, &s.stride, e)) ||
        (rc = spec_int(spec, "padding", 0, 0, s.kernel - 1, &s.padding, e)) ||
        (rc = expect_fit(l, s.kernel, s.padding, e)))
        return rc;
    int64_t shape[] = {s.kernel, s.kernel, s.in, s.out}, fan_in = s.kernel * s.kernel * s.in;
    bool data_gradient = compiler_model(c)->parameter_count > 0;
    if ((rc = compiler_add_parameter(c, l, WEIGHT, 4, shape, normal(spec, fan_in), e)) ||
        (s.bias && (rc = compiler_add_parameter(c, l, BIAS, 1, &s.out, (struct initial){0}, e))) ||
        (rc = ops_conv_new(&s, data_gradient, &l->conv, e)))
        return rc;
    int64_t height = (s.height + 2 * s.padding - s.kernel) / s.stride + 1;
    int64_t width = (s.width + 2 * s.padding - s.kernel) / s.stride + 1;
    l->out = (struct shape){.rank = 3, .dim = {height, width, s.out}};
    l->flops = l->flops_weights = 2.0 * (double)shape_size(&l->out) * (double)fan_in;
    return 0;
}

static void conv2d_forward(const struct layer *l, const struct pass *p)
{
    ops_conv_forward(l->conv, value_of(p, l->x), parameter_of(l, p, WEIGHT),
                     parameter_of(l, p, BIAS), value_of(p, l->y));
}

static void conv2d_backward(const struct layer *l, const struct pass *p)
{
    const float *dy = value_of(p, l->dy);
    if (l->dx != NONE)
        ops_conv_backward_data(l->conv, parameter_of(l, p, WEIGHT), dy, value_of(p, l->dx));
    ops_conv_backward_weights(l->conv, value_of(p, l->x), dy, gradient_of(l, p, WEIGHT),
                              gradient_of(l, p, BIAS));
}

static int build_max_pool(struct compiler *c, struct layer *l, const json_t *spec, struct error *e)
{
    struct ops_pool_shape s = {.samples = compiler_model(c)->micro_batch,
                               .height = l->in.dim[0],
                               .width = l->in.dim[1],
                               .channels = l->in.dim[2]};
    int rc = expect_image(l, e);
    if (rc || (rc = spec_int(spec, "kernel", 0, 1, 1024, &s.kernel, e)) ||
        (rc = spec_int(spec, "stride", s.kernel, 1, 1024, &s.stride, e)) ||
        (rc = expect_fit(l, s.kernel, 0, e)))
        return rc;
    l->out.dim[0] = (s.height - s.kernel) / s.stride + 1;
    l->out.dim[1] = (s.width - s.kernel) / s.stride + 1;
    return ops_pool_new(&s, &l->pool, e);
}

static void max_pool_forward(const struct layer *l, const struct pass *p)
{
    ops_pool_forward(l->pool, value_of(p, l->x), value_of(p, l->y));
}

static void max_pool_backward(const struct layer *l, const struct pass *p)
{
    ops_pool_backward(l->pool, value_of(p, l->dy), value_of(p, l->dx));
}

enum {
    ELEMENTWISE = LAYER_IN_PLACE | LAYER_GRADIENT_IN_PLACE,
};

const struct layer_kind layer_kinds[] = {
    {"linear", LAYER_NEEDS_X | LAYER_ADDS | LAYER_SHARES, build_linear, linear_forward,
     linear_backward},
    {"relu", ELEMENTWISE | LAYER_NEEDS_Y, build_elementwise, relu_forward, relu_backward},
    {"tanh", ELEMENTWISE | LAYER_NEEDS_Y, build_elementwise, tanh_forward, tanh_backward},
    {"gelu", LAYER_GRADIENT_IN_PLACE | LAYER_NEEDS_X, build_elementwise, gelu_forward,
     gelu_backward},
    {"flatten", LAYER_IDENTITY | LAYER_GRADIENT_SAME, build_flatten, NULL, NULL},
    {"dropout", ELEMENTWISE, build_dropout, dropout_forward, dropout_backward},
    {"layer_norm", LAYER_NEEDS_X | LAYER_ADDS, build_layer_norm, layer_norm_forward,
     layer_norm_backward},
    {"embedding", LAYER_SHARES, build_embedding, embedding_forward, embedding_backward},
    {"position", LAYER_IN_PLACE | LAYER_GRADIENT_SAME, build_position, position_forward,
     position_backward},
    {"attention", LAYER_NEEDS_X, build_attention, attention_forward, attention_backward},
    {"conv2d", LAYER_NEEDS_X, build_conv2d, conv2d_forward, conv2d_backward},
    {"max_pool", 0, build_max_pool, max_pool_forward, max_pool_backward},
    {NULL, 0, NULL, NULL, NULL},
};

// The end of a residual block; only the compiler makes it.
const struct layer_kind layer_residual_add = {"residual", LAYER_IN_PLACE | LAYER_GRADIENT_SAME,
                                              NULL, residual_add_forward, NULL};
