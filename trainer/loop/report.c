// Reports of the training loop: loss, speed and the time of each phase since the last report.
#include <math.h>

#include "base/clock.h"
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

// Communication that ran in the background while no rank waited for it is hidden.
static void put_times(const struct training *t, int64_t now, json_t *m)
{
    const struct training_times *times = &t->times;
    int64_t us[OPS_PHASES], whole = now - times->began;
    ops_phases(us);
    int64_t hidden =
        reducer_background_us(t->reducer) - times->background_us - us[OPS_COMMUNICATION];
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

// Resident memory of this rank in MiB.
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

// Work before the window, such as a validation, counts for no step.
void training_begin_window(struct training *t)
{
    int64_t before[OPS_PHASES];
    ops_phases(before);
    t->times = (struct training_times){.began = clock_mono_us(),
                                       .background_us = reducer_background_us(t->reducer)};
}
