// Layer kinds for normalisation.
//
// batch_norm takes its statistics over the micro-batch, or with sync over all micro-batches of the
// step. The running statistics, which evaluation uses, are parameters that the optimizer moves
// towards them. So the same pass works on every rank, and nothing is kept between passes.
#include "base/text/json.h"
#include "trainer/model/compiler.h"

static const struct initializer zero = {0}, one = {.constant = 1};

// --- layer_norm, rms_norm: over the last dimension -----------------------------------------------

static int build_layer_norm(struct compiler *c, struct layer *l, const json_t *spec,
                            struct error *e)
{
    int64_t width = layer_width(l), rows = tensor_shape_size(&l->in) / width;
    int rc = layer_expect_rows(l, e);
    if (!rc)
        rc = compiler_add_parameter(c, l, WEIGHT, 1, &width, one, e);
    if (!rc && l->kind == &layer_layer_norm && jget_bool(spec, "bias", true))
        rc = compiler_add_parameter(c, l, BIAS, 1, &width, zero, e);
    if (!rc)
        compiler_save(c, l, (l->kind == &layer_layer_norm ? 2 : 1) * rows * c->m->micro_batch);
    return rc;
}

static void layer_norm_forward(const struct layer *l, const struct model_pass *p)
{
    int64_t width = layer_width(l);
    ops_layer_norm_forward(pass_count(p, l) / width, width, pass_value(p, l->x),
                           pass_parameter(p, l, WEIGHT), pass_parameter(p, l, BIAS),
                           pass_value(p, l->y), pass_value(p, l->saved));
}

static void layer_norm_backward(const struct layer *l, const struct model_pass *p)
{
    int64_t width = layer_width(l);
    ops_layer_norm_backward(pass_count(p, l) / width, width, pass_value(p, l->x),
                            pass_parameter(p, l, WEIGHT), pass_value(p, l->saved),
                            pass_value(p, l->dy), pass_value(p, l->dx), l->add,
                            pass_gradient(p, l, WEIGHT), pass_gradient(p, l, BIAS));
}

static void rms_norm_forward(const struct layer *l, const struct model_pass *p)
{
    int64_t width = layer_width(l);
    ops_rms_norm_forward(pass_count(p, l) / width, width, pass_value(p, l->x),
                         pass_parameter(p, l, WEIGHT), pass_value(p, l->y),
                         pass_value(p, l->saved));
}

static void rms_norm_backward(const struct layer *l, const struct model_pass *p)
{
    int64_t width = layer_width(l);
    ops_rms_norm_backward(pass_count(p, l) / width, width, pass_value(p, l->x),
                          pass_parameter(p, l, WEIGHT), pass_value(p, l->saved),
                          pass_value(p, l->dy), pass_value(p, l->dx), l->add,
                          pass_gradient(p, l, WEIGHT));
}

// The sum of a residual block and the norm after it, in one pass.
static void residual_layer_norm_forward(const struct layer *sum, const struct model_pass *p)
{
    const struct layer *l = sum + 1;
    int64_t width = layer_width(l);
    ops_add_layer_norm_forward(pass_count(p, l) / width, width, pass_value(p, sum->x),
                               pass_value(p, sum->added), pass_value(p, sum->y),
                               pass_parameter(p, l, WEIGHT), pass_parameter(p, l, BIAS),
                               pass_value(p, l->y), pass_value(p, l->saved));
}

static void residual_rms_norm_forward(const struct layer *sum, const struct model_pass *p)
{
    const struct layer *l = sum + 1;
    int64_t width = layer_width(l);
    ops_add_rms_norm_forward(pass_count(p, l) / width, width, pass_value(p, sum->x),
                             pass_value(p, sum->added), pass_value(p, sum->y),
                             pass_parameter(p, l, WEIGHT), pass_value(p, l->y),
                             pass_value(p, l->saved));
}

