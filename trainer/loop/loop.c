// The training loop: steps, and the work that is due between two steps.
#include <stdlib.h>

#include "base/log.h"
#include "trainer/loop/training.h"
#include "trainer/reduction/sampler.h"

// Before the first step, a dry run measures how large the gradients are (for exact sums), and the
// tensors that are quantised.
static int calibrate_exponents(struct training *t, struct sampler_share share, struct error *e)
{
    struct loss_sum ignored = {0};
    struct gradient_sink sink = reducer_calibration_begin(t->reducer);
    int err = training_compute_gradients(t, share, &sink, &ignored, e);
    return err ? err : reducer_calibration_end(t->reducer, e);
}

// Sums the gradients of all ranks. If one outgrows its scale, all ranks compute the gradients once
// more in a scale that fits.
static int sum_gradients(struct training *t, struct sampler_share share,
                         struct reducer_totals *totals, struct error *e)
{
    const struct reducer_totals mine = *totals;
    const struct gradient_sink sink = reducer_sink(t->reducer);
    bool again = true;
    int err = 0;
    while (again && !err) {
        *totals = mine;
        reducer_begin_step(t->reducer);
        err = training_compute_gradients(t, share, &sink, &totals->loss, e);
        enum ops_phase before = ops_phase(OPS_OPTIMIZER);
        if (!err)
            err = reducer_finish_step(t->reducer, totals, &again, e);
        ops_phase(before);
    }
    return err;
}

// Each rank updates its own ranges of the weights and sends them to its peers.
static int update_weights(struct training *t, struct error *e)
{
    enum ops_phase before = ops_phase(OPS_OPTIMIZER);
    int range_count = 0;
    const struct optimizer_range *ranges = reducer_ranges(t->reducer, &range_count);
    const struct optimizer_peers peers = reducer_peers(t->reducer);
    int err = optimizer_step(t->optimizer, t->state.position.step, t->weights,
                             reducer_gradients(t->reducer), ranges, range_count, &peers,
                             &t->gradient_norm, e);
    if (!err)
        err = reducer_gather_weights(t->reducer, e);
    ops_phase(before);
    return err;
}

static void count_step(struct training *t, const struct reducer_totals *totals)
{
    struct train_position *at = &t->state.position;
    at->step++;
    at->data_cursor += t->plan.global_batch;
    at->window_steps++;
    at->window_loss.total += totals->loss.total;
    at->window_loss.not_finite += totals->loss.not_finite;
    at->window_norm += t->gradient_norm;
    t->times.steps++;
}

// One optimizer step. *drain becomes true on all ranks in the same step.
static int train_step(struct training *t, bool *drain, struct error *e)
{
    struct sampler_share share = sampler_share(t->plan.micro_batches, t->job->world, t->job->rank);
    int err = reducer_needs_calibration(t->reducer) ? calibrate_exponents(t, share, e) : 0;
    struct reducer_totals totals = {0};
    bool wanted = false;
    if (!err && t->job->rank == 0)
        err = t->job->launcher.ops->poll(t->job->launcher.ctx, &wanted, e);
    totals.flag = wanted;
    if (!err)
        err = sum_gradients(t, share, &totals, e);
    if (!err)
        err = update_weights(t, e);
    if (err)
        return err;
    *drain = totals.flag > 0;
    count_step(t, &totals);
    if (t->job->rank == 0)
        t->job->launcher.ops->step(t->job->launcher.ctx, t->state.position.step,
                                   loss_mean(&totals.loss, t->plan.global_batch));
    return 0;
}

static bool is_due(int64_t step, int64_t every)
{
    return every > 0 && step % every == 0;
}

// The order matters: a checkpoint exists only after the reports of its step.
static int between_steps(struct training *t, bool drain, struct error *e)
{
    int64_t step = t->state.position.step;
    if (is_due(step, t->plan.report_every) || step == t->plan.steps)
        training_report(t);
    bool validate = is_due(step, t->plan.validate_every) || step == t->plan.steps;
    bool save = is_due(step, t->plan.checkpoint_every) || drain;
    int err = validate || save ? reducer_wait_weights(t->reducer, e) : 0;
    if (!err && is_due(step, t->plan.verify_every))
        err = reducer_verify(t->reducer, e);
    if (!err && validate)
        err = training_validate(t, e);
    if (err)
        return err;
    bool last = training_is_over(t);
    if (last && t->state.position.window_steps > 0) // early stopping between two reports
        training_report(t);
    enum ops_phase before = ops_phase(OPS_CHECKPOINT);
    save = save || last;
    if (save || (t->plan.checkpoint_best && training_at_best(t)))
        err = training_checkpoint(t, save, e);
    ops_phase(before);
    return err;
}

int training_loop(struct training *t, bool *drained, struct error *e)
{
    const int64_t *step = &t->state.position.step;
    bool drain = false;
    int err = 0;
    if (*step == 0 || training_is_over(t))
        err = training_validate(t, e);
    training_begin_window(t);
    while (!err && !training_is_over(t) && !drain) {
        err = train_step(t, &drain, e);
        if (err == ERR_CORRUPT) // a fault in the data or in the gradients: name the step
            error_prefix(e, "step %lld", (long long)*step + 1);
        if (!err)
            err = between_steps(t, drain, e);
    }
    if (!err && t->job->rank == 0)
        err = snapshot_writer_wait(t->snapshot_writer, e);
    if (!err)
        err = comm_barrier(t->comm, e); // no rank exits while rank 0 may still fail
    *drained = drain && !training_is_over(t);
    return err;
}
