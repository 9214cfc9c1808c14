// Follows an experiment: redraws one line on a terminal, prints a line now and then elsewhere. The
// master may be unreachable for a while; Ctrl-C ends the following, not the experiment.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "api/wire.h"
#include "base/clock.h"
#include "base/text/json.h"
#include "cli/cli.h"
#include "cli/commands/commands.h"
#include "cli/common/watch.h"
#include "cli/output/failure.h"
#include "cli/output/progress.h"
#include "cli/output/rows.h"
#include "cli/output/terminal.h"

enum {
    LOOK_US = 200 * 1000, // between two requests for objects that events report as changed
    OLD_US =
        5 * 1000000, // age at which the wait reason is requested again, because it contains a time
    PLAIN_LINE_US = 5 * 1000000, // between two lines without a terminal
    TOLD_MOST = 5,               // different failures, and warnings, of the trials of a search
    NEWS_MOST = 8,               // trials whose logs are read at a time
};

enum follow_stale { // the parts that must be requested again
    STALE_REASON = 1,
    STALE_WARNINGS = 2,
    STALE_ALL = 4,
};

struct follow {
    struct cli *c;
    long long id, trial; // id: the experiment's
    bool terminal, away; // away: the master does not answer
    unsigned stale;      // bits of enum follow_stale
    int64_t looked_at;   // monotonic
    json_t *config;      // of the experiment
    char state[32], reason[512], shown_state[32], shown_reason[512];
    json_t *experiment, *trials; // as last read
    long long log_lines;         // warnings and errors already printed
    json_t *told;                // reasons of failed trials of a search that were printed
    json_t *warned;              // warnings of its agents that were printed
    json_t *news;                // its trials with unread log lines; each is a key
    json_t *read_lines;          // the last warning that was read, for each of these trials
    int64_t news_read_at;        // monotonic time
    bool told_metric;            // the warning that the searcher's metric is missing was printed
    int64_t last_line;           // monotonic time of the last plain line
    struct progress now;
};

static void clear_line(const struct follow *f)
{
    if (f->terminal)
        terminal_control(stdout, "\r\033[K");
}

static double report_metric(const json_t *report, const char *name)
{
    return jget_double(jget_path(report, "metrics.avgMetrics"), name, NAN);
}

// Prints once that the trials do not report the searcher's metric.
static void tell_metric(struct follow *f)
{
    const char *warning = jget_string(f->experiment, "metricWarning", "");
    if (!*warning || f->told_metric)
        return;
    f->told_metric = true;
    clear_line(f);
    printf("Warning: %s\n", warning);
}

static int read_experiment(struct follow *f, struct error *e)
{
    json_t *experiment = NULL;
    int err = fetch_experiment(f->c, f->id, &experiment, e);
    if (err)
        return err;
    snprintf(f->state, sizeof(f->state), "%s", row_state(WIRE_EXPERIMENT_STATE, experiment));
    f->now.fraction = jget_double(experiment, "progress", 0);
    f->now.best = jget_double(experiment, "bestTrialSearcherMetric", NAN);
    if (!f->config) {
        const char *searcher = jget_string(experiment, "searcherType", "single");
        f->config = json_incref(jget(experiment, "config"));
        f->now.total = json_integer_value(jget_path(f->config, "trainer.steps"));
        f->now.search = strcmp(searcher, "single") != 0;
        f->now.trials_total = json_integer_value(jget_path(f->config, "searcher.max_trials"));
    }
    json_decref(f->experiment);
    f->experiment = experiment;
    if (f->now.search) // the log of a single trial says it, too
        tell_metric(f);
    return 0;
}

static bool trial_has_ended(const json_t *trial)
{
    const char *word = wire_word(WIRE_TRIAL_STATE, jget_string(trial, "state", ""));
    return word && wire_state_is_terminal(word);
}

static bool trial_has_failed(const json_t *trial)
{
    const char *word = wire_word(WIRE_TRIAL_STATE, jget_string(trial, "state", ""));
    return word && strcmp(word, "ERROR") == 0;
}

static bool trial_waits(const json_t *trial)
{
    const char *word = wire_word(WIRE_TRIAL_STATE, jget_string(trial, "state", ""));
    return word && (strcmp(word, "QUEUED") == 0 || strcmp(word, "ACTIVE") == 0);
}

// Copies the reason without the number of equal failures, which a restarted trial has behind it.
static void copy_error(const char *reason, char *out, size_t cap)
{
    snprintf(out, cap, "%s", reason);
    char *times = strstr(out, " times in the same way");
    while (times && times > out && *times != '(')
        times--;
    if (times && times > out)
        times[-1] = '\0'; // the blank before "("
}

