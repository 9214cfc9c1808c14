// Downsampled series of several trials side by side. Values of the same group and step stand
// together.

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/limits.h"
#include "db/metrics/reports.h"
#include "master/views/lists/list.h"
#include "master/views/metrics/trial_series.h"
#include "master/views/views.h"

enum {
    COMPARED_TRIALS_MAX = 200,
    COMPARED_METRICS_MAX = 32,     // of all groups together
    COMPARED_POINTS_DEFAULT = 500, // the default number of points of each metric
    COMPARED_POINTS_MAX = 400 * 1000,
};

struct compared_group { // a group and its requested metrics
    const char *group;
    const char *names[COMPARED_METRICS_MAX];
    size_t count;
};

struct comparison {
    int64_t points, from, to;
    struct compared_group groups[COMPARED_METRICS_MAX];
    size_t group_count, metric_count;
    const char *trials[QUERY_PAIRS_MAX];
    size_t trial_count;
};

// --- parameters --------------------------------------------------------------------------------

static int add_metric(struct comparison *c, const char *group, const char *name, struct error *e)
{
    struct compared_group *g = c->groups, *end = c->groups + c->group_count;
    while (g < end && strcmp(g->group, group))
        g++;
    for (size_t i = 0; g < end && i < g->count; i++)
        if (!strcmp(g->names[i], name))
            return 0;
    if (++c->metric_count > COMPARED_METRICS_MAX)
        return error_set(e, ERR_TOO_LARGE, "more than %d metrics; split the request",
                         COMPARED_METRICS_MAX);
    c->group_count += g == end;
    g->group = group;
    g->names[g->count++] = name;
    return 0;
}

// Adds a metric of the form "validation.loss".
static int add_metric_id(struct view *v, struct comparison *c, const char *id, struct error *e)
{
    const char *dot = strchr(id, '.');
    if (!dot || dot == id || !dot[1])
        return error_set(e, ERR_INVALID,
                         "query parameter metricIds: \"%.64s\" is not a group, a dot and a name",
                         id);
    char *group = arena_strdup(&v->rq->arena, id);
    group[dot - id] = '\0';
    return add_metric(c, group, dot + 1, e);
}

// Reads the group of metrics that are named without one; NULL: training and validation.
static int read_group(struct view *v, const char **group, struct error *e)
{
    const char *type = query_get(v->query, "metricType");
    *group = query_get(v->query, "group");
    if (*group && **group)
        return 0;
    *group = NULL;
    if (!type || !*type || !strcmp(type, "METRIC_TYPE_UNSPECIFIED"))
        return 0;
    if (!strcmp(type, "METRIC_TYPE_TRAINING"))
        *group = "training";
    else if (!strcmp(type, "METRIC_TYPE_VALIDATION"))
        *group = "validation";
    else
        return error_set(e, ERR_INVALID,
                         "query parameter metricType: METRIC_TYPE_TRAINING or "
                         "METRIC_TYPE_VALIDATION; for other groups give the parameter group");
    return 0;
}

static int read_metrics(struct view *v, struct comparison *c, struct error *e)
{
    const char *texts[QUERY_PAIRS_MAX], *group;
    size_t count = query_all(v->query, "metricNames", texts, QUERY_PAIRS_MAX);
    int err = read_group(v, &group, e);
    for (size_t i = 0; !err && i < count; i++) {
        err = add_metric(c, group ? group : "training", texts[i], e);
        if (!err && !group)
            err = add_metric(c, "validation", texts[i], e);
    }
    count = query_all(v->query, "metricIds", texts, QUERY_PAIRS_MAX);
    for (size_t i = 0; !err && i < count; i++)
        err = add_metric_id(v, c, texts[i], e);
    return err;
}

static int read_trials(struct view *v, struct comparison *c, struct error *e)
{
    c->trial_count = query_all(v->query, "trialIds", c->trials, QUERY_PAIRS_MAX);
    if (c->trial_count > COMPARED_TRIALS_MAX)
        return error_set(e, ERR_TOO_LARGE, "query parameter trialIds: more than %d",
                         COMPARED_TRIALS_MAX);
    int err = 0;
    for (size_t i = 0; !err && i < c->trial_count; i++)
        err = view_authorize(v, AUTHZ_TRIAL, c->trials[i], e);
    return err;
}

