// Differences from Bergstra et al. (2011), as in its later implementations: the number of good
// trials is limited, only the newest bad trials count, and trials that run count as bad, so that
// concurrent trials spread out.
#include "master/search/tpe.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/text/json.h"
#include "master/search/method.h"
#include "master/search/parzen.h"

enum {
    GOOD_MAX = 25,    // good trials; more would blur the estimate
    BAD_MAX = 250,    // bad trials that an estimate looks at, the newest: a draw must be fast
    DRAWS_MAX = 10000 // candidates of a trial in all dimensions, for the same reason
};

struct tpe_trial {
    int64_t number;
    bool ended;
    double metric; // smaller is better; INFINITY: none
    double *at;    // its value in each dimension
};

struct tpe {
    struct parzen_range *ranges; // of the hyperparameters that vary, in the order of the file
    size_t dimensions;
    int64_t startup, candidates;
    double gamma;
    struct tpe_trial *trials;
    size_t count, cap;
};

// --- the space -----------------------------------------------------------------------------------

static void add_range(const json_t *leaf, void *ctx)
{
    struct tpe *t = ctx;
    const char *type = jget_string(leaf, "type", "const");
    struct parzen_range range = {.low = jget_double(leaf, "minval", 0),
                                 .high = jget_double(leaf, "maxval", 0)};
    if (!strcmp(type, "const"))
        return;
    if (!strcmp(type, "int"))
        range.kind = PARZEN_INTEGER;
    if (!strcmp(type, "categorical"))
        range = (struct parzen_range){.kind = PARZEN_CATEGORY,
                                      .high = (double)json_array_size(jget(leaf, "vals")) - 1};
    t->ranges = xrealloc(t->ranges, (t->dimensions + 1) * sizeof *t->ranges);
    t->ranges[t->dimensions++] = range;
}

// A range of one value has no density; every trial has that value.
static bool is_flat(const struct parzen_range *range)
{
    return range->kind == PARZEN_REAL && !(range->low < range->high);
}

int tpe_new(const json_t *config, struct tpe **out, struct error *e)
{
    const json_t *searcher = jget(config, "searcher");
    struct tpe *t = xcalloc(1, sizeof *t);
    t->startup = jget_int(searcher, "startup_trials", 10);
    t->candidates = jget_int(searcher, "candidates", 24);
    t->gamma = jget_double(searcher, "gamma", 0.15);
    search_visit(jget(config, "hyperparameters"), add_range, t);
    *out = t;
    if (jget_int(searcher, "max_trials", 1) > LIMIT_TPE_TRIALS)
        return error_set(e, ERR_TOO_LARGE,
                         "searcher.max_trials: tpe makes at most %d trials, because each looks at "
                         "all earlier ones; use searcher random or adaptive_asha for more",
                         LIMIT_TPE_TRIALS);
    if (t->startup < 1 || t->candidates < 1 || t->candidates > 1000 || !(t->gamma > 0) ||
        !(t->gamma < 1))
        return error_set(e, ERR_INVALID,
                         "searcher: startup_trials, candidates or gamma is out of its bounds");
    if (t->dimensions > (size_t)(DRAWS_MAX / t->candidates))
        return error_set(e, ERR_TOO_LARGE,
                         "searcher.candidates: %lld candidates for each of %zu hyperparameters are "
                         "more than %d in all, which would take too long for each trial; give "
                         "fewer candidates, or make some hyperparameters constant",
                         (long long)t->candidates, t->dimensions, DRAWS_MAX);
    return 0;
}

void tpe_free(struct tpe *t)
{
    if (!t)
        return;
    for (size_t i = 0; i < t->count; i++)
        free(t->trials[i].at);
    free(t->trials);
    free(t->ranges);
    free(t);
}

// --- drawing -------------------------------------------------------------------------------------

// Best first: ended trials by metric, then those that run.
static int by_result(const void *a, const void *b)
{
    const struct tpe_trial *x = a, *y = b;
    if (x->ended != y->ended)
        return x->ended ? -1 : 1;
    if (x->ended && x->metric != y->metric)
        return x->metric < y->metric ? -1 : 1;
    return (x->number > y->number) - (x->number < y->number);
}

static int by_age(const void *a, const void *b) // newest first
{
    const struct tpe_trial *x = a, *y = b;
    return (x->number < y->number) - (x->number > y->number);
}

static size_t count_results(const struct tpe *t)
{
    size_t results = 0;
    for (size_t i = 0; i < t->count; i++)
        results += t->trials[i].ended && isfinite(t->trials[i].metric);
    return results;
}

