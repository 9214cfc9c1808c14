#include "trainer/loop/job.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/text/json.h"
#include "trainer/checkpoint/restore.h"
#include "trainer/loop/sizing.h"
#include "trainer/loop/training.h"
#include "trainer/numerics_id.h"

static bool scales_with_slots(const struct training_job *job)
{
    return jget_bool(job->trainer, "scale_with_slots", false);
}

static bool is_exact(const struct training_job *job)
{
    return strcmp(jget_string(job->trainer, "reduction", "exact"), "exact") == 0;
}

// With scale_with_slots, global_batch_size counts the samples of each slot that the training began
// with. A checkpoint records the resulting batch. Rank 0 reads the checkpoints and sends the
// result to the others.
static int agree_on_batch(const struct training_job *job, struct training_plan *plan,
                          struct error *e)
{
    int64_t batch = plan->global_batch * job->world, then = 0;
    if (job->restore_count > 0)
        then = restore_batch_size(job->restore, job->restore_count, "global_batch_size");
    json_t *all = NULL, *mine = json_pack("{s:I}", "batch", (json_int_t)(then > 0 ? then : batch));
    int err = job->launcher.ops->all_gather(job->launcher.ctx, mine, &all, e);
    if (!err)
        plan->global_batch = jget_int(json_array_get(all, 0), "batch", 0);
    json_decref(mine);
    json_decref(all);
    if (!err && plan->global_batch > (int64_t)LIMIT_MICRO_BATCH * LIMIT_MICRO_BATCHES)
        err = error_set(e, ERR_INVALID,
                        "trainer.global_batch_size: %" PRId64 " samples, as on these slots or in "
                        "the checkpoint, are more than %d micro-batches of %d samples",
                        plan->global_batch, LIMIT_MICRO_BATCHES, LIMIT_MICRO_BATCH);
    if (plan->micro_batch == 0)
        return err;
    if (!err && plan->global_batch % plan->micro_batch)
        err = error_set(e, ERR_INVALID,
                        "trainer.micro_batch_size: %" PRId64 " does not divide the global batch of "
                        "%" PRId64 " that the checkpoint was trained with",
                        plan->micro_batch, plan->global_batch);
    if (!err && plan->global_batch / plan->micro_batch > LIMIT_MICRO_BATCHES)
        err = error_set(e, ERR_INVALID,
                        "trainer.micro_batch_size: %" PRId64 " makes %" PRId64 " micro-batches per "
                        "step on these slots; at most %d. Use a larger micro_batch_size",
                        plan->micro_batch, plan->global_batch / plan->micro_batch,
                        LIMIT_MICRO_BATCHES);
    return err;
}

static int read_plan(const struct training_job *job, struct training_plan *plan, struct error *e)
{
    const json_t *trainer = job->trainer;
    *plan = (struct training_plan){
        .steps = jget_int(trainer, "steps", 0),
        .global_batch = jget_int(trainer, "global_batch_size", 0),
        .micro_batch = jget_int(trainer, "micro_batch_size", 0),
        .validate_every = jget_int(trainer, "validate_every", 0),
        .checkpoint_every = jget_int(trainer, "checkpoint_every", 0),
        .report_every = jget_int(trainer, "report_every", 0),
        .checkpoint_best = jget_bool(trainer, "checkpoint_best", true),
        .patience = jget_int(trainer, "patience", 0),
        .min_delta = jget_double(trainer, "min_delta", 0),
        .verify_every = jget_int(trainer, "verify", 0),
    };
    return scales_with_slots(job) ? agree_on_batch(job, plan, e) : 0;
}

// --- the model -----------------------------------------------------------------------------------

