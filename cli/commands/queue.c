// The queue: its list, the reason why a job waits, and moving a job.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/wire.h"
#include "base/clock.h"
#include "base/text/json.h"
#include "cli/commands/commands.h"
#include "cli/common/lookup.h"
#include "cli/output/output.h"
#include "cli/output/rows.h"
#include "cli/output/wait_reason.h"

enum { SCREENFUL = 100 }; // rows of a table without --all

int run_queue_list(struct cli *c, const struct command *self, struct error *e)
{
    json_t *jobs = NULL;
    bool part = c->format == OUTPUT_TABLE && !c->options.all;
    char *pool = client_escape(c->options.pool ? c->options.pool : ""); // "": all pools
    int err = cli_list(c, "jobs", part ? SCREENFUL + 1 : 0, &jobs, e,
                       "/api/v1/job-queues-v2?resourcePool=%s", pool);
    bool more = part && json_array_size(jobs) > SCREENFUL;
    if (!err && c->options.pool && json_array_size(jobs) == 0)
        err =
            lookup_pool(c, "--pool", c->options.pool, e); // tells an empty queue from a wrong name
    if (more)
        json_array_remove(jobs, SCREENFUL);
    if (!err) {
        json_t *rows = rows_of(jobs, row_job);
        err = output_rows(c, rows, self->columns, e);
        json_decref(rows);
    }
    if (!err && more && !c->options.quiet)
        fprintf(stderr, "Only the first %d jobs are shown; --all shows all of them.\n", SCREENFUL);
    json_decref(jobs);
    free(pool);
    return err;
}

// --- why -----------------------------------------------------------------------------------------

struct why_answers {
    json_t *experiment, *why, *shares, *agents;
};

static void why_answers_free(struct why_answers *x)
{
    json_decref(x->experiment);
    json_decref(x->why);
    json_decref(x->shares);
    json_decref(x->agents);
}

static int fetch_why(struct cli *c, long long id, json_t **why, struct error *e)
{
    return cli_call(c, "GET", NULL, why, e, "/api/v1/experiments/%lld/why", id);
}

// Fetches one array of an answer; NULL if the call fails: the explanation then leaves it out.
static json_t *fetch_optional_array(struct cli *c, const char *path, const char *key)
{
    json_t *answer = NULL, *array = NULL;
    if (cli_call(c, "GET", NULL, &answer, NULL, "%s", path) == 0)
        array = json_incref(jget(answer, key));
    json_decref(answer);
    return array;
}

static int fetch_why_answers(struct cli *c, long long id, struct why_answers *x, struct error *e)
{
    int err = fetch_why(c, id, &x->why, e);
    err = err ? err : fetch_experiment(c, id, &x->experiment, e);
    if (err)
        return err;
    char *pool = client_escape(jget_string(x->why, "resourcePool", ""));
    x->shares = fetch_optional_array(
        c, arena_printf(&c->arena, "/api/v1/shares?resourcePool=%s", pool), "shares");
    x->agents = fetch_optional_array(c, "/api/v1/agents", "agents");
    free(pool);
    return 0;
}

static int show_why_group(struct cli *c, const struct waiting *w, const json_t *group,
                          struct error *e)
{
    json_t *facts = waiting_facts(w, group, &c->arena);
    json_t *remedies = waiting_remedies(w, group, &c->arena), *remedy;
    putchar('\n');
    int err = output_object(c, facts, output_labels(facts, &c->arena), e);
    size_t i;
    json_array_foreach(remedies, i, remedy)
    {
        printf("%s  %-42s  %s\n", i == 0 ? "\nPossible actions\n" : "",
               jget_string(remedy, "command", ""), jget_string(remedy, "effect", ""));
    }
    json_decref(remedies);
    json_decref(facts);
    return err;
}

static int show_why(struct cli *c, const struct waiting *w, struct error *e)
{
    json_t *groups = waiting_groups(w->why), *group;
    size_t i;
    int err = 0;
    puts(waiting_sentence(w, &c->arena));
    const char *warning = jget_string(w->experiment, "metricWarning", NULL);
    if (warning)
        printf("Warning: %s\n", warning);
    json_array_foreach(groups, i, group)
    {
        err = err ? err : show_why_group(c, w, group, e);
    }
    if (json_array_size(groups) == 0)
        err = show_why_group(c, w, NULL, e);
    json_decref(groups);
    return err;
}

int run_queue_why(struct cli *c, const struct command *self, struct error *e)
{
    (void)self;
    long long id;
    struct why_answers x = {0};
    int err = cli_id(c, 0, "experiment", &id, e);
    if (!err && (c->format != OUTPUT_TABLE || c->options.columns)) {
        err = fetch_why(c, id, &x.why, e);
        err = err ? err : output_object(c, x.why, "experimentId,reason", e);
    } else if (!err) {
        err = fetch_why_answers(c, id, &x, e);
        struct waiting w = {.experiment = x.experiment,
                            .why = x.why,
                            .shares = x.shares,
                            .agents = x.agents,
                            .now = clock_wall_us()};
        err = err ? err : show_why(c, &w, e);
    }
    why_answers_free(&x);
    return err;
}

// --- move ----------------------------------------------------------------------------------------

