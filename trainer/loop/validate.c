// Validation and early stopping. The ranks share the micro-batches of the validation set; the sums
// do not depend on their order. All ranks have the same sums, so they draw the same conclusions
// without further messages.
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/text/json.h"
#include "trainer/loop/training.h"
#include "trainer/reduction/sampler.h"

#define NATS_PER_BIT 0.69314718055994530942

struct validation_sums {
    struct loss_sum loss;
    int64_t correct;
};

static int evaluate_share(struct training *t, struct validation_sums *sums, struct error *e)
{
    int64_t count = dataset_count(t->validation), size = t->plan.micro_batch;
    struct sampler_share share =
        sampler_share((count + size - 1) / size, t->job->world, t->job->rank);
    model_set_parameters(t->model, t->weights);
    for (int64_t m = share.first; m < share.first + share.count; m++) {
        int64_t n = count - m * size < size ? count - m * size : size;
        for (int64_t i = 0; i < n; i++)
            t->indices[i] = m * size + i;
        int err = dataset_fetch(t->validation, t->indices, n, NULL, t->batches[0], e);
        if (!err)
            err = model_evaluate(t->model, t->batches[0], t->losses, t->correct, e);
        if (err)
            return err;
        loss_add(&sums->loss, t->losses, n);
        for (int64_t i = 0; i < n; i++)
            sums->correct += t->correct[i];
    }
    return 0;
}

static int add_up(struct training *t, struct validation_sums *sums, struct error *e)
{
    const int64_t mine[TRAINING_TOTALS] = {sums->loss.total, sums->loss.not_finite, sums->correct};
    int64_t all[TRAINING_TOTALS] = {0};
    ops_upload(t->totals, mine, sizeof mine);
    int err = comm_all_reduce(t->comm, t->totals, TRAINING_TOTALS, COMM_INT64, COMM_SUM, e);
    ops_download(all, t->totals, sizeof all);
    if (!err)
        err = comm_synchronize(t->comm, e);
    *sums = (struct validation_sums){.loss = {.total = all[0], .not_finite = all[1]},
                                     .correct = all[2]};
    return err;
}

static void put_metric(json_t *metrics, const char *name, double value)
{
    json_object_set_new(metrics, name, metric_number(value));
}

static json_t *metrics_of(const struct training *t, const struct validation_sums *sums)
{
    const struct sample_shape *shape = dataset_shape(t->validation);
    int64_t count = dataset_count(t->validation);
    double loss = loss_mean(&sums->loss, count);
    json_t *m = json_object();
    put_metric(m, "validation_loss", loss);
    if (shape->kind == SAMPLE_TOKENS) {
        put_metric(m, "validation_accuracy",
                   (double)sums->correct / (double)(count * shape->context));
        put_metric(m, "validation_perplexity", exp(loss));
        if (shape->vocabulary == UINT8_MAX + 1)
            put_metric(m, "validation_bits_per_byte", loss / NATS_PER_BIT);
    } else if (shape->outputs > 0) {
        put_metric(m, "validation_rmse", sqrt(loss));
    } else {
        put_metric(m, "validation_accuracy", (double)sums->correct / (double)count);
    }
    return m;
}

// --- the best validation and early stopping ------------------------------------------------------

static bool is_better(const struct train_best *best, double value, double than, double by)
{
    return best->smaller_is_better ? value < than - by : value > than + by; // false for NaN
}

static void update_best(struct training *t, const json_t *metrics)
{
    struct train_best *best = &t->state.position.best;
    int64_t step = t->state.position.step;
    double value = jget_double(metrics, best->metric, NAN);
    if (step <= best->last_validated) // the untrained model, or a repetition after a restart
        return;
    bool first = best->step == 0;
    best->last_validated = step;
    best->validations_since++;
    if (!isfinite(value))
        return;
    if (first || is_better(best, value, best->value, 0)) {
        best->value = value;
        best->step = step;
    }
    if (first || is_better(best, value, best->reference, t->plan.min_delta)) {
        best->reference = value;
        best->validations_since = 0;
    }
}

bool training_at_best(const struct training *t)
{
    return t->state.position.best.step == t->state.position.step && t->state.position.step > 0;
}

bool training_out_of_patience(const struct training *t)
{
    return t->plan.patience > 0 && t->state.position.best.validations_since >= t->plan.patience;
}

bool training_is_over(const struct training *t)
{
    return t->state.position.step >= t->plan.steps || training_out_of_patience(t);
}

const char *training_stop_reason(const struct training *t, char out[TRAINING_STOP_REASON_MAX])
{
    const struct train_best *best = &t->state.position.best;
    char by_delta[64] = "";
    if (t->plan.min_delta > 0)
        snprintf(by_delta, sizeof by_delta, " by min_delta, %.6g,", t->plan.min_delta);
    snprintf(out, TRAINING_STOP_REASON_MAX,
             "stopped at step %lld of %lld: %s has not improved%s in %lld validations; the best is "
             "%.6g at step %lld",
             (long long)t->state.position.step, (long long)t->plan.steps, best->metric, by_delta,
             (long long)best->validations_since, best->value, (long long)best->step);
    return out;
}

static int check_metric(const struct training *t, const json_t *metrics, struct error *e)
{
    const char *name, *wanted = t->state.position.best.metric;
    json_t *value;
    char names[ERROR_TEXT_MAX / 2] = "";
    if (json_object_get(metrics, wanted))
        return 0;
    json_object_foreach((json_t *)metrics, name, value)
    {
        size_t used = strlen(names);
        snprintf(names + used, sizeof names - used, "%s%s", used ? ", " : "", name);
    }
    return error_set(
        e, ERR_INVALID,
        "searcher.metric is %s, but this data yields the metrics %s; choose one of them", wanted,
        names);
}

int training_validate(struct training *t, struct error *e)
{
    if (t->job->only_steps)
        return 0;
    struct validation_sums sums = {0};
    int64_t begin = clock_mono_us();
    int err = evaluate_share(t, &sums, e);
    if (!err)
        err = add_up(t, &sums, e);
    if (err)
        return err;
    json_t *m = metrics_of(t, &sums);
    err = check_metric(t, m, e);
    update_best(t, m);
    if (!err && t->job->rank == 0)
        t->job->launcher.ops->metrics(t->job->launcher.ctx, "validation", t->state.position.step,
                                      t->plan.steps, m);
    json_decref(t->validation_metrics);
    t->validation_metrics = m;
    t->validated_step = t->state.position.step;
    t->times.began += clock_mono_us() - begin; // validation does not count as time of the steps
    return err;
}
