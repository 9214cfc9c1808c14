// The streams behind the charts of an experiment in Determined's web client: the steps at which a
// metric was reported, the values of all trials near a step, and the series of the best trials.
// Each sends a line now, and one in each period while the experiment works.

#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/clock.h"
#include "base/log.h"
#include "master/views/lists/list.h"
#include "master/views/metrics/trial_series.h"
#include "master/views/views.h"

enum {
    PERIOD_S = 30,
    PERIOD_MAX_S = 3600,
    TRIALS_MAX = 2000,      // whose reports a line looks through
    STEPS_MAX = 100 * 1000, // of one stream
    MARGIN_MAX = 100,
    SAMPLE_TRIALS = 25,
    SAMPLE_TRIALS_MAX = 200,
    SAMPLE_POINTS = 1000,
    SAMPLE_POINTS_MAX = 400 * 1000, // of all trials together
};

struct sampled_trial {
    int64_t id, last_step; // last_step: the last that was sent; -1: none
};

struct chart_stream {
    struct stream stream;
    int (*write)(struct chart_stream *c, struct json_writer *w, struct db_reader *db,
                 struct error *e);
    int64_t experiment, period_s;
    const char *group, *metric;
    int64_t from, to, wanted;    // steps; wanted: of a snapshot
    int64_t most_trials, points; // of a sample
    int64_t *steps;              // that were sent, ascending
    size_t step_count;
    struct sampled_trial *trials; // of the last line
    size_t trial_count;
};

static void chart_close(struct stream *s)
{
    struct chart_stream *c = (struct chart_stream *)s;
    free(c->steps);
    free(c->trials);
}

// --- reading one metric --------------------------------------------------------------------------

static struct reports_query metric_query(const struct chart_stream *c, int64_t trial,
                                         const struct series_names *only)
{
    struct reports_query q = REPORTS_ALL(trial, c->group);
    q.from = c->from;
    q.to = c->to;
    q.only = only;
    return q;
}

typedef void point_reader(void *ctx, int64_t step, double value);

static int read_points(const struct chart_stream *c, struct db_reader *db, int64_t trial,
                       point_reader *read, void *ctx, struct error *e)
{
    const struct series_names only = {&c->metric, 1};
    const struct reports_query q = metric_query(c, trial, &only);
    struct reports *r = NULL;
    struct reports_span span;
    double value;
    int more = reports_open(db, &q, &r, e);
    if (!more)
        while ((more = reports_next(r, &span, e)) == 1)
            for (size_t i = span.first; i < span.end; i++)
                if (span.block->steps[i] >= 0 && series_value(span.block, i, c->metric, &value))
                    read(ctx, span.block->steps[i], value);
    reports_close(r);
    return more;
}

// --- batches -------------------------------------------------------------------------------------

struct step_list {
    int64_t *steps;
    size_t count, cap;
};

static void add_step(void *ctx, int64_t step, double value)
{
    struct step_list *l = ctx;
    (void)value;
    if (l->count == l->cap && l->cap < 2 * STEPS_MAX) {
        l->cap = l->cap ? 2 * l->cap : 256;
        l->steps = xrealloc(l->steps, l->cap * sizeof *l->steps);
    }
    if (l->count < l->cap)
        l->steps[l->count++] = step;
}

