// A step in passes over the units of this rank's ranges, with a combination of sums between two of
// them where a norm must be known:
//
//   clipping, LARS    measure gradients (LARS: and weights); combine; update
//   otherwise         measure and update, while a cell's gradient is in cache; combine
//   LAMB              its update ends at the moments and measures weights and directions, which
//                     are combined with what is left; then it applies the directions
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/log.h"
#include "trainer/optim/optimizer_internal.h"

struct pass {
    struct optimizer *o;
    struct ops_update update;
    double rate;
    struct ops_blocks blocks;
    const struct optimizer_peers *peers;
};

static bool is_statistic(const struct parameter *p)
{
    return p->momentum > 0;
}

static double length_of(const struct optimizer *o, enum column column, int parameter)
{
    return sqrt(o->totals[(int)column * o->parameter_count + parameter]);
}

// LARS leaves a tensor that is zero, or without gradient, at the plain rate; LAMB alike.
static double trust_of(const struct pass *s, int parameter)
{
    const struct optimizer *o = s->o;
    if (o->kind->trust == TRUST_NONE || !o->parameters[parameter].decay)
        return 1;
    double weights = length_of(o, OF_WEIGHTS, parameter), step;
    if (o->kind->trust == TRUST_LAMB)
        step = length_of(o, OF_DIRECTION, parameter);
    else
        step = (double)s->update.scale * length_of(o, OF_GRADIENT, parameter);
    if (weights == 0 || step == 0)
        return 1;
    return o->kind->trust == TRUST_LAMB
               ? weights / step
               : o->trust_coefficient * weights / (step + o->weight_decay * weights);
}

// --- the ranges

static void check_range(const struct optimizer *o, const struct optimizer_range *r)
{
    must(r->first <= r->last && r->last <= o->block_size && r->first % OPTIMIZER_CELL == 0);
    must(r->last % OPTIMIZER_CELL == 0 || r->last == o->block_size);
}

static void list_units(struct optimizer *o)
{
    o->own_count = 0;
    for (int r = 0; r < o->range_count; r++) {
        size_t last = (o->ranges[r].last + OPTIMIZER_CELL - 1) / OPTIMIZER_CELL;
        check_range(o, &o->ranges[r]);
        for (size_t i = o->of_cell[o->ranges[r].first / OPTIMIZER_CELL]; i < o->of_cell[last]; i++)
            o->own_index[o->own_count++] = i;
    }
}

// The table of this rank's units is made anew when its ranges have changed.
static int take_ranges(struct optimizer *o, const struct optimizer_range *ranges, int count,
                       struct error *e)
{
    size_t bytes = (size_t)count * sizeof *ranges;
    if (o->own && o->range_count == count && (count == 0 || memcmp(o->ranges, ranges, bytes) == 0))
        return 0;
    ops_units_free(o->own);
    o->own = NULL;
    o->range_count = count;
    o->ranges = xrealloc(o->ranges, bytes + 1);
    if (count > 0) // else `ranges` may be NULL
        memcpy(o->ranges, ranges, bytes);
    o->own_index = xrealloc(o->own_index, (o->unit_count + 1) * sizeof *o->own_index);
    list_units(o);
    o->own_sums = xrealloc(o->own_sums, COLUMNS * (o->own_count + 1) * sizeof *o->own_sums);
    struct ops_unit *units = xcalloc(o->own_count + 1, sizeof *units);
    for (size_t i = 0; i < o->own_count; i++)
        units[i] = o->units[o->own_index[i]];
    int rc = ops_units_new(units, o->own_count, o->parameter_count, &o->own, e);
    free(units);
    return rc;
}

static void rate_tensors(struct pass *s)
{
    struct optimizer *o = s->o;
    for (int i = 0; i < o->parameter_count; i++) {
        const struct parameter *p = &o->parameters[i];
        o->tensors[i] = (struct ops_tensor){.rate = (float)(s->rate * trust_of(s, i)),
                                            .decay = p->decay ? (float)o->weight_decay : 0,
                                            .statistic = (float)p->momentum};
    }
}

// --- what is measured

static double *column_of(const struct optimizer *o, enum column c)
{
    return o->own_sums + c * o->own_count;
}

// The columns from first to last, which ops have written for this rank's units.
static int take_sums(struct optimizer *o, enum column first, enum column last, struct error *e)
{
    int rc = ops_synchronize(e);
    for (enum column c = first; c <= last; c++)
        for (size_t i = 0; i < o->own_count; i++)
            o->sums[c * o->unit_count + o->own_index[i]] = column_of(o, c)[i];
    return rc;
}

// --- between the passes

static int add_up(struct optimizer *o, enum column column, struct error *e)
{
    static const char *const names[] = {"gradient", "value", "update"};
    const double *sums = o->sums + column * o->unit_count;
    double *totals = o->totals + (int)column * o->parameter_count;
    for (int i = 0; i < o->parameter_count; i++) {
        totals[i] = 0;
        for (size_t k = o->of_parameter[i]; k < o->of_parameter[i + 1]; k++)
            totals[i] += sums[k];
        if (!isfinite(totals[i]))
            return error_set(e, ERR_CORRUPT,
                             "the %s of %s is not finite; a lower learning rate, a longer warm-up "
                             "or clip_norm may help",
                             names[column], o->parameters[i].name);
    }
    return 0;
}

