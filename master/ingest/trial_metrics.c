// The metrics that a trial keeps beside its reports: the latest report of each kind, the best
// validation, and a summary of every metric. Lists and the searcher use them.

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/clock.h"
#include "base/limits.h"
#include "base/text/json.h"
#include "db/metrics/series_json.h"
#include "master/common/missing_metric.h"
#include "master/ingest/logs.h"
#include "master/ingest/metric_summary.h"
#include "master/ingest/reports.h"
#include "master/lifecycle/lifecycle.h"

enum {
    UNSAVED_LISTED = 1, // the trial is in the list of unsaved ones
    UNSAVED_PROGRESS = 2,
    UNSAVED_VALIDATION = 4,
    UNSAVED_BEST = 8,
    UNSAVED_METRICS = 16, // steps, latest training, summary: when the rate allows it
    UNSAVED_NOW = 32,     // .. with this turn, whatever the rate
};

enum { FLUSH_BURST = 50, FLUSH_RETRY_US = 100 * 1000 };

// --- writing rows --------------------------------------------------------------------------------

static void unsaved_append(struct core *c, struct trial *t)
{
    if (!(t->unsaved & UNSAVED_LISTED)) {
        t->next_unsaved = c->metrics->unsaved;
        c->metrics->unsaved = t;
    }
    t->unsaved |= UNSAVED_LISTED;
}

static void trial_mark(struct core *c, struct trial *t, unsigned bits)
{
    t->unsaved |= bits;
    unsaved_append(c, t);
}

static void flush_timer_fired(struct core *c, void *arg)
{
    unsaved_append(c, arg);
}

// The row is written at the end of this turn if its last write is METRICS_FLUSH_US ago or there was
// none; else when that time has passed.
static void trial_mark_metrics(struct core *c, struct trial *t)
{
    int64_t due = t->metrics_flushed + METRICS_FLUSH_US;
    bool waits = t->unsaved & UNSAVED_METRICS;
    t->unsaved |= UNSAVED_METRICS;
    if (waits)
        return;
    t->metrics_timer.fire = flush_timer_fired;
    t->metrics_timer.arg = t;
    if (!t->metrics_flushed || due <= c->now)
        unsaved_append(c, t);
    else
        timer_set(&c->timers, &t->metrics_timer, due);
}

struct change_target {
    struct core *c;
    const struct trial *t;
};

static void mark_group_changed(void *ctx, const char *group)
{
    const struct change_target *to = ctx;
    change_mark(to->c, EVENT_METRICS, to->t->active->experiment->id, to->t->id, group);
}

// The MetricsWorkload of the API.
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

static void update_training_text(struct trial *t)
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

void trial_metrics_write(struct core *c, struct trial *t)
{
    if (!(t->unsaved & UNSAVED_METRICS))
        return;
    struct change_target to = {c, t};
    char *summary = summary_text(t->summary);
    update_training_text(t);
    STORE(c, TRIAL_SET_METRICS, t->steps, t->training.text, summary, c->metrics->next_report - 1,
          t->id);
    free(summary);
    summary_each_changed(t->summary, mark_group_changed, &to);
    experiment_metrics_report(c, t);
    timer_clear(&c->timers, &t->metrics_timer);
    t->metrics_flushed = c->now;
    t->unsaved &= ~(unsigned)(UNSAVED_METRICS | UNSAVED_NOW);
}

// A token bucket that fills at METRICS_FLUSHES a second.
static bool flush_allowed(struct core *c)
{
    double filled = (double)(c->now - c->metrics->flushes_at) * METRICS_FLUSHES / 1e6;
    c->metrics->flushes = fmin(c->metrics->flushes + filled, FLUSH_BURST);
    c->metrics->flushes_at = c->now;
    if (c->metrics->flushes < 1)
        return false;
    c->metrics->flushes--;
    return true;
}

static void trial_flush_metrics(struct core *c, struct trial *t)
{
    if (!(t->unsaved & UNSAVED_METRICS))
        return;
    if ((t->unsaved & UNSAVED_NOW) || flush_allowed(c))
        trial_metrics_write(c, t);
    else
        timer_set(&c->timers, &t->metrics_timer, c->now + FLUSH_RETRY_US);
}

void trial_metrics_flush(struct core *c)
{
    while (c->metrics->unsaved) {
        struct trial *t = c->metrics->unsaved;
        c->metrics->unsaved = t->next_unsaved;
        if (t->unsaved & UNSAVED_PROGRESS)
            STORE(c, TRIAL_SET_PROGRESS, t->progress, t->id);
        if (t->unsaved & UNSAVED_VALIDATION)
            STORE(c, TRIAL_SET_LATEST_VALIDATION, t->validation.text, t->id);
        if (t->unsaved & UNSAVED_BEST)
            STORE(c, TRIAL_SET_BEST_VALIDATION, t->best_text, t->id);
        t->unsaved &= UNSAVED_METRICS | UNSAVED_NOW;
        trial_flush_metrics(c, t);
    }
    experiment_metrics_flush(c);
    compaction_start_next(c);
}