static int read_comparison(struct view *v, struct comparison *c, struct error *e)
{
    *c = (struct comparison){.from = INT64_MIN};
    int err = request_query_int(v->rq, "maxDatapoints", COMPARED_POINTS_DEFAULT, &c->points, e);
    if (!err)
        err = request_query_int(v->rq, "startBatches", 0, &c->from, e);
    if (!err)
        err = request_query_int(v->rq, "endBatches", 0, &c->to, e);
    if (!err)
        err = read_metrics(v, c, e);
    if (!err)
        err = read_trials(v, c, e);
    if (err)
        return err;
    c->from = c->from > 0 ? c->from : INT64_MIN;
    c->to = c->to > 0 ? c->to : INT64_MAX;
    if (!c->points)
        c->points = COMPARED_POINTS_DEFAULT;
    int64_t series = (int64_t)(c->trial_count * c->metric_count);
    if (c->points < 0 || c->points > COMPARED_POINTS_MAX / (series ? series : 1))
        return error_set(e, ERR_INVALID,
                         "query parameter maxDatapoints: from 1, and at most %d of all series "
                         "together",
                         COMPARED_POINTS_MAX);
    c->points = c->points < DOWNSAMPLE_MIN ? DOWNSAMPLE_MIN : c->points;
    return 0;
}

// --- the answer ----------------------------------------------------------------------------------

// Writes the next step at which any metric has a point, with the values of all metrics there.
static bool write_point(struct json_writer *w, const struct compared_group *g,
                        const struct downsampler *samplers, size_t *at)
{
    const struct downsample_point *first = NULL;
    for (size_t i = 0; i < g->count; i++) {
        const struct downsample_point *p = samplers[i].points + at[i];
        if (at[i] < samplers[i].point_count && (!first || p->step < first->step))
            first = p;
    }
    if (!first)
        return false;
    jw_object(w);
    jw_kv_int(w, "batches", first->step);
    write_time(w, "time", first->time);
    jw_key(w, "values");
    jw_object(w);
    for (size_t i = 0; i < g->count; i++) {
        const struct downsample_point *p = samplers[i].points + at[i];
        if (at[i] == samplers[i].point_count || p->step != first->step)
            continue;
        jw_kv_double(w, g->names[i], p->value);
        at[i]++;
    }
    jw_object_end(w);
    jw_object_end(w);
    return true;
}

static const char *metric_type(const char *group)
{
    return !strcmp(group, "training")     ? "METRIC_TYPE_TRAINING"
           : !strcmp(group, "validation") ? "METRIC_TYPE_VALIDATION"
                                          : "METRIC_TYPE_UNSPECIFIED";
}

static void write_series(struct json_writer *w, const struct compared_group *g,
                         struct downsampler *samplers)
{
    size_t at[COMPARED_METRICS_MAX] = {0}, points = 0;
    for (size_t i = 0; i < g->count; i++) {
        downsampler_finish(&samplers[i]);
        points += samplers[i].point_count;
    }
    if (!points)
        return;
    jw_object(w);
    jw_kv_string(w, "group", g->group);
    jw_kv_string(w, "type", metric_type(g->group));
    jw_key(w, "data");
    jw_array(w);
    while (write_point(w, g, samplers, at))
        ;
    jw_array_end(w);
    jw_object_end(w);
}

static int write_group(struct view *v, const struct comparison *c, const struct compared_group *g,
                       int64_t trial, struct error *e)
{
    struct downsampler samplers[COMPARED_METRICS_MAX];
    const struct series_names names = {g->names, g->count};
    const struct reports_query q = {.trial = trial,
                                    .group = g->group,
                                    .from = c->from,
                                    .to = c->to,
                                    .after_steps = INT64_MIN,
                                    .only = &names};
    for (size_t i = 0; i < g->count; i++)
        downsampler_init(&samplers[i], (size_t)c->points);
    int err = series_downsample(v->db, &q, samplers, e);
    if (!err)
        write_series(&v->w, g, samplers);
    for (size_t i = 0; i < g->count; i++)
        downsampler_free(&samplers[i]);
    return err;
}

static int write_trial(struct view *v, const struct comparison *c, const char *id, struct error *e)
{
    int64_t trial = 0;
    (void)request_number(id, &trial);
    struct db_rows *rows = DB_QUERY(v->db, TRIAL_VIEW_BY_ID, trial);
    int found = db_next(rows), err = 0;
    if (found == 1) {
        jw_object(&v->w);
        jw_key(&v->w, "trial");
        write_trial_row(&v->w, rows);
        jw_key(&v->w, "metrics");
        jw_array(&v->w);
        for (size_t i = 0; !err && i < c->group_count; i++)
            err = write_group(v, c, &c->groups[i], trial, e);
        jw_array_end(&v->w);
        jw_object_end(&v->w);
    }
    db_rows_close(rows);
    return found < 0 ? store_failed(e) : found == 0 ? no_trial(trial, e) : err;
}

int view_compare_trials(struct view *v, struct error *e)
{
    struct comparison c;
    int err = read_comparison(v, &c, e);
    if (!err)
        err = db_snapshot_begin(v->db, e);
    if (err)
        return err;
    jw_object(&v->w);
    jw_key(&v->w, "trials");
    jw_array(&v->w);
    for (size_t i = 0; !err && i < c.trial_count; i++)
        err = write_trial(v, &c, c.trials[i], e);
    jw_array_end(&v->w);
    jw_object_end(&v->w);
    db_snapshot_end(v->db);
    return err;
}
