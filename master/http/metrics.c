// Metrics: the reports of trials as a stream (det's SDK), and one metric of a trial as arrays for a
// chart or a table.

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/limits.h"
#include "base/log.h"
#include "master/http/list.h"
#include "master/http/thin.h"
#include "master/http/views.h"
#include "master/sight.h"

enum { REPORT_PAGE = 500, SERIES_POINTS = 2000, SERIES_POINTS_MAX = 100000 };

enum { // columns of DB_METRIC_COLUMNS
    M_ID,
    M_RUN_ID,
    M_GROUP,
    M_STEPS,
    M_END_TIME,
    M_METRICS,
    M_BATCH_METRICS,
};

struct metric_stream {
    struct stream stream;
    const char *group; // NULL: all
    const int64_t *trials;
    size_t trial_count, at; // the trial being read
    // The last report that was sent of it.
    char after_group[LIMIT_NAME + 1];
    int64_t after_steps, after_id;
};

static void start_trial(struct metric_stream *m)
{
    m->after_group[0] = '\0';
    m->after_steps = INT64_MIN;
    m->after_id = 0;
}

static void write_report(struct json_writer *w, int64_t trial, struct db_rows *rows)
{
    const char *group = db_text(rows, M_GROUP);
    jw_object(w);
    jw_kv_int(w, "trialId", trial);
    jw_kv_int(w, "trialRunId", db_int(rows, M_RUN_ID));
    jw_kv_int(w, "id", db_int(rows, M_ID));
    jw_kv_string(w, "group", group);
    jw_kv_int(w, "totalBatches", db_int(rows, M_STEPS));
    write_time(w, "endTime", db_int(rows, M_END_TIME));
    jw_kv_bool(w, "archived", false);
    jw_key(w, "metrics");
    jw_object(w);
    jw_kv_raw(w, "avg_metrics", db_text(rows, M_METRICS));
    if (!strcmp(group, "validation")) // the SDK looks for this name
        jw_kv_raw(w, "validation_metrics", db_text(rows, M_METRICS));
    jw_kv_raw(w, "batch_metrics", db_text(rows, M_BATCH_METRICS));
    jw_object_end(w);
    jw_object_end(w);
}

static struct db_rows *next_reports(struct metric_stream *m, struct db_reader *db)
{
    int64_t trial = m->trials[m->at];
    if (m->group)
        return db_query(db, STMT_METRICS_OF_GROUP, "isiii", trial, m->group, m->after_steps,
                        m->after_id, (int64_t)REPORT_PAGE);
    return db_query(db, STMT_METRICS_OF_TRIAL, "isiii", trial, m->after_group, m->after_steps,
                    m->after_id, (int64_t)REPORT_PAGE);
}

// One line of up to REPORT_PAGE reports of one trial.
static enum stream_turn fill_metrics(struct stream *s, struct db_reader *db, struct buf *out)
{
    struct metric_stream *m = (struct metric_stream *)s;
    struct json_writer w;
    int count = 0, more;
    if (m->at == m->trial_count || atomic_load(&s->ending))
        return STREAM_END;
    struct db_rows *rows = next_reports(m, db);
    jw_init(&w, out);
    while ((more = db_next(rows)) == 1 && out->len < STREAM_CHUNK) {
        if (!count++)
            buf_puts(out, "{\"result\":{\"metrics\":[");
        else
            buf_puts(out, ",");
        jw_init(&w, out);
        write_report(&w, m->trials[m->at], rows);
        snprintf(m->after_group, sizeof m->after_group, "%s", db_text(rows, M_GROUP));
        m->after_steps = db_int(rows, M_STEPS);
        m->after_id = db_int(rows, M_ID);
    }
    db_rows_close(rows);
    if (count)
        buf_puts(out, "]}}\n");
    if (more < 0) {
        wire_write_stream_error(out, ERR_INTERNAL, "the store cannot be read");
        return STREAM_END;
    }
    if (!count) {
        m->at++;
        start_trial(m);
    }
    return STREAM_MORE;
}

static int open_metrics(struct view *v, const char *group, struct stream **out, struct error *e)
{
    const char *texts[QUERY_PAIRS_MAX];
    size_t count = query_all(v->query, "trialIds", texts, QUERY_PAIRS_MAX);
    int64_t *trials = arena_alloc(&v->rq->arena, (count + 1) * sizeof *trials);
    if (!count)
        return error_set(e, ERR_INVALID, "query parameter trialIds: give at least one trial");
    for (size_t i = 0; i < count; i++) {
        char *end;
        trials[i] = strtoll(texts[i], &end, 10);
        if (end == texts[i] || *end)
            return error_set(e, ERR_INVALID,
                             "query parameter trialIds: \"%.64s\" is not an integer", texts[i]);
        int rc = sight_check(v->db, &v->rq->principal, THING_TRIAL, texts[i], e);
        if (rc)
            return rc;
    }
    struct metric_stream *m = arena_alloc(&v->rq->arena, sizeof *m);
    m->stream.fill = fill_metrics;
    m->group = group && *group ? group : NULL;
    m->trials = trials;
    m->trial_count = count;
    start_trial(m);
    *out = &m->stream;
    return 0;
}

