// What tasks report while they run: metrics, as single reports or as columns of many, progress, how
// they are. Rows go into the batch at once; what a trial keeps beside them is in latest.c.
//
// A report is known by (trial, run, group, steps) and each of its values by the metric's name: made
// again it changes nothing that can be seen.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/json.h"
#include "base/limits.h"
#include "db/fold.h"
#include "db/series_json.h"
#include "master/core/detached.h"
#include "master/core/handlers.h"
#include "master/core/lives.h"
#include "master/core/loop.h"
#include "master/core/reports.h"

enum { IDS_AHEAD = 1 << 20 }; // of reports, that are put by in the store

// --- common to both ------------------------------------------------------------------------------

// Ids are never given twice: those up to a number in the store are spent when the master ends.
static int64_t give_ids(struct core *c, size_t count)
{
    int64_t first = c->next_report;
    c->next_report += (int64_t)count;
    if (c->next_report > c->reports_put_by) {
        char text[24];
        c->reports_put_by = c->next_report + IDS_AHEAD;
        snprintf(text, sizeof text, "%lld", (long long)c->reports_put_by);
        STORE(c, META_SET, "ss", "metric_ids", text);
    }
    return first;
}

static bool ascends(const struct series_block *b)
{
    for (size_t i = 1; i < b->count; i++)
        if (b->steps[i] <= b->steps[i - 1])
            return false;
    return true;
}

static void take(struct core *c, struct trial *t, const char *group, struct series_block *b)
{
    int64_t id = give_ids(c, b->count);
    for (size_t i = 0; i < b->count; i++) {
        b->ids[i] = id + (int64_t)i;
        b->runs[i] = t->run;
    }
    if (b->count >= FOLD_KEEP && ascends(b)) {
        fold_put_chunk(core_batch(c), t->id, group, b, 0, b->count);
        latest_take(c, t, group, b);
        latest_write(c, t);
    } else {
        size_t bytes = fold_put_row(core_batch(c), t->id, group, b, 0, b->count);
        latest_take(c, t, group, b);
        folds_reported(c, t, b->count, bytes);
    }
}

static int check_group(const char *group, struct error *e)
{
    if (!*group || strlen(group) > LIMIT_NAME)
        return error_set(e, ERR_INVALID, "group: 1 to %d letters", LIMIT_NAME);
    return 0;
}

static int check_run(const struct trial *t, const json_t *report, struct error *e)
{
    if (jget_int(report, "trialRunId", t->run) != t->run)
        return error_set(e, ERR_FORBIDDEN, "allocation has ended");
    return 0;
}

// --- one report ----------------------------------------------------------------------------------

static int read_report(struct core *c, struct request *rq, struct series_block *out,
                       struct error *e)
{
    const json_t *report = jget(rq->body, "metrics"), *inner = jget(report, "metrics");
    const char *time = jget_string(report, "reportTime", NULL);
    const json_t *values = jget(inner, "avgMetrics");
    if (!json_is_object(values))
        return error_set(e, ERR_INVALID, "metrics.metrics.avgMetrics: not an object of values");
    if (json_object_size(values) > LIMIT_METRICS_PER_POST)
        return error_set(e, ERR_TOO_LARGE, "metrics.metrics.avgMetrics: more than %d names",
                         LIMIT_METRICS_PER_POST);
    int err = series_from_json(&rq->arena, values, jget(inner, "batchMetrics"), out, e);
    if (err)
        return error_prefix(e, "metrics.metrics.avgMetrics");
    out->times[0] = c->wall;
    if (time && clock_parse(time, &out->times[0]))
        return error_set(e, ERR_INVALID, "metrics.reportTime: \"%.64s\" is no RFC 3339 time", time);
    out->steps[0] =
        jget(report, "stepsCompleted") ? jget_int(report, "stepsCompleted", INT64_MIN) : -1;
    if (out->steps[0] < -1)
        return error_set(e, ERR_INVALID, "metrics.stepsCompleted: not a number of steps");
    return 0;
}

int core_trial_metrics(struct core *c, struct request *rq, struct error *e)
{
    struct trial *t;
    struct series_block b;
    const char *group = jget_string(rq->body, "group", "");
    int err = core_reporter_of_trial(c, rq, &t, e);
    if (!err)
        err = check_group(group, e);
    if (!err)
        err = read_report(c, rq, &b, e);
    if (!err)
        err = check_run(t, jget(rq->body, "metrics"), e);
    if (!err)
        take(c, t, group, &b);
    return err;
}

// --- many, as columns ----------------------------------------------------------------------------

static int read_steps(struct request *rq, struct series_block *out, struct error *e)
{
    const json_t *steps = jget(rq->body, "steps");
    size_t count = json_array_size(steps);
    if (!count || count > LIMIT_STEPS_PER_POST)
        return error_set(e, count ? ERR_TOO_LARGE : ERR_INVALID, "steps: a list of 1 to %d steps",
                         LIMIT_STEPS_PER_POST);
    *out = (struct series_block){.count = count};
    out->ids = arena_alloc(&rq->arena, count * sizeof *out->ids);
    out->runs = arena_alloc(&rq->arena, count * sizeof *out->runs);
    out->steps = arena_alloc(&rq->arena, count * sizeof *out->steps);
    out->times = arena_alloc(&rq->arena, count * sizeof *out->times);
    for (size_t i = 0; i < count; i++) {
        const json_t *step = json_array_get(steps, i);
        out->steps[i] = json_is_integer(step) ? json_integer_value(step) : -1;
        if (out->steps[i] < 0)
            return error_set(e, ERR_INVALID, "steps[%zu]: not a number of steps", i);
    }
    return 0;
}

