// Creating and freeing a model, and everything that is not training: parameters, evaluation,
// logits.
#include "trainer/model/model.h"

#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "trainer/model/compiler.h"

int model_plan(const struct model_config *config, struct compiled_model **out, struct error *e)
{
    const struct sample_shape *shape = config->shape;
    json_t *layers = NULL;
    struct loss_config known;
    *out = NULL;
    int rc = loss_read(config->loss, shape, &known, e);
    if (!rc)
        rc = family_expand(config->spec, known.mse ? shape->outputs : shape->classes, &layers, e);
    if (!rc)
        rc = model_compile_layers(layers, &known, config, out, e);
    json_decref(layers);
    return rc;
}

int model_compile(const json_t *spec, const json_t *loss, const struct sample_shape *shape,
                  int64_t micro_batch, struct compiled_model **out, struct error *e)
{
    const struct model_config config = {spec, loss, shape, micro_batch, .recompute = false};
    int rc = model_plan(&config, out, e);
    if (!rc && (rc = model_allocate(*out, e))) {
        model_free(*out);
        *out = NULL;
    }
    return rc;
}

int64_t model_micro_batch(const struct compiled_model *m)
{
    return m->micro_batch;
}

int model_recomputed_blocks(const struct compiled_model *m)
{
    return m->recomputed_blocks;
}

void model_free(struct compiled_model *m)
{
    if (!m)
        return;
    for (int i = 0; i < m->replica_count; i++)
        model_free(m->replicas[i]);
    json_decref(m->list);
    free(m->replicas);
    free(m->step_sums);
    for (int i = 0; i < GRADIENT_KINDS; i++)
        ops_recording_free(m->recordings.of[i]);
    for (int i = 0; i < m->layer_count; i++) {
        ops_linear_free(&m->layers[i].linear);
        ops_fp8_free(m->layers[i].fp8.plan);
        ops_conv_free(m->layers[i].conv);
        ops_pool_free(m->layers[i].pool);
    }
    model_fp8_free(&m->fp8);
    batch_free(m->padded);
    memory_plan_free(&m->plan);
    free(m->keys);
    free(m->layers);
    free(m->backward);
    free(m->parameters);
    free(m->initializers);
    free(m->gradients);
    ops_free(m->real_block);
    ops_free(m->arena);
    free(m);
}

const struct parameter *model_parameters(const struct compiled_model *m, int *count)
{
    *count = m->parameter_count;
    return m->parameters;
}

size_t model_block_size(const struct compiled_model *m)
{
    return m->block_size;
}

void model_set_parameters(struct compiled_model *m, const float *parameters)
{
    must((uintptr_t)parameters % 64 == 0);
    m->floats = parameters;
    m->reals = (const real *)(const void *)parameters;
    if (m->real_block) {
        ops_to_reals((int64_t)m->block_size, parameters, m->real_block);
        m->reals = m->real_block;
    }
    for (const struct layer *l = m->layers; l < m->layers + m->layer_count; l++)
        if (l->conv)
            ops_conv_reorder_weights(
                l->conv, ops_reals_at(m->reals, m->parameters[l->parameter[WEIGHT]].offset));
}

// --- evaluation ----------------------------------------------------------------------------------

// Copies sample `from` of one array of a batch to sample `to` of another.
static void copy_sample(void *into, int64_t to, const void *values, int64_t from, int64_t count,
                        size_t size)
{
    size_t bytes = (size_t)count * size;
    if (into && bytes > 0)
        memcpy((char *)into + (size_t)to * bytes, (const char *)values + (size_t)from * bytes,
               bytes);
}

// Pads `batch` with copies of its first sample: an evaluation has the shape of training, so the
// result of a sample does not depend on how many follow it.
static const struct batch *pad_batch(struct compiled_model *m, const struct batch *batch)
{
    if (batch->count == m->micro_batch)
        return batch;
    const struct sample_shape *s = &m->sample;
    int64_t pixels = s->height * s->width * s->channels;
    struct batch *full = m->padded;
    full->count = m->micro_batch;
    copy_sample(full->pixels.mean, 0, batch->pixels.mean, 0, s->channels, sizeof(float));
    copy_sample(full->pixels.factor, 0, batch->pixels.factor, 0, s->channels, sizeof(float));
    for (int64_t i = 0; i < m->micro_batch; i++) {
        int64_t from = i < batch->count ? i : 0;
        copy_sample(full->images, i, batch->images, from, pixels, sizeof *full->images);
        copy_sample(full->pixels.bytes, i, batch->pixels.bytes, from, pixels, 1);
        copy_sample(full->pixels.changes, i, batch->pixels.changes, from, 1,
                    sizeof *full->pixels.changes);
        copy_sample(full->labels, i, batch->labels, from, 1, sizeof *full->labels);
        copy_sample(full->values, i, batch->values, from, s->outputs, sizeof *full->values);
        copy_sample(full->tokens, i, batch->tokens, from, s->context, sizeof *full->tokens);
        copy_sample(full->targets, i, batch->targets, from, s->context, sizeof *full->targets);
        copy_sample(full->samples, i, batch->samples, from, 1, sizeof *full->samples);
    }
    return full;
}

int model_evaluate(struct compiled_model *m, const struct batch *batch, float *losses,
                   int32_t *correct, struct error *e)
{
    must(batch->count > 0 && batch->count <= m->micro_batch);
    int rc = pass_check_batch(m, batch, e);
    if (rc)
        return rc;
    ops_init_thread();
    struct model_pass p = {m, m->floats, m->reals, pad_batch(m, batch), .training = false};
    pass_stage(&p);
    pass_forward(&p, 0, m->layer_count);
    pass_loss(&p, batch->count);
    pass_results(&p, batch->count, losses, correct);
    return ops_synchronize(e);
}

int model_next_logits(struct compiled_model *m, const int32_t *tokens, int64_t length,
                      float *logits, struct error *e)
{
    if (m->sample.kind != SAMPLE_TOKENS)
        return error_set(e, ERR_INVALID,
                         "text can only be sampled from a model that learns from tokens");
    must(length >= 1 && length <= m->positions);
    struct batch *b = m->padded;
    size_t all = (size_t)(m->micro_batch * m->positions) * sizeof *b->tokens;
    memset(b->tokens, 0, all);
    memset(b->targets, 0, all);
    memset(b->samples, 0, (size_t)m->micro_batch * sizeof *b->samples);
    memcpy(b->tokens, tokens, (size_t)length * sizeof *tokens);
    b->count = m->micro_batch;
    int rc = pass_check_batch(m, b, e);
    if (rc)
        return rc;
    ops_init_thread();
    struct model_pass p = {m, m->floats, m->reals, b, .training = false};
    pass_stage(&p);
    pass_forward(&p, 0, m->layer_count);
    // Positions do not see later ones, so the padding does not matter.
    size_t last = (size_t)((length - 1) * m->outputs);
    ops_download_reals(m->outputs, ops_reals_at(pass_value(&p, m->logits), last), logits);
    return ops_synchronize(e);
}