enum { NORM = LAYER_NEEDS_X | LAYER_ACCUMULATES_DX };
const struct layer_kind layer_layer_norm = {
    .name = "layer_norm",
    .flags = NORM,
    .build = build_layer_norm,
    .forward = layer_norm_forward,
    .backward = layer_norm_backward,
};
const struct layer_kind layer_rms_norm = {
    .name = "rms_norm",
    .flags = NORM,
    .build = build_layer_norm,
    .forward = rms_norm_forward,
    .backward = rms_norm_backward,
};
const struct layer_kind layer_residual_layer_norm = {
    .name = "residual",
    .flags = LAYER_IN_PLACE | LAYER_DX_IS_DY,
    .forward = residual_layer_norm_forward,
};
const struct layer_kind layer_layer_norm_fused = {
    .name = "layer_norm",
    .flags = NORM | LAYER_FUSED_INTO_PREVIOUS,
    .backward = layer_norm_backward,
    .alone = &layer_layer_norm,
};
const struct layer_kind layer_residual_rms_norm = {
    .name = "residual",
    .flags = LAYER_IN_PLACE | LAYER_DX_IS_DY,
    .forward = residual_rms_norm_forward,
};
const struct layer_kind layer_rms_norm_fused = {
    .name = "rms_norm",
    .flags = NORM | LAYER_FUSED_INTO_PREVIOUS,
    .backward = rms_norm_backward,
    .alone = &layer_rms_norm,
};

// --- batch_norm: over all dimensions but the last; `saved` holds sums, mean, variance ------------

static int add_statistic(struct compiler *c, struct layer *l, int slot, int64_t channels,
                         struct initializer initial, double momentum, struct error *e)
{
    int rc = compiler_add_parameter(c, l, slot, 1, &channels, initial, e);
    if (!rc)
        c->m->parameters[l->parameter[slot]].momentum = momentum;
    return rc;
}

static int build_batch_norm(struct compiler *c, struct layer *l, const json_t *spec,
                            struct error *e)
{
    int64_t channels = layer_width(l),
            rows = c->m->micro_batch * tensor_shape_size(&l->in) / channels;
    const struct initializer gain = {.constant = (float)jget_double(spec, "gain", 1)};
    double momentum = jget_double(spec, "momentum", 0.1);
    int rc = layer_expect_values(l, e);
    if (rc)
        return rc;
    if (!(momentum > 0 && momentum <= 1))
        return error_set(e, ERR_INVALID, "\"momentum\" must be a number above 0 and up to 1");
    l->norm.sync = jget_bool(spec, "sync", false);
    l->norm.sums = 2 * (size_t)channels;
    if (rows < 2 && !l->norm.sync)
        return error_set(e, ERR_INVALID,
                         "expected several values of each channel in a micro-batch, found one; "
                         "choose a larger micro_batch_size, or sync: true");
    if ((rc = compiler_add_parameter(c, l, WEIGHT, 1, &channels, gain, e)) ||
        (rc = compiler_add_parameter(c, l, BIAS, 1, &channels, zero, e)) ||
        (rc = add_statistic(c, l, MEAN, channels, zero, momentum, e)) ||
        (rc = add_statistic(c, l, VARIANCE, channels, one, momentum, e)))
        return rc;
    compiler_save(c, l, (int64_t)(l->norm.sums * (sizeof(double) / sizeof(float))) + 2 * channels);
    return 0;
}

// The saved mean; the variance follows it.
static float *saved_mean(const struct layer *l, const struct model_pass *p)
{
    return (float *)(pass_sums(p, l) + l->norm.sums);
}

