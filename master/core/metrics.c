// What tasks report while they run: metrics, progress, how they are. Rows go into the batch at
// once; what a trial keeps beside them (latest, best, summary) is written once a turn.
//
// A report is known by (trial, run, group, steps): made again it changes nothing.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/clock.h"
#include "base/json.h"
#include "base/limits.h"
#include "master/core/detached.h"
#include "master/core/handlers.h"
#include "master/core/lives.h"
#include "master/core/loop.h"
#include "master/core/webhooks.h"

enum {
    DIRTY_LISTED = 1, // the trial is in the list
    DIRTY_PROGRESS = 2,
    DIRTY_STEPS = 4,
    DIRTY_TRAINING = 8,
    DIRTY_VALIDATION = 16,
    DIRTY_BEST = 32,
    DIRTY_SUMMARY = 64,
};

struct incoming { // one report
    const char *group;
    int64_t steps; // -1: none
    int64_t time;
    const json_t *values, *batches;
};

static void mark(struct core *c, struct trial *t, unsigned bits)
{
    if (!t->dirty) {
        t->dirty_next = c->dirty_trials;
        c->dirty_trials = t;
    }
    t->dirty |= bits | DIRTY_LISTED;
}

void metrics_flush(struct core *c)
{
    while (c->dirty_trials) {
        struct trial *t = c->dirty_trials;
        c->dirty_trials = t->dirty_next;
        if (t->dirty & DIRTY_PROGRESS)
            STORE(c, TRIAL_SET_PROGRESS, "di", t->progress, t->id);
        if (t->dirty & DIRTY_STEPS)
            STORE(c, TRIAL_SET_STEPS, "ii", t->steps, t->id);
        if (t->dirty & DIRTY_TRAINING)
            STORE(c, TRIAL_SET_LATEST_TRAINING, "si", t->training.text, t->id);
        if (t->dirty & DIRTY_VALIDATION)
            STORE(c, TRIAL_SET_LATEST_VALIDATION, "si", t->validation.text, t->id);
        if (t->dirty & DIRTY_BEST)
            STORE(c, TRIAL_SET_BEST_VALIDATION, "si", t->best_text, t->id);
        if (t->dirty & DIRTY_SUMMARY) {
            char *summary = json_text(t->summary);
            STORE(c, TRIAL_SET_SUMMARY, "si", summary, t->id);
            free(summary);
            listing_report(c, t);
        }
        t->dirty = 0;
    }
    listing_flush(c);
}

// --- summary -------------------------------------------------------------------------------------

static const char *summary_key(const char *group)
{
    if (!strcmp(group, "training"))
        return "avg_metrics";
    return strcmp(group, "validation") ? group : "validation_metrics";
}

static void put(json_t *object, const char *key, json_t *value)
{
    must(!json_object_set_new(object, key, value));
}

static json_t *child(json_t *object, const char *key)
{
    json_t *found = json_object_get(object, key);
    if (!json_is_object(found)) {
        found = json_object();
        put(object, key, found);
    }
    return found;
}

// `steps` is kept beside Determined's keys: what is not beyond it was counted before.
static void summarize(json_t *metric, double value, int64_t steps)
{
    int64_t count = jget_int(metric, "count", 0);
    if (count && steps >= 0 && steps <= jget_int(metric, "steps", -1))
        return;
    double sum = jget_double(metric, "sum", 0) + value;
    double low = jget_double(metric, "min", value), high = jget_double(metric, "max", value);
    put(metric, "count", json_integer(count + 1));
    put(metric, "last", json_real(value));
    put(metric, "max", json_real(value > high ? value : high));
    put(metric, "mean", json_real(sum / (double)(count + 1)));
    put(metric, "min", json_real(value < low ? value : low));
    put(metric, "steps", json_integer(steps));
    put(metric, "sum", json_real(sum));
    put(metric, "type", json_string("number"));
}

static void update_summary(struct core *c, struct trial *t, const struct incoming *r)
{
    const char *name;
    json_t *value;
    if (!t->summary)
        t->summary = json_object();
    json_t *group = child(t->summary, summary_key(r->group));
    json_object_foreach((json_t *)r->values, name, value)
    {
        if (json_is_number(value) && isfinite(json_number_value(value)))
            summarize(child(group, name), json_number_value(value), r->steps);
    }
    mark(c, t, DIRTY_SUMMARY);
}

