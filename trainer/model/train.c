// Training passes. Sync layers take statistics over all micro-batches of a step. So the
// micro-batches of a rank go through the model in lockstep: all of them up to such a layer; then
// the sums of all ranks are gathered and added in the order of micro-batches; then all of them
// continue. Each micro-batch uses its own replica of the model, because a pass stores values in it.
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/log.h"
#include "trainer/model/compiler.h"

struct lockstep_pass {
    struct compiled_model *m;
    const struct model_lockstep *t;
    struct model_pass *passes; // [t->count]
};

static const struct model_fp8 *fp8_of_step(const struct compiled_model *m)
{
    must(m->fp8.count == 0 || m->fp8.amaxes); // model_begin_step() was called
    return m->fp8.count > 0 ? &m->fp8 : NULL;
}

// In lockstep a pass runs backward after the forward parts of the others. So where the passes find
// their scales themselves, each replica keeps its own; a step with known scales has one set.
static const struct model_fp8 *fp8_of_replica(const struct compiled_model *m,
                                              struct compiled_model *replica)
{
    if (!m->fp8.measures)
        return fp8_of_step(m);
    model_fp8_measure_replica(replica, m);
    return &replica->fp8;
}

// --- sums of all micro-batches -------------------------------------------------------------------

static const struct layer *layer_of_micro_batch(const struct lockstep_pass *s, int64_t k,
                                                int position)
{
    return &s->passes[k].model->layers[position];
}

static double *sums_of_micro_batch(const struct lockstep_pass *s, int64_t k, int position)
{
    return pass_sums(&s->passes[k], layer_of_micro_batch(s, k, position));
}

// Replaces the sums of each micro-batch by the sums of the step.
static int all_reduce_sums(const struct lockstep_pass *s, int position, struct error *e)
{
    const struct model_lockstep *t = s->t;
    size_t n = s->m->layers[position].norm.sums;
    double *all = s->m->step_sums;
    memset(all, 0, (size_t)t->step_count * n * sizeof *all);
    for (int64_t k = 0; k < t->count; k++)
        ops_download(all + (size_t)(t->first + k) * n, sums_of_micro_batch(s, k, position),
                     n * sizeof *all);
    int rc = ops_synchronize(e);
    if (!rc && t->gather)
        rc = t->gather(t->ctx, all, (size_t)t->step_count * n, e);
    if (rc)
        return rc;
    for (size_t v = 1; v < (size_t)t->step_count; v++)
        for (size_t i = 0; i < n; i++)
            all[i] += all[v * n + i];
    for (int64_t k = 0; k < t->count; k++)
        ops_upload(sums_of_micro_batch(s, k, position), all, n * sizeof *all);
    return 0;
}

// --- lockstep ------------------------------------------------------------------------------------

// The next sync layer from `at` in this direction (1 or -1), or the end of the layers.
static int next_sync_layer(const struct compiled_model *m, int at, int direction)
{
    while (at >= 0 && at < m->layer_count && !m->layers[at].norm.sync)
        at += direction;
    return at;
}

static int forward_lockstep(const struct lockstep_pass *s, struct error *e)
{
    int end = s->m->layer_count, rc = 0;
    for (int at = 0; at < end && !rc;) {
        int stop = next_sync_layer(s->m, at, 1);
        for (int64_t k = 0; k < s->t->count; k++)
            pass_forward(&s->passes[k], at, stop);
        at = stop + 1;
        if (stop == end)
            break;
        const struct layer_kind *kind = s->m->layers[stop].kind;
        for (int64_t k = 0; k < s->t->count; k++)
            kind->forward_sums(layer_of_micro_batch(s, k, stop), &s->passes[k],
                               sums_of_micro_batch(s, k, stop));
        rc = all_reduce_sums(s, stop, e);
        for (int64_t k = 0; k < s->t->count && !rc; k++)
            kind->forward(layer_of_micro_batch(s, k, stop), &s->passes[k]);
    }
    return rc;
}

static int backward_lockstep(const struct lockstep_pass *s, struct error *e)
{
    const struct gradient_sink *sinks = s->t->sinks;
    int rc = 0;
    for (int end = s->m->layer_count; end > 0 && !rc;) {
        int stop = next_sync_layer(s->m, end - 1, -1);
        for (int64_t k = 0; k < s->t->count; k++)
            pass_backward(&s->passes[k], stop + 1, end, &sinks[k]);
        end = stop;
        if (stop < 0)
            break;
        for (int64_t k = 0; k < s->t->count; k++)
            s->m->layers[stop].kind->backward_sums(layer_of_micro_batch(s, k, stop), &s->passes[k],
                                                   sums_of_micro_batch(s, k, stop));
        rc = all_reduce_sums(s, stop, e);
        for (int64_t k = 0; k < s->t->count && !rc; k++)
            pass_backward_layer(&s->passes[k], layer_of_micro_batch(s, k, stop), &sinks[k]);
    }
    return rc;
}

// --- preparing replicas, running in lockstep -----------------------------------------------------

bool model_needs_lockstep(const struct compiled_model *m)
{
    return next_sync_layer(m, 0, 1) < m->layer_count;
}

size_t model_lockstep_doubles(const struct compiled_model *m, int64_t step_count)
{
    size_t max_sums = 0;
    for (const struct layer *l = m->layers; l < m->layers + m->layer_count; l++)
        if (l->norm.sync && l->norm.sums > max_sums)
            max_sums = l->norm.sums;
    return max_sums * (size_t)step_count;
}

