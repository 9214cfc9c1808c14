// A step consists of passes over the units of this rank's ranges. Where a norm is needed, the ranks
// combine their sums between two passes:
//
//   clipping, LARS    measure gradients (LARS: also weights); combine; update
//   otherwise         measure and update in one pass, while a cell's gradient is in cache; combine
//   LAMB              the update stops at the moments and measures weights and directions; combine
//                     these sums as well; then apply the directions
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/log.h"
#include "trainer/optim/optimizer_internal.h"

struct optimizer_pass {
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

static double norm_of(const struct optimizer *o, enum squares column, int parameter)
{
    return sqrt(o->totals[(int)column * o->parameter_count + parameter]);
}

// LARS and LAMB use the plain rate for a tensor whose weights or gradient are zero.
static double trust_ratio_of(const struct optimizer_pass *s, int parameter)
{
    const struct optimizer *o = s->o;
    if (o->kind->trust == TRUST_NONE || !o->parameters[parameter].decay)
        return 1;
    double weights = norm_of(o, SQUARES_WEIGHTS, parameter), step;
    if (o->kind->trust == TRUST_LAMB)
        step = norm_of(o, SQUARES_DIRECTION, parameter);
    else
        step = (double)s->update.scale * norm_of(o, SQUARES_GRADIENT, parameter);
    if (weights == 0 || step == 0)
        return 1;
    return o->kind->trust == TRUST_LAMB
               ? weights / step
               : o->trust_coefficient * weights / (step + o->weight_decay * weights);
}

// --- ranges --------------------------------------------------------------------------------------

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
        for (size_t i = o->cell_units[o->ranges[r].first / OPTIMIZER_CELL]; i < o->cell_units[last];
             i++)
            o->own_index[o->own_count++] = i;
    }
}