// Prints the reason of a trial that has failed, or failed and starts again, once for each reason.
static void tell_failure(struct follow *f, const json_t *trial)
{
    char error[ERROR_TEXT_MAX];
    const char *reason = jget_string(trial, "exitReason", "");
    bool failed = trial_has_failed(trial);
    bool again = !trial_has_ended(trial) && jget_int(trial, "restarts", 0) > 0;
    if (!*reason || (!failed && !again) || json_object_size(f->told) >= TOLD_MOST)
        return;
    copy_error(reason, error, sizeof error);
    if (json_object_get(f->told, error))
        return;
    json_object_set_new(f->told, error, json_true());
    clear_line(f);
    printf("Trial %lld failed%s: %s\n", (long long)jget_int(trial, "id", 0),
           again ? " and starts again" : "", reason);
}

static void count_trials(struct follow *f, const json_t *trials)
{
    size_t i;
    json_t *trial;
    long long count = (long long)json_array_size(trials);
    f->now.trials_ended = f->now.trials_failed = f->now.trials_waiting = 0;
    json_array_foreach((json_t *)trials, i, trial)
    {
        f->now.trials_ended += trial_has_ended(trial);
        f->now.trials_failed += trial_has_failed(trial);
        f->now.trials_waiting += trial_waits(trial);
        tell_failure(f, trial);
    }
    f->now.trials_running = count - f->now.trials_ended - f->now.trials_waiting;
    if (f->now.trials_total > 0 && count > f->now.trials_total)
        f->now.trials_total = count; // replacements of trials that rejected their hyperparameters
}

static int read_trial(struct follow *f, struct error *e)
{
    json_t *trials = NULL;
    int err = fetch_trials(f->c, f->id, &trials, e);
    const json_t *trial = json_array_get(trials, 0);
    if (f->now.search && !err) {
        count_trials(f, trials);
    } else if (!err && trial) {
        const json_t *training = jget(trial, "latestTraining");
        f->trial = jget_int(trial, "id", 0);
        f->now.steps = jget_int(trial, "totalBatchesProcessed", 0);
        f->now.restarts = (int)jget_int(trial, "restarts", 0);
        f->now.loss = report_metric(training, "loss");
        f->now.samples_per_second = report_metric(training, "samples_per_second");
        f->now.step_ms = report_metric(training, "step_ms");
        f->now.validation =
            report_metric(jget(trial, "latestValidation"), searcher_metric(f->config));
    }
    if (!err) {
        json_decref(f->trials);
        f->trials = trials;
    }
    return err;
}

static int read_reason(struct follow *f, struct error *e)
{
    f->reason[0] = '\0';
    if (strcmp(f->state, "QUEUED") != 0 && strcmp(f->state, "ACTIVE") != 0 &&
        strcmp(f->state, "PAUSING") != 0)
        return 0;
    json_t *why = NULL;
    int err = cli_call(f->c, "GET", NULL, &why, e, "/api/v1/experiments/%lld/why", f->id);
    snprintf(f->reason, sizeof(f->reason), "%s", jget_string(why, "reason", ""));
    json_decref(why);
    return err;
}

struct warning_reader {
    struct follow *f;
    long long seen;
};

static int on_warning(void *ctx, const json_t *result, struct error *e)
{
    (void)e;
    struct warning_reader *r = ctx;
    if (++r->seen > r->f->log_lines) {
        r->f->log_lines = r->seen;
        clear_line(r->f);
        fputs(jget_string(result, "message", ""), stdout);
    }
    return 0;
}

// --- warnings of a search ------------------------------------------------------------------------

struct trial_warnings {
    struct follow *f;
    const char *trial;
    long long last; // line
};

// Prints a warning of an agent, such as that a trial hangs, once for each text.
static int on_trial_warning(void *ctx, const json_t *result, struct error *e)
{
    (void)e;
    struct trial_warnings *r = ctx;
    struct follow *f = r->f;
    const char *text = jget_string(result, "log", "");
    r->last = strtoll(jget_string(result, "id", "0"), NULL, 10);
    if (json_object_size(f->warned) >= TOLD_MOST || json_object_get(f->warned, text))
        return 0;
    json_object_set_new(f->warned, text, json_true());
    clear_line(f);
    printf("Trial %s: %s\n", r->trial, text);
    return 0;
}

static int read_trial_warnings(struct follow *f, const char *trial, struct error *e)
{
    struct trial_warnings r = {f, trial, json_integer_value(json_object_get(f->read_lines, trial))};
    char *path = xasprintf("/api/v1/trials/%s/logs?levels=LOG_LEVEL_WARNING&sources=agent"
                           "&after=%lld",
                           trial, r.last);
    int err = client_stream(f->c->client, path, on_trial_warning, &r, e);
    free(path);
    json_object_set_new(f->read_lines, trial, json_integer(r.last));
    return err;
}

