// How many trials a search of many has, in which brackets, and where their rungs lie.
#include "master/search/crowd.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/limits.h"
#include "base/text/json.h"
#include "master/search/method.h"

static int64_t smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int64_t larger(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

// The length of a whole training: max_time, or the older max_length, a number or {unit: number}.
static double whole_time(const json_t *searcher)
{
    const json_t *length = jget(searcher, "max_length");
    const char *unit;
    json_t *value;
    if (jget(searcher, "max_time"))
        return jget_double(searcher, "max_time", 1);
    if (json_is_number(length))
        return json_number_value(length);
    json_object_foreach((json_t *)length, unit,
                        value) if (json_is_number(value)) return json_number_value(value);
    return 1;
}

// Each rung needs `divisor` times the time of the one below it.
static void set_rungs(struct bracket *b, int count, double whole, double divisor)
{
    b->rung_count = count;
    b->rungs = xcalloc((size_t)count, sizeof *b->rungs);
    for (int i = 0; i < count; i++) {
        double needs = floor(whole / pow(divisor, count - 1 - i));
        b->rungs[i].needs = needs < 1 ? 1 : needs;
    }
}

static void set_brackets(struct crowd *crowd, int count)
{
    crowd->bracket_count = count;
    crowd->brackets = xcalloc((size_t)count, sizeof *crowd->brackets);
}

// As many at a time as are asked for; `all` where that is 0.
static int64_t concurrent_of(const json_t *searcher, int64_t all)
{
    int64_t wanted = jget_int(searcher, "max_concurrent_trials", 16);
    return smaller(wanted ? wanted : larger(all, 1), LIMIT_CONCURRENT_TRIALS);
}

static void plan_random(struct crowd *crowd, const json_t *searcher)
{
    set_brackets(crowd, 1);
    struct bracket *b = crowd->brackets;
    b->most = jget_int(searcher, "max_trials", 1);
    b->concurrent = concurrent_of(searcher, b->most);
}

static int plan_grid(struct crowd *crowd, const json_t *searcher, const json_t *space,
                     struct error *e)
{
    int64_t points = search_grid_points(space);
    if (points > LIMIT_GRID_TRIALS)
        return error_set(e, ERR_TOO_LARGE,
                         "hyperparameters: the grid has more than %d points; give fewer values, or "
                         "use searcher random",
                         LIMIT_GRID_TRIALS);
    crowd->grid = true;
    set_brackets(crowd, 1);
    crowd->brackets->most = points;
    crowd->brackets->concurrent = concurrent_of(searcher, points);
    return 0;
}

// What as many rungs would like to have at a time, so that the top one is reached.
static int64_t base_of(const struct crowd *crowd, int rungs)
{
    double trials = pow(crowd->divisor, rungs - 1);
    return trials < LIMIT_CONCURRENT_TRIALS ? (int64_t)trials : LIMIT_CONCURRENT_TRIALS;
}

static void plan_halving(struct crowd *crowd, const json_t *searcher)
{
    int rungs = (int)jget_int(searcher, "num_rungs", 1);
    set_brackets(crowd, 1);
    struct bracket *b = crowd->brackets;
    set_rungs(b, rungs, whole_time(searcher), crowd->divisor);
    b->most = jget_int(searcher, "max_trials", 1);
    b->concurrent = smaller(concurrent_of(searcher, base_of(crowd, rungs)), b->most);
}

// --- adaptive ASHA -------------------------------------------------------------------------------

// Rungs that make sense: a ladder no longer than its time, and with trials enough to climb it.
static int most_rungs(const struct crowd *crowd, const json_t *searcher)
{
    double by_time = log(whole_time(searcher)) / log(crowd->divisor);
    double by_trials = log(jget_double(searcher, "max_trials", 1)) / log(crowd->divisor);
    double most = floor((by_time < by_trials ? by_time : by_trials) + 1e-9) + 1;
    return (int)smaller(jget_int(searcher, "max_rungs", 5), (int64_t)(most < 1 ? 1 : most));
}

// The rungs of each bracket, most first. An aggressive search has one bracket that stops early, a
// conservative one also brackets that stop late.
static int choose_brackets(const struct crowd *crowd, const json_t *searcher, int rungs[RUNGS_MAX])
{
    const json_t *given = jget(searcher, "bracket_rungs");
    const char *mode = jget_string(searcher, "mode", "standard");
    int most = most_rungs(crowd, searcher), count = 0;
    for (size_t i = 0; i < json_array_size(given) && count < RUNGS_MAX; i++) {
        int64_t wanted = json_integer_value(json_array_get(given, i));
        rungs[count++] = (int)larger(1, smaller(wanted, RUNGS_MAX));
    }
    if (count)
        return count;
    int least = !strcmp(mode, "aggressive") ? most : !strcmp(mode, "standard") ? most / 2 + 1 : 1;
    for (int i = most; i >= least; i--)
        rungs[count++] = i;
    return count;
}

// Trials by brackets so that each trains for about as long: one that stops early gets more.
static void share_trials(struct crowd *crowd, int64_t trials)
{
    double weights = 0;
    int64_t left = trials;
    for (int i = 0; i < crowd->bracket_count; i++) {
        int rungs = crowd->brackets[i].rung_count;
        weights += pow(crowd->divisor, rungs - 1) / rungs;
    }
    for (int i = crowd->bracket_count; i-- > 0;) {
        struct bracket *b = &crowd->brackets[i];
        double weight = pow(crowd->divisor, b->rung_count - 1) / b->rung_count;
        b->most = (int64_t)((double)trials * weight / weights);
        b->most = smaller(larger(b->most, 1), left - i); // the others have at least one each
        if (!i)
            b->most = left;
        left -= b->most;
    }
}

static int plan_adaptive(struct crowd *crowd, const json_t *searcher, struct error *e)
{
    int rungs[RUNGS_MAX], count = choose_brackets(crowd, searcher, rungs);
    int64_t trials = jget_int(searcher, "max_trials", 1);
    int64_t concurrent = jget_int(searcher, "max_concurrent_trials", 16);
    if (count > trials)
        return error_set(e, ERR_INVALID,
                         "searcher.bracket_rungs: %d brackets are more than max_trials", count);
    set_brackets(crowd, count);
    for (int i = 0; i < count; i++)
        set_rungs(&crowd->brackets[i], rungs[i], whole_time(searcher), crowd->divisor);
    share_trials(crowd, trials);
    for (int i = 0; i < count; i++) {
        struct bracket *b = &crowd->brackets[i];
        int64_t part = concurrent / count + (i < concurrent % count);
        b->concurrent = smaller(concurrent ? larger(part, 1) : base_of(crowd, rungs[i]), b->most);
    }
    return 0;
}

int crowd_plan(struct crowd *crowd, const json_t *config, struct error *e)
{
    const json_t *searcher = jget(config, "searcher");
    const char *name = jget_string(searcher, "name", "");
    crowd->divisor = jget_double(searcher, "divisor", 4);
    crowd->smaller_is_better = jget_bool(searcher, "smaller_is_better", true);
    if (!strcmp(name, "grid"))
        return plan_grid(crowd, searcher, jget(config, "hyperparameters"), e);
    if (!strcmp(name, "adaptive_asha"))
        return plan_adaptive(crowd, searcher, e);
    if (!strcmp(name, "async_halving"))
        plan_halving(crowd, searcher);
    else
        plan_random(crowd, searcher);
    return 0;
}

double crowd_lowest_rung(const json_t *config)
{
    struct crowd crowd = {0};
    double lowest = 0;
    if (!crowd_plan(&crowd, config, NULL))
        for (int i = 0; i < crowd.bracket_count; i++) {
            const struct bracket *b = &crowd.brackets[i];
            if (b->rung_count && (!lowest || b->rungs[0].needs < lowest))
                lowest = b->rungs[0].needs;
        }
    crowd_free(&crowd);
    return lowest;
}

void crowd_free(struct crowd *crowd)
{
    for (int i = 0; i < crowd->bracket_count; i++) {
        for (int r = 0; r < crowd->brackets[i].rung_count; r++)
            free(crowd->brackets[i].rungs[r].marks);
        free(crowd->brackets[i].rungs);
    }
    free(crowd->brackets);
    free(crowd->runners);
}
