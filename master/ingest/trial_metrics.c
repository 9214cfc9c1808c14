// What a trial keeps of its metrics beside the reports: the latest of each kind, the best
// validation, a summary of every metric. Lists and the searcher live on it.

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/clock.h"
#include "base/limits.h"
#include "base/text/json.h"
#include "db/metrics/series_json.h"
#include "master/ingest/logs.h"
#include "master/ingest/metric_summary.h"
#include "master/ingest/reports.h"
#include "master/lifecycle/lifecycle.h"

enum {
    DIRTY_LISTED = 1, // the trial is in the list of this turn
    DIRTY_PROGRESS = 2,
    DIRTY_VALIDATION = 4,
    DIRTY_BEST = 8,
    DIRTY_METRICS = 16, // steps, latest training, summary: when there is time
    DIRTY_NOW = 32,     // .. with this turn
};

enum { FLUSHES_AT_ONCE = 50, FLUSH_AGAIN_US = 100 * 1000 };

// --- written -------------------------------------------------------------------------------------

static void list(struct core *c, struct trial *t)
{
    if (!(t->dirty & DIRTY_LISTED)) {
        t->dirty_next = c->metrics->dirty;
        c->metrics->dirty = t;
    }
    t->dirty |= DIRTY_LISTED;
}

static void mark(struct core *c, struct trial *t, unsigned bits)
{
    t->dirty |= bits;
    list(c, t);
}

static void flush_due(struct core *c, void *arg)
{
    list(c, arg);
}

// Since the summary was stored last, or it never was: as soon as its time has come.
static void mark_metrics(struct core *c, struct trial *t)
{
    int64_t due = t->metrics_flushed + METRICS_FLUSH_US;
    bool waits = t->dirty & DIRTY_METRICS;
    t->dirty |= DIRTY_METRICS;
    if (waits)
        return;
    t->metrics_timer.fire = flush_due;
    t->metrics_timer.arg = t;
    if (!t->metrics_flushed || due <= c->now)
        list(c, t);
    else
        timer_set(&c->timers, &t->metrics_timer, due);
}

struct telling {
    struct core *c;
    const struct trial *t;
};

static void tell_group(void *ctx, const char *group)
{
    const struct telling *to = ctx;
    change_mark(to->c, EVENT_METRICS, to->t->active->experiment->id, to->t->id, group);
}

// The wire's MetricsWorkload.
static char *workload_text(const struct series_block *b, size_t at)
{
    struct buf out;
    struct json_writer w;
    char time[CLOCK_RFC3339_MAX];
    buf_init(&out, LIMIT_BODY);
    jw_init(&w, &out);
    jw_object(&w);
    jw_kv_string(&w, "endTime", clock_format(b->times[at], time));
    jw_key(&w, "metrics");
    jw_object(&w);
    jw_key(&w, "avgMetrics");
    series_write_values(&w, b, at);
    jw_object_end(&w);
    jw_kv_int(&w, "numInputs", 0);
    jw_kv_int(&w, "totalBatches", b->steps[at] < 0 ? 0 : b->steps[at]);
    jw_object_end(&w);
    return buf_take(&out);
}

static void write_training(struct trial *t)
{
    struct arena arena = {0};
    struct series_block b;
    if (!t->training_block.len)
        return;
    must(!series_get_block(&arena, t->training_block.data, t->training_block.len, NULL, &b, NULL));
    free(t->training.text);
    t->training.text = workload_text(&b, 0);
    buf_reset(&t->training_block);
    arena_free(&arena);
}

void latest_write(struct core *c, struct trial *t)
{
    if (!(t->dirty & DIRTY_METRICS))
        return;
    struct telling to = {c, t};
    char *summary = summary_text(t->summary);
    write_training(t);
    STORE(c, TRIAL_SET_METRICS, t->steps, t->training.text, summary, c->metrics->next_report - 1,
          t->id);
    free(summary);
    summary_each_changed(t->summary, tell_group, &to);
    listing_report(c, t);
    timer_clear(&c->timers, &t->metrics_timer);
    t->metrics_flushed = c->now;
    t->dirty &= ~(unsigned)(DIRTY_METRICS | DIRTY_NOW);
}

// A bucket that fills by METRICS_FLUSHES a second.
static bool may_flush(struct core *c)
{
    double filled = (double)(c->now - c->metrics->flushes_at) * METRICS_FLUSHES / 1e6;
    c->metrics->flushes = fmin(c->metrics->flushes + filled, FLUSHES_AT_ONCE);
    c->metrics->flushes_at = c->now;
    if (c->metrics->flushes < 1)
        return false;
    c->metrics->flushes--;
    return true;
}

