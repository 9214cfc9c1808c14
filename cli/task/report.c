// Reports metrics and progress of the program of a trial.
#include "cli/task/report.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/limits.h"
#include "base/text/json.h"
#include "cli/task/own_task.h"

static bool read_number(const char *text, double *value)
{
    char *end;
    *value = strtod(text, &end);
    return end > text && !*end;
}

// Splits NAME=VALUE at the last "=", so that a name may contain one.
static int read_metric(struct cli *c, const char *word, const char **name, double *value,
                       struct error *e)
{
    const char *equals = strrchr(word, '=');
    if (!equals || equals == word || !read_number(equals + 1, value))
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
    buf_puts(w->out, "\n");
    return 0;
}

static int write_progress(struct cli *c, struct json_writer *w, struct error *e)
{
    double progress;
    if (!read_number(c->options.progress, &progress) || !(progress >= 0 && progress <= 1))
        return error_set(e, ERR_INVALID, "--progress takes a number from 0 to 1, not \"%s\"",
                         c->options.progress);
    jw_object(w);
    jw_kv_string(w, "kind", "progress");
    jw_kv_double(w, "progress", progress);
    jw_object_end(w);
    buf_puts(w->out, "\n");
    return 0;
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
    if (c->arg_count > LIMIT_METRICS_PER_POST)
        return error_set(e, ERR_TOO_LARGE, "a report has at most %d metrics; use several",
                         LIMIT_METRICS_PER_POST);
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
    buf_init(&lines, LIMIT_REPORT_LINE);
    jw_init(&w, &lines);
    int err = check_report(c, e);
    if (!err && c->arg_count > 0)
        err = write_metrics(c, &w, e);
    if (!err && c->options.progress) {
        jw_init(&w, &lines);
        err = write_progress(c, &w, e);
    }
    if (!err && lines.err)
        err = error_set(e, ERR_TOO_LARGE, "the report is larger than %d bytes", LIMIT_REPORT_LINE);
    if (!err)
        err = own_task_report(&lines, count, e);
    buf_free(&lines);
    return err;
}