// Reads the logs of a few trials that have written since the last time.
static int show_news(struct follow *f, struct error *e)
{
    void *next;
    const char *trial;
    json_t *value;
    int err = 0, count = 0;
    if (clock_mono_us() < f->news_read_at + PLAIN_LINE_US)
        return 0;
    json_object_foreach_safe(f->news, next, trial, value)
    {
        if (err || count++ == NEWS_MOST)
            break;
        err = read_trial_warnings(f, trial, e);
        if (!err)
            json_object_del(f->news, trial);
    }
    f->news_read_at = clock_mono_us();
    return err;
}

static void note_news(struct follow *f, const json_t *data)
{
    char trial[24];
    snprintf(trial, sizeof trial, "%lld", (long long)jget_int(data, "trialId", 0));
    json_object_set_new(f->news, trial, json_true());
}

static int show_warnings(struct follow *f, struct error *e)
{
    if (f->now.search)
        return show_news(f, e);
    if (f->trial == 0)
        return 0;
    struct warning_reader r = {.f = f};
    char path[256];
    snprintf(path, sizeof(path),
             "/api/v1/trials/%lld/logs?levels=LOG_LEVEL_WARNING&levels=LOG_LEVEL_ERROR"
             "&levels=LOG_LEVEL_CRITICAL",
             f->trial);
    return client_stream(f->c->client, path, on_warning, &r, e);
}

static int terminal_width(void)
{
    struct winsize size;
    return ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 20 ? size.ws_col - 1 : 100;
}

static void draw_line(struct follow *f)
{
    char line[1024];
    f->now.state = f->away ? "MASTER_AWAY" : f->state;
    f->now.reason = f->away ? "the master does not answer; running tasks go on" : f->reason;
    progress_line(&f->now, f->terminal ? terminal_width() : 200, line, sizeof(line));
    if (f->terminal) {
        clear_line(f);
        fputs(line, stdout);
    } else {
        int64_t now = clock_mono_us();
        bool news =
            strcmp(f->state, f->shown_state) != 0 || strcmp(f->reason, f->shown_reason) != 0;
        if (news || now - f->last_line >= PLAIN_LINE_US) {
            puts(line);
            f->last_line = now;
        }
        memcpy(f->shown_state, f->state, sizeof(f->state));
        memcpy(f->shown_reason, f->reason, sizeof(f->reason));
    }
    fflush(stdout);
}

// --- events -----------------------------------------------------------------------------

static double metric_in(const json_t *metrics, const char *name, double fallback)
{
    return jget_double(metrics, name, fallback);
}

static void apply_metrics(struct follow *f, const json_t *data)
{
    const json_t *values = jget(data, "metrics");
    const char *group = jget_string(data, "group", "");
    if (f->now.search && isnan(f->now.best) && !f->told_metric && strcmp(group, "validation") == 0)
        f->stale |= STALE_ALL; // it may be another metric than the searcher's
    if (f->now.search || jget_int(data, "trialId", 0) != f->trial)
        return;
    if (strcmp(group, "validation") == 0) {
        f->now.validation = metric_in(values, searcher_metric(f->config), f->now.validation);
    } else if (strcmp(group, "training") == 0) {
        f->now.steps = jget_int(data, "steps", f->now.steps);
        f->now.loss = metric_in(values, "loss", f->now.loss);
        f->now.samples_per_second =
            metric_in(values, "samples_per_second", f->now.samples_per_second);
        f->now.step_ms = metric_in(values, "step_ms", f->now.step_ms);
    }
}

static void apply_experiment(struct follow *f, const json_t *data)
{
    const char *word = wire_word(WIRE_EXPERIMENT_STATE, jget_string(data, "state", ""));
    f->now.fraction = jget_double(data, "progress", f->now.fraction);
    f->now.best = jget_double(data, "bestMetric", f->now.best);
    if (!word || strcmp(word, f->state) != 0)
        f->stale |= STALE_ALL;
}

// Whether the trial has begun or ceased to wait since the trials were last read.
static bool trial_has_moved(const struct follow *f, const json_t *data)
{
    size_t i;
    json_t *trial;
    json_array_foreach(f->trials, i, trial)
    {
        if (jget_int(trial, "id", 0) == jget_int(data, "id", -1))
            return trial_waits(trial) != trial_waits(data);
    }
    return true; // it is new
}

static void apply_trial(struct follow *f, const json_t *data)
{
    if (f->now.search) { // a reason of a trial that goes on: it has failed and starts again
        bool again = *jget_string(data, "exitReason", "") && jget_int(data, "restarts", 0) > 0;
        f->stale |= trial_has_ended(data) || again || trial_has_moved(f, data) ? STALE_ALL : 0;
    } else if (f->trial == 0) {
        f->stale |= STALE_ALL;
    } else if (jget_int(data, "id", 0) == f->trial) {
        f->now.steps = jget_int(data, "steps", f->now.steps);
        f->now.restarts = (int)jget_int(data, "restarts", f->now.restarts);
    }
}

