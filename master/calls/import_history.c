// The history of an experiment that `muster experiment import` creates from an export: start, end,
// progress and seeds of the experiment and its trials. The experiment is unmanaged and has just
// ended. (master/imports takes over whole clusters.)
#include <math.h>
#include <stdio.h>

#include "base/clock.h"
#include "base/text/json.h"
#include "master/calls/module.h"
#include "master/kernel/change_marks.h"
#include "master/lifecycle/lifecycle.h"
#include "master/teams/teams.h"

struct import_times {
    int64_t start, end; // end 0: none
};

static int read_times(const json_t *body, const char *where, struct import_times *out,
                      struct error *e)
{
    const char *start = jget_string(body, "startTime", ""), *end = jget_string(body, "endTime", "");
    *out = (struct import_times){0};
    if (clock_parse(start, &out->start))
        return error_set(e, ERR_INVALID, "%sstartTime: \"%.64s\" is not an RFC 3339 time", where,
                         start);
    if (*end && clock_parse(end, &out->end))
        return error_set(e, ERR_INVALID, "%sendTime: \"%.64s\" is not an RFC 3339 time", where,
                         end);
    if (*end && out->end < out->start)
        return error_set(e, ERR_INVALID, "%sendTime: before startTime", where);
    return 0;
}

// A completed experiment or trial has progress 1, whatever the caller sends.
static int read_progress(const json_t *body, const char *where, bool completed, double *out,
                         struct error *e)
{
    *out = completed ? 1 : jget_double(body, "progress", jget(body, "progress") ? NAN : 0);
    if (*out >= 0 && *out <= 1)
        return 0;
    return error_set(e, ERR_INVALID, "%sprogress: not a number from 0 to 1", where);
}

static int check_trial(const struct trial *t, const json_t *entry, const char *where,
                       struct error *e)
{
    struct import_times times;
    double progress;
    const json_t *seed = jget(entry, "seed");
    int err = read_times(entry, where, &times, e);
    if (!err)
        err = read_progress(entry, where, t->state == TRIAL_COMPLETED, &progress, e);
    if (!err && seed && (!json_is_integer(seed) || json_integer_value(seed) < 0))
        err = error_set(e, ERR_INVALID, "%sseed: not a whole number of 0 or more", where);
    return err;
}

static int check_trials(struct core *c, const struct experiment *x, const json_t *list,
                        struct error *e)
{
    size_t i;
    json_t *entry;
    char where[32];
    if (list && !json_is_array(list))
        return error_set(e, ERR_INVALID, "trials: not a list");
    json_array_foreach((json_t *)list, i, entry)
    {
        int64_t id = jget_int(entry, "id", 0);
        const struct trial *t = core_trial_find(c, id);
        snprintf(where, sizeof where, "trials.%zu.", i);
        if (!t || t->active->experiment != x)
            return error_set(e, ERR_NOT_FOUND, "%sid: trial '%lld' not found in experiment '%lld'",
                             where, (long long)id, (long long)x->id);
        int err = check_trial(t, entry, where, e);
        if (err)
            return err;
    }
    return 0;
}

static void store_trials(struct core *c, const struct experiment *x, const json_t *list)
{
    size_t i;
    json_t *entry;
    struct import_times times;
    json_array_foreach((json_t *)list, i, entry)
    {
        int64_t id = jget_int(entry, "id", 0);
        struct trial *t = core_trial_find(c, id);
        read_times(entry, "", &times, NULL);
        read_progress(entry, "", t->state == TRIAL_COMPLETED, &t->progress, NULL);
        t->restarts = jget_int(entry, "restarts", 0);
        t->seed = jget_int(entry, "seed", t->seed);
        STORE(c, TRIAL_SET_HISTORY, times.start, times.end, t->restarts, t->progress, t->seed, id,
              x->id);
        change_mark(c, EVENT_TRIAL, x->id, id, NULL);
    }
}

int core_experiment_history(struct core *c, struct request *rq, struct error *e)
{
    struct experiment *x;
    struct import_times times;
    double progress;
    const json_t *trials = jget(rq->body, "trials");
    int err = core_param_experiment(c, rq, &x, e);
    if (!err)
        err = core_may_change(c, rq, x, e);
    if (!err && (!experiment_is_terminal(x->state) || !x->active || !x->active->unmanaged))
        err = error_set(e, ERR_CONFLICT,
                        "experiment %lld was not just imported: it is not an unmanaged experiment "
                        "whose trials have all ended",
                        (long long)x->id);
    if (!err)
        err = read_times(rq->body, "", &times, e);
    if (!err)
        err = read_progress(rq->body, "", x->state == EXPERIMENT_COMPLETED, &progress, e);
    if (!err)
        err = check_trials(c, x, trials, e);
    if (err)
        return err;
    store_trials(c, x, trials);
    x->active->progress = progress;
    STORE(c, EXPERIMENT_SET_TIMES, times.start, times.end, x->id);
    STORE(c, EXPERIMENT_SET_PROGRESS, progress, x->id);
    change_mark(c, EVENT_EXPERIMENT, x->id, 0, NULL);
    return 0;
}