// The bits depend on the micro-batch size, so all ranks use the same one: that of the checkpoint,
// or else the smallest that a rank chose. `mine` is 0 if this rank failed; it takes part, because
// the others wait for it, and they learn of the failure when all must be ready.
static int agree_on_micro_batch(const struct training_job *job, int64_t mine, int64_t *agreed,
                                struct error *e)
{
    int64_t recorded = 0;
    json_t *all = NULL, *peer;
    size_t rank;
    if (job->restore_count > 0)
        recorded = restore_batch_size(job->restore, job->restore_count, "micro_batch_size");
    json_t *message =
        json_pack("{s:I, s:I}", "chosen", (json_int_t)mine, "recorded", (json_int_t)recorded);
    int err = job->launcher.ops->all_gather(job->launcher.ctx, message, &all, e);
    *agreed = mine;
    json_array_foreach(all, rank, peer)
    {
        int64_t chosen = jget_int(peer, "chosen", 0);
        if (chosen > 0 && chosen < *agreed)
            *agreed = chosen;
    }
    recorded = jget_int(json_array_get(all, 0), "recorded", 0);
    if (recorded > 0)
        *agreed = recorded;
    json_decref(message);
    json_decref(all);
    return err;
}

// A checkpoint may come from anybody.
static int check_recorded(const struct training_plan *plan, struct error *e)
{
    if (plan->micro_batch > LIMIT_MICRO_BATCH ||
        plan->global_batch / plan->micro_batch > LIMIT_MICRO_BATCHES)
        return error_set(e, ERR_INVALID,
                         "trainer.micro_batch_size: the checkpoint records micro-batches of "
                         "%" PRId64 " samples, of which %" PRId64 " make a step; at most %d "
                         "samples and %d micro-batches are possible; set trainer.micro_batch_size",
                         plan->micro_batch, plan->global_batch / plan->micro_batch,
                         LIMIT_MICRO_BATCH, LIMIT_MICRO_BATCHES);
    if (plan->global_batch % plan->micro_batch == 0)
        return 0;
    return error_set(e, ERR_INVALID,
                     "trainer.micro_batch_size: the checkpoint was trained with micro-batches of "
                     "%" PRId64 " samples, which do not divide the global batch of %" PRId64
                     "; set trainer.micro_batch_size, or the global_batch_size of the checkpoint",
                     plan->micro_batch, plan->global_batch);
}

// Collective if the micro-batch size is to be chosen, also after an error.
static int plan_model(struct training *t, int err, struct error *e)
{
    struct sizing_request request = {.trainer = t->job->trainer,
                                     .global_batch = t->plan.global_batch,
                                     .micro_batch = t->plan.micro_batch};
    if (!err) {
        request.memory = ops_memory();
        request.shape = dataset_shape(t->train);
        err = sizing_plan(&request, &t->model, e);
    }
    if (t->plan.micro_batch > 0)
        return err;
    int64_t mine = err ? 0 : model_micro_batch(t->model);
    struct error lost;
    int met = agree_on_micro_batch(t->job, mine, &t->plan.micro_batch, &lost);
    if (err || met)
        return err ? err : error_set(e, met, "%s", lost.text);
    if (t->plan.micro_batch == mine)
        return 0;
    model_free(t->model);
    t->model = NULL;
    request.micro_batch = t->plan.micro_batch;
    err = check_recorded(&t->plan, e);
    return err ? err : sizing_plan(&request, &t->model, e);
}

