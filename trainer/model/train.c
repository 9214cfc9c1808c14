// Training passes. Layers in sync take statistics over all micro-batches of a step, so a rank's
// micro-batches go through the model in lockstep: all of them up to such a layer, then what the
// statistics follow from is gathered from all ranks and added up in the order of micro-batches,
// then on. Each micro-batch has a model of its own then, a twin, for what a pass keeps.
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/log.h"
#include "trainer/model/compiler.h"

struct lockstep_pass {
    struct model *m;
    const struct model_lockstep *t;
    struct model_pass *passes; // [t->count]
};

// --- sums of all micro-batches

static const struct layer *layer_at(const struct lockstep_pass *s, int64_t k, int position)
{
    return &s->passes[k].model->layers[position];
}

static double *sums_at(const struct lockstep_pass *s, int64_t k, int position)
{
    return pass_sums(&s->passes[k], layer_at(s, k, position));
}

// The sums of each pass become those of the step.
static int share_sums(const struct lockstep_pass *s, int position, struct error *e)
{
    const struct model_lockstep *t = s->t;
    size_t n = s->m->layers[position].norm.sums;
    double *all = s->m->gathered;
    memset(all, 0, (size_t)t->all * n * sizeof *all);
    for (int64_t k = 0; k < t->count; k++)
        ops_download(all + (size_t)(t->first + k) * n, sums_at(s, k, position), n * sizeof *all);
    int rc = ops_synchronize(e);
    if (!rc && t->gather)
        rc = t->gather(t->ctx, all, (size_t)t->all * n, e);
    if (rc)
        return rc;
    for (size_t v = 1; v < (size_t)t->all; v++)
        for (size_t i = 0; i < n; i++)
            all[i] += all[v * n + i];
    for (int64_t k = 0; k < t->count; k++)
        ops_upload(sums_at(s, k, position), all, n * sizeof *all);
    return 0;
}

// --- in lockstep

// The next layer in sync from `at` on in this direction (1 or -1), or where the layers end.
static int next_in_sync(const struct model *m, int at, int direction)
{
    while (at >= 0 && at < m->layer_count && !m->layers[at].norm.sync)
        at += direction;
    return at;
}

static int forward_together(const struct lockstep_pass *s, struct error *e)
{
    int end = s->m->layer_count, rc = 0;
    for (int at = 0; at < end && !rc;) {
        int stop = next_in_sync(s->m, at, 1);
        for (int64_t k = 0; k < s->t->count; k++)
            pass_forward(&s->passes[k], at, stop);
        at = stop + 1;
        if (stop == end)
            break;
        const struct layer_kind *kind = s->m->layers[stop].kind;
        for (int64_t k = 0; k < s->t->count; k++)
            kind->forward_sums(layer_at(s, k, stop), &s->passes[k], sums_at(s, k, stop));
        rc = share_sums(s, stop, e);
        for (int64_t k = 0; k < s->t->count && !rc; k++)
            kind->forward(layer_at(s, k, stop), &s->passes[k]);
    }
    return rc;
}

static int backward_together(const struct lockstep_pass *s, struct error *e)
{
    const struct gradient_sink *sinks = s->t->sinks;
    int rc = 0;
    for (int end = s->m->layer_count; end > 0 && !rc;) {
        int stop = next_in_sync(s->m, end - 1, -1);
        for (int64_t k = 0; k < s->t->count; k++)
            pass_backward(&s->passes[k], stop + 1, end, &sinks[k]);
        end = stop;
        if (stop < 0)
            break;
        for (int64_t k = 0; k < s->t->count; k++)
            s->m->layers[stop].kind->backward_sums(layer_at(s, k, stop), &s->passes[k],
                                                   sums_at(s, k, stop));
        rc = share_sums(s, stop, e);
        for (int64_t k = 0; k < s->t->count && !rc; k++)
            pass_backward_layer(&s->passes[k], layer_at(s, k, stop), &sinks[k]);
    }
    return rc;
}

// --- the whole

bool model_needs_lockstep(const struct model *m)
{
    return next_in_sync(m, 0, 1) < m->layer_count;
}

size_t model_lockstep_doubles(const struct model *m, int64_t all)
{
    size_t most = 0;
    for (const struct layer *l = m->layers; l < m->layers + m->layer_count; l++)
        if (l->norm.sync && l->norm.sums > most)
            most = l->norm.sums;
    return most * (size_t)all;
}

static int prepare(struct model *m, const struct model_lockstep *t, struct error *e)
{
    int twins = t->count > 1 && model_needs_lockstep(m) ? (int)t->count - 1 : 0;
    m->gathered = xrealloc(m->gathered, (model_lockstep_doubles(m, t->all) + 1) * sizeof(double));
    if (twins > m->replica_count)
        m->replicas = xrealloc(m->replicas, (size_t)twins * sizeof *m->replicas);
    for (; m->replica_count < twins; m->replica_count++) {
        int rc = model_compile_layers(m->list, &m->loss, &m->sample, m->micro_batch,
                                      &m->replicas[m->replica_count], e);
        if (rc)
            return rc;
    }
    return 0;
}

