// When an experiment ran that has been imported: of an unmanaged one that has ended.
#include <stdio.h>

#include "base/clock.h"
#include "base/json.h"
#include "master/core/events.h"
#include "master/core/handlers.h"
#include "master/core/lives.h"
#include "master/core/teams.h"

struct times {
    int64_t start, end; // end 0: none
};

static int read_times(const json_t *body, const char *where, struct times *out, struct error *e)
{
    const char *start = jget_string(body, "startTime", ""), *end = jget_string(body, "endTime", "");
    *out = (struct times){0};
    if (clock_parse(start, &out->start))
        return error_set(e, ERR_INVALID, "%sstartTime: \"%.64s\" is no RFC 3339 time", where,
                         start);
    if (*end && clock_parse(end, &out->end))
        return error_set(e, ERR_INVALID, "%sendTime: \"%.64s\" is no RFC 3339 time", where, end);
    if (*end && out->end < out->start)
        return error_set(e, ERR_INVALID, "%sendTime: before startTime", where);
    return 0;
}

static int check_trials(struct core *c, const struct experiment *x, const json_t *list,
                        struct error *e)
{
    size_t i;
    json_t *entry;
    struct times times;
    char where[32];
    if (list && !json_is_array(list))
        return error_set(e, ERR_INVALID, "trials: not a list");
    json_array_foreach((json_t *)list, i, entry)
    {
        int64_t id = jget_int(entry, "id", 0);
        const struct trial *t = core_trial_find(c, id);
        snprintf(where, sizeof where, "trials.%zu.", i);
        if (!t || t->live->experiment != x)
            return error_set(e, ERR_NOT_FOUND, "%sid: experiment %lld has no trial %lld", where,
                             (long long)x->id, (long long)id);
        int err = read_times(entry, where, &times, e);
        if (err)
            return err;
    }
    return 0;
}

static void store_trials(struct core *c, const struct experiment *x, const json_t *list)
{
    size_t i;
    json_t *entry;
    struct times times;
    json_array_foreach((json_t *)list, i, entry)
    {
        int64_t id = jget_int(entry, "id", 0);
        struct trial *t = core_trial_find(c, id);
        read_times(entry, "", &times, NULL);
        t->restarts = jget_int(entry, "restarts", 0);
        STORE(c, TRIAL_SET_TIMES, "iiiii", times.start, times.end, t->restarts, id, x->id);
        core_event(c, EVENT_TRIAL, x->id, id, NULL);
    }
}

int core_experiment_history(struct core *c, struct request *rq, struct error *e)
{
    struct experiment *x;
    struct times times;
    const json_t *trials = jget(rq->body, "trials");
    int err = core_param_experiment(c, rq, &x, e);
    if (!err)
        err = core_may_change(c, rq, x, e);
    if (!err && (!experiment_is_terminal(x->state) || !x->live || !x->live->unmanaged))
        err = error_set(e, ERR_CONFLICT,
                        "experiment %lld is none that has just been imported: an unmanaged one "
                        "whose trials have all ended",
                        (long long)x->id);
    if (!err)
        err = read_times(rq->body, "", &times, e);
    if (!err)
        err = check_trials(c, x, trials, e);
    if (err)
        return err;
    store_trials(c, x, trials);
    STORE(c, EXPERIMENT_SET_TIMES, "iii", times.start, times.end, x->id);
    core_event(c, EVENT_EXPERIMENT, x->id, 0, NULL);
    return 0;
}
