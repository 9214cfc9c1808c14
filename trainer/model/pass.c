// Forward and backward passes over the layers of a model.
#include "trainer/model/pass.h"
#include "base/log.h"
#include "trainer/ops/trace.h"

// --- access to tensors, for layers ---------------------------------------------------------------

void *pass_value(const struct model_pass *p, int tensor)
{
    return tensor == NONE ? NULL : p->model->arena + p->model->plan.tensors[tensor].offset;
}

int64_t pass_count(const struct model_pass *p, const struct layer *l)
{
    return p->model->micro_batch * tensor_shape_size(&l->in);
}

double *pass_sums(const struct model_pass *p, const struct layer *l)
{
    return pass_value(p, l->saved);
}

const real *pass_parameter(const struct model_pass *p, const struct layer *l, int slot)
{
    int index = l->parameter[slot];
    return index == NONE ? NULL : ops_reals_at(p->reals, p->model->parameters[index].offset);
}

const float *pass_statistic(const struct model_pass *p, const struct layer *l, int slot)
{
    return p->floats + p->model->parameters[l->parameter[slot]].offset;
}

float *pass_gradient(const struct model_pass *p, const struct layer *l, int slot)
{
    int index = l->parameter[slot];
    return index == NONE ? NULL : pass_value(p, p->model->gradients[index]);
}

struct ops_dropout pass_draw(const struct model_pass *p, const struct layer *l)
{
    const uint64_t *keys = pass_value(p, p->model->staged.keys);
    return (struct ops_dropout){keys + l->position, p->training ? l->rate : 0,
                                pass_value(p, p->model->staged.samples)};
}

// --- layers --------------------------------------------------------------------------------------

static void stage_tensor(const struct model_pass *p, int tensor, const void *values,
                         int64_t bytes_per_sample)
{
    if (tensor != NONE)
        ops_upload(pass_value(p, tensor), values,
                   (size_t)(p->model->micro_batch * bytes_per_sample));
}

// The dropout of a layer is keyed by its position, step and seed.
static void stage_dropout_keys(const struct model_pass *p)
{
    const struct compiled_model *m = p->model;
    for (int i = 0; i < m->layer_count; i++)
        m->keys[i] = ops_dropout_key(p->key.seed, p->key.step, (uint64_t)m->layers[i].position);
    ops_upload(pass_value(p, m->staged.keys), m->keys, (size_t)m->layer_count * sizeof *m->keys);
}

void pass_stage(const struct model_pass *p)
{
    const struct compiled_model *m = p->model;
    const struct batch *b = p->batch;
    const int64_t number = (int64_t)sizeof(float); // labels, tokens and values have the same size
    if (b->pixels.bytes)
        ops_upload_pixels(m->micro_batch, &b->pixels, pass_value(p, INPUT));
    else if (m->sample.kind != SAMPLE_TOKENS)
        ops_upload_reals(m->micro_batch * m->input_size, b->images, pass_value(p, INPUT));
    stage_tensor(p, m->staged.labels, b->labels, number);
    stage_tensor(p, m->staged.values, b->values, m->outputs * number);
    stage_tensor(p, m->staged.tokens, b->tokens, m->positions * number);
    stage_tensor(p, m->staged.targets, b->targets, m->positions * number);
    stage_tensor(p, m->staged.samples, b->samples, (int64_t)sizeof *b->samples);
    if (p->training)
        stage_dropout_keys(p);
}

static void run_forward(const struct model_pass *p, const struct layer *l)
{
    ops_trace_layer(l->name);
    if (l->kind->forward_sums && p->training)
        l->kind->forward_sums(l, p, pass_sums(p, l));
    if (l->kind->forward)
        l->kind->forward(l, p);
}

void pass_forward(const struct model_pass *p, int from, int to)
{
    for (const struct layer *l = p->model->layers + from; l < p->model->layers + to; l++)
        run_forward(p, l);
    ops_trace_layer(NULL);
}

// Computes the values again that the backward pass of the block will read.
static void run_block_again(const struct model_pass *p, const struct layer *last)
{
    for (const struct layer *l = p->model->backward + last->again_from; l <= last; l++)
        if (l->again)
            run_forward(p, l);
}

