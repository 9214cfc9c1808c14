#include "cli/common/watch.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/text/json.h"
#include "cli/commands/commands.h"
#include "cli/output/terminal.h"

enum {
    GAP_US = 500 * 1000,    // least time between two runs of the command
    OLD_US = 10 * 1000000,  // after this time the command runs again, because it shows durations
    BLIND_US = 1000 * 1000, // time between two runs without a stream
};

static volatile sig_atomic_t interrupted;
static struct sigaction before;

static void on_interrupt(int sig)
{
    (void)sig;
    interrupted = 1;
}

void watch_begin(void)
{
    struct sigaction act = {.sa_handler = on_interrupt};
    interrupted = 0;
    sigaction(SIGINT, &act, &before);
}

bool watch_interrupted(void)
{
    return interrupted;
}

void watch_end(void)
{
    sigaction(SIGINT, &before, NULL);
}

int64_t watch_left(const struct cli *c)
{
    return c->options.timeout > 0 ? c->began_us + c->options.timeout * 1000000 - clock_mono_us()
                                  : INT64_MAX;
}

int watch_open(struct cli *c, const char *query, struct event_stream **out, struct error *e)
{
    const struct client_options options = {.url = c->master,
                                           .auth = CLIENT_BEARER,
                                           .token = c->token,
                                           .ca_file = c->options.ca_file,
                                           .only_ca_file = c->pinned};
    return events_open(&options, arena_printf(&c->arena, "/api/v1/events?%s", query), out, e);
}

int watch_wait(struct event_stream *s, int64_t most_us, struct error *e)
{
    int64_t end = clock_mono_us() + most_us;
    struct events_item item;
    int found = 0;
    if (!s) {
        clock_sleep_us(most_us < BLIND_US ? most_us : BLIND_US);
        return 0;
    }
    while (found == 0 && !interrupted && clock_mono_us() < end) { // wakes up to notice Ctrl-C
        int64_t slice = clock_mono_us() + GAP_US / 2;
        found = events_next(s, slice < end ? slice : end, &item, e);
    }
    while (found > 0)
        found = events_next(s, 0, &item, e);
    return found;
}

// --- --watch -------------------------------------------------------------------------------------

static const struct {
    cli_verb *run;
    const char *topics;
    bool of_experiment; // the first argument is the experiment
} watched[] = {
    {run_experiment_list, "experiments", false},
    {run_experiment_describe, "experiments,trials,queue", true},
    {run_trial_list, "trials,metrics", true},
    {run_queue_list, "queue,experiments", false},
    {run_agent_list, "agents", false},
};

static const char *watch_query(struct cli *c, const struct command *command, struct error *e)
{
    for (size_t i = 0; i < sizeof(watched) / sizeof(watched[0]); i++) {
        long long id;
        if (watched[i].run != command->run)
            continue;
        const char *query = arena_printf(&c->arena, "topics=%s", watched[i].topics);
        if (!watched[i].of_experiment)
            return query;
        return cli_id(c, 0, "experiment", &id, e) != 0
                   ? NULL
                   : arena_printf(&c->arena, "%s&experimentIds=%lld", query, id);
    }
    error_set(e, ERR_INVALID, "muster %s %s cannot be watched", command->noun, command->verb);
    return NULL;
}

// If the master does not answer, prints the error and returns 0: the caller tries again.
static int show_command(struct cli *c, const struct command *command, bool terminal,
                        struct error *e)
{
    struct error why = {0};
    if (terminal)
        terminal_control(stdout, "\033[H\033[2J");
    int err = command->run(c, command, &why);
    if (err == ERR_UNAVAILABLE || err == ERR_TIMEOUT || err == ERR_BUSY) {
        fprintf(stderr, "muster: %s\n", why.text);
        err = 0;
    } else if (err && e) {
        *e = why;
    }
    if (!terminal && c->format == OUTPUT_TABLE)
        putchar('\n');
    fflush(stdout);
    return err;
}

static int watch_loop(struct cli *c, const struct command *command, struct event_stream *stream,
                      struct error *e)
{
    bool terminal = isatty(STDOUT_FILENO) && c->format == OUTPUT_TABLE;
    int err = watch_wait(stream, OLD_US,
                         e); // waits until the stream starts: later changes are not missed
    while (!err && !interrupted) {
        int64_t next = clock_mono_us() + GAP_US;
        err = show_command(c, command, terminal, e);
        err = err ? err : watch_wait(stream, terminal ? OLD_US : INT32_MAX, e);
        while (!interrupted && clock_mono_us() < next)
            clock_sleep_us(GAP_US / 10);
    }
    return err;
}

int watch_command(struct cli *c, const struct command *command, struct error *e)
{
    struct event_stream *stream = NULL;
    const char *query = watch_query(c, command, e);
    int err = !query ? ERR_INVALID : watch_open(c, query, &stream, e);
    if (!err) {
        watch_begin();
        err = watch_loop(c, command, stream, e);
        watch_end();
    }
    events_close(stream);
    return err;
}

// --- muster events -------------------------------------------------------------------------------

static void print_event(struct cli *c, const struct events_item *item)
{
    json_t *row = json_pack("{s:s, s:s}", "id", item->id, "event", item->name);
    if (item->data)
        json_object_set(row, "data", (json_t *)item->data);
    bool bare = c->format == OUTPUT_TABLE || c->format == OUTPUT_CSV;
    char *text = json_text(bare ? item->data : row);
    if (bare)
        printf("%-10s  %s\n", item->name, item->data ? text : "");
    else
        puts(text);
    fflush(stdout);
    free(text);
    json_decref(row);
}

static const char *events_query(struct cli *c)
{
    const struct cli_options *o = &c->options;
    char *topics = client_escape(o->topics ? o->topics : "");
    const char *query = arena_printf(&c->arena, "topics=%s", topics);
    if (o->experiment > 0)
        query = arena_printf(&c->arena, "%s&experimentIds=%lld", query, o->experiment);
    if (o->trial > 0)
        query = arena_printf(&c->arena, "%s&trialIds=%lld", query, o->trial);
    if (o->since > 0)
        query = arena_printf(&c->arena, "%s&since=%lld", query, o->since);
    free(topics);
    return query;
}

int run_events(struct cli *c, const struct command *self, struct error *e)
{
    (void)self;
    struct event_stream *stream = NULL;
    struct events_item item;
    bool away = false;
    int err = watch_open(c, events_query(c), &stream, e);
    watch_begin();
    for (long long left = c->options.limit; !err && !interrupted;) {
        int found = events_next(stream, clock_mono_us() + GAP_US / 2, &item, e);
        err = found < 0 ? found : 0;
        if (found > 0) {
            cli_note_away(strcmp(item.name, "away") == 0, &away);
            print_event(c, &item);
        }
        if (found > 0 && left > 0 && --left == 0)
            break;
    }
    watch_end();
    events_close(stream);
    return err;
}
