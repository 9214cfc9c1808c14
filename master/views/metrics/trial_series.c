// Metrics of one trial as arrays for a chart or a table: a range of steps, downsampled.

#include <stdio.h>
#include <string.h>

#include "base/limits.h"
#include "base/log.h"
#include "db/metrics/reports.h"
#include "master/views/metrics/series_cache.h"
#include "master/views/metrics/trial_series.h"
#include "master/views/views.h"

enum { SERIES_POINTS = 2000, SERIES_POINTS_MAX = 100000, SERIES_METRICS_MAX = 64 };

struct series_request {
    int64_t trial, max, from, to;
    const char *group;
    const char *names[SERIES_METRICS_MAX];
    size_t count;
    const char *answers[SERIES_METRICS_MAX]; // one JSON object for each metric; NULL: not read yet
    struct reports_version version;
};

// --- parameters --------------------------------------------------------------------------------

static int read_names(struct view *v, struct series_request *c, struct error *e)
{
    const char *texts[QUERY_PAIRS_MAX];
    size_t count = query_all(v->query, "metric", texts, QUERY_PAIRS_MAX);
    for (size_t i = 0; i < count; i++) {
        bool again = false;
        for (size_t k = 0; k < c->count; k++)
            again |= !strcmp(c->names[k], texts[i]);
        if (again)
            continue;
        if (c->count == SERIES_METRICS_MAX)
            return error_set(e, ERR_INVALID, "query parameter metric: at most %d in one call",
                             SERIES_METRICS_MAX);
        c->names[c->count++] = texts[i];
    }
    if ((int64_t)c->count * c->max > SERIES_POINTS_MAX * 2)
        return error_set(e, ERR_INVALID, "query parameter max: at most %d points of all metrics",
                         SERIES_POINTS_MAX * 2);
    if (!c->count || !*c->names[0])
        return error_set(e, ERR_INVALID, "query parameter metric: give the name of a metric");
    return 0;
}

static int read_request(struct view *v, struct series_request *c, struct error *e)
{
    const char *group = query_get(v->query, "group");
    *c = (struct series_request){.group = group && *group ? group : "training"};
    int err = request_param_int(v->rq, 0, &c->trial, e);
    if (!err)
        err = request_query_int(v->rq, "max", SERIES_POINTS, &c->max, e);
    if (!err)
        err = request_query_int(v->rq, "from", INT64_MIN, &c->from, e);
    if (!err)
        err = request_query_int(v->rq, "to", INT64_MAX, &c->to, e);
    if (!err && (c->max < DOWNSAMPLE_MIN || c->max > SERIES_POINTS_MAX))
        err = error_set(e, ERR_INVALID, "query parameter max: from %d to %d", DOWNSAMPLE_MIN,
                        SERIES_POINTS_MAX);
    return err ? err : read_names(v, c, e);
}

// --- reading -------------------------------------------------------------------------------------

static bool is_number(const struct series_column *c, size_t at)
{
    enum series_kind kind = series_kind_at(c, at);
    return kind == SERIES_REAL || kind == SERIES_INTEGER;
}

static void sample_span(struct downsampler *t, const struct reports_span *span, size_t column)
{
    const struct series_block *b = span->block;
    const struct series_column *c = &b->columns[column];
    size_t first = span->first > c->first ? span->first : c->first;
    size_t last = span->end < c->end ? span->end : c->end;
    for (size_t i = first, end; i < last; i = end + 1) {
        for (end = i; end < last && is_number(c, end);)
            end++;
        downsampler_add(t, &(struct downsample_input){b->steps + i, b->times + i,
                                                      c->values + (i - c->first), end - i});
    }
}

int series_downsample(struct db_reader *db, const struct reports_query *q,
                      struct downsampler *samplers, struct error *e)
{
    struct reports *r = NULL;
    struct reports_span span;
    int more = reports_open(db, q, &r, e);
    if (!more)
        while ((more = reports_next(r, &span, e)) == 1)
            for (size_t i = 0; i < q->only->count; i++)
                sample_span(&samplers[i], &span, i);
    reports_close(r);
    return more;
}

