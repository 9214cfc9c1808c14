// Actions on experiments: pause, activate, cancel, kill, archive, delete, and waiting for their
// effect.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "api/wire.h"
#include "base/clock.h"
#include "base/text/json.h"
#include "cli/commands/commands.h"
#include "cli/common/watch.h"
#include "cli/output/failure.h"
#include "cli/output/output.h"
#include "cli/output/rows.h"

enum { WAIT_MOST_US = 10 * 1000000, DELETE_TRIES = 600 };

static bool state_is(const json_t *experiment, const char *word)
{
    return strcmp(jget_string(experiment, "state", ""), wire_name(WIRE_EXPERIMENT_STATE, word)) ==
           0;
}

static bool has_ended(const json_t *experiment)
{
    const char *word = wire_word(WIRE_EXPERIMENT_STATE, jget_string(experiment, "state", ""));
    return word && wire_state_is_terminal(word);
}

// Whether its trials have saved their work and released their slots.
static bool has_paused(const json_t *experiment)
{
    return state_is(experiment, "PAUSED") && jget_int(experiment, "liveAllocations", 0) == 0;
}

static bool has_effect(const json_t *experiment, const char *verb)
{
    return has_ended(experiment) || (strcmp(verb, "pause") == 0 && has_paused(experiment)) ||
           (strcmp(verb, "activate") == 0 && !state_is(experiment, "PAUSED"));
}

// The state is PAUSED at once, but the slots become free only when the work is saved.
static void report_saving(struct cli *c, long long id, const char *verb, const json_t *experiment)
{
    if (strcmp(verb, "pause") == 0 && state_is(experiment, "PAUSED") && !has_paused(experiment) &&
        c->format == OUTPUT_TABLE && !c->options.quiet) {
        fprintf(stderr, "Experiment %lld: its trials save their work and release their slots ...\n",
                id);
    }
}

static int set_timeout_error(const struct cli *c, long long id, struct error *e)
{
    return error_set(e, ERR_TIMEOUT,
                     "experiment %lld has not reached the state after %lld seconds; to watch it: "
                     "muster experiment follow %lld",
                     id, c->options.timeout, id);
}

// Checks the state after every change until the verb has had its effect; waits while the master
// does not answer.
static int wait_for_state(struct cli *c, long long id, const char *verb, json_t **experiment,
                          struct error *e)
{
    struct event_stream *stream = NULL;
    const char *query = arena_printf(&c->arena, "topics=experiments,trials&experimentIds=%lld", id);
    int err = watch_open(c, query, &stream, e);
    bool away = false, told = false;
    while (!err) {
        int64_t left = watch_left(c);
        if (left <= 0) {
            err = set_timeout_error(c, id, e);
            break;
        }
        err = watch_wait(away ? NULL : stream, left < WAIT_MOST_US ? left : WAIT_MOST_US,
                         e); // the first time: until the stream starts
        json_decref(*experiment);
        *experiment = NULL;
        err = err ? err : fetch_experiment(c, id, experiment, e);
        away = err == ERR_UNAVAILABLE || err == ERR_TIMEOUT;
        err = away ? 0 : err;
        if (*experiment && has_effect(*experiment, verb))
            break;
        if (*experiment && !told) {
            report_saving(c, id, verb, *experiment);
            told = has_paused(*experiment) || state_is(*experiment, "PAUSED");
        }
    }
    events_close(stream);
    return err;
}

static int parse_ids(struct cli *c, long long *ids, struct error *e)
{
    int err = 0;
    for (int i = 0; i < c->arg_count && !err; i++)
        err = cli_id(c, i, "experiment", &ids[i], e);
    return err;
}

