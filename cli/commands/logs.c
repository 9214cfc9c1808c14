// Logs of trials and tasks: filtered, last lines only, or followed. The master may be unreachable
// for a while: following continues after the last printed line.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/wire.h"
#include "base/buf.h"
#include "base/text/json.h"
#include "cli/commands/commands.h"

struct log_printer {
    struct cli *c;
    char last[24]; // id of the last printed line; "0": none
    bool away;     // the master has not answered since then
};

static int on_log_line(void *ctx, const json_t *result, struct error *e)
{
    (void)e;
    struct log_printer *s = ctx;
    s->away = false;
    snprintf(s->last, sizeof(s->last), "%s", jget_string(result, "id", s->last));
    if (s->c->format == OUTPUT_JSON || s->c->format == OUTPUT_JSONL) {
        json_dumpf(result, stdout, JSON_COMPACT);
        putchar('\n');
    } else {
        fputs(jget_string(result, "message", ""), stdout);
    }
    fflush(stdout);
    return 0;
}

static int add_log_times(struct cli *c, struct buf *path, struct error *e)
{
    const char *since, *until;
    int err = cli_time(c, "--since", c->options.from, &since, e);
    err = err ? err : cli_time(c, "--until", c->options.until, &until, e);
    if (!err) {
        buf_puts(path, cli_query(c, "timestampAfter", since));
        buf_puts(path, cli_query(c, "timestampBefore", until));
    }
    return err;
}

static int add_log_filters(struct cli *c, struct buf *path, struct error *e)
{
    const struct cli_options *o = &c->options;
    const char *const texts[][2] = {
        {"searchText", o->search},      {"agentIds", o->agent}, {"allocationIds", o->allocation},
        {"containerIds", o->container}, {"sources", o->source}, {"stdtypes", o->stdtype}};
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
        buf_puts(path, cli_query(c, texts[i][0], texts[i][1]));
    if (o->regex)
        buf_puts(path, "&enableRegex=true");
    if (o->rank >= 0)
        buf_printf(path, "&rankIds=%lld", o->rank);
    if (o->level) {
        const char *word = NULL;
        int err = cli_word("--level", o->level, WIRE_LOG_LEVEL, NULL, &word, e);
        if (err)
            return err;
        buf_printf(path, "&levels=%s", wire_name(WIRE_LOG_LEVEL, word));
    }
    return add_log_times(c, path, e);
}

static int on_tail_line(void *ctx, const json_t *result, struct error *e)
{
    (void)e;
    json_array_append(ctx, (json_t *)result);
    return 0;
}

// --tail: the master sends the newest lines first; they are printed in order of time.
static int print_tail(struct log_printer *s, const char *path, struct error *e)
{
    json_t *lines = json_array();
    const char *newest =
        arena_printf(&s->c->arena, "%s&orderBy=ORDER_BY_DESC&limit=%lld", path, s->c->options.tail);
    int err = client_stream(s->c->client, newest, on_tail_line, lines, e);
    for (size_t i = json_array_size(lines); i-- > 0;)
        on_log_line(s, json_array_get(lines, i), e);
    json_decref(lines);
    return err;
}

// A stream also ends without an error when the master stops; so asks whether the task has ended.
static int log_has_ended(struct cli *c, const char *of, const char *id, bool *over, struct error *e)
{
    json_t *answer = NULL;
    int err = cli_call(c, "GET", NULL, &answer, e, "/api/v1/%s/%s", of, id);
    const json_t *thing = jget(answer, strcmp(of, "trials") == 0 ? "trial" : "task");
    const char *word = wire_word(WIRE_TRIAL_STATE, jget_string(thing, "state", ""));
    *over = !err && (jget(thing, "endTime") || (word && wire_state_is_terminal(word)));
    json_decref(answer);
    return err;
}

static int follow_log(struct log_printer *s, const char *of, const char *id, const char *path,
                      struct error *e)
{
    bool over = false;
    int err = 0;
    while (!over && !err) {
        struct error why = {0};
        char *rest = xasprintf("%s&follow=true&after=%s", path, s->last);
        err = client_stream(s->c->client, rest, on_log_line, s, &why);
        err = err ? err : log_has_ended(s->c, of, id, &over, &why);
        free(rest);
        if (cli_await_master(err, &s->away))
            err = 0;
        else if (err && e)
            *e = why;
    }
    return err;
}

int print_logs(struct cli *c, const char *of, const char *id, struct error *e)
{
    struct buf path;
    struct log_printer s = {.c = c, .last = "0"};
    buf_init(&path, 1 << 16);
    buf_printf(&path, "/api/v1/%s/%s/logs?", of, id);
    int err = add_log_filters(c, &path, e);
    if (!err && c->options.tail > 0)
        err = print_tail(&s, buf_str(&path), e);
    else if (!err && !c->options.follow)
        err = client_stream(c->client, buf_str(&path), on_log_line, &s, e);
    if (!err && c->options.follow)
        err = follow_log(&s, of, id, buf_str(&path), e);
    buf_free(&path);
    return err;
}

int print_trial_logs(struct cli *c, long long trial, struct error *e)
{
    char id[24];
    snprintf(id, sizeof(id), "%lld", trial);
    return print_logs(c, "trials", id, e);
}
