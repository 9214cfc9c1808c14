// A rank's micro-batches of a step: one after the other, or all together, layer by layer, where
// batch_norm takes its statistics over the whole step.
#include <stdlib.h>

#include "base/arena.h"
#include "trainer/loop/training.h"
#include "trainer/reduction/sampler.h"

// Micro-batch m of the step that is `ahead` steps from now.
static struct prefetch_request samples_of(const struct training *t, int64_t ahead, int64_t m)
{
    const struct train_position *at = &t->state.position;
    return (struct prefetch_request){
        .cursor = at->data_cursor + ahead * t->plan.global_batch + m * t->plan.micro_batch,
        .key = {.seed = at->seed, .step = at->step + ahead},
    };
}

// What this rank trains on after micro-batch m, be it of the next step.
static void ask_ahead(struct training *t, int64_t m)
{
    struct sampler_share share = sampler_share(t->plan.micro_batches, t->job->world, t->job->rank);
    for (int64_t i = 1; i <= PREFETCH_DEPTH; i++) {
        int64_t next = m - share.first + i, ahead = next / share.count;
        struct prefetch_request ask = samples_of(t, ahead, share.first + next % share.count);
        if (ask.key.step < t->plan.steps)
            prefetch_request(t->prefetch, &ask);
    }
}

static int take(struct training *t, int64_t m, struct batch **batch, struct error *e)
{
    enum ops_phase before = ops_phase(OPS_DATA);
    struct prefetch_request ask = samples_of(t, 0, m);
    int err = prefetch_get(t->prefetch, &ask, batch, e);
    ask_ahead(t, m);
    ops_phase(before);
    return err;
}

// The weights of the step before may still be under way while the first samples are fetched.
static int await_weights(struct training *t, struct error *e)
{
    int err = reducer_wait_weights(t->sync, e);
    if (!err)
        model_set_parameters(t->model, t->weights);
    return err;
}

// One after the other.
static int pass_in_turn(struct training *t, struct sampler_share share,
                        const struct gradient_sink *sink, struct error *e)
{
    const struct draw_key key = samples_of(t, 0, 0).key;
    int err = 0;
    for (int64_t i = 0; i < share.count && !err; i++) {
        reducer_begin_micro_batch(t->sync, i == 0, i == share.count - 1);
        err = take(t, share.first + i, &t->batches[0], e);
        if (!err && i == 0)
            err = await_weights(t, e);
        if (!err)
            err = model_train(t->model, t->batches[0], &key, sink,
                              t->losses + i * t->plan.micro_batch, e);
    }
    return err;
}

// Layer by layer: each micro-batch has a sink of its own, which says whose turn it is.
struct lockstep_sink {
    struct reducer *sync;
    const struct gradient_sink *sink;
    bool first, last;
};

static void deliver_turn(void *ctx, int parameter, const float *gradient)
{
    const struct lockstep_sink *turn = ctx;
    reducer_begin_micro_batch(turn->sync, turn->first, turn->last);
    turn->sink->ready(turn->sink->ctx, parameter, gradient);
    if (turn->sink->done)
        turn->sink->done(turn->sink->ctx);
}

static int train_together(struct training *t, struct sampler_share share,
                          const struct gradient_sink *sinks, struct error *e)
{
    const struct optimizer_peers peers = reducer_peers(t->sync);
    const struct draw_key key = samples_of(t, 0, 0).key;
    const struct model_lockstep together = {
        .batches = (const struct batch *const *)t->batches,
        .sinks = sinks,
        .losses = t->losses,
        .count = share.count,
        .first = share.first,
        .all = t->plan.micro_batches,
        .gather = peers.combine,
        .ctx = peers.ctx,
    };
    return model_train_lockstep(t->model, &together, &key, e);
}

static int pass_together(struct training *t, struct sampler_share share,
                         const struct gradient_sink *sink, struct error *e)
{
    struct gradient_sink *sinks = xcalloc((size_t)share.count + 1, sizeof *sinks);
    struct lockstep_sink *turns = xcalloc((size_t)share.count + 1, sizeof *turns);
    int err = 0;
    for (int64_t i = 0; i < share.count && !err; i++) {
        turns[i] = (struct lockstep_sink){t->sync, sink, i == 0, i == share.count - 1};
        sinks[i] = (struct gradient_sink){.ready = deliver_turn, .ctx = &turns[i]};
        err = take(t, share.first + i, &t->batches[i], e);
    }
    if (!err)
        err = await_weights(t, e);
    if (!err)
        err = train_together(t, share, sinks, e);
    free(turns);
    free(sinks);
    return err;
}

int training_compute_gradients(struct training *t, struct sampler_share share,
                               const struct gradient_sink *sink, struct loss_sum *loss,
                               struct error *e)
{
    int err = model_needs_lockstep(t->model) ? pass_together(t, share, sink, e)
                                             : pass_in_turn(t, share, sink, e);
    if (!err)
        err = ops_synchronize(e);
    if (!err)
        loss_add(loss, t->losses, share.count * t->plan.micro_batch);
    return err;
}