void trial_metrics_mark_progress(struct core *c, struct trial *t)
{
    trial_mark(c, t, UNSAVED_PROGRESS);
}

// --- adding reports ------------------------------------------------------------------------------

// Whether a report is newer than the kept one.
static bool is_newer(const struct latest_report *kept, int64_t run, int64_t steps)
{
    return !kept->present || run > kept->run || steps >= kept->steps;
}

static void set_latest_training(struct trial *t, const struct series_block *b, size_t at)
{
    t->training_block.limit = SERIES_BLOB_MAX;
    buf_reset(&t->training_block);
    series_put_block(&t->training_block, b, at, 1);
    t->training.present = true;
    t->training.run = b->runs[at];
    t->training.steps = b->steps[at];
}

static bool is_better(const struct active_experiment *active, double value, double than)
{
    bool smaller = jget_bool(jget(active->config, "searcher"), "smaller_is_better", true);
    return smaller ? value < than : value > than;
}

static const char *searcher_metric(const struct active_experiment *active)
{
    return jget_string(jget(active->config, "searcher"), "metric", "");
}

static void update_best(struct core *c, struct trial *t, double value, int64_t time,
                        const char *text)
{
    struct active_experiment *active = t->active;
    if (!t->has_best || is_better(active, value, t->best)) {
        t->has_best = true;
        t->best = value;
        free(t->best_text);
        t->best_text = xstrdup(text);
        trial_mark(c, t, UNSAVED_BEST);
    }
    if (!active->has_best || is_better(active, value, active->best)) {
        active->has_best = true;
        active->best = value;
        STORE(c, EXPERIMENT_SET_BEST_METRIC, value, active->experiment->id);
        STORE(c, VALIDATION_HISTORY_ADD, active->experiment->id, t->id, time, value);
        change_mark(c, EVENT_EXPERIMENT, active->experiment->id, 0, NULL);
    }
}

void checkpoint_validation_store(struct core *c, int64_t trial, const struct series_block *b,
                                 size_t at)
{
    struct buf out;
    struct json_writer w;
    buf_init(&out, LIMIT_BODY);
    jw_init(&w, &out);
    jw_object(&w);
    jw_key(&w, "avgMetrics");
    series_write_values(&w, b, at);
    jw_object_end(&w);
    STORE(c, CHECKPOINTS_SET_VALIDATION, buf_str(&out), trial, b->steps[at]);
    buf_free(&out);
}

// The unit in which the searcher measures training. A report without it passes no rung.
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
        logs_add_message(c, t, t->allocation->id, "WARNING", text);
        t->untimed = true;
    }
    return 0;
}

static void searcher_notify(struct core *c, struct trial *t, double value,
                            const struct series_block *b, size_t at)
{
    int64_t steps = b->steps[at];
    if (steps <= t->searcher_steps || trial_is_terminal(t->state))
        return; // the searcher knows this step, from this run or an earlier one
    t->searcher_steps = steps;
    struct search_event event = {.kind = SEARCH_VALIDATED,
                                 .request_id = t->request_id,
                                 .metric = value,
                                 .time = training_time(c, t, b, at)};
    experiment_search_event(c, t->active, &event);
}

// The names of the metrics in report `at`, in the arena; the list ends with NULL.
static const char *const *names_at(struct arena *arena, const struct series_block *b, size_t at)
{
    const char **names = arena_alloc(arena, (b->column_count + 1) * sizeof *names);
    size_t count = 0;
    for (size_t i = 0; i < b->column_count; i++)
        if (series_has(&b->columns[i], at, 1) && strcmp(b->columns[i].name, SERIES_BATCHES) != 0)
            names[count++] = b->columns[i].name;
    names[count] = NULL;
    return names;
}

// Warns in the log at the first validation of a trial: if its name is misspelled, the search never
// hears of the metric.
static void warn_of_missing_metric(struct core *c, struct trial *t, const struct series_block *b,
                                   size_t at)
{
    static const char *const none[] = {NULL};
    struct arena arena = {0};
    if (t->validation.present || t->has_best || !t->allocation || t->active->unmanaged)
        return;
    const struct reported_metrics reported = {
        .subject = "this trial", .validation = names_at(&arena, b, at), .training = none};
    char *text = missing_metric_warning(searcher_metric(t->active), &reported);
    if (text)
        logs_add_message(c, t, t->allocation->id, "WARNING", text);
    free(text);
    arena_free(&arena);
}