// The candidate, drawn from the good trials, whose density among the good ones exceeds that among
// the bad ones most; this maximises the expected improvement.
static double draw_dimension(const struct tpe *t, size_t dimension, size_t good, size_t bad,
                             struct rng *rng)
{
    const struct parzen_range *range = &t->ranges[dimension];
    struct parzen likely, unlikely;
    double best = -INFINITY, chosen = range->low;
    if (is_flat(range))
        return chosen;
    double *values = xcalloc(good + bad + 1, sizeof *values);
    for (size_t i = 0; i < good + bad; i++)
        values[i] = t->trials[i].at[dimension];
    parzen_fit(&likely, range, values, good);
    parzen_fit(&unlikely, range, values + good, bad);
    free(values);
    for (int64_t i = 0; i < t->candidates; i++) {
        double value = parzen_draw(&likely, rng);
        double gain = parzen_log_density(&likely, value) - parzen_log_density(&unlikely, value);
        if (gain > best) {
            best = gain;
            chosen = value;
        }
    }
    parzen_free(&likely);
    parzen_free(&unlikely);
    return chosen;
}

// Before there are enough results, points are drawn from the prior.
static double draw_prior(const struct parzen_range *range, struct rng *rng)
{
    if (range->kind == PARZEN_REAL)
        return range->low + (range->high - range->low) * rng_double(rng);
    return range->low + floor((range->high - range->low + 1) * rng_double(rng));
}

bool tpe_has_model(const struct tpe *t)
{
    return count_results(t) >= (size_t)t->startup;
}

static void draw_at(struct tpe *t, double *at, struct rng *rng)
{
    size_t results = count_results(t);
    if (!tpe_has_model(t)) {
        for (size_t i = 0; i < t->dimensions; i++)
            at[i] = draw_prior(&t->ranges[i], rng);
        return;
    }
    double wanted = ceil(t->gamma * (double)results);
    size_t good = wanted < GOOD_MAX ? (size_t)wanted : GOOD_MAX;
    qsort(t->trials, t->count, sizeof *t->trials, by_result);
    size_t bad = t->count - good;
    if (bad > BAD_MAX) {
        qsort(t->trials + good, bad, sizeof *t->trials, by_age);
        bad = BAD_MAX;
    }
    for (size_t i = 0; i < t->dimensions; i++)
        at[i] = draw_dimension(t, i, good, bad, rng);
}

struct position {
    const double *at; // of the next leaf
};

static json_t *leaf_at(const json_t *leaf, const json_t *old, void *ctx)
{
    struct position *p = ctx;
    (void)old;
    bool fixed = !strcmp(jget_string(leaf, "type", "const"), "const");
    return search_leaf_value(leaf, fixed ? 0 : *p->at++);
}

json_t *tpe_draw(struct tpe *t, const json_t *space, int64_t number, struct rng *rng)
{
    double *at = xcalloc(t->dimensions + 1, sizeof *at);
    draw_at(t, at, rng);
    if (t->count == t->cap) {
        t->cap = t->cap ? 2 * t->cap : 64;
        t->trials = xrealloc(t->trials, t->cap * sizeof *t->trials);
    }
    t->trials[t->count++] = (struct tpe_trial){.number = number, .metric = INFINITY, .at = at};
    return search_make_point(space, NULL, leaf_at, &(struct position){at});
}

void tpe_end(struct tpe *t, int64_t number, double metric)
{
    for (size_t i = 0; i < t->count; i++)
        if (t->trials[i].number == number) {
            t->trials[i].ended = true;
            t->trials[i].metric = metric;
        }
}

// --- saved state ---------------------------------------------------------------------------------

// [number, metric or null or "running", value ..] of each trial.
json_t *tpe_save(const struct tpe *t)
{
    json_t *saved = json_array();
    for (size_t i = 0; i < t->count; i++) {
        const struct tpe_trial *trial = &t->trials[i];
        json_t *metric = !trial->ended             ? json_string("running")
                         : isfinite(trial->metric) ? json_real(trial->metric)
                                                   : json_null();
        json_t *row = json_pack("[I, o]", trial->number, metric);
        must(row);
        for (size_t d = 0; d < t->dimensions; d++)
            must(!json_array_append_new(row, json_real(trial->at[d])));
        must(!json_array_append_new(saved, row));
    }
    return saved;
}

void tpe_load(struct tpe *t, const json_t *saved)
{
    size_t i;
    json_t *row;
    t->cap = json_array_size(saved);
    t->trials = xcalloc(t->cap + 1, sizeof *t->trials);
    json_array_foreach((json_t *)saved, i, row)
    {
        const json_t *metric = json_array_get(row, 1);
        struct tpe_trial *trial = &t->trials[t->count++];
        trial->number = json_integer_value(json_array_get(row, 0));
        trial->ended = !json_is_string(metric);
        trial->metric = json_is_number(metric) ? json_number_value(metric) : INFINITY;
        trial->at = xcalloc(t->dimensions + 1, sizeof *trial->at);
        for (size_t d = 0; d < t->dimensions; d++) {
            const struct parzen_range *range = &t->ranges[d];
            double value = json_number_value(json_array_get(row, d + 2));
            trial->at[d] = value < range->low    ? range->low
                           : value > range->high ? range->high
                                                 : value;
        }
    }
}