static int compare_steps(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

static void sort_steps(struct step_list *l)
{
    size_t kept = 0;
    if (l->count)
        qsort(l->steps, l->count, sizeof *l->steps, compare_steps);
    for (size_t i = 0; i < l->count; i++)
        if (!kept || l->steps[kept - 1] != l->steps[i])
            l->steps[kept++] = l->steps[i];
    l->count = kept > STEPS_MAX ? STEPS_MAX : kept;
}

// Writes the steps that were not sent before.
static void write_new_steps(struct chart_stream *c, struct json_writer *w, struct step_list *l)
{
    size_t at = 0;
    for (size_t i = 0; i < l->count; i++) {
        while (at < c->step_count && c->steps[at] < l->steps[i])
            at++;
        if (at == c->step_count || c->steps[at] != l->steps[i])
            jw_int(w, l->steps[i]);
    }
    free(c->steps);
    c->steps = l->steps;
    c->step_count = l->count;
}

static int write_batches(struct chart_stream *c, struct json_writer *w, struct db_reader *db,
                         struct error *e)
{
    struct db_rows *rows = DB_QUERY(db, CHART_TRIALS, c->experiment, TRIALS_MAX);
    struct step_list l = {0};
    int err = 0, more = 0;
    while (!err && (more = db_next(rows)) == 1) {
        err = read_points(c, db, DB_GET(rows, CHART_TRIALS, id), add_step, &l, e);
        if (l.count >= STEPS_MAX)
            sort_steps(&l);
    }
    db_rows_close(rows);
    sort_steps(&l);
    jw_key(w, "batches");
    jw_array(w);
    write_new_steps(c, w, &l);
    jw_array_end(w);
    return more < 0 ? store_failed(e) : err;
}

// --- snapshot ------------------------------------------------------------------------------------

struct nearest_point {
    int64_t wanted, step; // step -1: none
    double value;
};

static void take_nearest(void *ctx, int64_t step, double value)
{
    struct nearest_point *p = ctx;
    if (p->step < 0 || llabs(step - p->wanted) < llabs(p->step - p->wanted)) {
        p->step = step;
        p->value = value;
    }
}

static int write_snapshot(struct chart_stream *c, struct json_writer *w, struct db_reader *db,
                          struct error *e)
{
    struct db_rows *rows = DB_QUERY(db, CHART_TRIALS, c->experiment, TRIALS_MAX);
    int err = 0, more = 0;
    jw_key(w, "trials");
    jw_array(w);
    while (!err && (more = db_next(rows)) == 1) {
        struct nearest_point p = {.wanted = c->wanted, .step = -1};
        int64_t trial = DB_GET(rows, CHART_TRIALS, id);
        err = read_points(c, db, trial, take_nearest, &p, e);
        if (p.step < 0)
            continue;
        jw_object(w);
        jw_kv_int(w, "trialId", trial);
        jw_kv_raw(w, "hparams", DB_GET(rows, CHART_TRIALS, hparams));
        jw_kv_double(w, "metric", p.value);
        jw_kv_int(w, "batchesProcessed", p.step);
        jw_object_end(w);
    }
    jw_array_end(w);
    db_rows_close(rows);
    return more < 0 ? store_failed(e) : err;
}

// --- sample --------------------------------------------------------------------------------------

static const struct sampled_trial *find_sampled(const struct sampled_trial *list, size_t count,
                                                int64_t id)
{
    for (size_t i = 0; i < count; i++)
        if (list[i].id == id)
            return &list[i];
    return NULL;
}

// Writes the points behind the last one that was sent.
static int write_points(struct chart_stream *c, struct json_writer *w, struct db_reader *db,
                        struct sampled_trial *t, struct error *e)
{
    const struct series_names only = {&c->metric, 1};
    struct reports_query q = metric_query(c, t->id, &only);
    struct downsampler d;
    if (t->last_step + 1 > q.from)
        q.from = t->last_step + 1;
    downsampler_init(&d, (size_t)c->points);
    int err = series_downsample(db, &q, &d, e);
    downsampler_finish(&d);
    for (size_t i = 0; !err && i < d.point_count; i++) {
        jw_object(w);
        jw_kv_int(w, "batches", d.points[i].step);
        write_time(w, "time", d.points[i].time);
        jw_key(w, "values");
        jw_object(w);
        jw_kv_double(w, c->metric, d.points[i].value);
        jw_object_end(w);
        jw_object_end(w);
        t->last_step = d.points[i].step;
    }
    downsampler_free(&d);
    return err;
}

static void write_missing(struct json_writer *w, const char *key, const struct sampled_trial *of,
                          size_t count, const struct sampled_trial *in, size_t in_count)
{
    jw_key(w, key);
    jw_array(w);
    for (size_t i = 0; i < count; i++)
        if (!find_sampled(in, in_count, of[i].id))
            jw_int(w, of[i].id);
    jw_array_end(w);
}

static int write_sample(struct chart_stream *c, struct json_writer *w, struct db_reader *db,
                        struct error *e)
{
    struct sampled_trial *now = xcalloc(SAMPLE_TRIALS_MAX, sizeof *now);
    size_t count = 0;
    int err = 0, more = 0;
    struct db_rows *rows = DB_QUERY(db, CHART_BEST_TRIALS, c->experiment, c->most_trials);
    jw_key(w, "trials");
    jw_array(w);
    while (!err && (more = db_next(rows)) == 1) {
        struct sampled_trial *t = &now[count++];
        t->id = DB_GET(rows, CHART_BEST_TRIALS, id);
        const struct sampled_trial *before = find_sampled(c->trials, c->trial_count, t->id);
        t->last_step = before ? before->last_step : -1;
        jw_object(w);
        jw_kv_int(w, "trialId", t->id);
        jw_kv_raw(w, "hparams", DB_GET(rows, CHART_BEST_TRIALS, hparams));
        jw_key(w, "data");
        jw_array(w);
        err = write_points(c, w, db, t, e);
        jw_array_end(w);
        jw_object_end(w);
    }
    jw_array_end(w);
    db_rows_close(rows);
    write_missing(w, "promotedTrials", now, count, c->trials, c->trial_count);
    write_missing(w, "demotedTrials", c->trials, c->trial_count, now, count);
    free(c->trials);
    c->trials = now;
    c->trial_count = count;
    return more < 0 ? store_failed(e) : err;
}

// --- the stream ----------------------------------------------------------------------------------

static bool works_still(const struct chart_stream *c, struct db_reader *db)
{
    struct db_rows *rows = DB_QUERY(db, CHART_IS_ACTIVE, c->experiment);
    bool active = db_next(rows) == 1 && DB_GET(rows, CHART_IS_ACTIVE, active);
    db_rows_close(rows);
    return active;
}

static enum stream_turn fill_chart(struct stream *s, struct db_reader *db, struct buf *out)
{
    struct chart_stream *c = (struct chart_stream *)s;
    struct json_writer w;
    struct error e = {0};
    if (atomic_load(&s->ending))
        return STREAM_END;
    if (clock_mono_us() < s->wait_until)
        return STREAM_WAIT;
    bool active = works_still(c, db);
    int err = db_snapshot_begin(db, &e);
    jw_init(&w, out);
    jw_object(&w);
    jw_key(&w, "result");
    jw_object(&w);
    if (!err) {
        err = c->write(c, &w, db, &e);
        db_snapshot_end(db);
    }
    jw_object_end(&w);
    jw_object_end(&w);
    buf_puts(out, "\n");
    if (err) {
        buf_reset(out);
        wire_write_stream_error(out, ERR_INTERNAL, "the store cannot be read");
        return STREAM_END;
    }
    s->wait_until = clock_mono_us() + c->period_s * 1000000;
    return active ? STREAM_WAIT : STREAM_END;
}

static int read_group(struct view *v, struct chart_stream *c, struct error *e)
{
    const char *type = query_get(v->query, "metricType"), *group = query_get(v->query, "group");
    const char *metric = query_get(v->query, "metricName");
    if (group && *group)
        c->group = group;
    else if (type && !strcmp(type, "METRIC_TYPE_TRAINING"))
        c->group = "training";
    else if (type && !strcmp(type, "METRIC_TYPE_VALIDATION"))
        c->group = "validation";
    if (!metric || !*metric)
        return error_set(e, ERR_INVALID, "query parameter metricName: missing");
    c->metric = metric;
    return c->group ? 0
                    : error_set(e, ERR_INVALID,
                                "query parameter group: missing; give it, or metricType as "
                                "METRIC_TYPE_TRAINING or METRIC_TYPE_VALIDATION");
}

static int open_chart(struct view *v, struct chart_stream **out, struct error *e)
{
    struct chart_stream *c = arena_alloc(&v->rq->arena, sizeof *c);
    *c = (struct chart_stream){.from = 0, .to = INT64_MAX};
    c->stream.fill = fill_chart;
    c->stream.close = chart_close;
    int err = request_param_int(v->rq, 0, &c->experiment, e);
    if (!err)
        err = read_group(v, c, e);
    if (!err)
        err = request_query_int(v->rq, "periodSeconds", PERIOD_S, &c->period_s, e);
    c->period_s = c->period_s < 1 ? PERIOD_S : c->period_s;
    c->period_s = c->period_s > PERIOD_MAX_S ? PERIOD_MAX_S : c->period_s;
    *out = c;
    return err;
}

int stream_metric_batches(struct view *v, struct stream **out, struct error *e)
{
    struct chart_stream *c;
    int err = open_chart(v, &c, e);
    c->write = write_batches;
    *out = &c->stream;
    return err;
}

int stream_trials_snapshot(struct view *v, struct stream **out, struct error *e)
{
    struct chart_stream *c;
    int64_t margin = 0;
    int err = open_chart(v, &c, e);
    if (!err)
        err = request_query_int(v->rq, "batchesProcessed", 0, &c->wanted, e);
    if (!err)
        err = request_query_int(v->rq, "batchesMargin", 0, &margin, e);
    if (!err && (margin < 0 || margin > MARGIN_MAX || c->wanted < 0 || c->wanted > INT32_MAX))
        err = error_set(e, ERR_INVALID,
                        "query parameter batchesMargin: from 0 to %d, and batchesProcessed: a "
                        "number of steps",
                        MARGIN_MAX);
    c->from = c->wanted > margin ? c->wanted - margin : 0;
    c->to = c->wanted + margin;
    c->write = write_snapshot;
    *out = &c->stream;
    return err;
}

int stream_trials_sample(struct view *v, struct stream **out, struct error *e)
{
    struct chart_stream *c;
    int err = open_chart(v, &c, e);
    if (!err)
        err = request_query_int(v->rq, "maxTrials", 0, &c->most_trials, e);
    if (!err)
        err = request_query_int(v->rq, "maxDatapoints", 0, &c->points, e);
    if (!err)
        err = request_query_int(v->rq, "startBatches", 0, &c->from, e);
    if (!err)
        err = request_query_int(v->rq, "endBatches", 0, &c->to, e);
    c->most_trials = c->most_trials ? c->most_trials : SAMPLE_TRIALS;
    c->points = c->points ? c->points : SAMPLE_POINTS;
    c->from = c->from > 0 ? c->from : 0;
    c->to = c->to > 0 ? c->to : INT64_MAX;
    if (!err && (c->most_trials < 0 || c->most_trials > SAMPLE_TRIALS_MAX))
        err =
            error_set(e, ERR_INVALID, "query parameter maxTrials: from 1 to %d", SAMPLE_TRIALS_MAX);
    if (!err && (c->points < 0 || c->points > SAMPLE_POINTS_MAX / c->most_trials))
        err = error_set(e, ERR_INVALID,
                        "query parameter maxDatapoints: from 1, and at most %d of all trials "
                        "together",
                        SAMPLE_POINTS_MAX);
    c->points = c->points < DOWNSAMPLE_MIN ? DOWNSAMPLE_MIN : c->points;
    c->write = write_sample;
    *out = &c->stream;
    return err;
}