static void apply_logs(struct follow *f, const json_t *data)
{
    if (f->now.search)
        note_news(f, data);
    else
        f->stale |= STALE_WARNINGS;
}

static void apply_event(struct follow *f, const struct events_item *item)
{
    if (strcmp(item->name, "away") == 0)
        f->away = true;
    else if (strcmp(item->name, "start") == 0 || strcmp(item->name, "reset") == 0)
        f->stale |= STALE_ALL;
    else if (strcmp(item->name, "experiment") == 0)
        apply_experiment(f, item->data);
    else if (strcmp(item->name, "trial") == 0)
        apply_trial(f, item->data);
    else if (strcmp(item->name, "metrics") == 0)
        apply_metrics(f, item->data);
    else if (strcmp(item->name, "logs") == 0)
        apply_logs(f, item->data);
    else if (strcmp(item->name, "queue") == 0)
        f->stale |= STALE_REASON;
}

// Applies all received events; waits for the first one until `deadline`.
static int apply_events(struct follow *f, struct event_stream *stream, int64_t deadline,
                        struct error *e)
{
    struct events_item item;
    int found;
    while ((found = events_next(stream, deadline, &item, e)) > 0) {
        apply_event(f, &item);
        deadline = 0;
    }
    return found;
}

// --- requests ---------------------------------------------------------------------------

static int refresh(struct follow *f, struct error *e)
{
    int err = 0;
    if (f->stale & STALE_ALL) {
        err = read_experiment(f, e);
        err = err ? err : read_trial(f, e);
    }
    if (f->stale & (STALE_ALL | STALE_REASON))
        err = err ? err : read_reason(f, e);
    if (f->stale & (STALE_ALL | STALE_WARNINGS))
        err = err ? err : show_warnings(f, e);
    f->looked_at = clock_mono_us();
    f->away = err == ERR_UNAVAILABLE || err == ERR_TIMEOUT || err == ERR_PEER;
    f->stale = !err ? 0 : f->stale;
    return f->away ? 0 : err;
}

static bool has_ended(const struct follow *f)
{
    return !f->away && f->stale == 0 && wire_state_is_terminal(f->state);
}

static int follow_loop(struct follow *f, struct event_stream *stream, struct error *e)
{
    int err = 0;
    f->stale = STALE_ALL;
    while (!err && !watch_interrupted() && !has_ended(f) && watch_left(f->c) > 0) {
        int64_t now = clock_mono_us();
        if (now >= f->looked_at + OLD_US)
            f->stale |= STALE_REASON;
        if (json_object_size(f->news) && now >= f->news_read_at + PLAIN_LINE_US)
            f->stale |= STALE_WARNINGS;
        if (f->stale != 0 && now >= f->looked_at + LOOK_US)
            err = refresh(f, e);
        if (!err) {
            draw_line(f);
            err = has_ended(f) ? 0 : apply_events(f, stream, now + LOOK_US, e);
        }
    }
    return err;
}

static int report_end(struct follow *f, struct error *e)
{
    if (f->terminal)
        putchar('\n');
    tell_metric(f);
    if (strcmp(f->state, "COMPLETED") == 0 && f->now.trials_failed > 0)
        printf("%s\n", failure_reason(f->experiment));
    if (strcmp(f->state, "COMPLETED") == 0 || !has_ended(f))
        return 0; // the caller reports that --timeout has passed
    failure_print(failure_newest(f->trials));
    fflush(stdout);
    return failure_of(f->experiment, e);
}

int cli_follow(struct cli *c, long long experiment, struct error *e)
{
    struct follow f = {.c = c,
                       .id = experiment,
                       .terminal = isatty(STDOUT_FILENO),
                       .told = json_object(),
                       .warned = json_object(),
                       .news = json_object(),
                       .read_lines = json_object()};
    struct event_stream *stream = NULL;
    f.now = (struct progress){
        .loss = NAN, .validation = NAN, .samples_per_second = NAN, .step_ms = NAN, .best = NAN};
    const char *query = arena_printf(
        &c->arena, "topics=experiments,trials,metrics,logs,queue&experimentIds=%lld", experiment);
    int err = watch_open(c, query, &stream, e);
    watch_begin();
    err = err ? err : follow_loop(&f, stream, e);
    if (watch_interrupted()) {
        printf("\nStopped watching; the experiment continues. To watch again: muster experiment "
               "follow "
               "%lld\n",
               experiment);
        err = 0;
    } else if (!err) {
        err = report_end(&f, e);
    }
    watch_end();
    events_close(stream);
    json_decref(f.told);
    json_decref(f.warned);
    json_decref(f.news);
    json_decref(f.read_lines);
    json_decref(f.experiment);
    json_decref(f.trials);
    json_decref(f.config);
    return err;
}