// One call for all experiments: the master tries each, and every refusal is printed.
static int act_on_many(struct cli *c, const char *verb, const long long *ids, struct error *e)
{
    json_t *answer = NULL, *list = json_array();
    for (int i = 0; i < c->arg_count; i++)
        json_array_append_new(list, json_integer(ids[i]));
    json_t *body = json_pack("{s:o}", "experimentIds", list);
    int err = cli_call(c, "POST", body, &answer, e, "/api/v1/experiments/%s", verb);
    size_t refused = 0, i;
    json_t *result;
    json_array_foreach(jget(answer, "results"), i, result)
    {
        const char *error = jget_string(result, "error", "");
        if (*error != '\0') {
            refused++;
            fprintf(stderr, "muster: experiment %lld: %s\n", (long long)jget_int(result, "id", 0),
                    error);
        }
    }
    if (!err && refused > 0) {
        err = error_set(e, ERR_CONFLICT, "%s was refused for %zu of %d experiments", verb, refused,
                        c->arg_count);
    }
    json_decref(answer);
    json_decref(body);
    return err;
}

// The reason why the verb has nothing to do; NULL: it has an effect.
static const char *no_effect_reason(struct cli *c, const char *verb, const json_t *experiment)
{
    bool archived = jget_bool(experiment, "archived", false);
    const char *state = jget_string(experiment, "state", "");
    if (strcmp(verb, "archive") == 0 || strcmp(verb, "unarchive") == 0) {
        bool archives = strcmp(verb, "archive") == 0;
        return archived != archives ? NULL : archives ? "is already archived" : "is not archived";
    }
    if (has_ended(experiment)) {
        const char *word = wire_word(WIRE_EXPERIMENT_STATE, state);
        return arena_printf(&c->arena, "has already ended (%s)", word);
    }
    if (strcmp(verb, "pause") == 0 && state_is(experiment, "PAUSED"))
        return has_paused(experiment) ? "is already paused" : "is already being paused";
    return strcmp(verb, "activate") == 0 && !state_is(experiment, "PAUSED") ? "is not paused"
                                                                            : NULL;
}

static int check_before(struct cli *c, const char *verb, long long id, const char **was,
                        struct error *e)
{
    json_t *experiment = NULL;
    int err = fetch_experiment(c, id, &experiment, e);
    *was = !err ? no_effect_reason(c, verb, experiment) : NULL;
    json_decref(experiment);
    return err;
}

// After a pause without --wait: says that the slots become free later.
static void report_slots_later(struct cli *c, const char *verb, long long id)
{
    json_t *why = NULL;
    if (strcmp(verb, "pause") != 0 || c->options.wait || c->format != OUTPUT_TABLE ||
        c->options.quiet ||
        cli_call(c, "GET", NULL, &why, NULL, "/api/v1/experiments/%lld/why", id) != 0)
        return;
    const char *reason = jget_string(why, "reason", "");
    if (strncmp(reason, "was asked ", 10) == 0 || strncmp(reason, "is paused; ", 11) == 0)
        printf("It %s.\n", reason);
    json_decref(why);
}

// `was`: the reason why the verb had nothing to do, else NULL.
static int report_act(struct cli *c, const char *verb, long long id, const char *was,
                      struct error *e)
{
    const char *how = was ? "already" : c->options.wait ? "done" : "accepted";
    json_t *row = json_pack("{s:I, s:s, s:s}", "id", (json_int_t)id, "verb", verb, "result", how);
    return was ? cli_report(c, row, e, "Experiment %lld %s", id, was)
               : cli_report(c, row, e, "Experiment %lld: %s %s", id, verb, how);
}