static void add_gradients(const struct model_pass *p, const struct gradient_sum *s, int64_t count)
{
    if (s->into != NONE)
        ops_add(count, pass_value(p, s->a), pass_value(p, s->b), pass_value(p, s->into));
}

void pass_backward_layer(const struct model_pass *p, const struct layer *l,
                         const struct gradient_sink *sink)
{
    if (l->kind->backward)
        l->kind->backward(l, p);
    add_gradients(p, &l->sums[0], pass_count(p, l));
    add_gradients(p, &l->sums[1], pass_count(p, l));
    for (int slot = PARAMETERS_PER_LAYER - 1; slot >= 0; slot--)
        if (l->last_gradient[slot])
            sink->ready(sink->ctx, l->parameter[slot], pass_gradient(p, l, slot));
    if (sink->done)
        sink->done(sink->ctx);
}

void pass_backward(const struct model_pass *p, int from, int to, const struct gradient_sink *sink)
{
    for (int i = to - 1; i >= from; i--) {
        const struct layer *l = &p->model->backward[i];
        if (l->dy == NONE)
            continue;
        if (l->again_from != NONE)
            run_block_again(p, l);
        ops_trace_layer(l->name);
        if (l->kind->backward_sums)
            l->kind->backward_sums(l, p, pass_sums(p, l));
        pass_backward_layer(p, l, sink);
    }
    ops_trace_layer(NULL);
}

// --- targets and losses --------------------------------------------------------------------------

static int check_range(const struct batch *b, const int32_t *values, int64_t per_sample,
                       int64_t limit, const char *what, struct error *e)
{
    for (int64_t i = 0; i < b->count * per_sample; i++)
        if (values[i] < 0 || values[i] >= limit)
            return error_set(e, ERR_CORRUPT,
                             "sample %lld of the data set: %s %d at position %lld is outside "
                             "0..%lld",
                             (long long)b->samples[i / per_sample], what, values[i],
                             (long long)(i % per_sample), (long long)limit - 1);
    return 0;
}

int pass_check_batch(const struct compiled_model *m, const struct batch *b, struct error *e)
{
    if (m->loss.mse)
        return 0;
    if (m->sample.kind != SAMPLE_TOKENS)
        return check_range(b, b->labels, 1, m->outputs, "label", e);
    int rc = check_range(b, b->tokens, m->positions, m->sample.vocabulary, "token", e);
    return rc ? rc : check_range(b, b->targets, m->positions, m->outputs, "target", e);
}

void pass_loss(const struct model_pass *p, int64_t count)
{
    const struct compiled_model *m = p->model;
    const bool tokens = m->sample.kind == SAMPLE_TOKENS;
    const real *logits = pass_value(p, m->logits);
    real *dlogits = p->training ? pass_value(p, m->dlogits) : NULL;
    float *rows = pass_value(p, m->row_losses), *means = pass_value(p, m->losses);
    int32_t *hits = p->training ? NULL : pass_value(p, m->hits);
    if (m->loss.mse) {
        ops_mse(count, m->outputs, logits, pass_value(p, m->staged.values), means, 1, dlogits);
        if (!p->training) // values have no correct predictions
            ops_zero(pass_value(p, m->correct), (size_t)count * sizeof(int32_t));
        return;
    }
    ops_cross_entropy(count * m->positions, m->outputs, logits,
                      pass_value(p, tokens ? m->staged.targets : m->staged.labels), rows, hits,
                      p->training ? m->loss.label_smoothing : 0, 1.0f / (float)m->positions,
                      dlogits);
    ops_row_means(count, m->positions, rows, means);
    if (!p->training)
        ops_row_sums(count, m->positions, hits, pass_value(p, m->correct));
}

void pass_results(const struct model_pass *p, int64_t count, float *losses, int32_t *correct)
{
    const struct compiled_model *m = p->model;
    ops_download(losses, pass_value(p, m->losses), (size_t)count * sizeof *losses);
    if (correct)
        ops_download(correct, pass_value(p, m->correct), (size_t)count * sizeof *correct);
}