// Seconds with microseconds; a double has just enough digits for them.
static void write_seconds(struct json_writer *w, int64_t us)
{
    char text[32];
    if (us < 0) {
        jw_double(w, (double)us / 1e6);
        return;
    }
    int len = snprintf(text, sizeof text, "%lld.%06lld", (long long)(us / 1000000),
                       (long long)(us % 1000000));
    while (text[len - 1] == '0')
        text[--len] = '\0';
    if (text[len - 1] == '.')
        text[--len] = '\0';
    jw_raw(w, text);
}

static void write_arrays(struct json_writer *w, const struct downsampler *t)
{
    jw_key(w, "steps");
    jw_array(w);
    for (size_t i = 0; i < t->point_count; i++)
        jw_int(w, t->points[i].step);
    jw_array_end(w);
    jw_key(w, "times");
    jw_array(w);
    for (size_t i = 0; i < t->point_count; i++)
        write_seconds(w, t->points[i].time);
    jw_array_end(w);
    jw_key(w, "values");
    jw_array(w);
    for (size_t i = 0; i < t->point_count; i++)
        jw_double(w, t->points[i].value);
    jw_array_end(w);
}

static const char *series_json(struct arena *a, const char *name, struct downsampler *t)
{
    struct buf out;
    struct json_writer w;
    buf_init(&out, LIMIT_BODY);
    jw_init(&w, &out);
    downsampler_finish(t);
    jw_object(&w);
    jw_kv_string(&w, "metric", name);
    jw_kv_int(&w, "total", (int64_t)t->total);
    jw_kv_int(&w, "shown", (int64_t)t->point_count);
    write_arrays(&w, t);
    jw_object_end(&w);
    must(!out.err);
    const char *text = arena_strdup(a, buf_str(&out));
    buf_free(&out);
    return text;
}

static const char *cache_key(struct arena *a, const struct series_request *c, size_t i)
{
    return arena_printf(a, "%lld %lld %lld %lld %zu %s %s", (long long)c->trial, (long long)c->max,
                        (long long)c->from, (long long)c->to, strlen(c->group), c->group,
                        c->names[i]);
}

// Takes series from the cache, and reads all others in one pass.
static int read_series(struct view *v, struct series_request *c, struct error *e)
{
    struct arena *a = &v->rq->arena;
    const char *missing[SERIES_METRICS_MAX];
    size_t places[SERIES_METRICS_MAX];
    struct series_names names = {missing, 0};
    struct downsampler samplers[SERIES_METRICS_MAX];
    struct reports_query q = {.trial = c->trial,
                              .group = c->group,
                              .from = c->from,
                              .to = c->to,
                              .after_steps = INT64_MIN,
                              .only = &names};
    int err = reports_version(v->db, c->trial, c->group, &c->version, e);
    for (size_t i = 0; !err && i < c->count; i++) {
        c->answers[i] = series_cache_get(v->service->series, cache_key(a, c, i), &c->version, a);
        if (c->answers[i])
            continue;
        downsampler_init(&samplers[names.count], (size_t)c->max);
        missing[names.count] = c->names[i];
        places[names.count++] = i;
    }
    if (!err && names.count)
        err = series_downsample(v->db, &q, samplers, e);
    for (size_t i = 0; i < names.count; i++) {
        size_t at = places[i];
        if (!err) {
            c->answers[at] = series_json(a, missing[i], &samplers[i]);
            series_cache_put(v->service->series, cache_key(a, c, at), &c->version, c->answers[at]);
        }
        downsampler_free(&samplers[i]);
    }
    return err;
}

int view_trial_series(struct view *v, struct error *e)
{
    struct series_request c;
    struct json_writer *w = &v->w;
    int err = read_request(v, &c, e);
    if (!err)
        err = db_snapshot_begin(v->db, e);
    if (err)
        return err;
    err = read_series(v, &c, e);
    db_snapshot_end(v->db);
    if (err)
        return err;
    jw_object(w);
    jw_kv_string(w, "group", c.group);
    jw_key(w, "series");
    jw_array(w);
    for (size_t i = 0; i < c.count; i++)
        jw_raw(w, c.answers[i]);
    jw_array_end(w);
    jw_object_end(w);
    return 0;
}