// Rebuilds the table of this rank's units if its ranges have changed.
static int set_ranges(struct optimizer *o, const struct optimizer_range *ranges, int count,
                      struct error *e)
{
    size_t bytes = (size_t)count * sizeof *ranges;
    if (o->own && o->range_count == count && (count == 0 || memcmp(o->ranges, ranges, bytes) == 0))
        return 0;
    ops_units_free(o->own);
    o->own = NULL;
    o->range_count = count;
    o->ranges = xrealloc(o->ranges, bytes + 1);
    if (count > 0) // otherwise `ranges` may be NULL
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

static void set_tensor_rates(struct optimizer_pass *s)
{
    struct optimizer *o = s->o;
    for (int i = 0; i < o->parameter_count; i++) {
        const struct parameter *p = &o->parameters[i];
        o->tensors[i] = (struct ops_tensor){.rate = (float)(s->rate * trust_ratio_of(s, i)),
                                            .decay = p->decay ? (float)o->weight_decay : 0,
                                            .statistic = (float)p->momentum};
    }
}

// --- measured sums -------------------------------------------------------------------------------

static double *column_of(const struct optimizer *o, enum squares c)
{
    return o->own_sums + c * o->own_count;
}

// Copies the columns from first to last, which the device wrote for this rank's units, into `sums`.
static int read_sums(struct optimizer *o, enum squares first, enum squares last, struct error *e)
{
    int rc = ops_synchronize(e);
    for (enum squares c = first; c <= last; c++)
        for (size_t i = 0; i < o->own_count; i++)
            o->sums[c * o->unit_count + o->own_index[i]] = column_of(o, c)[i];
    return rc;
}

// --- combining -----------------------------------------------------------------------------------

static int sum_parameters(struct optimizer *o, enum squares column, struct error *e)
{
    static const char *const names[] = {"gradient", "value", "update"};
    const double *sums = o->sums + column * o->unit_count;
    double *totals = o->totals + (int)column * o->parameter_count;
    for (int i = 0; i < o->parameter_count; i++) {
        totals[i] = 0;
        for (size_t k = o->parameter_units[i]; k < o->parameter_units[i + 1]; k++)
            totals[i] += sums[k];
        if (!isfinite(totals[i]))
            return error_set(e, ERR_CORRUPT,
                             "the %s of %s is not finite; try a lower learning rate, a longer "
                             "warm-up or clip_norm",
                             names[column], o->parameters[i].name);
    }
    return 0;
}

// Combines the measured columns from first to last: over the ranks, then for each parameter.
static int combine_columns(struct optimizer_pass *s, enum squares first, enum squares last,
                           struct error *e)
{
    struct optimizer *o = s->o;
    int rc = read_sums(o, first, last, e);
    if (!rc && s->peers)
        rc = s->peers->combine(s->peers->ctx, o->sums + first * o->unit_count,
                               (last - first + 1) * o->unit_count, e);
    for (enum squares c = first; c <= last && !rc; c++)
        rc = sum_parameters(o, c, e);
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

// Measures the gradient before it updates anything.
static int run_measured(struct optimizer_pass *s, double *norm, struct error *e)
{
    struct optimizer *o = s->o;
    bool lamb = o->kind->trust == TRUST_LAMB, lars = o->kind->trust == TRUST_LARS;
    const struct ops_squares before = {.gradients = column_of(o, SQUARES_GRADIENT),
                                       .weights = lars ? column_of(o, SQUARES_WEIGHTS) : NULL};
    const struct ops_squares after = {.weights = column_of(o, SQUARES_WEIGHTS),
                                      .directions = column_of(o, SQUARES_DIRECTION)};
    ops_units_measure(o->own, &s->blocks, &before);
    int rc = combine_columns(s, SQUARES_GRADIENT, lars ? SQUARES_WEIGHTS : SQUARES_GRADIENT, e);
    if (rc)
        return rc;
    *norm = gradient_norm_of(o);
    if (o->clip_norm > 0 && *norm > o->clip_norm)
        s->update.scale = (float)(o->clip_norm / *norm);
    set_tensor_rates(s);
    ops_units_update(o->own, &s->update, o->tensors, &s->blocks, &after);
    return lamb ? combine_columns(s, SQUARES_WEIGHTS, SQUARES_DIRECTION, e) : 0;
}

static int run_at_once(struct optimizer_pass *s, double *norm, struct error *e)
{
    struct optimizer *o = s->o;
    const struct ops_squares sums = {.gradients = column_of(o, SQUARES_GRADIENT),
                                     .weights = column_of(o, SQUARES_WEIGHTS),
                                     .directions = column_of(o, SQUARES_DIRECTION)};
    ops_units_update(o->own, &s->update, o->tensors, &s->blocks, &sums);
    int rc =
        combine_columns(s, SQUARES_GRADIENT,
                        o->kind->trust == TRUST_LAMB ? SQUARES_DIRECTION : SQUARES_GRADIENT, e);
    *norm = gradient_norm_of(o);
    return rc;
}

static int run_passes(struct optimizer_pass *s, double *norm, struct error *e)
{
    struct optimizer *o = s->o;
    bool measured = o->kind->trust == TRUST_LARS || o->clip_norm > 0;
    memset(o->own_sums, 0, COLUMNS * o->own_count * sizeof *o->own_sums);
    memset(o->totals, 0, COLUMNS * (size_t)o->parameter_count * sizeof *o->totals);
    set_tensor_rates(s);
    int rc = measured ? run_measured(s, norm, e) : run_at_once(s, norm, e);
    if (rc || o->kind->trust != TRUST_LAMB)
        return rc;
    set_tensor_rates(s);
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
    struct optimizer_pass s = {.o = o,
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
    int rc = set_ranges(o, alone ? &whole : ranges, alone ? 1 : range_count, e);
    if (!rc)
        rc = run_passes(&s, &norm, e);
    if (!rc && gradient_norm)
        *gradient_norm = norm;
    return rc;
}