int run_experiment_act(struct cli *c, const struct command *self, struct error *e)
{
    long long *ids = arena_alloc(&c->arena, (size_t)c->arg_count * sizeof(*ids));
    const char **was = arena_alloc(&c->arena, (size_t)c->arg_count * sizeof(*was));
    int err = parse_ids(c, ids, e);
    for (int i = 0; i < c->arg_count && !err; i++) { // the call itself reports a missing one
        int found = check_before(c, self->verb, ids[i], &was[i], e);
        err = found == ERR_NOT_FOUND ? 0 : found;
    }
    if (!err && c->arg_count == 1)
        err = cli_call(c, "POST", NULL, NULL, e, "/api/v1/experiments/%lld/%s", ids[0], self->verb);
    else if (!err)
        err = act_on_many(c, self->verb, ids, e);
    for (int i = 0; i < c->arg_count && !err; i++) {
        json_t *experiment = NULL;
        if (c->options.wait)
            err = wait_for_state(c, ids[i], self->verb, &experiment, e);
        err = err ? err : report_act(c, self->verb, ids[i], was[i], e);
        if (!err)
            report_slots_later(c, self->verb, ids[i]);
        json_decref(experiment);
    }
    return err;
}

int run_experiment_wait(struct cli *c, const struct command *self, struct error *e)
{
    (void)self;
    long long id;
    json_t *experiment = NULL;
    int err = cli_id(c, 0, "experiment", &id, e);
    if (!err && c->format == OUTPUT_TABLE && !c->options.quiet && isatty(STDOUT_FILENO)) {
        err = cli_follow(c, id, e); // show progress on a terminal
        if (watch_interrupted()) {
            c->exit_code = 130; // it has not ended: a command after && must not run
            return err;
        }
    }
    err = err ? err : wait_for_state(c, id, "wait", &experiment, e);
    if (!err) {
        const char *word = wire_word(WIRE_EXPERIMENT_STATE, jget_string(experiment, "state", ""));
        json_t *row = json_pack("{s:I, s:s}", "id", (json_int_t)id, "state", word);
        err = cli_report(c, row, e, "Experiment %lld: %s", id, word);
        if (!err && strcmp(word, "COMPLETED") != 0)
            err = failure_of(experiment, e);
    }
    json_decref(experiment);
    return err;
}

int run_experiment_follow(struct cli *c, const struct command *self, struct error *e)
{
    (void)self;
    long long id;
    int err = cli_id(c, 0, "experiment", &id, e);
    return err ? err : cli_follow(c, id, e);
}

// The master removes the files in the background.
static int wait_until_deleted(struct cli *c, long long id, struct error *e)
{
    for (int tries = 0; tries < DELETE_TRIES; tries++) {
        json_t *experiment = NULL;
        struct error gone = {0};
        int found = fetch_experiment(c, id, &experiment, &gone);
        bool failed = found == 0 && state_is(experiment, "DELETE_FAILED");
        json_decref(experiment);
        if (failed) {
            return error_set(
                e, ERR_FAILED,
                "experiment %lld could not be deleted; see the master's log for the reason", id);
        }
        if (found == ERR_NOT_FOUND) {
            json_t *row = json_pack("{s:I, s:s}", "id", (json_int_t)id, "done", "delete");
            return cli_report(c, row, e, "Deleted experiment %lld", id);
        }
        clock_sleep_us(100000);
    }
    return error_set(e, ERR_TIMEOUT,
                     "experiment %lld is still being deleted; the master goes on with it", id);
}

int run_experiment_delete(struct cli *c, const struct command *self, struct error *e)
{
    (void)self;
    long long *ids = arena_alloc(&c->arena, (size_t)c->arg_count * sizeof(*ids));
    int err = parse_ids(c, ids, e);
    if (!err && c->arg_count == 1) {
        err = cli_confirm(c, e, "Delete experiment %lld with its metrics, logs and checkpoints?",
                          ids[0]);
    } else if (!err) {
        err = cli_confirm(c, e,
                          "Delete these %d experiments with their metrics, logs and "
                          "checkpoints?",
                          c->arg_count);
    }
    for (int i = 0; i < c->arg_count && !err; i++) {
        err = cli_call(c, "DELETE", NULL, NULL, e, "/api/v1/experiments/%lld", ids[i]);
        err = err ? err : wait_until_deleted(c, ids[i], e);
    }
    return err;
}