static void flush_metrics(struct core *c, struct trial *t)
{
    if (!(t->dirty & DIRTY_METRICS))
        return;
    if ((t->dirty & DIRTY_NOW) || may_flush(c))
        latest_write(c, t);
    else
        timer_set(&c->timers, &t->metrics_timer, c->now + FLUSH_AGAIN_US);
}

void metrics_flush(struct core *c)
{
    while (c->metrics->dirty) {
        struct trial *t = c->metrics->dirty;
        c->metrics->dirty = t->dirty_next;
        if (t->dirty & DIRTY_PROGRESS)
            STORE(c, TRIAL_SET_PROGRESS, t->progress, t->id);
        if (t->dirty & DIRTY_VALIDATION)
            STORE(c, TRIAL_SET_LATEST_VALIDATION, t->validation.text, t->id);
        if (t->dirty & DIRTY_BEST)
            STORE(c, TRIAL_SET_BEST_VALIDATION, t->best_text, t->id);
        t->dirty &= DIRTY_METRICS | DIRTY_NOW;
        flush_metrics(c, t);
    }
    listing_flush(c);
    folds_next(c);
}

void latest_mark_progress(struct core *c, struct trial *t)
{
    mark(c, t, DIRTY_PROGRESS);
}

// --- taken in ------------------------------------------------------------------------------------

// Whether it is newer than what is kept.
static bool is_newer(const struct latest_report *kept, int64_t run, int64_t steps)
{
    return !kept->present || run > kept->run || steps >= kept->steps;
}

static void keep_training(struct trial *t, const struct series_block *b, size_t at)
{
    t->training_block.limit = SERIES_BLOB_MAX;
    buf_reset(&t->training_block);
    series_put_block(&t->training_block, b, at, 1);
    t->training.present = true;
    t->training.run = b->runs[at];
    t->training.steps = b->steps[at];
}

static bool better(const struct active_experiment *l, double value, double than)
{
    bool smaller = jget_bool(jget(l->config, "searcher"), "smaller_is_better", true);
    return smaller ? value < than : value > than;
}

static const char *searcher_metric(const struct active_experiment *l)
{
    return jget_string(jget(l->config, "searcher"), "metric", "");
}

static void keep_best(struct core *c, struct trial *t, double value, int64_t time, const char *text)
{
    struct active_experiment *l = t->active;
    if (!t->has_best || better(l, value, t->best)) {
        t->has_best = true;
        t->best = value;
        free(t->best_text);
        t->best_text = xstrdup(text);
        mark(c, t, DIRTY_BEST);
    }
    if (!l->has_best || better(l, value, l->best)) {
        l->has_best = true;
        l->best = value;
        STORE(c, EXPERIMENT_SET_BEST_METRIC, value, l->experiment->id);
        STORE(c, VALIDATION_HISTORY_ADD, l->experiment->id, t->id, time, value);
        change_mark(c, EVENT_EXPERIMENT, l->experiment->id, 0, NULL);
    }
}

static void store_with_checkpoint(struct core *c, const struct trial *t,
                                  const struct series_block *b, size_t at)
{
    struct buf out;
    struct json_writer w;
    buf_init(&out, LIMIT_BODY);
    jw_init(&w, &out);
    jw_object(&w);
    jw_key(&w, "avgMetrics");
    series_write_values(&w, b, at);
    jw_object_end(&w);
    STORE(c, CHECKPOINTS_SET_VALIDATION, buf_str(&out), t->id, b->steps[at]);
    buf_free(&out);
}

// What the searcher measures training by. A report that does not have it passes no rung.
static double training_time(struct core *c, struct trial *t, const struct series_block *b,
                            size_t at)
{
    const char *metric = search_time_metric(t->active->config);
    double value;
    if (metric && series_value(b, at, metric, &value))
        return value;
    if (!metric || !strcmp(metric, "batches"))
        return (double)b->steps[at];
    if (!t->untimed && t->allocation) {
        char text[400];
        snprintf(text, sizeof text,
                 "searcher.time_metric: the validation reports have no \"%.200s\", so the search "
                 "cannot compare this trial with others: report it beside the metric",
                 metric);
        logs_say(c, t, t->allocation->id, "WARNING", text);
        t->untimed = true;
    }
    return 0;
}

static void tell_searcher(struct core *c, struct trial *t, double value,
                          const struct series_block *b, size_t at)
{
    int64_t steps = b->steps[at];
    if (steps <= t->searcher_steps || trial_is_terminal(t->state))
        return; // it has heard of it, in this run or in one before
    t->searcher_steps = steps;
    struct search_event event = {.kind = SEARCH_VALIDATED,
                                 .request_id = t->request_id,
                                 .metric = value,
                                 .time = training_time(c, t, b, at)};
    experiment_search_event(c, t->active, &event);
}