// Builds everything up to the connection of the ranks. `err` is the error so far; the sizes of
// batches are agreed on in any case, because the other ranks wait for this one.
static int build_parts(struct training *t, int err, struct error *e)
{
    const json_t *trainer = t->job->trainer, *model = jget(trainer, "model");
    struct error later;
    int unplanned = read_plan(t->job, &t->plan, err ? &later : e);
    if (unplanned)
        return err ? err : unplanned;
    if (!err)
        err = dataset_open(jget(trainer, "data"), model, t->job->folder, &t->train, &t->validation,
                           e);
    err = plan_model(t, err, e);
    if (!err)
        err = model_allocate(t->model, e);
    if (err)
        return err;
    t->plan.micro_batches = t->plan.global_batch / t->plan.micro_batch;
    struct train_state *state = &t->state;
    state->parameters = model_parameters(t->model, &state->parameter_count);
    state->block_size = model_block_size(t->model);
    const struct optimizer_config optimizer = {
        .spec = jget(trainer, "optimizer"),
        .schedule = jget(trainer, "schedule"),
        .steps = t->plan.steps,
        .global_batch = t->plan.global_batch,
        .base_batch = scales_with_slots(t->job) ? jget_int(trainer, "global_batch_size", 0) : 0,
        .clip_norm = jget_double(trainer, "clip_norm", 0),
        .parameters = state->parameters,
        .parameter_count = state->parameter_count,
        .block_size = state->block_size,
    };
    err = optimizer_new(&optimizer, &t->optimizer, e);
    if (err)
        return err;
    size_t micro_batch = (size_t)t->plan.micro_batch;
    t->prefetch = prefetch_new(t->train, t->plan.micro_batch);
    size_t largest = (size_t)sampler_share(t->plan.micro_batches, t->job->world, 0).count;
    t->batch_count = model_needs_lockstep(t->model) ? (int64_t)largest : 1;
    t->batches = xcalloc((size_t)t->batch_count, sizeof(struct batch *));
    for (int64_t i = 0; i < t->batch_count; i++)
        t->batches[i] = batch_new(dataset_shape(t->train), t->plan.micro_batch);
    t->indices = xcalloc(micro_batch, sizeof *t->indices);
    t->losses = xcalloc(micro_batch * largest, sizeof *t->losses);
    t->correct = xcalloc(micro_batch, sizeof *t->correct);
    state->optimizer = t->optimizer;
    state->exponents = xcalloc((size_t)state->parameter_count, sizeof *state->exponents);
    state->quantised = model_fp8_tensors(t->model, &state->quantised_count);
    state->quantised_exponents =
        xcalloc((size_t)state->quantised_count + 1, sizeof *state->quantised_exponents);
    return 0;
}

// Tells all ranks whether all are ready, before any of them waits for a peer.
static int check_all_ready(const struct training *t, int err, struct error *e)
{
    json_t *all = NULL, *peer;
    json_t *mine = json_pack("{s:i, s:s}", "code", err, "error", err ? e->text : "");
    struct error lost;
    int met = t->job->launcher.ops->all_gather(t->job->launcher.ctx, mine, &all, &lost);
    json_decref(mine);
    if (err || met) {
        json_decref(all);
        return err ? err : error_set(e, met, "%s", lost.text);
    }
    size_t rank;
    json_array_foreach(all, rank, peer)
    {
        int code = (int)jget_int(peer, "code", 0);
        if (code && !err)
            err = error_set(e, ERR_PEER, "rank %zu cannot start training: %s", rank,
                            jget_string(peer, "error", "it gave no reason"));
    }
    json_decref(all);
    return err;
}

static int connect_ranks(struct training *t, struct error *e)
{
    const struct training_job *job = t->job;
    size_t sums = optimizer_sums(t->optimizer);
    size_t statistics = model_lockstep_doubles(t->model, t->plan.micro_batches);
    const struct reducer_config sync = {
        .reduction = is_exact(job) ? REDUCTION_EXACT : REDUCTION_FLOAT,
        .parameters = t->state.parameters,
        .parameter_count = t->state.parameter_count,
        .quantised = t->state.quantised,
        .quantised_count = t->state.quantised_count,
        .block_size = t->state.block_size,
        .micro_batches = t->plan.micro_batches,
        .global_batch = t->plan.global_batch,
        .sums = sums > statistics ? sums : statistics,
        .fusion_bytes = (size_t)jget_int(job->trainer, "fusion_bytes", 0),
        .world = job->world,
    };
    const size_t totals = TRAINING_TOTALS * sizeof *t->totals;
    const struct comm_config config = {
        .rank = job->rank,
        .world = job->world,
        .arena_bytes = reducer_arena_bytes(&sync) + comm_padded(totals),
        .timeout_us = job->timeout_us,
        .rendezvous = {.all_gather = job->launcher.ops->all_gather, .ctx = job->launcher.ctx},
        .address = job->address,
        .encrypt = jget_bool(job->trainer, "encrypt_network", false),
        .allocation = job->allocation,
    };
    int err = comm_open(&config, &t->comm, e);
    if (err)
        return err;
    t->reducer = reducer_new(&sync, t->comm);
    t->totals = comm_alloc(t->comm, totals);
    t->weights = t->state.weights = reducer_weights(t->reducer);
    return reducer_tune(t->reducer, e);
}