static void add_validation(struct core *c, struct trial *t, const struct series_block *b, size_t at)
{
    double value;
    char *text = workload_text(b, at);
    bool known = series_value(b, at, searcher_metric(t->active), &value);
    CORE_DISPATCH(c, validation_reported, c, t, b, at);
    if (b->steps[at] >= 0)
        checkpoint_validation_store(c, t->id, b, at);
    if (known && isfinite(value))
        update_best(c, t, value, b->times[at], text);
    if (!known)
        warn_of_missing_metric(c, t, b, at);
    if (is_newer(&t->validation, b->runs[at], b->steps[at])) {
        free(t->validation.text);
        t->validation = (struct latest_report){true, b->runs[at], b->steps[at], xstrdup(text)};
        trial_mark(c, t, UNSAVED_VALIDATION);
    }
    free(text);
    trial_mark(c, t, UNSAVED_NOW);
    if (known)
        searcher_notify(c, t, value, b, at);
}

// Updates steps, latest training and summary; also when reports are read at a start.
static void add_to_summary(struct trial *t, const char *group, const struct series_block *b)
{
    bool training = !strcmp(group, "training");
    for (size_t i = 0; i < b->count; i++)
        t->steps = b->steps[i] > t->steps ? b->steps[i] : t->steps;
    if (training && is_newer(&t->training, b->runs[b->count - 1], b->steps[b->count - 1]))
        set_latest_training(t, b, b->count - 1);
    summary_add(t->summary, group, b);
}

void trial_metrics_add(struct core *c, struct trial *t, const char *group,
                       const struct series_block *b)
{
    if (!t->summary)
        t->summary = summary_new(NULL);
    add_to_summary(t, group, b);
    trial_mark_metrics(c, t);
    if (!strcmp(group, "validation"))
        for (size_t i = 0; i < b->count; i++)
            add_validation(c, t, b, i);
}

// --- start and end of a run ----------------------------------------------------------------------

// Reports beyond the checkpoint that the trial starts from will come again. Without a checkpoint
// all do, perhaps with other values, so the summary begins again too.
void trial_metrics_restart(struct core *c, struct trial *t, int64_t from)
{
    STORE(c, METRIC_CUT_INSERT, t->id, t->run, from);
    t->steps = from < 0 ? 0 : from;
    if (from < 0) {
        summary_free(t->summary);
        t->summary = NULL;
    }
    if (!t->summary)
        t->summary = summary_new(NULL);
    trial_mark(c, t, UNSAVED_METRICS | UNSAVED_NOW);
}

void trial_metrics_end(struct core *c, struct trial *t)
{
    trial_metrics_write(c, t);
    timer_clear(&c->timers, &t->metrics_timer);
    compaction_trial_ended(c, t);
}

static void load_latest(struct latest_report *r, const char *text)
{
    json_t *parsed = NULL;
    if (!text || json_parse(text, strlen(text), "latest report", &parsed, NULL))
        return;
    // Run 0: any report of the live run is newer.
    *r = (struct latest_report){true, 0, jget_int(parsed, "totalBatches", 0), xstrdup(text)};
    json_decref(parsed);
}

static bool read_best(const struct active_experiment *active, const json_t *report, double *out)
{
    const json_t *value =
        json_object_get(jget_path(report, "metrics.avgMetrics"), searcher_metric(active));
    *out = json_is_number(value) ? json_number_value(value) : NAN;
    return isfinite(*out);
}

void trial_metrics_load(struct trial *t, const struct stored_metrics *stored)
{
    json_t *parsed = NULL;
    const char *best = stored->best;
    load_latest(&t->training, stored->training);
    load_latest(&t->validation, stored->validation);
    if (t->validation.present)
        t->searcher_steps = t->validation.steps;
    if (best && !json_parse(best, strlen(best), "best validation", &parsed, NULL)) {
        t->best_text = xstrdup(best);
        t->has_best = read_best(t->active, parsed, &t->best);
        json_decref(parsed);
    }
    t->summary = summary_new(stored->summary);
    t->has_reports = stored->known > 0;
}

int trial_metrics_catch_up(struct core *c, struct trial *t, int64_t known, struct error *e)
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
        add_to_summary(t, DB_GET(rows, METRICS_SINCE, grp), &b);
        trial_mark_metrics(c, t);
        arena_reset(&arena);
    }
    db_rows_close(rows);
    arena_free(&arena);
    if (!err && more < 0)
        err = db_unreadable(c->reader, e);
    return err ? error_prefix(e, "metrics of trial %lld", (long long)t->id) : 0;
}

void trial_metrics_forget(struct trial *t)
{
    experiment_metrics_forget_trial(t);
    free(t->training.text);
    buf_free(&t->training_block);
    free(t->validation.text);
    free(t->best_text);
    summary_free(t->summary);
}