// --- latest and best -----------------------------------------------------------------------------

// The wire's MetricsWorkload.
static char *workload_text(const struct incoming *r)
{
    struct buf out;
    struct json_writer w;
    char time[CLOCK_RFC3339_MAX];
    buf_init(&out, LIMIT_BODY);
    jw_init(&w, &out);
    jw_object(&w);
    jw_kv_string(&w, "endTime", clock_format(r->time, time));
    jw_key(&w, "metrics");
    jw_object(&w);
    jw_key(&w, "avgMetrics");
    jw_json(&w, r->values);
    jw_object_end(&w);
    jw_kv_int(&w, "numInputs", 0);
    jw_kv_int(&w, "totalBatches", r->steps < 0 ? 0 : r->steps);
    jw_object_end(&w);
    return buf_take(&out);
}

// Whether it is newer than what is kept; then it is kept.
static bool keep_latest(struct report *kept, int64_t run, const struct incoming *r)
{
    if (kept->text && run <= kept->run && r->steps < kept->steps)
        return false;
    free(kept->text);
    *kept = (struct report){run, r->steps, workload_text(r)};
    return true;
}

static bool better(const struct live *l, double value, double than)
{
    bool smaller = jget_bool(jget(l->config, "searcher"), "smaller_is_better", true);
    return smaller ? value < than : value > than;
}

static bool searcher_metric(const struct live *l, const json_t *values, double *out)
{
    const char *name = jget_string(jget(l->config, "searcher"), "metric", "");
    const json_t *value = json_object_get(values, name);
    *out = json_is_number(value) ? json_number_value(value) : NAN;
    return isfinite(*out);
}

// What the searcher measures training by; 0 when the report does not have it.
static double training_time(const struct live *l, const struct incoming *r)
{
    const char *metric = search_time_metric(l->config);
    return metric ? jget_double(r->values, metric, 0) : (double)r->steps;
}

static void keep_best(struct core *c, struct trial *t, double value, int64_t time)
{
    struct live *l = t->live;
    if (!t->has_best || better(l, value, t->best)) {
        t->has_best = true;
        t->best = value;
        free(t->best_text);
        t->best_text = xstrdup(t->validation.text);
        mark(c, t, DIRTY_BEST);
    }
    if (!l->has_best || better(l, value, l->best)) {
        l->has_best = true;
        l->best = value;
        STORE(c, EXPERIMENT_SET_BEST_METRIC, "di", value, l->experiment->id);
        STORE(c, VALIDATION_HISTORY_ADD, "iiid", l->experiment->id, t->id, time, value);
        core_event(c, EVENT_EXPERIMENT, l->experiment->id, 0, NULL);
    }
}

static void take_validation(struct core *c, struct trial *t, const struct incoming *r)
{
    double value;
    if (keep_latest(&t->validation, t->run, r))
        mark(c, t, DIRTY_VALIDATION);
    webhooks_validation(c, t, r->steps, r->values);
    if (r->steps >= 0) {
        json_t *wrapped = json_pack("{s:O}", "avgMetrics", r->values);
        char *text = json_text(wrapped);
        STORE(c, CHECKPOINTS_SET_VALIDATION, "sii", text, t->id, r->steps);
        free(text);
        json_decref(wrapped);
    }
    if (!searcher_metric(t->live, r->values, &value))
        return;
    keep_best(c, t, value, r->time);
    if (r->steps <= t->told_steps)
        return; // the searcher has heard of it, in this run or in one before
    t->told_steps = r->steps;
    struct search_event event = {.kind = SEARCH_VALIDATED,
                                 .request_id = t->request_id,
                                 .metric = value,
                                 .time = training_time(t->live, r)};
    experiment_tell(c, t->live, &event);
}

// --- reports -------------------------------------------------------------------------------------

static int read_steps(const json_t *report, int64_t *out, struct error *e)
{
    *out = jget(report, "stepsCompleted") ? jget_int(report, "stepsCompleted", -2) : -1;
    if (*out < -1)
        return error_set(e, ERR_INVALID, "metrics.stepsCompleted: not a number of steps");
    return 0;
}