static struct ops_batch_norm make_batch_norm(const struct layer *l, const struct model_pass *p,
                                             bool relu)
{
    int64_t channels = layer_width(l);
    const float *mean = p->training ? saved_mean(l, p) : pass_statistic(p, l, MEAN);
    return (struct ops_batch_norm){
        .rows = pass_count(p, l) / channels,
        .channels = channels,
        .relu = relu,
        .x = pass_value(p, l->x),
        .mean = mean,
        .variance = p->training ? mean + channels : pass_statistic(p, l, VARIANCE),
        .gain = pass_parameter(p, l, WEIGHT),
        .bias = pass_parameter(p, l, BIAS),
    };
}

// The number of values of each channel that the statistics cover.
static double statistics_count(const struct layer *l, const struct model_pass *p)
{
    double own = (double)(pass_count(p, l) / layer_width(l));
    return l->norm.sync ? own * (double)p->step_micro_batches : own;
}

static void batch_norm_forward_sums(const struct layer *l, const struct model_pass *p, double *sums)
{
    int64_t channels = layer_width(l);
    ops_batch_norm_sums(pass_count(p, l) / channels, channels, pass_value(p, l->x), sums);
}

static void batch_norm_forward(const struct layer *l, const struct model_pass *p)
{
    int64_t channels = layer_width(l);
    if (p->training) {
        float *mean = saved_mean(l, p);
        ops_batch_norm_statistics(statistics_count(l, p), channels, pass_sums(p, l), mean,
                                  mean + channels);
    }
    const struct ops_batch_norm n = make_batch_norm(l, p, l->norm.relu);
    ops_batch_norm_forward(&n, pass_value(p, l->added), pass_value(p, l->y));
}

// The gradients for the sink: those of gain and bias, which are the sums of this micro-batch; and
// for the running statistics, mean and unbiased variance times the number of samples (see
// `momentum` in model.h).
static void write_parameter_gradients(const struct layer *l, const struct model_pass *p,
                                      const double *sums)
{
    int64_t channels = layer_width(l);
    const float *mean = saved_mean(l, p), *variance = mean + channels;
    double samples = (double)p->model->micro_batch, n = statistics_count(l, p);
    double unbiased = n > 1 ? n / (n - 1) : 1;
    const struct ops_scaled all[] = {
        {1, NULL, sums, pass_gradient(p, l, BIAS)},
        {1, NULL, sums + channels, pass_gradient(p, l, WEIGHT)},
        {samples, mean, NULL, pass_gradient(p, l, MEAN)},
        {samples * unbiased, variance, NULL, pass_gradient(p, l, VARIANCE)},
    };
    ops_scale(channels, 4, all);
}

// After a sum with another value, relu has a backward pass of its own.
static bool masks_by_relu(const struct layer *l)
{
    return l->norm.relu && l->added == NONE;
}

static void batch_norm_backward_sums(const struct layer *l, const struct model_pass *p,
                                     double *sums)
{
    const struct ops_batch_norm n = make_batch_norm(l, p, masks_by_relu(l));
    if (l->norm.joins_gradients)
        ops_batch_norm_residual_gradient_sums(&n, pass_value(p, l->norm.y),
                                              pass_value(p, l->norm.a), pass_value(p, l->norm.b),
                                              pass_value(p, l->dy), sums);
    else
        ops_batch_norm_gradient_sums(&n, pass_value(p, l->dy), sums);
    write_parameter_gradients(l, p, sums);
}

static void batch_norm_backward(const struct layer *l, const struct model_pass *p)
{
    const struct ops_batch_norm n = make_batch_norm(l, p, masks_by_relu(l));
    if (l->dx != NONE)
        ops_batch_norm_backward(&n, statistics_count(l, p), pass_sums(p, l), pass_value(p, l->dy),
                                pass_value(p, l->dx));
}

const struct layer_kind layer_batch_norm = {
    .name = "batch_norm",
    .flags = LAYER_NEEDS_X | LAYER_DX_IN_PLACE,
    .build = build_batch_norm,
    .forward_sums = batch_norm_forward_sums,
    .forward = batch_norm_forward,
    .backward_sums = batch_norm_backward_sums,
    .backward = batch_norm_backward,
};