static int prepare_replicas(struct compiled_model *m, const struct model_lockstep *t,
                            struct error *e)
{
    int twins = t->count > 1 && model_needs_lockstep(m) ? (int)t->count - 1 : 0;
    m->step_sums =
        xrealloc(m->step_sums, (model_lockstep_doubles(m, t->step_count) + 1) * sizeof(double));
    if (twins > m->replica_count)
        m->replicas = xrealloc(m->replicas, (size_t)twins * sizeof *m->replicas);
    for (; m->replica_count < twins; m->replica_count++) {
        const struct model_config same = {
            .shape = &m->sample, .micro_batch = m->micro_batch, .recompute = m->recompute};
        struct compiled_model **twin = &m->replicas[m->replica_count];
        int rc = model_compile_layers(m->list, &m->loss, &same, twin, e);
        if (!rc && (rc = model_allocate(*twin, e)))
            model_free(*twin);
        if (rc)
            return rc;
    }
    return 0;
}

static int train_lockstep(struct compiled_model *m, const struct model_lockstep *t,
                          const struct draw_key *key, struct error *e)
{
    struct lockstep_pass s = {m, t, xcalloc((size_t)t->count + 1, sizeof *s.passes)};
    int rc = prepare_replicas(m, t, e);
    for (int64_t k = 0; k < t->count && !rc; k++) {
        struct compiled_model *own = k == 0 ? m : m->replicas[k - 1];
        s.passes[k] = (struct model_pass){.model = own,
                                          .floats = m->floats,
                                          .reals = m->reals,
                                          .batch = t->batches[k],
                                          .training = true,
                                          .key = *key,
                                          .step_micro_batches = t->step_count,
                                          .fp8 = k == 0 ? fp8_of_step(m) : fp8_of_replica(m, own)};
    }
    enum ops_phase before = ops_phase(OPS_FORWARD);
    for (int64_t k = 0; k < t->count && !rc; k++)
        pass_stage(&s.passes[k]);
    if (!rc)
        rc = forward_lockstep(&s, e);
    for (int64_t k = 0; k < t->count && !rc; k++) {
        pass_loss(&s.passes[k], m->micro_batch);
        pass_results(&s.passes[k], m->micro_batch, t->losses + k * m->micro_batch, NULL);
    }
    ops_phase(OPS_BACKWARD);
    if (!rc)
        rc = backward_lockstep(&s, e);
    ops_phase(before);
    free(s.passes);
    return rc;
}

// --- a micro-batch of its own, whose work can be recorded and replayed ---------------------------

struct recorded_pass {
    const struct model_pass *pass;
    const struct gradient_sink *sink;
};

static void start_backward_phase(void *ctx)
{
    (void)ctx;
    ops_phase(OPS_BACKWARD);
}

static void run_recorded_pass(void *ctx)
{
    const struct recorded_pass *a = ctx;
    const struct compiled_model *m = a->pass->model;
    pass_forward(a->pass, 0, m->layer_count);
    pass_loss(a->pass, m->micro_batch);
    ops_call_host(start_backward_phase, NULL);
    pass_backward(a->pass, 0, m->layer_count, a->sink);
}

// The recording for passes of the sink's kind. If the sink or the parameters have changed, old
// recordings are freed.
static struct ops_recording **find_recording(struct compiled_model *m,
                                             const struct gradient_sink *sink)
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

static void train_one_micro_batch(struct compiled_model *m, const struct batch *batch,
                                  const struct draw_key *key, const struct gradient_sink *sink,
                                  float *losses)
{
    const struct model_pass pass = {.model = m,
                                    .floats = m->floats,
                                    .reals = m->reals,
                                    .batch = batch,
                                    .training = true,
                                    .key = *key,
                                    .step_micro_batches = 1,
                                    .fp8 = fp8_of_step(m)};
    struct recorded_pass recorded = {&pass, sink};
    enum ops_phase before = ops_phase(OPS_FORWARD);
    pass_stage(&pass);
    if (sink->kind && !m->fp8.measures)
        ops_replay(find_recording(m, sink), run_recorded_pass, &recorded);
    else
        run_recorded_pass(&recorded);
    pass_results(&pass, m->micro_batch, losses, NULL);
    ops_phase(before);
}

int model_train_lockstep(struct compiled_model *m, const struct model_lockstep *t,
                         const struct draw_key *key, struct error *e)
{
    int rc = 0;
    must(t->gather || t->count == t->step_count);
    ops_init_thread();
    for (int64_t k = 0; k < t->count && !rc; k++) {
        must(t->batches[k]->count == m->micro_batch);
        rc = pass_check_batch(m, t->batches[k], e);
    }
    if (rc || model_needs_lockstep(m))
        return rc ? rc : train_lockstep(m, t, key, e);
    for (int64_t k = 0; k < t->count && !rc; k++)
        rc = model_train(m, t->batches[k], key, &t->sinks[k], t->losses + k * m->micro_batch, e);
    return rc;
}

int model_train(struct compiled_model *m, const struct batch *batch, const struct draw_key *key,
                const struct gradient_sink *sink, float *losses, struct error *e)
{
    const struct model_lockstep single = {
        .batches = &batch, .sinks = sink, .losses = losses, .count = 1, .step_count = 1};
    must(batch->count == m->micro_batch);
    int rc = pass_check_batch(m, batch, e);
    ops_init_thread();
    if (rc || model_needs_lockstep(m))
        return rc ? rc : train_lockstep(m, &single, key, e);
    train_one_micro_batch(m, batch, key, sink, losses);
    return 0;
}