// If the metric differs from the checkpoint's, no validation is the best so far.
static void set_best_metric(const struct training_job *job, struct train_best *best)
{
    const char *metric = job->metric ? job->metric : "validation_loss";
    if (strcmp(best->metric, metric) == 0 && best->smaller_is_better != job->larger_is_better)
        return;
    *best = (struct train_best){.smaller_is_better = !job->larger_is_better};
    snprintf(best->metric, sizeof best->metric, "%s", metric);
}

static int load_first_state(struct training *t, struct error *e)
{
    struct train_state *state = &t->state;
    if (t->job->restore_count == 0) {
        state->position = (struct train_position){.seed = t->job->seed};
        set_best_metric(t->job, &state->position.best);
        model_init(t->model, t->job->seed, t->weights);
        return 0;
    }
    int err =
        restore_first_intact(t->job->restore, t->job->restore_count, t->fingerprint, state, e);
    if (err)
        return err;
    set_best_metric(t->job, &state->position.best);
    if (state->position.seed != t->job->seed)
        log_warn("the seed of the checkpoint replaces the seed of the configuration",
                 "then=%" PRIu64 " now=%" PRIu64, state->position.seed, t->job->seed);
    if (state->position.step > t->plan.steps)
        return error_set(e, ERR_INVALID,
                         "the checkpoint is at step %" PRId64 ", but trainer.steps is %" PRId64
                         "; raise trainer.steps to train further",
                         state->position.step, t->plan.steps);
    return 0;
}

// Rank 0 initialises or restores the state; all ranks receive it.
static int broadcast_state(struct training *t, struct error *e)
{
    struct train_state *state = &t->state;
    const size_t block = state->block_size * sizeof *t->weights;
    int err = t->job->rank == 0 ? load_first_state(t, e) : 0;
    if (!err)
        err = comm_broadcast(t->comm, &state->position, sizeof state->position, 0, e);
    if (!err)
        err = comm_broadcast(t->comm, state->exponents,
                             (size_t)state->parameter_count * sizeof *state->exponents, 0, e);
    if (!err && state->quantised_count > 0)
        err = comm_broadcast(t->comm, state->quantised_exponents,
                             (size_t)state->quantised_count * sizeof *state->quantised_exponents, 0,
                             e);
    if (!err)
        err = comm_broadcast(t->comm, t->weights, block, 0, e);
    for (int i = 0; i < optimizer_state_count(t->optimizer) && !err; i++)
        err = comm_broadcast(t->comm, optimizer_state(t->optimizer, i), block, 0, e);
    if (!err && state->position.exponents_known)
        reducer_set_exponents(t->reducer, state->exponents);
    if (!err && state->position.quantised_known)
        reducer_set_quantised_exponents(t->reducer, state->quantised_exponents);
    t->last_saved_step = t->job->restore_count > 0 ? state->position.step : -1;
    return err;
}

static void log_start(const struct training *t)
{
    const struct training_job *job = t->job;
    char name[LIMIT_NAME * 2];
    size_t count = 0;
    for (int i = 0; i < t->state.parameter_count; i++)
        count += t->state.parameters[i].momentum > 0 ? 0 : t->state.parameters[i].count;
    log_info("training begins",
             "exp=%s ranks=%d comm=%s fusion_bytes=%zu parameters=%zu samples=%" PRId64
             " global_batch=%" PRId64 " micro_batch=%" PRId64 " recomputed_blocks=%d step=%" PRId64
             " steps=%" PRId64 " seed=%" PRIu64 " arithmetic=\"%s\"",
             log_quote(name, sizeof name, job->name), job->world, comm_backend_name(t->comm),
             reducer_fusion_bytes(t->reducer), count, dataset_count(t->train), t->plan.global_batch,
             t->plan.micro_batch, model_recomputed_blocks(t->model), t->state.position.step,
             t->plan.steps, t->state.position.seed, t->fingerprint);
    if (job->world > t->plan.micro_batches)
        log_warn("there are more ranks than micro-batches; some ranks are idle",
                 "ranks=%d micro_batches=%" PRId64, job->world, t->plan.micro_batches);
}

