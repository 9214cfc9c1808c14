#include "trainer/optim/optimizer.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/log.h"
#include "base/text/json.h"
#include "trainer/optim/optimizer_internal.h"

// clang-format off
enum { SGD, MOMENTUM, NESTEROV, LARS, ADAM, ADAMW, LAMB, KINDS };
static const struct optimizer_kind kinds[KINDS] = { // decay and epsilon: the papers' defaults
    [SGD] = {"sgd", 0, {NULL}, TRUST_NONE, 0, 0, OPS_SGD},
    [MOMENTUM] = {"momentum", 1, {"momentum"}, TRUST_NONE, 0, 0, OPS_MOMENTUM},
    [NESTEROV] = {"nesterov", 1, {"momentum"}, TRUST_NONE, 0, 0, OPS_NESTEROV},
    [LARS] = {"lars", 1, {"momentum"}, TRUST_LARS, 0.0005, 0, OPS_LARS},
    [ADAM] = {"adam", 2, {"moment1", "moment2"}, TRUST_NONE, 0, 1e-8, OPS_ADAM},
    [ADAMW] = {"adamw", 2, {"moment1", "moment2"}, TRUST_NONE, 0.01, 1e-8, OPS_ADAMW},
    [LAMB] = {"lamb", 2, {"moment1", "moment2"}, TRUST_LAMB, 0.01, 1e-6, OPS_LAMB},
};
// clang-format on

// --- reading the specification -------------------------------------------------------------------

static int read_number(const json_t *spec, const char *key, double fallback, double below,
                       double *out, struct error *e)
{
    *out = jget(spec, key) ? jget_double(spec, key, NAN) : fallback;
    if (*out >= 0 && *out < below)
        return 0;
    if (isinf(below))
        return error_set(e, ERR_INVALID, "trainer.optimizer.%s: must be a number of at least 0",
                         key);
    return error_set(e, ERR_INVALID,
                     "trainer.optimizer.%s: must be a number of at least 0 and below %g", key,
                     below);
}

static int read_kind(const json_t *spec, const struct optimizer_kind **out, struct error *e)
{
    const char *name = jget_string(spec, "name", "");
    int i = 0;
    while (i < KINDS && strcmp(kinds[i].name, name) != 0)
        i++;
    if (i == KINDS)
        return error_set(e, ERR_INVALID,
                         "trainer.optimizer.name: there is no optimizer \"%s\"; `muster help "
                         "config` lists them",
                         name);
    if (i == MOMENTUM && jget_bool(spec, "nesterov", false))
        i = NESTEROV;
    *out = &kinds[i];
    return 0;
}

static int read_config(struct optimizer *o, const struct optimizer_config *c, struct error *e)
{
    const json_t *spec = c->spec;
    double rate, base;
    int rc = read_kind(spec, &o->kind, e);
    // A missing learning rate reads as NaN, which read_number() rejects.
    if (rc || (rc = read_number(spec, "learning_rate", NAN, INFINITY, &rate, e)) ||
        (rc = read_number(spec, "base_batch_size", 0, INFINITY, &base, e)) ||
        (rc = read_number(spec, "weight_decay", o->kind->weight_decay, INFINITY, &o->weight_decay,
                          e)) ||
        (rc = read_number(spec, "momentum", 0.9, 1, &o->momentum, e)) ||
        (rc = read_number(spec, "beta1", 0.9, 1, &o->beta1, e)) ||
        (rc = read_number(spec, "beta2", 0.999, 1, &o->beta2, e)) ||
        (rc = read_number(spec, "epsilon", o->kind->epsilon, INFINITY, &o->epsilon, e)) ||
        (rc = read_number(spec, "trust_coefficient", 0.001, INFINITY, &o->trust_coefficient, e)))
        return rc;
    o->clip_norm = c->clip_norm;
    if (!(c->clip_norm >= 0))
        return error_set(e, ERR_INVALID, "trainer.clip_norm: must be 0 (off) or a positive number");
    // Goyal et al. 2017: the learning rate is multiplied by global batch / base batch, and warm-up
    // starts at the unscaled rate.
    if (base == 0)
        base = (double)c->base_batch;
    double scaled = base > 0 ? rate * (double)c->global_batch / base : rate;
    double start = base > 0 ? fmin(rate, scaled) : 0;
    return schedule_read(c->schedule, start, scaled, c->steps, &o->schedule, e);
}

// --- creating ------------------------------------------------------------------------------------

static size_t cell_of(size_t at)
{
    return at / OPTIMIZER_CELL;
}

