#include "trainer/optim/optimizer.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/json.h"
#include "base/log.h"
#include "trainer/optim/schedule.h"
#include "trainer/optim/update.h"

enum kind { SGD, MOMENTUM, ADAMW };

static const struct {
    const char *name;
    int states;
    const char *state_names[OPTIMIZER_STATES_MAX];
} kinds[] = {
    [SGD] = {"sgd", 0, {NULL, NULL}},
    [MOMENTUM] = {"momentum", 1, {"momentum", NULL}},
    [ADAMW] = {"adamw", 2, {"moment1", "moment2"}},
};

struct optimizer {
    enum kind kind;
    struct schedule schedule;
    bool nesterov;
    double momentum, beta1, beta2, epsilon, weight_decay, clip_norm;
    struct parameter *parameters;
    int parameter_count;
    float *states[OPTIMIZER_STATES_MAX];
};

// --- making

static int read_number(const json_t *spec, const char *key, double fallback, double below,
                       double *out, struct error *e)
{
    *out = jget(spec, key) ? jget_double(spec, key, NAN) : fallback;
    if (*out >= 0 && *out < below)
        return 0;
    if (isinf(below))
        return error_set(e, ERR_INVALID, "trainer.optimizer.%s: must be a number from 0 on", key);
    return error_set(e, ERR_INVALID, "trainer.optimizer.%s: must be a number from 0 to below %g",
                     key, below);
}

static int read_kind(const json_t *spec, enum kind *out, struct error *e)
{
    const char *name = jget_string(spec, "name", "");
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
        if (strcmp(kinds[i].name, name) == 0) {
            *out = (enum kind)i;
            return 0;
        }
    return error_set(e, ERR_INVALID,
                     "trainer.optimizer.name: expected sgd, momentum or adamw, found \"%s\"", name);
}

static int read_spec(struct optimizer *o, const json_t *spec, const json_t *schedule, int64_t steps,
                     struct error *e)
{
    double rate;
    int rc = read_kind(spec, &o->kind, e);
    o->nesterov = jget_bool(spec, "nesterov", false);
    // A missing learning rate is NaN, which the check refuses.
    if (rc || (rc = read_number(spec, "learning_rate", NAN, INFINITY, &rate, e)) ||
        (rc = read_number(spec, "weight_decay", o->kind == ADAMW ? 0.01 : 0, INFINITY,
                          &o->weight_decay, e)) ||
        (rc = read_number(spec, "momentum", 0.9, 1, &o->momentum, e)) ||
        (rc = read_number(spec, "beta1", 0.9, 1, &o->beta1, e)) ||
        (rc = read_number(spec, "beta2", 0.999, 1, &o->beta2, e)) ||
        (rc = read_number(spec, "epsilon", 1e-8, INFINITY, &o->epsilon, e)))
        return rc;
    return schedule_read(schedule, rate, steps, &o->schedule, e);
}

int optimizer_new(const json_t *spec, const json_t *schedule, int64_t steps, double clip_norm,
                  const struct parameter *parameters, int parameter_count, size_t block_size,
                  struct optimizer **out, struct error *e)
{
    struct optimizer *o = xcalloc(1, sizeof *o);
    o->clip_norm = clip_norm;
    o->parameter_count = parameter_count;
    o->parameters = xcalloc((size_t)parameter_count + 1, sizeof *parameters);
    memcpy(o->parameters, parameters, (size_t)parameter_count * sizeof *parameters);
    *out = NULL;
    int rc = read_spec(o, spec, schedule, steps, e);
    if (!rc && !(clip_norm >= 0))
        rc = error_set(e, ERR_INVALID, "trainer.clip_norm: must be a number from 0 (off) on");
    size_t bytes = (block_size * sizeof(float) + 63) / 64 * 64;
    for (int i = 0; i < kinds[o->kind].states && !rc; i++) {
        o->states[i] = aligned_alloc(64, bytes);
        if (o->states[i])
            memset(o->states[i], 0, bytes);
        else
            rc = error_set(e, ERR_NO_MEMORY, "no memory for the optimizer's %s (%zu bytes)",
                           kinds[o->kind].state_names[i], bytes);
    }
    if (rc) {
        optimizer_free(o);
        return rc;
    }
    *out = o;
    return 0;
}

void optimizer_free(struct optimizer *o)
{
    if (!o)
        return;
    for (int i = 0; i < OPTIMIZER_STATES_MAX; i++)
        free(o->states[i]);
    free(o->parameters);
    free(o);
}

int optimizer_state_count(const struct optimizer *o)
{
    return kinds[o->kind].states;
}

const char *optimizer_state_name(const struct optimizer *o, int i)
{
    must(i >= 0 && i < kinds[o->kind].states);
    return kinds[o->kind].state_names[i];
}

float *optimizer_state(struct optimizer *o, int i)
{
    must(i >= 0 && i < kinds[o->kind].states);
    return o->states[i];
}

double optimizer_learning_rate(const struct optimizer *o, int64_t step)
{
    return schedule_rate(&o->schedule, step);
}

// --- stepping

static int measure(const struct optimizer *o, const float *gradients, double *norm, struct error *e)
{
    double total = 0;
    for (int i = 0; i < o->parameter_count; i++) {
        const struct parameter *p = &o->parameters[i];
        double sum = update_sum_of_squares(p->count, gradients + p->offset);
        if (!isfinite(sum))
            return error_set(e, ERR_CORRUPT,
                             "the gradient of %s is not finite; a lower learning rate, a longer "
                             "warm-up or clip_norm may help",
                             p->name);
        total += sum;
    }
    *norm = sqrt(total);
    return 0;
}

static struct update update_of(const struct optimizer *o, int64_t step, double norm)
{
    double clip = o->clip_norm > 0 && norm > o->clip_norm ? o->clip_norm / norm : 1;
    double steps = (double)(step + 1);
    return (struct update){.rate = (float)schedule_rate(&o->schedule, step),
                           .scale = (float)clip,
                           .momentum = (float)o->momentum,
                           .beta1 = (float)o->beta1,
                           .beta2 = (float)o->beta2,
                           .epsilon = (float)o->epsilon,
                           .correction1 = (float)(1 / (1 - pow(o->beta1, steps))),
                           .correction2 = (float)(1 / (1 - pow(o->beta2, steps)))};
}

static void update_one(const struct optimizer *o, const struct update *u, size_t at, size_t n,
                       float *parameters, const float *gradients)
{
    float *p = parameters + at;
    const float *g = gradients + at;
    if (o->kind == SGD)
        update_sgd(u, n, p, g);
    else if (o->kind == ADAMW)
        update_adamw(u, n, p, g, o->states[0] + at, o->states[1] + at);
    else if (o->nesterov)
        update_nesterov(u, n, p, g, o->states[0] + at);
    else
        update_momentum(u, n, p, g, o->states[0] + at);
}

int optimizer_step(struct optimizer *o, int64_t step, float *parameters, float *gradients,
                   double *gradient_norm, struct error *e)
{
    double norm = 0;
    int rc = measure(o, gradients, &norm, e);
    if (rc)
        return rc;
    if (gradient_norm)
        *gradient_norm = norm;
    struct update u = update_of(o, step, norm);
    for (int i = 0; i < o->parameter_count; i++) {
        const struct parameter *p = &o->parameters[i];
        u.decay = p->decay ? (float)o->weight_decay : 0;
        update_one(o, &u, p->offset, p->count, parameters, gradients);
    }
    return 0;
}