static void checkpoint_written(void *ctx, const struct snapshot_info *info)
{
    const struct training *t = ctx;
    t->job->launcher.ops->checkpoint(t->job->launcher.ctx, info);
}

static int run_training(struct training *t, bool *drained, struct error *e)
{
    char reason[TRAINING_STOP_REASON_MAX];
    int err = broadcast_state(t, e);
    if (err)
        return err;
    if (t->job->rank == 0) {
        log_start(t);
        t->peak_flops = ops_peak_flops();
        t->snapshot_writer = snapshot_writer_new(&t->state, checkpoint_written, t);
    }
    err = training_loop(t, drained, e);
    if (!err && t->job->rank == 0 && training_out_of_patience(t))
        t->job->launcher.ops->note(t->job->launcher.ctx, training_stop_reason(t, reason));
    return err;
}

static void training_free(struct training *t)
{
    snapshot_writer_free(t->snapshot_writer);
    reducer_free(t->reducer);
    comm_close(t->comm);
    optimizer_free(t->optimizer);
    model_free(t->model);
    prefetch_free(t->prefetch);
    for (int64_t i = 0; i < t->batch_count; i++)
        batch_free(t->batches[i]);
    free(t->batches);
    dataset_close(t->validation);
    dataset_close(t->train);
    json_decref(t->validation_metrics);
    free(t->state.quantised_exponents);
    free(t->state.exponents);
    free(t->correct);
    free(t->losses);
    free(t->indices);
}

// Errors that every restart would meet again.
static bool is_permanent(int err)
{
    return err == ERR_INVALID || err == ERR_NOT_FOUND || err == ERR_CORRUPT || err == ERR_VERSION;
}

enum ops_precision training_job_precision(const json_t *trainer)
{
    const char *word = jget_string(trainer, "precision", "auto");
    return strcmp(word, "float32") == 0 ? OPS_FLOAT
           : strcmp(word, "tf32") == 0  ? OPS_TF32
           : strcmp(word, "bf16") == 0  ? OPS_BF16
           : strcmp(word, "fp8") == 0   ? OPS_FP8
                                        : OPS_AUTO;
}

static int open_device(struct training *t, struct error *e)
{
    char library[OPS_FINGERPRINT_MAX], comm[32];
    int err = ops_open(training_job_precision(t->job->trainer), e);
    if (err)
        return err;
    ops_init_thread();
    comm_library(comm, sizeof comm);
    if (is_exact(t->job)) // exact sums do not depend on the communication library
        comm[0] = '\0';
    snprintf(t->fingerprint, sizeof t->fingerprint,
             OPS_DEVICE ", %s%s%s, muster %s " NUMERICS_ID ", compiler %.16s",
             ops_fingerprint(library, sizeof library), *comm ? ", " : "", comm, MUSTER_VERSION,
             __VERSION__);
    return 0;
}

int training_job_run(const struct training_job *job, enum training_end *end, struct error *e)
{
    struct training t = {.job = job};
    bool drained = false;
    int err = open_device(&t, e);
    err = build_parts(&t, err, e);
    if (is_permanent(err))
        job->launcher.ops->permanent_failure(job->launcher.ctx, e->text);
    err = check_all_ready(&t, err, e);
    if (!err)
        err = connect_ranks(&t, e);
    if (!err) {
        err = run_training(&t, &drained, e);
        // before comm_abort(), because the exit of the peers ends this process
        if (is_permanent(err))
            job->launcher.ops->permanent_failure(job->launcher.ctx, e->text);
        if (err)
            comm_abort(t.comm, e->text);
    }
    training_free(&t);
    ops_close();
    if (!err)
        err = job->launcher.ops->finish(job->launcher.ctx, drained, e);
    *end = drained ? TRAINING_DRAINED : TRAINING_COMPLETED;
    return err;
}