static int read_report(struct core *c, const json_t *body, struct incoming *r, struct error *e)
{
    const json_t *report = jget(body, "metrics"), *inner = jget(report, "metrics");
    const char *time = jget_string(report, "reportTime", NULL);
    r->group = jget_string(body, "group", "");
    r->values = jget(inner, "avgMetrics");
    r->batches = jget(inner, "batchMetrics");
    r->time = c->wall;
    if (!*r->group || strlen(r->group) > LIMIT_NAME)
        return error_set(e, ERR_INVALID, "group: 1 to %d letters", LIMIT_NAME);
    if (!json_is_object(r->values))
        return error_set(e, ERR_INVALID, "metrics.metrics.avgMetrics: not an object of values");
    if (json_object_size(r->values) > LIMIT_METRICS_PER_POST)
        return error_set(e, ERR_TOO_LARGE, "metrics.metrics.avgMetrics: more than %d names",
                         LIMIT_METRICS_PER_POST);
    if (time && clock_parse(time, &r->time))
        return error_set(e, ERR_INVALID, "metrics.reportTime: \"%.64s\" is no RFC 3339 time", time);
    return read_steps(report, &r->steps, e);
}

static void store_report(struct core *c, const struct trial *t, const struct incoming *r)
{
    char *values = json_text(r->values), *batches = r->batches ? json_text(r->batches) : NULL;
    // Reported by an earlier run up to the checkpoint this one started from: now told anew.
    if (r->steps >= 0 && t->run > 1 && r->steps <= trial_resumed_at(t))
        STORE(c, METRIC_ARCHIVE_EARLIER, "isii", t->id, r->group, r->steps, t->run);
    STORE(c, METRIC_INSERT, "iisiiss", t->id, t->run, r->group, r->steps, r->time, values, batches);
    free(values);
    free(batches);
}

int core_trial_metrics(struct core *c, struct request *rq, struct error *e)
{
    struct trial *t;
    struct incoming r;
    int err = core_reporter_of_trial(c, rq, &t, e);
    if (!err)
        err = read_report(c, rq->body, &r, e);
    if (err)
        return err;
    if (jget_int(jget(rq->body, "metrics"), "trialRunId", t->run) != t->run)
        return error_set(e, ERR_FORBIDDEN, "allocation has ended");
    store_report(c, t, &r);
    core_event(c, EVENT_METRICS, t->live->experiment->id, t->id, r.group);
    update_summary(c, t, &r);
    if (r.steps > t->steps) {
        t->steps = r.steps;
        mark(c, t, DIRTY_STEPS);
    }
    if (!strcmp(r.group, "training") && keep_latest(&t->training, t->run, &r))
        mark(c, t, DIRTY_TRAINING);
    if (!strcmp(r.group, "validation"))
        take_validation(c, t, &r);
    return 0;
}

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
    mark(c, t, DIRTY_PROGRESS);
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

// --- start and end of a run ----------------------------------------------------------------------

// What was reported beyond the checkpoint that the trial starts from will be reported again.
void metrics_restart(struct core *c, struct trial *t, int64_t from)
{
    STORE(c, METRICS_ARCHIVE_BEYOND, "ii", t->id, from);
    t->steps = from < 0 ? 0 : from;
    mark(c, t, DIRTY_STEPS);
}

static void load_report(struct report *r, const char *text)
{
    json_t *parsed = NULL;
    if (!text || json_parse(text, strlen(text), "latest report", &parsed, NULL))
        return;
    // Run 0: whatever the live run reports next is newer.
    *r = (struct report){0, jget_int(parsed, "totalBatches", 0), xstrdup(text)};
    json_decref(parsed);
}

void metrics_load(struct trial *t, const char *training, const char *validation, const char *best,
                  const char *summary)
{
    json_t *parsed = NULL;
    load_report(&t->training, training);
    load_report(&t->validation, validation);
    if (t->validation.text)
        t->told_steps = t->validation.steps;
    if (best && !json_parse(best, strlen(best), "best validation", &parsed, NULL)) {
        t->best_text = xstrdup(best);
        t->has_best = searcher_metric(t->live, jget_path(parsed, "metrics.avgMetrics"), &t->best);
        json_decref(parsed);
    }
    if (summary && json_parse(summary, strlen(summary), "summary", &t->summary, NULL))
        t->summary = NULL;
}

void metrics_forget(struct trial *t)
{
    listing_forget(t);
    free(t->training.text);
    free(t->validation.text);
    free(t->best_text);
    json_decref(t->summary);
    t->training.text = t->validation.text = t->best_text = NULL;
    t->summary = NULL;
}