static int train_together(struct model *m, const struct model_lockstep *t,
                          const struct draw_key *key, struct error *e)
{
    struct lockstep_pass s = {m, t, xcalloc((size_t)t->count + 1, sizeof *s.passes)};
    int rc = prepare(m, t, e);
    for (int64_t k = 0; k < t->count && !rc; k++)
        s.passes[k] = (struct model_pass){.model = k == 0 ? m : m->replicas[k - 1],
                                          .floats = m->floats,
                                          .reals = m->reals,
                                          .batch = t->batches[k],
                                          .training = true,
                                          .key = *key,
                                          .together = t->all};
    enum ops_phase before = ops_phase(OPS_FORWARD);
    for (int64_t k = 0; k < t->count && !rc; k++)
        pass_stage(&s.passes[k]);
    if (!rc)
        rc = forward_together(&s, e);
    for (int64_t k = 0; k < t->count && !rc; k++) {
        pass_loss(&s.passes[k], m->micro_batch);
        pass_results(&s.passes[k], m->micro_batch, t->losses + k * m->micro_batch, NULL);
    }
    ops_phase(OPS_BACKWARD);
    if (!rc)
        rc = backward_together(&s, e);
    ops_phase(before);
    free(s.passes);
    return rc;
}

// --- one micro-batch, of which no layer asks others: all of its work may be repeated

struct recorded_pass {
    const struct model_pass *pass;
    const struct gradient_sink *sink;
};

static void begin_backward(void *ctx)
{
    (void)ctx;
    ops_phase(OPS_BACKWARD);
}

static void compute(void *ctx)
{
    const struct recorded_pass *a = ctx;
    const struct model *m = a->pass->model;
    pass_forward(a->pass, 0, m->layer_count);
    pass_loss(a->pass, m->micro_batch);
    ops_call_host(begin_backward, NULL);
    pass_backward(a->pass, 0, m->layer_count, a->sink);
}

// Where passes of the sink's kind are recorded. Those into another sink, or of parameters that lie
// elsewhere, are forgotten.
static struct ops_recording **recording_of(struct model *m, const struct gradient_sink *sink)
{
    struct model_recordings *r = &m->recordings;
    must(*sink->kind >= 0 && *sink->kind < GRADIENT_KINDS);
    if (r->sink.ready == sink->ready && r->sink.ctx == sink->ctx && r->floats == m->floats)
        return &r->of[*sink->kind];
    for (int i = 0; i < GRADIENT_KINDS; i++)
        ops_recording_free(r->of[i]);
    *r = (struct model_recordings){.sink = *sink, .floats = m->floats};
    return &r->of[*sink->kind];
}

static void train_alone(struct model *m, const struct batch *batch, const struct draw_key *key,
                        const struct gradient_sink *sink, float *losses)
{
    const struct model_pass pass = {.model = m,
                                    .floats = m->floats,
                                    .reals = m->reals,
                                    .batch = batch,
                                    .training = true,
                                    .key = *key,
                                    .together = 1};
    struct recorded_pass alone = {&pass, sink};
    enum ops_phase before = ops_phase(OPS_FORWARD);
    pass_stage(&pass);
    if (sink->kind)
        ops_replay(recording_of(m, sink), compute, &alone);
    else
        compute(&alone);
    pass_results(&pass, m->micro_batch, losses, NULL);
    ops_phase(before);
}

int model_train_lockstep(struct model *m, const struct model_lockstep *t,
                         const struct draw_key *key, struct error *e)
{
    int rc = 0;
    must(t->gather || t->count == t->all);
    ops_init_thread();
    for (int64_t k = 0; k < t->count && !rc; k++) {
        must(t->batches[k]->count == m->micro_batch);
        rc = pass_check_batch(m, t->batches[k], e);
    }
    if (rc || model_needs_lockstep(m))
        return rc ? rc : train_together(m, t, key, e);
    for (int64_t k = 0; k < t->count && !rc; k++)
        rc = model_train(m, t->batches[k], key, &t->sinks[k], t->losses + k * m->micro_batch, e);
    return rc;
}

int model_train(struct model *m, const struct batch *batch, const struct draw_key *key,
                const struct gradient_sink *sink, float *losses, struct error *e)
{
    const struct model_lockstep alone = {
        .batches = &batch, .sinks = sink, .losses = losses, .count = 1, .all = 1};
    must(batch->count == m->micro_batch);
    int rc = pass_check_batch(m, batch, e);
    ops_init_thread();
    if (rc || model_needs_lockstep(m))
        return rc ? rc : train_together(m, &alone, key, e);
    train_alone(m, batch, key, sink, losses);
    return 0;
}
