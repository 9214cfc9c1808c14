// Watching an experiment: one line redrawn on a terminal, a line now and then elsewhere. The master
// may be away for a while; Ctrl-C ends the watching, not the experiment.
#include <math.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "api/cli/cli.h"
#include "api/cli/progress.h"
#include "api/cli/rows.h"
#include "api/cli/verbs.h"
#include "api/wire.h"
#include "base/clock.h"
#include "base/json.h"

enum { POLL_US = 500000, PLAIN_LINE_US = 5000000 };

static volatile sig_atomic_t interrupted;

static void on_interrupt(int sig)
{
    (void)sig;
    interrupted = 1;
}

struct follow {
    struct cli *c;
    long long experiment, trial;
    bool terminal, away; // away: the master does not answer just now
    json_t *config;      // of the experiment
    char state[32], reason[512], shown_state[32], shown_reason[512];
    long long log_lines; // warnings and errors already shown
    int64_t last_line;   // monotonic time of the last plain line
    struct progress now;
};

static void clear_line(const struct follow *f)
{
    if (f->terminal) {
        fputs("\r\033[K", stdout);
    }
}

static double metric_of(const json_t *report, const char *name)
{
    return jget_double(jget_path(report, "metrics.avgMetrics"), name, NAN);
}

static int read_experiment(struct follow *f, struct error *e)
{
    json_t *experiment = NULL;
    int err = fetch_experiment(f->c, f->experiment, &experiment, e);
    if (err != 0) {
        return err;
    }
    const char *word = wire_word(WIRE_EXPERIMENT_STATE, jget_string(experiment, "state", ""));
    snprintf(f->state, sizeof(f->state), "%s", word != NULL ? word : "UNKNOWN");
    f->now.fraction = jget_double(experiment, "progress", 0);
    if (f->config == NULL) {
        f->config = json_incref(jget(experiment, "config"));
        f->now.total = json_integer_value(jget_path(f->config, "trainer.steps"));
    }
    json_decref(experiment);
    return 0;
}

static int read_trial(struct follow *f, struct error *e)
{
    json_t *trials = NULL;
    int err = fetch_trials(f->c, f->experiment, &trials, e);
    const json_t *trial = json_array_get(trials, 0);
    if (err == 0 && trial != NULL) {
        const json_t *training = jget(trial, "latestTraining");
        f->trial = jget_int(trial, "id", 0);
        f->now.steps = jget_int(trial, "totalBatchesProcessed", 0);
        f->now.restarts = (int)jget_int(trial, "restarts", 0);
        f->now.loss = metric_of(training, "loss");
        f->now.samples_per_second = metric_of(training, "samples_per_second");
        f->now.step_ms = metric_of(training, "step_ms");
        f->now.validation = metric_of(jget(trial, "latestValidation"), searcher_metric(f->config));
    }
    json_decref(trials);
    return err;
}

static int read_reason(struct follow *f, struct error *e)
{
    f->reason[0] = '\0';
    if (strcmp(f->state, "QUEUED") != 0 && strcmp(f->state, "ACTIVE") != 0) {
        return 0;
    }
    json_t *why = NULL;
    int err = cli_call(f->c, "GET", NULL, &why, e, "/api/v1/experiments/%lld/why", f->experiment);
    snprintf(f->reason, sizeof(f->reason), "%s", jget_string(why, "reason", ""));
    json_decref(why);
    return err;
}

struct log_reader {
    struct follow *f;
    long long seen;
};

static int on_warning(void *ctx, const json_t *result, struct error *e)
{
    (void)e;
    struct log_reader *r = ctx;
    if (++r->seen > r->f->log_lines) {
        r->f->log_lines = r->seen;
        clear_line(r->f);
        fputs(jget_string(result, "message", ""), stdout);
    }
    return 0;
}

static int show_warnings(struct follow *f, struct error *e)
{
    if (f->trial == 0) {
        return 0;
    }
    struct log_reader r = {.f = f};
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

static void draw(struct follow *f)
{
    char line[1024];
    f->now.state = f->away ? "MASTER_AWAY" : f->state;
    f->now.reason = f->away ? "the master does not answer; the training goes on" : f->reason;
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

static int poll_once(struct follow *f, struct error *e)
{
    int err = read_experiment(f, e);
    err = err != 0 ? err : read_trial(f, e);
    err = err != 0 ? err : read_reason(f, e);
    err = err != 0 ? err : show_warnings(f, e);
    f->away = err == ERR_UNAVAILABLE || err == ERR_TIMEOUT || err == ERR_PEER;
    return f->away ? 0 : err;
}

static int ended(struct follow *f, struct error *e)
{
    if (f->terminal) {
        putchar('\n');
    }
    if (strcmp(f->state, "COMPLETED") == 0) {
        return 0;
    }
    return error_set(e, ERR_FAILED, "experiment %lld ended as %s; see: muster experiment logs %lld",
                     f->experiment, f->state, f->experiment);
}

int cli_follow(struct cli *c, long long experiment, struct error *e)
{
    struct follow f = {.c = c, .experiment = experiment, .terminal = isatty(STDOUT_FILENO)};
    f.now = (struct progress){
        .loss = NAN, .validation = NAN, .samples_per_second = NAN, .step_ms = NAN};
    struct sigaction act = {.sa_handler = on_interrupt}, before;
    sigaction(SIGINT, &act, &before);
    int err = 0;
    for (;;) {
        err = poll_once(&f, e);
        if (err != 0 || interrupted) {
            break;
        }
        draw(&f);
        if (!f.away && wire_state_is_terminal(f.state)) {
            err = ended(&f, e);
            break;
        }
        clock_sleep_us(POLL_US);
    }
    if (interrupted) {
        printf(
            "\nStopped watching; the experiment goes on. To watch again: muster experiment follow "
            "%lld\n",
            experiment);
        err = 0;
    }
    sigaction(SIGINT, &before, NULL);
    json_decref(f.config);
    return err;
}