static size_t count_units(const struct optimizer *o)
{
    size_t count = 0, end = 0;
    for (int i = 0; i < o->parameter_count; i++) {
        const struct parameter *p = &o->parameters[i];
        must(p->count > 0 && p->offset >= end);
        end = p->offset + p->count;
        count += cell_of(end - 1) - cell_of(p->offset) + 1;
    }
    must(end <= o->block_size);
    return count;
}

static void cut_units(struct optimizer *o)
{
    size_t cells = (o->block_size + OPTIMIZER_CELL - 1) / OPTIMIZER_CELL, n = 0;
    o->unit_count = count_units(o);
    o->units = xcalloc(o->unit_count + 1, sizeof *o->units);
    o->cell_units = xcalloc(cells + 1, sizeof *o->cell_units);
    o->parameter_units = xcalloc((size_t)o->parameter_count + 1, sizeof *o->parameter_units);
    o->sums = xcalloc(COLUMNS * (o->unit_count + 1), sizeof *o->sums);
    o->totals = xcalloc(COLUMNS * ((size_t)o->parameter_count + 1), sizeof *o->totals);
    for (int i = 0; i < o->parameter_count; i++) {
        const struct parameter *p = &o->parameters[i];
        size_t end = p->offset + p->count;
        o->parameter_units[i] = n;
        for (size_t at = p->offset, next; at < end; at = next) {
            next = (cell_of(at) + 1) * OPTIMIZER_CELL;
            next = next < end ? next : end;
            o->units[n++] = (struct ops_unit){at, next - at, i};
        }
    }
    o->parameter_units[o->parameter_count] = n;
    for (size_t cell = 0, unit = 0; cell <= cells; cell++) {
        while (unit < n && cell_of(o->units[unit].at) < cell)
            unit++;
        o->cell_units[cell] = unit;
    }
}

static int allocate_states(struct optimizer *o, struct error *e)
{
    size_t bytes = o->block_size * sizeof(float);
    for (int i = 0; i < o->kind->states; i++) {
        void *block = NULL;
        int rc = ops_alloc(bytes, &block, e);
        if (rc)
            return error_set(e, rc, "no memory for the optimizer's %s (%zu bytes)",
                             o->kind->state_names[i], bytes);
        o->states[i] = block;
    }
    return 0;
}

int optimizer_new(const struct optimizer_config *config, struct optimizer **out, struct error *e)
{
    struct optimizer *o = xcalloc(1, sizeof *o);
    size_t count = (size_t)config->parameter_count;
    *out = NULL;
    o->parameter_count = config->parameter_count;
    o->parameters = xcalloc(count + 1, sizeof *o->parameters);
    o->tensors = xcalloc(count + 1, sizeof *o->tensors);
    memcpy(o->parameters, config->parameters, count * sizeof *o->parameters);
    o->block_size = config->block_size;
    int rc = read_config(o, config, e);
    if (!rc)
        rc = allocate_states(o, e);
    if (rc) {
        optimizer_free(o);
        return rc;
    }
    cut_units(o);
    *out = o;
    return 0;
}

void optimizer_free(struct optimizer *o)
{
    if (!o)
        return;
    for (int i = 0; i < OPTIMIZER_STATES_MAX; i++)
        ops_free(o->states[i]);
    ops_units_free(o->own);
    free(o->own_index);
    free(o->own_sums);
    free(o->ranges);
    free(o->tensors);
    free(o->totals);
    free(o->sums);
    free(o->parameter_units);
    free(o->cell_units);
    free(o->units);
    free(o->parameters);
    free(o);
}

// --- accessors -----------------------------------------------------------------------------------

int optimizer_states_of(const json_t *spec)
{
    const struct optimizer_kind *kind = NULL;
    return read_kind(spec, &kind, NULL) ? 0 : kind->states;
}

int optimizer_state_count(const struct optimizer *o)
{
    return o->kind->states;
}

const char *optimizer_state_name(const struct optimizer *o, int i)
{
    must(i >= 0 && i < o->kind->states);
    return o->kind->state_names[i];
}

float *optimizer_state(struct optimizer *o, int i)
{
    must(i >= 0 && i < o->kind->states);
    return o->states[i];
}

double optimizer_learning_rate(const struct optimizer *o, int64_t step)
{
    return schedule_rate(&o->schedule, step);
}

size_t optimizer_sums(const struct optimizer *o)
{
    return o->kind->trust == TRUST_NONE ? o->unit_count : COLUMNS * o->unit_count;
}
