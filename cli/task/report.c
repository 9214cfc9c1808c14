// Commands for the program of a trial in any language: its metrics and progress, and whether it
// shall stop.
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/text/json.h"
#include "cli/commands/commands.h"
#include "cli/common/values.h"
#include "cli/task/own_task.h"

enum { REPORT_MAX = 1 << 20, STOP_CONNECT_S = 2, STOP_CALL_S = 10, GO_ON = 1 };

// --- report --------------------------------------------------------------------------------------

// Splits NAME=VALUE at the last "=", so that a name may contain one.
static int read_metric(struct cli *c, const char *word, const char **name, double *value,
                       struct error *e)
{
    const char *equals = strrchr(word, '=');
    char *end = NULL;
    if (equals && equals > word)
        *value = strtod(equals + 1, &end);
    if (!end || end == equals + 1 || *end)
        return error_set(e, ERR_INVALID,
                         "\"%.64s\" is not NAME=VALUE with a number, such as loss=0.25", word);
    *name = arena_strndup(&c->arena, word, (size_t)(equals - word));
    return 0;
}

static int check_names(struct cli *c, const char *const *names, struct error *e)
{
    for (int i = 0; i < c->arg_count; i++)
        for (int k = 0; k < i; k++)
            if (strcmp(names[i], names[k]) == 0)
                return error_set(e, ERR_INVALID, "%.64s is given twice", names[i]);
    return 0;
}

static int write_metrics(struct cli *c, struct json_writer *w, struct error *e)
{
    const char *group = c->options.group ? c->options.group : "training";
    const char **names = arena_alloc(&c->arena, (size_t)(c->arg_count + 1) * sizeof *names);
    double *values = arena_alloc(&c->arena, (size_t)(c->arg_count + 1) * sizeof *values);
    int err = 0;
    for (int i = 0; i < c->arg_count && !err; i++)
        err = read_metric(c, c->args[i], &names[i], &values[i], e);
    err = err ? err : check_names(c, names, e);
    if (err)
        return err;
    jw_object(w);
    jw_kv_string(w, "kind", "metrics");
    jw_kv_string(w, "group", group);
    jw_key(w, "steps");
    jw_array(w);
    jw_int(w, c->options.step);
    jw_array_end(w);
    jw_key(w, "times");
    jw_array(w);
    jw_int(w, clock_wall_us());
    jw_array_end(w);
    jw_key(w, "metrics");
    jw_object(w);
    for (int i = 0; i < c->arg_count; i++) {
        jw_key(w, names[i]);
        jw_array(w);
        jw_double(w, values[i]);
        jw_array_end(w);
    }
    jw_object_end(w);
    jw_object_end(w);
    return buf_puts(w->out, "\n");
}

static int write_progress(struct cli *c, struct json_writer *w, struct error *e)
{
    double progress;
    int err = cli_number("--progress", c->options.progress, &progress, e);
    if (!err && progress > 1)
        err = error_set(e, ERR_INVALID, "--progress takes a number from 0 to 1, not %s",
                        c->options.progress);
    jw_object(w);
    jw_kv_string(w, "kind", "progress");
    jw_kv_double(w, "progress", err ? 0 : progress);
    jw_object_end(w);
    return err ? err : buf_puts(w->out, "\n");
}

static int check_report(const struct cli *c, struct error *e)
{
    if (c->arg_count == 0 && !c->options.progress)
        return error_set(e, ERR_INVALID,
                         "nothing to report; usage: muster report NAME=VALUE... --step N");
    if (c->arg_count > 0 && c->options.step < 0)
        return error_set(e, ERR_INVALID,
                         "--step is missing: the number of training steps to which the values "
                         "belong");
    return 0;
}

int run_report(struct cli *c, const struct command *self, struct error *e)
{
    struct buf lines;
    struct json_writer w;
    size_t count = 0;
    (void)self;
    if (c->arg_count > 0)
        count++;
    if (c->options.progress)
        count++;
    buf_init(&lines, REPORT_MAX);
    jw_init(&w, &lines);
    int err = check_report(c, e);
    if (!err && c->arg_count > 0)
        err = write_metrics(c, &w, e);
    if (!err && c->options.progress) {
        jw_init(&w, &lines);
        err = write_progress(c, &w, e);
    }
    if (!err && lines.err)
        err = error_set(e, ERR_TOO_LARGE, "the report is larger than %d bytes", REPORT_MAX);
    if (!err)
        err = own_task_report(&lines, count, e);
    buf_free(&lines);
    return err;
}

// --- should-stop ---------------------------------------------------------------------------------

static int ask_master(const char *url, const char *token, const char *allocation, bool *stop,
                      struct error *e)
{
    const struct client_options options = {.url = url,
                                           .auth = CLIENT_TASK,
                                           .token = token,
                                           .ca_file = getenv("MUSTER_CA_FILE"),
                                           .connect_timeout_s = STOP_CONNECT_S,
                                           .timeout_s = STOP_CALL_S};
    struct client *client = NULL;
    json_t *answer = NULL;
    char *id = client_escape(allocation);
    char *ask = xasprintf("/api/v1/allocations/%s/signals/preemption?timeout_seconds=0", id);
    char *hear = xasprintf("/api/v1/allocations/%s/signals/ack_preemption", id);
    int err = client_open(&options, &client, e);
    if (!err)
        err = client_call(client, "GET", ask, NULL, &answer, e);
    *stop = jget_bool(answer, "preempt", false);
    if (!err && *stop)
        err = client_call(client, "POST", hear, NULL, NULL, e);
    client_close(client);
    json_decref(answer);
    free(hear);
    free(ask);
    free(id);
    return err;
}

// While the master is away, nobody asks the program to stop.
int run_should_stop(struct cli *c, const struct command *self, struct error *e)
{
    const char *url, *token, *allocation;
    bool stop = false;
    (void)self;
    int err = own_task_variable("DET_ALLOCATION_ID", &allocation, e);
    err = err ? err : own_task_variable("DET_MASTER", &url, e);
    err = err ? err : own_task_variable("DET_SESSION_TOKEN", &token, e);
    err = err ? err : ask_master(url, token, allocation, &stop, e);
    if (err == ERR_UNAVAILABLE || err == ERR_TIMEOUT || err == ERR_BUSY || err == ERR_PEER) {
        if (!c->options.quiet)
            fprintf(stderr, "muster: %s; the program goes on\n", e->text);
        *e = (struct error){0};
        err = 0;
        stop = false;
    }
    c->exit_code = stop ? 0 : GO_ON;
    return err;
}
