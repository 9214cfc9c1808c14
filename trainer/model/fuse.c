// Operator fusion: consecutive layers are computed in one pass over memory. A layer whose work
// another layer does gets a kind that does less, or nothing.
#include "trainer/model/compiler.h"

// The next layer, if it reads the output of `l`; else NULL.
static struct layer *next_reader(const struct compiler *c, const struct layer *l)
{
    struct layer *next = &c->m->layers[l->position + 1];
    return l->position + 1 < c->m->layer_count && next->input == l->output ? next : NULL;
}

// The next layer, if it is of this kind and the only reader of the output of `l`; else NULL.
static struct layer *only_reader(const struct compiler *c, const struct layer *l,
                                 const struct layer_kind *kind)
{
    struct layer *next = next_reader(c, l);
    return next && next->kind == kind && c->values[l->output].readers == 1 ? next : NULL;
}

void layer_replace_kind(struct layer *l, const struct layer_kind *kind)
{
    l->kind = kind;
    l->flags = kind->flags;
}

// relu before max_pool equals relu after it, which has fewer values.
static void fuse_relu_max_pool(struct compiler *c, struct layer *relu)
{
    struct layer *pool = only_reader(c, relu, &layer_max_pool);
    if (!pool)
        return;
    ops_pool_add_relu(pool->pool);
    layer_replace_kind(relu, &layer_relu_fused);
}

// linear, gelu, linear: the first linear computes both values, and the second applies the
// derivative of gelu to the gradient of its input before it writes it.
static void fuse_linear_gelu(struct compiler *c, struct layer *first)
{
    struct layer *gelu = only_reader(c, first, &layer_gelu);
    struct layer *second = gelu ? only_reader(c, gelu, &layer_linear) : NULL;
    if (!second)
        return;
    first->flags |= LAYER_FUSED_GELU_AFTER;
    layer_replace_kind(gelu, &layer_gelu_fused);
    second->flags |= LAYER_FUSED_GELU_BEFORE;
    if (first->flags & second->flags & LAYER_QUANTISES)
        first->flags |= LAYER_NEEDS_Y; // it applies the derivative itself
}

// residual, norm: each row is normalised directly after the sum. Others may read the sum.
static void fuse_residual_norm(struct compiler *c, struct layer *residual)
{
    struct layer *norm = next_reader(c, residual);
    if (norm && norm->kind == &layer_layer_norm) {
        layer_replace_kind(residual, &layer_residual_layer_norm);
        layer_replace_kind(norm, &layer_layer_norm_fused);
    } else if (norm && norm->kind == &layer_rms_norm) {
        layer_replace_kind(residual, &layer_residual_rms_norm);
        layer_replace_kind(norm, &layer_rms_norm_fused);
    }
}

// batch_norm, relu and batch_norm, residual, relu become one pass over memory.
static void fuse_batch_norm(struct compiler *c, struct layer *l)
{
    struct layer *residual = only_reader(c, l, &layer_residual);
    struct layer *relu = only_reader(c, residual ? residual : l, &layer_relu);
    if (!relu)
        return;
    l->norm.relu = true;
    if (residual)
        layer_replace_kind(residual, &layer_residual_fused);
    layer_replace_kind(relu, residual ? &layer_relu_fused_forward : &layer_relu_fused);
}

void compiler_fuse(struct compiler *c)
{
    for (struct layer *l = c->m->layers; l < c->m->layers + c->m->layer_count; l++)
        if (l->kind == &layer_relu)
            fuse_relu_max_pool(c, l);
        else if (l->kind == &layer_batch_norm)
            fuse_batch_norm(c, l);
        else if (l->kind == &layer_linear)
            fuse_linear_gelu(c, l);
        else if (l->kind == &layer_residual)
            fuse_residual_norm(c, l);
}