// The columns from first to last are measured: every rank's sums, then each parameter's.
static int combine(struct pass *s, enum column first, enum column last, struct error *e)
{
    struct optimizer *o = s->o;
    int rc = take_sums(o, first, last, e);
    if (!rc && s->peers)
        rc = s->peers->combine(s->peers->ctx, o->sums + first * o->unit_count,
                               (last - first + 1) * o->unit_count, e);
    for (enum column c = first; c <= last && !rc; c++)
        rc = add_up(o, c, e);
    return rc;
}

static double gradient_norm_of(const struct optimizer *o)
{
    double sum = 0;
    for (int i = 0; i < o->parameter_count; i++)
        if (!is_statistic(&o->parameters[i]))
            sum += o->totals[i];
    return sqrt(sum);
}

// The gradient's length is known before anything is updated.
static int run_measured(struct pass *s, double *norm, struct error *e)
{
    struct optimizer *o = s->o;
    bool lamb = o->kind->trust == TRUST_LAMB, lars = o->kind->trust == TRUST_LARS;
    const struct ops_squares before = {.gradients = column_of(o, OF_GRADIENT),
                                       .weights = lars ? column_of(o, OF_WEIGHTS) : NULL};
    const struct ops_squares after = {.weights = column_of(o, OF_WEIGHTS),
                                      .directions = column_of(o, OF_DIRECTION)};
    ops_units_measure(o->own, &s->blocks, &before);
    int rc = combine(s, OF_GRADIENT, lars ? OF_WEIGHTS : OF_GRADIENT, e);
    if (rc)
        return rc;
    *norm = gradient_norm_of(o);
    if (o->clip_norm > 0 && *norm > o->clip_norm)
        s->update.scale = (float)(o->clip_norm / *norm);
    rate_tensors(s);
    ops_units_update(o->own, &s->update, o->tensors, &s->blocks, &after);
    return lamb ? combine(s, OF_WEIGHTS, OF_DIRECTION, e) : 0;
}

static int run_at_once(struct pass *s, double *norm, struct error *e)
{
    struct optimizer *o = s->o;
    const struct ops_squares sums = {.gradients = column_of(o, OF_GRADIENT),
                                     .weights = column_of(o, OF_WEIGHTS),
                                     .directions = column_of(o, OF_DIRECTION)};
    ops_units_update(o->own, &s->update, o->tensors, &s->blocks, &sums);
    int rc = combine(s, OF_GRADIENT, o->kind->trust == TRUST_LAMB ? OF_DIRECTION : OF_GRADIENT, e);
    *norm = gradient_norm_of(o);
    return rc;
}

static int run_passes(struct pass *s, double *norm, struct error *e)
{
    struct optimizer *o = s->o;
    bool measured = o->kind->trust == TRUST_LARS || o->clip_norm > 0;
    memset(o->own_sums, 0, COLUMNS * o->own_count * sizeof *o->own_sums);
    memset(o->totals, 0, COLUMNS * (size_t)o->parameter_count * sizeof *o->totals);
    rate_tensors(s);
    int rc = measured ? run_measured(s, norm, e) : run_at_once(s, norm, e);
    if (rc || o->kind->trust != TRUST_LAMB)
        return rc;
    rate_tensors(s);
    ops_units_apply(o->own, &s->update, o->tensors, &s->blocks);
    return 0;
}

int optimizer_step(struct optimizer *o, int64_t step, float *parameters, const float *gradients,
                   const struct optimizer_range *ranges, int range_count,
                   const struct optimizer_peers *peers, double *gradient_norm, struct error *e)
{
    const struct optimizer_range whole = {0, o->block_size};
    bool alone = range_count == 0 && !peers;
    double steps = (double)(step + 1), norm = 0;
    struct pass s = {.o = o,
                     .update = {.rule = o->kind->rule,
                                .scale = 1,
                                .momentum = (float)o->momentum,
                                .beta1 = (float)o->beta1,
                                .beta2 = (float)o->beta2,
                                .epsilon = (float)o->epsilon,
                                .correction1 = (float)(1 / (1 - pow(o->beta1, steps))),
                                .correction2 = (float)(1 / (1 - pow(o->beta2, steps)))},
                     .rate = schedule_rate(&o->schedule, step),
                     .blocks = {parameters, gradients, o->states[0], o->states[1]},
                     .peers = peers};
    memset(o->sums, 0, COLUMNS * o->unit_count * sizeof *o->sums);
    int rc = take_ranges(o, alone ? &whole : ranges, alone ? 1 : range_count, e);
    if (!rc)
        rc = run_passes(&s, &norm, e);
    if (!rc && gradient_norm)
        *gradient_norm = norm;
    return rc;
}