int stream_training_metrics(struct view *v, struct stream **out, struct error *e)
{
    return open_metrics(v, "training", out, e);
}

int stream_validation_metrics(struct view *v, struct stream **out, struct error *e)
{
    return open_metrics(v, "validation", out, e);
}

int stream_trial_metrics(struct view *v, struct stream **out, struct error *e)
{
    return open_metrics(v, query_get(v->query, "group"), out, e);
}

// A column of the points that thin_each() gives.
struct column {
    struct json_writer *w;
    enum { COLUMN_STEPS, COLUMN_TIMES, COLUMN_VALUES } kind;
};

static void emit_column(void *ctx, const struct thin_point *p)
{
    const struct column *c = ctx;
    if (c->kind == COLUMN_STEPS)
        jw_int(c->w, p->step);
    else if (c->kind == COLUMN_TIMES)
        jw_double(c->w, (double)p->time / 1e6);
    else
        jw_double(c->w, p->value);
}

static void write_column(struct json_writer *w, const char *key, int kind, const struct thin *t)
{
    struct column c = {.w = w, .kind = kind};
    jw_key(w, key);
    jw_array(w);
    thin_each(t, emit_column, &c);
    jw_array_end(w);
}

// A number, or one of the three that JSON has no number for; false: something else.
static bool value_of(struct db_rows *rows, double *out)
{
    static const struct {
        const char *text;
        double value;
    } words[] = {{"NaN", NAN}, {"Infinity", INFINITY}, {"-Infinity", -INFINITY}};
    const char *type = db_text(rows, 3);
    if (!type)
        return false;
    if (!strcmp(type, "real") || !strcmp(type, "integer")) {
        *out = db_double(rows, 2);
        return true;
    }
    for (size_t i = 0; !strcmp(type, "text") && i < sizeof words / sizeof *words; i++)
        if (!strcmp(db_text(rows, 2), words[i].text)) {
            *out = words[i].value;
            return true;
        }
    return false;
}

static int read_series(struct view *v, int64_t trial, const char *group, const char *metric,
                       struct thin *t, struct error *e)
{
    char *path = arena_printf(&v->rq->arena, "$.\"%s\"", metric);
    struct db_rows *rows = db_query(v->db, STMT_METRIC_SERIES, "iss", trial, group, path);
    int more;
    while ((more = db_next(rows)) == 1) {
        struct thin_point p = {.step = db_int(rows, 0), .time = db_int(rows, 1)};
        if (value_of(rows, &p.value))
            thin_add(t, p);
    }
    db_rows_close(rows);
    return more ? store_failed(e) : 0;
}

int view_trial_series(struct view *v, struct error *e)
{
    int64_t trial, max;
    const char *group = query_get(v->query, "group"), *metric = query_get(v->query, "metric");
    int rc = request_param_int(v->rq, 0, &trial, e);
    if (!rc)
        rc = request_query_int(v->rq, "max", SERIES_POINTS, &max, e);
    if (rc)
        return rc;
    if (max < THIN_MIN || max > SERIES_POINTS_MAX)
        return error_set(e, ERR_INVALID, "query parameter max: from %d to %d", THIN_MIN,
                         SERIES_POINTS_MAX);
    if (!metric || !*metric || strpbrk(metric, "\"\\"))
        return error_set(e, ERR_INVALID,
                         "query parameter metric: give the name of a metric, without \" and \\");
    if (!group || !*group)
        group = "training";

    struct thin t;
    struct json_writer *w = &v->w;
    thin_init(&t, (size_t)max);
    rc = read_series(v, trial, group, metric, &t, e);
    jw_object(w);
    jw_kv_string(w, "group", group);
    jw_kv_string(w, "metric", metric);
    jw_kv_int(w, "total", (int64_t)t.total);
    write_column(w, "steps", COLUMN_STEPS, &t);
    write_column(w, "times", COLUMN_TIMES, &t);
    write_column(w, "values", COLUMN_VALUES, &t);
    jw_object_end(w);
    thin_free(&t);
    return rc;
}
