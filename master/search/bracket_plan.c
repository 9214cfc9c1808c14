// Plans a search with many trials: the number of trials, the brackets and their rungs.
#include "master/search/brackets.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/limits.h"
#include "base/text/json.h"
#include "master/search/method.h"
#include "master/search/tpe.h"

static int64_t smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int64_t larger(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

double search_amount(const json_t *length)
{
    const char *unit;
    json_t *value;
    json_object_foreach((json_t *)length, unit,
                        value) if (json_is_number(value)) return json_number_value(value);
    return json_number_value(length);
}

double search_whole_time(const json_t *searcher)
{
    double whole = jget(searcher, "max_time") ? jget_double(searcher, "max_time", 1)
                                              : search_amount(jget(searcher, "max_length"));
    return whole ? whole : 1;
}

// Each rung needs `divisor` times the time of the one below it.
static void set_rungs(struct search_bracket *b, int count, double whole, double divisor)
{
    b->rung_count = count;
    b->rungs = xcalloc((size_t)count, sizeof *b->rungs);
    for (int i = 0; i < count; i++) {
        double needs = floor(whole / pow(divisor, count - 1 - i));
        b->rungs[i].needs = needs < 1 ? 1 : needs;
    }
}

static void set_brackets(struct bracket_search *bs, int count)
{
    bs->bracket_count = count;
    bs->brackets = xcalloc((size_t)count, sizeof *bs->brackets);
}

// The requested number of concurrent trials; `all` if the request is 0.
static int64_t concurrent_of(const json_t *searcher, int64_t all)
{
    int64_t wanted = jget_int(searcher, "max_concurrent_trials", 16);
    return smaller(wanted ? wanted : larger(all, 1), LIMIT_CONCURRENT_TRIALS);
}

static void plan_random(struct bracket_search *bs, const json_t *searcher)
{
    set_brackets(bs, 1);
    struct search_bracket *b = bs->brackets;
    b->max_trials = jget_int(searcher, "max_trials", 1);
    b->concurrent = concurrent_of(searcher, b->max_trials);
}

static int plan_grid(struct bracket_search *bs, const json_t *searcher, const json_t *space,
                     struct error *e)
{
    int64_t points = search_grid_points(space);
    if (points > LIMIT_GRID_TRIALS)
        return error_set(e, ERR_TOO_LARGE,
                         "hyperparameters: the grid has more than %d points; give fewer values, or "
                         "use searcher random",
                         LIMIT_GRID_TRIALS);
    bs->grid = true;
    set_brackets(bs, 1);
    bs->brackets->max_trials = points;
    bs->brackets->concurrent = concurrent_of(searcher, points);
    return 0;
}

// The number of concurrent trials that fills these rungs, so that the top rung is reached.
static int64_t base_of(const struct bracket_search *bs, int rungs)
{
    double trials = pow(bs->divisor, rungs - 1);
    return trials < LIMIT_CONCURRENT_TRIALS ? (int64_t)trials : LIMIT_CONCURRENT_TRIALS;
}

static void plan_halving(struct bracket_search *bs, const json_t *searcher)
{
    int rungs = (int)jget_int(searcher, "num_rungs", 1);
    set_brackets(bs, 1);
    struct search_bracket *b = bs->brackets;
    set_rungs(b, rungs, search_whole_time(searcher), bs->divisor);
    b->max_trials = jget_int(searcher, "max_trials", 1);
    b->concurrent = smaller(concurrent_of(searcher, base_of(bs, rungs)), b->max_trials);
}

// --- adaptive ASHA -------------------------------------------------------------------------------

// The number of useful rungs: limited by the training time and by the number of trials.
static int useful_rungs(const struct bracket_search *bs, const json_t *searcher)
{
    double by_time = log(search_whole_time(searcher)) / log(bs->divisor);
    double by_trials = log(jget_double(searcher, "max_trials", 1)) / log(bs->divisor);
    double max_rungs = floor((by_time < by_trials ? by_time : by_trials) + 1e-9) + 1;
    return (int)smaller(jget_int(searcher, "max_rungs", 5),
                        (int64_t)(max_rungs < 1 ? 1 : max_rungs));
}

// The rungs of each bracket, the longest first. An aggressive search has one bracket that stops
// early; a conservative search also has brackets that stop late.
static int choose_brackets(const struct bracket_search *bs, const json_t *searcher,
                           int rungs[RUNGS_MAX])
{
    const json_t *given = jget(searcher, "bracket_rungs");
    const char *mode = jget_string(searcher, "mode", "standard");
    int max_rungs = useful_rungs(bs, searcher), count = 0;
    for (size_t i = 0; i < json_array_size(given) && count < RUNGS_MAX; i++) {
        int64_t wanted = json_integer_value(json_array_get(given, i));
        rungs[count++] = (int)larger(1, smaller(wanted, RUNGS_MAX));
    }
    if (count)
        return count;
    int min_rungs = !strcmp(mode, "aggressive") ? max_rungs
                    : !strcmp(mode, "standard") ? max_rungs / 2 + 1
                                                : 1;
    for (int i = max_rungs; i >= min_rungs; i--)
        rungs[count++] = i;
    return count;
}

// Divides the trials so that all brackets train for about as long: a bracket that stops early gets
// more trials.
static void share_trials(struct bracket_search *bs, int64_t trials)
{
    double weights = 0;
    int64_t left = trials;
    for (int i = 0; i < bs->bracket_count; i++) {
        int rungs = bs->brackets[i].rung_count;
        weights += pow(bs->divisor, rungs - 1) / rungs;
    }
    for (int i = bs->bracket_count; i-- > 0;) {
        struct search_bracket *b = &bs->brackets[i];
        double weight = pow(bs->divisor, b->rung_count - 1) / b->rung_count;
        b->max_trials = (int64_t)((double)trials * weight / weights);
        b->max_trials = smaller(larger(b->max_trials, 1),
                                left - i); // leaves at least one for each remaining bracket
        if (!i)
            b->max_trials = left;
        left -= b->max_trials;
    }
}

static int plan_adaptive(struct bracket_search *bs, const json_t *searcher, struct error *e)
{
    int rungs[RUNGS_MAX], count = choose_brackets(bs, searcher, rungs);
    int64_t trials = jget_int(searcher, "max_trials", 1);
    int64_t concurrent = jget_int(searcher, "max_concurrent_trials", 16);
    if (count > trials)
        return error_set(e, ERR_INVALID,
                         "searcher.bracket_rungs: %d brackets are more than max_trials", count);
    set_brackets(bs, count);
    for (int i = 0; i < count; i++)
        set_rungs(&bs->brackets[i], rungs[i], search_whole_time(searcher), bs->divisor);
    share_trials(bs, trials);
    for (int i = 0; i < count; i++) {
        struct search_bracket *b = &bs->brackets[i];
        int64_t part = concurrent / count + (i < concurrent % count);
        b->concurrent =
            smaller(concurrent ? larger(part, 1) : base_of(bs, rungs[i]), b->max_trials);
    }
    return 0;
}

// --- Hyperband -----------------------------------------------------------------------------------

// Algorithm 1 of Li et al. (JMLR 2018): bracket s of s_max .. 0 starts n = ceil((s_max + 1) /
// (s + 1) * divisor^s) trials, and its rung i admits floor(n / divisor^i) of them. max_rungs limits
// s_max + 1; otherwise the lowest rung needs at least one unit of time.
static int plan_hyperband(struct bracket_search *bs, const json_t *searcher, struct error *e)
{
    const double tiny = 1e-9; // powers and logarithms are not exact
    double whole = search_whole_time(searcher);
    double deepest = whole > 1 ? floor(log(whole) / log(bs->divisor) + tiny) : 0;
    int64_t most = jget_int(searcher, "max_rungs", 5);
    int count = deepest + 1 < (double)most ? (int)deepest + 1 : (int)most;
    double trials = 0;
    bs->synchronous = true;
    set_brackets(bs, count);
    for (int i = 0; i < count; i++) {
        struct search_bracket *b = &bs->brackets[i];
        int rungs = count - i;
        double n = ceil((double)count / rungs * pow(bs->divisor, rungs - 1) - tiny);
        set_rungs(b, rungs, whole, bs->divisor);
        trials += n;
        if (trials > LIMIT_HYPERBAND_TRIALS)
            return error_set(e, ERR_TOO_LARGE,
                             "searcher: hyperband with divisor %g and %d rungs needs more than %d "
                             "trials; lower max_rungs or divisor",
                             bs->divisor, count, LIMIT_HYPERBAND_TRIALS);
        b->max_trials = (int64_t)n;
        for (int r = 0; r < rungs; r++)
            b->rungs[r].size = larger(1, (int64_t)floor(n / pow(bs->divisor, r) + tiny));
    }
    for (int i = 0; i < count; i++)
        bs->brackets[i].concurrent = concurrent_of(searcher, (int64_t)trials);
    return 0;
}

// --- TPE -----------------------------------------------------------------------------------------

static int plan_tpe(struct bracket_search *bs, const json_t *config, struct error *e)
{
    const json_t *searcher = jget(config, "searcher");
    plan_random(bs, searcher);
    return tpe_new(config, &bs->tpe, e);
}

// A configuration that this master has checked is within these bounds; an imported one may not be.
static int check_bounds(const struct bracket_search *bs, const json_t *searcher, struct error *e)
{
    int64_t rungs = jget_int(searcher, "num_rungs", 1), most = jget_int(searcher, "max_rungs", 5);
    bool good = bs->divisor > 1 && bs->divisor <= 1e6 && search_whole_time(searcher) >= 0 &&
                jget_double(searcher, "max_trials", 1) >= 1 && rungs >= 1 && rungs <= RUNGS_MAX &&
                most >= 1 && most <= RUNGS_MAX;
    return good ? 0
                : error_set(e, ERR_INVALID,
                            "searcher: divisor, num_rungs, max_rungs, max_time, max_length or "
                            "max_trials is out of its bounds");
}

int bracket_search_plan(struct bracket_search *bs, const json_t *config, struct error *e)
{
    const json_t *searcher = jget(config, "searcher");
    const char *name = jget_string(searcher, "name", "");
    bs->divisor = jget_double(searcher, "divisor", strcmp(name, "hyperband") ? 4 : 3);
    bs->smaller_is_better = jget_bool(searcher, "smaller_is_better", true);
    int err = check_bounds(bs, searcher, e);
    if (err)
        return err;
    if (!strcmp(name, "grid"))
        return plan_grid(bs, searcher, jget(config, "hyperparameters"), e);
    if (!strcmp(name, "adaptive_asha"))
        return plan_adaptive(bs, searcher, e);
    if (!strcmp(name, "hyperband"))
        return plan_hyperband(bs, searcher, e);
    if (!strcmp(name, "tpe"))
        return plan_tpe(bs, config, e);
    if (!strcmp(name, "async_halving"))
        plan_halving(bs, searcher);
    else
        plan_random(bs, searcher);
    return 0;
}

double bracket_search_lowest_rung(const json_t *config)
{
    struct bracket_search bs = {0};
    double lowest = 0;
    if (!bracket_search_plan(&bs, config, NULL))
        for (int i = 0; i < bs.bracket_count; i++) {
            const struct search_bracket *b = &bs.brackets[i];
            if (b->rung_count && (!lowest || b->rungs[0].needs < lowest))
                lowest = b->rungs[0].needs;
        }
    bracket_search_free(&bs);
    return lowest;
}

void bracket_search_free(struct bracket_search *bs)
{
    for (int i = 0; i < bs->bracket_count; i++) {
        for (int r = 0; r < bs->brackets[i].rung_count; r++)
            free(bs->brackets[i].rungs[r].entries);
        free(bs->brackets[i].rungs);
    }
    free(bs->brackets);
    free(bs->runners);
    free(bs->again);
    free(bs->lost);
    tpe_free(bs->tpe);
}
