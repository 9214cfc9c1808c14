// The gradients of a step on one rank. Its micro-batches go through the model one by one; in
// lockstep, layer by layer, if a batch_norm takes its statistics over the whole step.
#include <stdlib.h>

#include "base/arena.h"
#include "trainer/loop/training.h"
#include "trainer/reduction/sampler.h"

// Micro-batch m of the step that is `ahead` steps from now.
static struct prefetch_request micro_batch_request(const struct training *t, int64_t ahead,
                                                   int64_t m)
{
    const struct train_position *at = &t->state.position;
    return (struct prefetch_request){
        .cursor = at->data_cursor + ahead * t->plan.global_batch + m * t->plan.micro_batch,
        .key = {.seed = at->seed, .step = at->step + ahead},
    };
}

// Requests the micro-batches that this rank needs after micro-batch m, also those of later steps.
static void request_next_micro_batches(struct training *t, int64_t m)
{
    struct sampler_share share = sampler_share(t->plan.micro_batches, t->job->world, t->job->rank);
    for (int64_t i = 1; i <= PREFETCH_DEPTH; i++) {
        int64_t next = m - share.first + i, ahead = next / share.count;
        struct prefetch_request request =
            micro_batch_request(t, ahead, share.first + next % share.count);
        if (request.key.step < t->plan.steps)
            prefetch_request(t->prefetch, &request);
    }
}

static int fetch_micro_batch(struct training *t, int64_t m, struct batch **batch, struct error *e)
{
    enum ops_phase before = ops_phase(OPS_DATA);
    struct prefetch_request request = micro_batch_request(t, 0, m);
    int err = prefetch_get(t->prefetch, &request, batch, e);
    request_next_micro_batches(t, m);
    ops_phase(before);
    return err;
}

// The weights of the previous step may still be in transit while the first samples are fetched.
static int wait_for_weights(struct training *t, struct error *e)
{
    int err = reducer_wait_weights(t->reducer, e);
    if (err)
        return err;
    model_set_parameters(t->model, t->weights);
    model_begin_step(t->model, reducer_quantised_exponents(t->reducer),
                     reducer_quantised_amaxes(t->reducer));
    return 0;
}

static int compute_one_by_one(struct training *t, struct sampler_share share,
                              const struct gradient_sink *sink, struct error *e)
{
    const struct draw_key key = micro_batch_request(t, 0, 0).key;
    int err = 0;
    for (int64_t i = 0; i < share.count && !err; i++) {
        reducer_begin_micro_batch(t->reducer, i == 0, i == share.count - 1);
        err = fetch_micro_batch(t, share.first + i, &t->batches[0], e);
        if (!err && i == 0)
            err = wait_for_weights(t, e);
        if (!err)
            err = model_train(t->model, t->batches[0], &key, sink,
                              t->losses + i * t->plan.micro_batch, e);
    }
    return err;
}

// In lockstep, each micro-batch has a sink of its own, which tells the reducer whose gradient
// comes.
struct lockstep_sink {
    struct reducer *reducer;
    const struct gradient_sink *sink;
    bool first, last;
};

static void lockstep_sink_ready(void *ctx, int parameter, const float *gradient)
{
    const struct lockstep_sink *context = ctx;
    reducer_begin_micro_batch(context->reducer, context->first, context->last);
    context->sink->ready(context->sink->ctx, parameter, gradient);
    if (context->sink->done)
        context->sink->done(context->sink->ctx);
}

static int compute_in_lockstep(struct training *t, struct sampler_share share,
                               const struct gradient_sink *sink, struct error *e)
{
    struct gradient_sink *sinks = xcalloc((size_t)share.count + 1, sizeof *sinks);
    struct lockstep_sink *contexts = xcalloc((size_t)share.count + 1, sizeof *contexts);
    int err = 0;
    for (int64_t i = 0; i < share.count && !err; i++) {
        contexts[i] = (struct lockstep_sink){t->reducer, sink, i == 0, i == share.count - 1};
        sinks[i] = (struct gradient_sink){.ready = lockstep_sink_ready, .ctx = &contexts[i]};
        err = fetch_micro_batch(t, share.first + i, &t->batches[i], e);
    }
    if (!err)
        err = wait_for_weights(t, e);
    if (!err) {
        const struct draw_key key = micro_batch_request(t, 0, 0).key;
        const struct optimizer_peers peers = reducer_peers(t->reducer);
        const struct model_lockstep step = {
            .batches = (const struct batch *const *)t->batches,
            .sinks = sinks,
            .losses = t->losses,
            .count = share.count,
            .first = share.first,
            .step_count = t->plan.micro_batches,
            .gather = peers.combine,
            .ctx = peers.ctx,
        };
        err = model_train_lockstep(t->model, &step, &key, e);
    }
    free(contexts);
    free(sinks);
    return err;
}

int training_compute_gradients(struct training *t, struct sampler_share share,
                               const struct gradient_sink *sink, struct loss_sum *loss,
                               struct error *e)
{
    int err = model_needs_lockstep(t->model) ? compute_in_lockstep(t, share, sink, e)
                                             : compute_one_by_one(t, share, sink, e);
    if (!err)
        err = ops_synchronize(e);
    if (!err)
        loss_add(loss, t->losses, share.count * t->plan.micro_batch);
    return err;
}
