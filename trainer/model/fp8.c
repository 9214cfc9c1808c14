// The choice of the layers that multiply in FP8, and the scales and quantised weights of a step.
//
// The layer that makes the model's output keeps the precision of the other products, because the
// loss is sensitive to it, and so does a layer whose weight belongs to an embedding. The shapes of
// FP8 products are multiples of 16; a layer of another shape is not quantised. All three rules
// depend on the model and the micro-batch alone, never on the device.
#include "trainer/model/fp8.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/arena.h"
#include "base/limits.h"
#include "base/log.h"
#include "trainer/model/compiler.h"

static bool layer_may_quantise(const struct compiler *c, const struct layer *l)
{
    return l->kind == &layer_linear && l->output != c->current && ops_fp8_fits(&l->linear);
}

static void name_tensors(struct model_fp8 *s, const struct layer *l)
{
    static const char *const parts[] = {
        [OPS_FP8_X] = "input", [OPS_FP8_W] = "weight", [OPS_FP8_DY] = "gradient"};
    s->tensors = xrealloc(s->tensors, (size_t)(s->count + OPS_FP8_TENSORS) * sizeof *s->tensors);
    for (int t = 0; t < OPS_FP8_TENSORS; t++) {
        struct fp8_tensor *tensor = &s->tensors[s->count + t];
        snprintf(tensor->name, sizeof tensor->name, "%.*s.%s", LIMIT_LAYER_NAME, l->name, parts[t]);
    }
    s->count += OPS_FP8_TENSORS;
}

static int quantise_layer(struct compiler *c, struct layer *l, struct error *e)
{
    struct model_fp8 *s = &c->m->fp8;
    l->fp8 = (struct layer_fp8){.first = s->count, .weights = s->weight_floats};
    l->flags |= LAYER_QUANTISES;
    l->flags &= ~(unsigned)LAYER_NEEDS_X; // the backward pass reads the quantised input
    const int64_t floats = (ops_fp8_weight_floats(&l->linear) + 15) / 16 * 16;
    s->weight_floats += floats;
    l->op_bytes = floats * (int64_t)sizeof(float);
    name_tensors(s, l);
    compiler_save(c, l, ops_fp8_saved_floats(&l->linear));
    compiler_need_scratch(c, ops_fp8_scratch_floats(&l->linear));
    return ops_fp8_compile(&l->linear, &l->fp8.plan, e);
}

int compiler_quantise(struct compiler *c, struct error *e)
{
    struct compiled_model *m = c->m;
    int rc = 0;
    if (!ops_quantises())
        return 0;
    for (struct layer *l = m->layers; l < m->layers + m->layer_count && !rc; l++)
        if (layer_may_quantise(c, l))
            rc = quantise_layer(c, l, e);
    if (!rc && m->fp8.count == 0)
        return error_set(e, ERR_INVALID,
                         "trainer.precision: no product of this model can be computed in fp8, "
                         "which needs a linear layer before the last one whose input width, output "
                         "width and rows (micro_batch_size x positions) are multiples of %d; "
                         "change these, or use another precision",
                         OPS_FP8_MULTIPLE);
    return rc;
}

size_t model_fp8_bytes(const struct model_fp8 *s)
{
    return (size_t)s->count * (sizeof *s->scales + sizeof *s->own_amaxes) +
           (size_t)s->weight_floats * sizeof *s->weights;
}

int model_fp8_allocate(struct model_fp8 *s, struct error *e)
{
    if (s->count == 0)
        return 0;
    void *blocks[3] = {NULL, NULL, NULL};
    int rc = ops_alloc((size_t)s->count * sizeof *s->scales, &blocks[0], e);
    if (!rc)
        rc = ops_alloc((size_t)s->count * sizeof *s->own_amaxes, &blocks[1], e);
    if (!rc)
        rc = ops_alloc((size_t)s->weight_floats * sizeof *s->weights, &blocks[2], e);
    s->scales = blocks[0];
    s->own_amaxes = blocks[1];
    s->weights = blocks[2];
    return rc;
}

void model_fp8_free(struct model_fp8 *s)
{
    ops_free(s->weights);
    ops_free(s->own_amaxes);
    ops_free(s->scales);
    free(s->tensors);
}

// --- a step --------------------------------------------------------------------------------------

const struct fp8_tensor *model_fp8_tensors(const struct compiled_model *m, int *count)
{
    *count = m->fp8.count;
    return m->fp8.tensors;
}

static void upload_scales(const struct model_fp8 *s, const int32_t *exponents)
{
    float(*scales)[2] = xcalloc((size_t)s->count, sizeof *scales);
    for (int t = 0; t < s->count; t++) {
        enum ops_fp8_tensor which = (enum ops_fp8_tensor)(t % OPS_FP8_TENSORS);
        scales[t][0] = ops_fp8_scale(which, exponents[t]);
        scales[t][1] = 1 / scales[t][0];
    }
    ops_upload(s->scales, scales, (size_t)s->count * sizeof *scales);
    free(scales);
}

struct ops_fp8 pass_fp8(const struct model_pass *p, const struct layer *l)
{
    const struct model_fp8 *s = p->fp8;
    return (struct ops_fp8){
        .linear = &l->linear,
        .plan = l->fp8.plan,
        .scales = s->scales + l->fp8.first,
        .amaxes = s->amaxes + l->fp8.first,
        .own_amaxes = s->measures ? s->own_amaxes + l->fp8.first : NULL,
        .weights = s->weights + l->fp8.weights,
        .saved = pass_value(p, l->saved),
        .scratch = pass_value(p, p->model->scratch),
    };
}

static void quantise_weights(struct compiled_model *m, const float *floats)
{
    const struct model_pass pass = {.model = m, .fp8 = &m->fp8};
    ops_init_thread();
    for (const struct layer *l = m->layers; l < m->layers + m->layer_count; l++)
        if (l->flags & LAYER_QUANTISES) {
            const struct ops_fp8 f = pass_fp8(&pass, l);
            ops_fp8_quantise_weights(&f, floats + m->parameters[l->parameter[WEIGHT]].offset);
        }
}

void model_begin_step(struct compiled_model *m, const int32_t *exponents, uint32_t *amaxes)
{
    struct model_fp8 *s = &m->fp8;
    if (s->count == 0)
        return;
    must(amaxes && (!s->amaxes || s->amaxes == amaxes));
    s->amaxes = amaxes;
    s->measures = !exponents;
    if (exponents)
        upload_scales(s, exponents);
    quantise_weights(m, m->floats);
}

void model_fp8_measure_replica(struct compiled_model *replica, const struct compiled_model *m)
{
    replica->fp8.amaxes = m->fp8.amaxes;
    replica->fp8.measures = true;
    quantise_weights(replica, m->floats);
}
