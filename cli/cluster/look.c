// muster cluster status and doctor: plans of steps that change nothing.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/clock.h"
#include "base/text/json.h"
#include "cli/cluster/api.h"
#include "cli/cluster/remote.h"
#include "cli/cluster/steps.h"
#include "cli/cluster/trouble.h"
#include "cli/commands/commands.h"
#include "cli/output/output.h"

enum { PARALLEL = 32 };

static int step_state(struct cluster_work *x, struct cluster_machine *m, bool *changed,
                      struct error *e)
{
    (void)changed;
    return machine_state(x, m, e);
}

static int parallel_of(const struct cluster_work *x)
{
    return x->c->options.parallel ? (int)x->c->options.parallel : PARALLEL;
}

// --- status --------------------------------------------------------------------------------------

static const struct plan_step status_steps[] = {
    {.name = "connect", .doing = "connecting", .roles = ROLE_BOTH},
    {.name = "state", .doing = "looking", .roles = ROLE_BOTH},
    {0},
};
static cluster_step *const status_work[] = {step_connect, step_state};

static void set_text(json_t *row, const char *key, const char *text)
{
    if (text && *text)
        json_object_set_new(row, key, json_string_cut(text));
}

// A row for one daemon of a machine.
static json_t *status_row(struct cluster_work *x, const struct cluster_machine *m,
                          const char *daemon, bool has_session)
{
    char key[24], since[CLOCK_RFC3339_MAX];
    json_t *row = json_pack("{s:s, s:s}", "host", m->host->name, "daemon", daemon);
    const char *unit = fact_text(m->state, daemon);
    set_text(row, "state", m->fault ? "unreachable" : unit);
    snprintf(key, sizeof(key), "%s.version", daemon);
    set_text(row, "version", fact_text(m->state, key));
    set_text(row, "release", fact_text(m->state, "installed"));
    snprintf(key, sizeof(key), "%s.since", daemon);
    if (fact_number(m->state, key) > 0)
        set_text(row, "since", clock_format((int64_t)fact_number(m->state, key) * 1000000, since));
    set_text(row, "fault", m->fault);
    if (strcmp(daemon, "agent") == 0 && has_session) {
        json_t *agent = api_agent(x, m->host->name, NULL);
        set_text(row, "agent",
                 !agent                                 ? "unknown"
                 : jget_bool(agent, "connected", false) ? "connected"
                                                        : "silent");
        if (agent) {
            json_object_set(row, "slots", json_object_get(agent, "slots"));
            json_object_set(row, "used", json_object_get(agent, "used"));
        }
        json_decref(agent);
    }
    return row;
}

static bool is_good(const json_t *row)
{
    const char *agent = jget_string(row, "agent", "connected");
    return strcmp(jget_string(row, "state", ""), "running") == 0 && strcmp(agent, "connected") == 0;
}

static int print_status(struct cluster_work *x, const char *columns, struct error *e)
{
    json_t *rows = json_array(), *row;
    struct error api = {0};
    bool has_session = api_open(x, &api) == 0 && api_sign_in(x, NULL, &api) == 0, good = true;
    size_t i;
    for (i = 0; i < x->file.count; i++) {
        const struct cluster_machine *m = &x->machines[i];
        if (m->host->is_master)
            json_array_append_new(rows, status_row(x, m, "master", has_session));
        if (m->host->is_agent)
            json_array_append_new(rows, status_row(x, m, "agent", has_session));
    }
    json_array_foreach(rows, i, row) good &= is_good(row);
    int err = output_rows(x->c, rows, columns, e);
    fflush(stdout);
    for (i = 0; i < x->file.count && !err; i++)
        if (x->machines[i].fault)
            fprintf(stderr, "muster: %s: %s\n", x->machines[i].host->name, x->machines[i].fault);
    if (!has_session && !x->c->options.quiet)
        fprintf(stderr, "muster: the master was not asked about its agents: %s\n", api.text);
    x->c->exit_code = good ? 0 : err_exit_code(ERR_PEER);
    json_decref(rows);
    return err;
}

int run_cluster_status(struct cli *c, const struct command *self, struct error *e)
{
    struct cluster_work x;
    int err = cluster_open(&x, c, e);
    if (!err) {
        cluster_run(&x, status_steps, status_work, parallel_of(&x));
        err = print_status(&x, self->columns, e);
    }
    cluster_close(&x);
    return err;
}

// --- doctor --------------------------------------------------------------------------------------

static int step_check_all(struct cluster_work *x, struct cluster_machine *m, bool *changed,
                          struct error *e)
{
    (void)changed;
    return machine_check(x, m, e);
}

