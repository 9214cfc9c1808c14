// What the loop tells about a training: reports, validation, checkpoints.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/checkpoint.h"
#include "base/arena.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/os/file.h"
#include "base/rng.h"
#include "base/text/json.h"
#include "trainer/loop/process_memory.h"
#include "trainer/loop/training.h"

static void send_metrics(const struct training *t, const char *group, json_t *metrics)
{
    t->job->launcher.ops->metrics(t->job->launcher.ctx, group, t->state.position.step,
                                  t->plan.steps, metrics);
    json_decref(metrics);
}

static void put_metric(json_t *metrics, const char *name, double value)
{
    json_object_set_new(metrics, name, metric_number(value));
}

static double per_step_ms(const struct training_times *times, int64_t us)
{
    return times->steps > 0 ? (double)us / 1000.0 / (double)times->steps : 0.0;
}

static void put_speed(const struct training *t, double seconds, json_t *m)
{
    const struct sample_shape *shape = dataset_shape(t->train);
    double samples = (double)(t->times.steps * t->plan.global_batch) / fmax(seconds, 1e-6);
    put_metric(m, "samples_per_second", samples);
    if (shape->kind == SAMPLE_TOKENS)
        put_metric(m, "tokens_per_second", samples * (double)shape->context);
    put_metric(m, "mfu", samples * model_flops(t->model) / (t->peak_flops * t->job->world));
}

// What the communicator did by itself while nobody waited for it was hidden.
static void put_times(const struct training *t, int64_t now, json_t *m)
{
    const struct training_times *times = &t->times;
    int64_t us[OPS_PHASES], whole = now - times->began;
    ops_phases(us);
    int64_t hidden = reducer_background_us(t->sync) - times->aside_us - us[OPS_COMMUNICATION];
    put_metric(m, "step_ms", per_step_ms(times, whole));
    put_metric(m, "data_ms", per_step_ms(times, us[OPS_DATA]));
    put_metric(m, "forward_ms", per_step_ms(times, us[OPS_FORWARD]));
    put_metric(m, "backward_ms", per_step_ms(times, us[OPS_BACKWARD]));
    put_metric(m, "communication_ms", per_step_ms(times, us[OPS_COMMUNICATION]));
    put_metric(m, "hidden_communication_ms", per_step_ms(times, hidden > 0 ? hidden : 0));
    put_metric(m, "optimizer_ms", per_step_ms(times, us[OPS_OPTIMIZER]));
    put_metric(m, "checkpoint_stall_ms", per_step_ms(times, us[OPS_CHECKPOINT]));
    put_metric(m, "exposed_share", (double)us[OPS_COMMUNICATION] / fmax((double)whole, 1));
}

// Resident memory of this rank, in units of 2^20 bytes.
static void put_memory(json_t *m)
{
    struct process_memory memory;
    process_memory_read(&memory);
    put_metric(m, "memory_mb", (double)memory.resident * 0x1p-20);
    put_metric(m, "memory_peak_mb", (double)memory.peak * 0x1p-20);
}

void training_report(struct training *t)
{
    struct train_position *at = &t->state.position;
    struct training_times *times = &t->times;
    int64_t now = clock_mono_us();
    if (t->job->rank == 0) {
        double seconds = (double)(now - times->began) / 1e6;
        json_t *m = json_object();
        put_metric(m, "loss", loss_mean(&at->window_loss, at->window_steps * t->plan.global_batch));
        put_metric(m, "learning_rate", optimizer_learning_rate(t->optimizer, at->step - 1));
        put_metric(m, "gradient_norm", at->window_norm / (double)at->window_steps);
        put_speed(t, seconds, m);
        put_times(t, now, m);
        put_memory(m);
        send_metrics(t, "training", m);
    }
    at->window_steps = 0;
    at->window_loss = (struct loss_sum){0};
    at->window_norm = 0;
    training_begin_window(t);
}

// What it took to come here is no step's.
void training_begin_window(struct training *t)
{
    int64_t before[OPS_PHASES];
    ops_phases(before);
    t->times = (struct training_times){.began = clock_mono_us(),
                                       .aside_us = reducer_background_us(t->sync)};
}

// Checkpoints.

static int choose_place(const struct training *t, bool due, struct snapshot_info *place,
                        char **folder, struct error *e)
{
    const struct training_job *job = t->job;
    *place = (struct snapshot_info){
        .step = t->state.position.step, .best = training_at_best(t), .only_best = !due};
    int err = 0;
    if (job->storage) {
        uuid_make(place->id);
        err = checkpoint_folder(job->storage, place->id, folder, e);
    } else {
        snprintf(place->id, sizeof place->id, "step-%08lld", (long long)place->step);
        *folder = path_join(job->checkpoint_folder, place->id);
        err = dir_remove_tree(*folder, e); // of an earlier run
    }
    place->folder = *folder;
    return err;
}

// What a reader of the manifest wants to know beside the state itself.
static json_t *facts_of(const struct training *t, const struct snapshot_info *place)
{
    char time[CLOCK_RFC3339_MAX];
    const json_t *trainer = t->job->trainer;
    json_t *schedule = json_deep_copy(jget(trainer, "schedule"));
    must(schedule); // the trainer section is complete
    json_object_set_new(schedule, "step", json_integer(t->state.position.step));
    json_object_set_new(schedule, "steps", json_integer(t->plan.steps));
    json_t *validated = t->validated_step == t->state.position.step ? t->validation_metrics : NULL;
    return json_pack("{s:s, s:s, s:s, s:s, s:i, s:O, s:O, s:o, s:O, s:I, s:O, s:O*}", "uuid",
                     place->id, "experiment", t->job->name, "fingerprint", t->fingerprint, "time",
                     clock_format(clock_wall_us(), time), "world_size", t->job->world, "model",
                     jget(trainer, "model"), "optimizer", jget(trainer, "optimizer"), "schedule",
                     schedule, "reduction", jget(trainer, "reduction"), "global_batch_size",
                     (json_int_t)t->plan.global_batch, "micro_batch_size",
                     jget(trainer, "micro_batch_size"), "validation", validated);
}

int training_checkpoint(struct training *t, bool due, struct error *e)
{
    struct train_state *state = &t->state;
    if (t->last_saved_step == state->position.step || t->job->only_steps)
        return 0;
    t->last_saved_step = state->position.step;
    int err = 0;
    for (int i = 0; i < optimizer_state_count(t->optimizer) && !err; i++)
        err = reducer_collect(t->sync, optimizer_state(t->optimizer, i), e);
    if (!err)
        err = comm_synchronize(t->comm, e); // the weights are whole
    if (err || t->job->rank > 0)
        return err;
    const int32_t *exponents = reducer_exponents(t->sync);
    state->position.exponents_known = exponents != NULL;
    if (exponents)
        memcpy(state->exponents, exponents, (size_t)state->parameter_count * sizeof *exponents);
    struct snapshot_info place;
    char *folder = NULL;
    err = choose_place(t, due, &place, &folder, e);
    if (!err) {
        json_t *facts = facts_of(t, &place);
        err = snapshot_writer_save(t->snapshot_writer, state, &place, facts, e);
        json_decref(facts);
    }
    free(folder);
    return err;
}
