// Describes a compiled model, for `muster-trainer describe`.
#include "trainer/model/compiler.h"

static double layer_flops(const struct layer *l)
{
    return l->flops + l->flops_weights + (l->dx == NONE ? 0 : l->flops);
}

double model_flops(const struct compiled_model *m)
{
    double sum = 0;
    for (const struct layer *l = m->layers; l < m->layers + m->layer_count; l++)
        sum += layer_flops(l);
    return sum;
}

int64_t model_attention_samples(const struct compiled_model *m)
{
    int64_t least = INT64_MAX;
    for (const struct layer *l = m->layers; l < m->layers + m->layer_count; l++)
        if (l->kind == &layer_attention && l->rate == 0) { // with dropout all kernels are slow
            int64_t samples = ops_attention_samples(&l->attention);
            least = samples < least ? samples : least;
        }
    return least;
}

static int64_t tensor_bytes(const struct compiled_model *m, int tensor)
{
    return tensor == NONE ? 0 : m->plan.tensors[tensor].floats * (int64_t)sizeof(float);
}

// The number of trainable values; running statistics have none.
static json_int_t trainable_count(const struct parameter *p)
{
    return p->momentum > 0 ? 0 : (json_int_t)p->count;
}

static json_t *describe_layer(const struct compiled_model *m, const struct layer *l)
{
    char in[TENSOR_SHAPE_TEXT_MAX], out[TENSOR_SHAPE_TEXT_MAX];
    const struct layer *back = &m->backward[l->position];
    json_int_t parameters = 0, bytes = l->op_bytes;
    // of a recomputed block, and used in the forward pass alone
    bool dropped = l->block != NONE && m->plan.tensors[l->y].last <= m->layer_count;
    for (int slot = 0; slot < PARAMETERS_PER_LAYER; slot++)
        if (l->last_gradient[slot])
            parameters += trainable_count(&m->parameters[l->parameter[slot]]);
    if (l->y != l->x && !dropped)
        bytes += tensor_bytes(m, l->y);
    if (back->saved == l->saved)
        bytes += tensor_bytes(m, l->saved);
    return json_pack("{s:s, s:s, s:s, s:s, s:I, s:f, s:I, s:b}", "name", l->name, "kind",
                     l->kind->name, "in", tensor_shape_text(&l->in, in), "out",
                     tensor_shape_text(&l->out, out), "parameters", parameters, "flops",
                     layer_flops(l), "activation_bytes", bytes, "recomputed", (int)back->again);
}

int model_describe(const struct compiled_model *m, json_t **out)
{
    json_t *layers = json_array();
    json_int_t count = 0, bytes = (json_int_t)(m->plan.floats * sizeof(float));
    for (const struct layer *l = m->layers; l < m->layers + m->layer_count; l++) {
        json_array_append_new(layers, describe_layer(m, l));
        bytes += l->op_bytes;
    }
    for (int i = 0; i < m->parameter_count; i++)
        count += trainable_count(&m->parameters[i]);
    *out = json_pack("{s:o, s:I, s:f, s:I, s:I, s:i}", "layers", layers, "parameters", count,
                     "flops_per_sample", model_flops(m), "parameter_bytes",
                     (json_int_t)(m->block_size * sizeof(float)), "activation_bytes", bytes,
                     "recomputed_blocks", m->recomputed_blocks);
    return *out ? 0 : ERR_INTERNAL;
}