static int step_network_all(struct cluster_work *x, struct cluster_machine *m, bool *changed,
                            struct error *e)
{
    (void)changed;
    return finding_error(m->findings, 0) ? 0 : machine_network(x, m, e);
}

// Looks at the state and the log of one daemon.
static int examine(struct cluster_work *x, struct cluster_machine *m, const char *daemon,
                   struct error *e)
{
    char *log = NULL;
    const char *state = fact_text(m->state, daemon);
    int err = machine_log(x, m, daemon, &log, e);
    if (err)
        return err;
    if (strcmp(state, "running") != 0) {
        char *reason = trouble_reason(log);
        finding_add(m->findings, FINDING_ERROR, "start it: muster cluster up HOSTS.yaml",
                    "muster-%s is %s; last in its log: %s", daemon, state, reason);
        free(reason);
    }
    trouble_find(log, daemon, m->findings);
    free(log);
    return 0;
}

static int step_examine(struct cluster_work *x, struct cluster_machine *m, bool *changed,
                        struct error *e)
{
    (void)changed;
    int err = machine_state(x, m, e);
    if (!err && m->host->is_master)
        err = examine(x, m, "master", e);
    if (!err && m->host->is_agent)
        err = examine(x, m, "agent", e);
    const char *mine = fact_text(m->state, "installed");
    const char *masters = fact_text(x->machines[0].state, "installed");
    if (!err && *mine && *masters && strcmp(mine, masters) != 0)
        finding_add(m->findings, FINDING_WARNING, "muster cluster upgrade HOSTS.yaml --to FILE",
                    "it has another release than the master");
    return err;
}

// The group owns the shared folder of checkpoints, so its number must be that of the master.
static int step_compare(struct cluster_work *x, struct cluster_machine *m, bool *changed,
                        struct error *e)
{
    (void)changed;
    (void)e;
    const char *mine = fact_text(m->facts, "checkpoints_group");
    const char *masters = fact_text(x->machines[0].facts, "checkpoints_group");
    if (x->file.checkpoints && *mine && *masters && strcmp(mine, masters) != 0)
        finding_add(m->findings, FINDING_WARNING, "groupmod -g NUMBER muster-checkpoints",
                    "the group muster-checkpoints has the number %s, and %s on the master", mine,
                    masters);
    return 0;
}

static const struct plan_step doctor_steps[] = {
    {.name = "connect", .doing = "connecting", .roles = ROLE_BOTH},
    {.name = "check", .doing = "checking the machine", .roles = ROLE_BOTH},
    {.name = "listen", .doing = "opening ports", .roles = ROLE_BOTH, .gate = GATE_ALL},
    {.name = "network", .doing = "trying the network", .roles = ROLE_BOTH, .gate = GATE_ALL},
    {.name = "examine", .doing = "reading the logs", .roles = ROLE_BOTH, .gate = GATE_ALL},
    {.name = "compare", .doing = "comparing", .roles = ROLE_BOTH, .gate = GATE_ALL},
    {0},
};
static cluster_step *const doctor_work[] = {step_connect,     step_check_all, step_listen,
                                            step_network_all, step_examine,   step_compare};

static int print_findings(struct cluster_work *x, const char *columns, struct error *e)
{
    json_t *rows = json_array(), *one;
    size_t k, errors = 0;
    for (size_t i = 0; i < x->file.count; i++) {
        const struct cluster_machine *m = &x->machines[i];
        if (m->fault)
            finding_add(m->findings, FINDING_ERROR, "", "%s", m->fault);
        json_array_foreach(m->findings, k, one)
        {
            json_t *row = json_pack("{s:s}", "host", m->host->name);
            json_object_update(row, one);
            errors += strcmp(jget_string(one, "level", ""), "error") == 0;
            json_array_append_new(rows, row);
        }
    }
    int err = 0;
    if (json_array_size(rows) == 0 && x->c->format == OUTPUT_TABLE)
        printf("%zu machine%s examined; nothing is wrong.\n", x->file.count,
               x->file.count == 1 ? " was" : "s were");
    else
        err = output_rows(x->c, rows, columns, e);
    x->c->exit_code = errors ? err_exit_code(ERR_PEER) : 0;
    json_decref(rows);
    return err;
}

int run_cluster_doctor(struct cli *c, const struct command *self, struct error *e)
{
    struct cluster_work x;
    int err = cluster_open(&x, c, e);
    if (!err) {
        cluster_run(&x, doctor_steps, doctor_work, parallel_of(&x));
        machines_quiet(&x);
        err = print_findings(&x, self->columns, e);
    }
    cluster_close(&x);
    return err;
}
