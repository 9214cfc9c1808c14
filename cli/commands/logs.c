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

// --- several trials ------------------------------------------------------------------------------

enum { LINES_HELD = 50000, PAGE_LEAST = 10, PAGE_MOST = 500 }; // lines in memory; of one request

// The next lines of a trial's log.
struct log_page {
    long long trial;
    json_t *lines; // oldest first
    size_t at;     // the next line
    char last[24]; // the id of the last line of the page
    bool is_last;
};

static const json_t *page_line(const struct log_page *p)
{
    return json_array_get(p->lines, p->at);
}

static int page_read(struct cli *c, struct log_page *p, const char *filters, long long size,
                     struct error *e)
{
    long long tail = c->options.tail;
    char *path = tail > 0
                     ? xasprintf("/api/v1/trials/%lld/logs?%s&orderBy=ORDER_BY_DESC&limit=%lld",
                                 p->trial, filters, tail)
                     : xasprintf("/api/v1/trials/%lld/logs?%s&after=%s&limit=%lld", p->trial,
                                 filters, p->last, size);
    json_t *lines = json_array(), *got = json_array();
    int err = client_stream(c->client, path, on_tail_line, got, e);
    size_t count = json_array_size(got);
    for (size_t i = 0; i < count; i++)
        json_array_append(lines, json_array_get(got, tail > 0 ? count - 1 - i : i));
    json_decref(got);
    json_decref(p->lines);
    p->lines = lines;
    p->at = 0;
    p->is_last = tail > 0 || (long long)count < size;
    if (count)
        snprintf(p->last, sizeof p->last, "%s",
                 jget_string(json_array_get(lines, count - 1), "id", "0"));
    free(path);
    return err;
}

// The page with the oldest line; NULL: no line is left.
static struct log_page *page_next(struct log_page *pages, size_t count)
{
    struct log_page *next = NULL;
    for (size_t i = 0; i < count; i++) {
        const json_t *line = page_line(&pages[i]);
        if (line && (!next || strcmp(jget_string(line, "timestamp", ""),
                                     jget_string(page_line(next), "timestamp", "")) < 0))
            next = &pages[i];
    }
    return next;
}

static int print_pages(struct cli *c, struct log_page *pages, size_t count, const char *filters,
                       struct error *e)
{
    struct log_printer s = {.c = c, .last = "0"};
    long long size = LINES_HELD / (long long)(count + 1);
    struct log_page *next;
    int err = 0;
    size = size < PAGE_LEAST ? PAGE_LEAST : size > PAGE_MOST ? PAGE_MOST : size;
    for (size_t i = 0; i < count && !err; i++)
        err = page_read(c, &pages[i], filters, size, e);
    while (!err && (next = page_next(pages, count))) {
        if (c->format == OUTPUT_TABLE && !c->options.quiet)
            printf("trial %lld: ", next->trial);
        err = on_log_line(&s, page_line(next), e);
        if (++next->at == json_array_size(next->lines) && !next->is_last && !err)
            err = page_read(c, next, filters, size, e);
    }
    return err;
}

int print_logs_of_trials(struct cli *c, const json_t *trials, struct error *e)
{
    struct buf filters;
    size_t count = json_array_size(trials);
    struct log_page *pages = arena_alloc(&c->arena, (count + 1) * sizeof *pages);
    buf_init(&filters, 1 << 16);
    int err = add_log_filters(c, &filters, e);
    for (size_t i = 0; i < count; i++)
        pages[i] =
            (struct log_page){.trial = jget_int(json_array_get(trials, i), "id", 0), .last = "0"};
    if (!err)
        err = print_pages(c, pages, count, buf_str(&filters), e);
    for (size_t i = 0; i < count; i++)
        json_decref(pages[i].lines);
    buf_free(&filters);
    return err;
}

int print_trial_logs(struct cli *c, long long trial, struct error *e)
{
    char id[24];
    snprintf(id, sizeof(id), "%lld", trial);
    return print_logs(c, "trials", id, e);
}