static int job_id(struct cli *c, long long experiment, const char **job, struct error *e)
{
    json_t *answer = NULL;
    int err = fetch_experiment(c, experiment, &answer, e);
    const char *state = wire_word(WIRE_EXPERIMENT_STATE, jget_string(answer, "state", ""));
    if (!err && state && wire_state_is_terminal(state)) {
        err = error_set(e, ERR_CONFLICT, "experiment %lld has ended, so it is in no queue",
                        experiment);
    }
    *job = !err ? arena_strdup(&c->arena, jget_string(answer, "jobId", "")) : NULL;
    json_decref(answer);
    return err;
}

// Replaces the name of the JSON key in the master's error ("updates.0.aheadOf") by the flag.
static int prefix_flag(const char *flag, struct error *e)
{
    const char *text = e->text;
    if (strncmp(text, "updates.", 8) == 0 || strncmp(text, "resources.", 10) == 0) {
        const char *after = strstr(text, ": ");
        text = after ? after + 2 : text;
    }
    struct error said = *e;
    return error_set(e, said.code, "%s: %s", flag, said.text + (text - e->text));
}

// Refuses combinations of flags that name more than one place.
static int check_move_flags(const struct cli_options *o, struct error *e)
{
    bool beside = o->ahead_of > 0 || o->behind > 0;
    bool settings = o->priority > 0 || o->weight || o->max_slots >= 0 || o->pool;
    if (o->ahead_of > 0 && o->behind > 0)
        return error_set(e, ERR_INVALID, "give either --ahead-of or --behind, not both");
    if (beside && settings) {
        return error_set(e, ERR_INVALID,
                         "--%s cannot be combined: give --priority, --weight, --max-slots and "
                         "--pool in a separate move",
                         o->ahead_of > 0 ? "ahead-of" : "behind");
    }
    if (!beside && !settings) {
        return error_set(e, ERR_INVALID,
                         "no place given: use --ahead-of, --behind, --priority, --weight, "
                         "--max-slots or --pool; see: muster queue move --help");
    }
    return 0;
}

static int move_beside(struct cli *c, long long id, struct error *e)
{
    bool ahead = c->options.ahead_of > 0;
    const char *flag = ahead ? "--ahead-of" : "--behind";
    const char *job, *other;
    int err = job_id(c, id, &job, e);
    if (!err) {
        err = job_id(c, ahead ? c->options.ahead_of : c->options.behind, &other, e);
        if (err)
            return prefix_flag(flag, e);
    }
    if (!err) {
        json_t *body = json_pack("{s:[{s:s, s:s}]}", "updates", "jobId", job,
                                 ahead ? "aheadOf" : "behindOf", other);
        err = cli_call(c, "POST", body, NULL, e, "/api/v1/job-queues");
        json_decref(body);
        err = err ? prefix_flag(flag, e) : 0;
    }
    return err;
}

static const char *given_settings(const struct cli_options *o, struct arena *a)
{
    const char *flags[] = {o->priority > 0 ? "--priority" : NULL, o->weight ? "--weight" : NULL,
                           o->max_slots >= 0 ? "--max-slots" : NULL, o->pool ? "--pool" : NULL};
    const char *text = "";
    for (size_t i = 0; i < sizeof(flags) / sizeof(flags[0]); i++)
        if (flags[i])
            text = arena_printf(a, "%s%s%s", text, *text != '\0' ? ", " : "", flags[i]);
    return text;
}

static int move_by_settings(struct cli *c, long long id, struct error *e)
{
    const struct cli_options *o = &c->options;
    json_t *resources = NULL;
    int err = cli_resources(o, &resources, e);
    cli_put(resources, "resourcePool", o->pool);
    json_t *body = json_pack("{s:o}", "resources", resources);
    if (!err) {
        err = cli_call(c, "PATCH", body, NULL, e, "/api/v1/experiments/%lld", id);
        err = err ? prefix_flag(given_settings(o, &c->arena), e) : 0;
    }
    json_decref(body);
    return err;
}

// Prints the experiment's place after the move.
static int show_position(struct cli *c, long long id, struct error *e)
{
    json_t *why = NULL;
    int err = fetch_why(c, id, &why, e);
    if (!err) {
        const json_t *first = json_array_get(jget(why, "waiting"), 0);
        const char *place = first ? waiting_place(first, &c->arena) : "";
        const char *reason = jget_string(why, "reason", "");
        printf("Experiment %lld: priority %lld in pool %s%s%s%s%s\n", id,
               (long long)jget_int(why, "priority", 0), jget_string(why, "resourcePool", ""),
               *place != '\0' ? "; " : "", place, *reason != '\0' ? "; " : "", reason);
    }
    json_decref(why);
    return err;
}

int run_queue_move(struct cli *c, const struct command *self, struct error *e)
{
    (void)self;
    long long id;
    bool beside = c->options.ahead_of > 0 || c->options.behind > 0;
    int err = cli_id(c, 0, "experiment", &id, e);
    err = err ? err : check_move_flags(&c->options, e);
    if (!err)
        err = beside ? move_beside(c, id, e) : move_by_settings(c, id, e);
    return err || c->options.quiet ? err : show_position(c, id, e);
}