static void take_validation(struct core *c, struct trial *t, const struct series_block *b,
                            size_t at)
{
    double value;
    char *text = workload_text(b, at);
    bool known = series_value(b, at, searcher_metric(t->active), &value);
    CORE_DISPATCH(c, validation_reported, c, t, b, at);
    if (b->steps[at] >= 0)
        store_with_checkpoint(c, t, b, at);
    if (known && isfinite(value))
        keep_best(c, t, value, b->times[at], text);
    if (is_newer(&t->validation, b->runs[at], b->steps[at])) {
        free(t->validation.text);
        t->validation = (struct latest_report){true, b->runs[at], b->steps[at], xstrdup(text)};
        mark(c, t, DIRTY_VALIDATION);
    }
    free(text);
    mark(c, t, DIRTY_NOW);
    if (known)
        tell_searcher(c, t, value, b, at);
}

// What a report says of the trial's steps, its training and its summary; also on the way in.
static void take_metrics(struct trial *t, const char *group, const struct series_block *b)
{
    bool training = !strcmp(group, "training");
    for (size_t i = 0; i < b->count; i++)
        t->steps = b->steps[i] > t->steps ? b->steps[i] : t->steps;
    if (training && is_newer(&t->training, b->runs[b->count - 1], b->steps[b->count - 1]))
        keep_training(t, b, b->count - 1);
    summary_add(t->summary, group, b);
}

void latest_take(struct core *c, struct trial *t, const char *group, const struct series_block *b)
{
    if (!t->summary)
        t->summary = summary_new(NULL);
    take_metrics(t, group, b);
    mark_metrics(c, t);
    if (!strcmp(group, "validation"))
        for (size_t i = 0; i < b->count; i++)
            take_validation(c, t, b, i);
}

// --- start and end of a run ----------------------------------------------------------------------

// What was reported beyond the checkpoint that the trial starts from will be reported again.
void metrics_restart(struct core *c, struct trial *t, int64_t from)
{
    STORE(c, METRIC_CUT_INSERT, t->id, t->run, from);
    t->steps = from < 0 ? 0 : from;
    if (!t->summary)
        t->summary = summary_new(NULL);
    mark(c, t, DIRTY_METRICS | DIRTY_NOW);
}

void metrics_end(struct core *c, struct trial *t)
{
    latest_write(c, t);
    timer_clear(&c->timers, &t->metrics_timer);
    folds_trial_ended(c, t);
}

static void load_report(struct latest_report *r, const char *text)
{
    json_t *parsed = NULL;
    if (!text || json_parse(text, strlen(text), "latest report", &parsed, NULL))
        return;
    // Run 0: whatever the live run reports next is newer.
    *r = (struct latest_report){true, 0, jget_int(parsed, "totalBatches", 0), xstrdup(text)};
    json_decref(parsed);
}

static bool best_of(const struct active_experiment *l, const json_t *report, double *out)
{
    const json_t *value =
        json_object_get(jget_path(report, "metrics.avgMetrics"), searcher_metric(l));
    *out = json_is_number(value) ? json_number_value(value) : NAN;
    return isfinite(*out);
}

void metrics_load(struct trial *t, const struct stored_metrics *stored)
{
    json_t *parsed = NULL;
    const char *best = stored->best;
    load_report(&t->training, stored->training);
    load_report(&t->validation, stored->validation);
    if (t->validation.present)
        t->searcher_steps = t->validation.steps;
    if (best && !json_parse(best, strlen(best), "best validation", &parsed, NULL)) {
        t->best_text = xstrdup(best);
        t->has_best = best_of(t->active, parsed, &t->best);
        json_decref(parsed);
    }
    t->summary = summary_new(stored->summary);
    t->has_reports = stored->known > 0;
}

int metrics_catch_up(struct core *c, struct trial *t, int64_t known, struct error *e)
{
    struct arena arena = {0};
    struct db_rows *rows = DB_QUERY(c->reader, METRICS_SINCE, t->id, known);
    int err = 0, more = 0;
    while (!err && (more = db_next(rows)) == 1) {
        struct series_block b;
        struct db_blob block = DB_GET(rows, METRICS_SINCE, data);
        err = series_get_block(&arena, block.data, block.len, NULL, &b, e);
        if (err)
            break;
        take_metrics(t, DB_GET(rows, METRICS_SINCE, grp), &b);
        mark_metrics(c, t);
        arena_reset(&arena);
    }
    db_rows_close(rows);
    arena_free(&arena);
    if (!err && more < 0)
        err = db_unreadable(c->reader, e);
    return err ? error_prefix(e, "metrics of trial %lld", (long long)t->id) : 0;
}

void metrics_forget(struct trial *t)
{
    listing_forget(t);
    free(t->training.text);
    buf_free(&t->training_block);
    free(t->validation.text);
    free(t->best_text);
    summary_free(t->summary);
}