// RFC 3339, or seconds since 1970.
static bool read_time(const json_t *time, int64_t *out)
{
    double seconds = json_number_value(time);
    if (json_is_string(time))
        return !clock_parse(json_string_value(time), out);
    *out = fabs(seconds) < 1e12 ? (int64_t)llround(seconds * 1e6) : 0;
    return json_is_number(time) && fabs(seconds) < 1e12;
}

static int read_times(struct core *c, const json_t *body, struct series_block *b, struct error *e)
{
    const json_t *times = jget(body, "times");
    if (times && json_array_size(times) != b->count)
        return error_set(e, ERR_INVALID, "times: not a list of %zu, one for each step", b->count);
    for (size_t i = 0; i < b->count; i++) {
        b->times[i] = c->wall;
        if (times && !read_time(json_array_get(times, i), &b->times[i]))
            return error_set(e, ERR_INVALID,
                             "times[%zu]: neither an RFC 3339 time nor seconds since 1970", i);
    }
    return 0;
}

static int read_column(struct arena *a, const json_t *values, size_t count,
                       struct series_column *out, struct error *e)
{
    if (json_array_size(values) != count)
        return error_set(e, ERR_INVALID, "metrics.%.64s: not a list of %zu, one for each step",
                         out->name, count);
    out->kinds = arena_alloc(a, count);
    out->values = arena_alloc(a, count * sizeof *out->values);
    for (size_t i = 0; i < count; i++) {
        const json_t *value = json_array_get(values, i);
        if (!json_is_null(value) && !series_number(value, &out->kinds[i], &out->values[i]))
            return error_set(e, ERR_INVALID,
                             "metrics.%.64s[%zu]: not a number, null, \"NaN\" or \"Infinity\"",
                             out->name, i);
    }
    return 0;
}

static int read_columns(struct request *rq, struct series_block *b, struct error *e)
{
    const json_t *metrics = jget(rq->body, "metrics");
    size_t names = json_object_size(metrics);
    const char *name;
    json_t *values;
    int err = 0;
    if (!json_is_object(metrics))
        return error_set(e, ERR_INVALID, "metrics: not an object of lists");
    if (names > LIMIT_METRICS_PER_POST || names * b->count > LIMIT_POINTS_PER_POST)
        return error_set(e, ERR_TOO_LARGE, "metrics: more than %d names, or %d values in all",
                         LIMIT_METRICS_PER_POST, LIMIT_POINTS_PER_POST);
    b->columns = arena_alloc(&rq->arena, (names + 1) * sizeof *b->columns);
    json_object_foreach((json_t *)metrics, name, values)
    {
        struct series_column *out = &b->columns[b->column_count++];
        out->name = name;
        err = series_check_name(name, e);
        if (!err)
            err = read_column(&rq->arena, values, b->count, out, e);
        if (err)
            return err;
    }
    return 0;
}

int core_trial_metric_columns(struct core *c, struct request *rq, struct error *e)
{
    struct trial *t;
    struct series_block b;
    const char *group = jget_string(rq->body, "group", "");
    int err = core_reporter_of_trial(c, rq, &t, e);
    if (!err)
        err = check_group(group, e);
    if (!err)
        err = read_steps(rq, &b, e);
    if (!err)
        err = read_times(c, rq->body, &b, e);
    if (!err)
        err = read_columns(rq, &b, e);
    if (!err)
        err = check_run(t, rq->body, e);
    if (!err)
        take(c, t, group, &b);
    return err;
}

// --- progress, status ----------------------------------------------------------------------------

int core_trial_progress(struct core *c, struct request *rq, struct error *e)
{
    struct trial *t;
    int err = core_reporter_of_trial(c, rq, &t, e);
    if (err)
        return err;
    double progress = jget_double(rq->body, "progress", NAN);
    if (!(progress >= 0 && progress <= 1))
        return error_set(e, ERR_INVALID, "progress: not a number from 0 to 1");
    t->progress = progress;
    latest_mark_progress(c, t);
    core_event(c, EVENT_TRIAL, t->live->experiment->id, t->id, NULL);
    if (t->allocation)
        usage_expect(c, t->allocation);
    struct search_event event = {
        .kind = SEARCH_PROGRESS, .request_id = t->request_id, .fraction = progress};
    experiment_tell(c, t->live, &event);
    return 0;
}

int core_trial_runner_metadata(struct core *c, struct request *rq, struct error *e)
{
    struct trial *t;
    int err = core_reporter_of_trial(c, rq, &t, e);
    const char *state = jget_string(rq->body, "state", "");
    if (!err && strlen(state) > LIMIT_DESCRIPTION)
        err = error_set(e, ERR_TOO_LARGE, "state: more than %d bytes", LIMIT_DESCRIPTION);
    if (!err)
        STORE(c, TRIAL_SET_RUNNER_STATE, "si", state, t->id);
    return err;
}
