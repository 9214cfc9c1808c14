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

enum {
    VARS_MAX = 1 << 20,
    LOOK_US = 200000,          // between two looks at the master
    STATE_EVERY = 10,          // looks, after which the daemon's process is looked at, too
    MASTER_US = 180 * 1000000, // a migration of a large store takes minutes
    AGENT_US = 120 * 1000000,
};
#define RANK_PORTS "22000-31999" // as master/lifecycle gives them to the ranks of programs

// --- checks --------------------------------------------------------------------------------------

// Listens on the first free port of a range; appends the process to m->listeners.
static int listen_there(struct cluster_work *x, struct cluster_machine *m, const char *ports,
                        long *port, struct error *e)
{
    struct buf vars;
    json_t *facts = NULL;
    buf_init(&vars, VARS_MAX);
    remote_set(&vars, "PORTS", ports);
    remote_set(&vars, "TARGETS", "");
    int err = remote_run(x, m, SCRIPT_NETWORK, "listen", &vars, &facts, e);
    *port = (long)fact_number(facts, "port");
    size_t used = strlen(m->listeners);
    if (*port)
        snprintf(m->listeners + used, sizeof(m->listeners) - used, " %ld",
                 (long)fact_number(facts, "listener"));
    json_decref(facts);
    buf_free(&vars);
    return err;
}

int machine_check(struct cluster_work *x, struct cluster_machine *m, struct error *e)
{
    struct buf vars;
    char port[12] = "";
    buf_init(&vars, VARS_MAX);
    if (m->host->is_master)
        snprintf(port, sizeof(port), "%d", x->file.port);
    remote_set(&vars, "PORT", port);
    int err = remote_clock(m, &m->clock_s, &m->clock_unsure_s, e);
    json_decref(m->facts);
    m->facts = NULL;
    err = err ? err : remote_run(x, m, SCRIPT_CHECK, "", &vars, &m->facts, e);
    buf_free(&vars);
    if (err)
        return err;
    int64_t bytes = 0;
    for (size_t i = 0; i < x->file.file_count && x->release.bytes; i++)
        bytes += x->release.bytes[i];
    const struct fact_context context = {m->host, &x->file, bytes, hosts_arch(&x->file)};
    facts_judge(m->facts, &context, m->findings);
    return 0;
}

int machine_listen(struct cluster_work *x, struct cluster_machine *m, struct error *e)
{
    int err = 0;
    m->listeners[0] = '\0';
    if (m->host->is_agent)
        err = listen_there(x, m, RANK_PORTS, &m->rank_port, e);
    if (!err && m->host->is_master && !*fact_text(m->facts, "port_answers")) {
        char ports[24];
        snprintf(ports, sizeof(ports), "%d-%d", x->file.port, x->file.port);
        err = listen_there(x, m, ports, &m->master_port, e);
    }
    return err;
}

int machine_quiet(struct cluster_machine *m, struct error *e)
{
    if (!m->listeners[0])
        return 0;
    struct ssh_result r = {0};
    char command[96];
    snprintf(command, sizeof(command), "kill%s 2>/dev/null", m->listeners);
    m->listeners[0] = '\0';
    int err = ssh_run(m->ssh, command, "", 0, &r, e);
    ssh_result_free(&r);
    return err;
}

void machines_quiet(struct cluster_work *x)
{
    for (size_t i = 0; i < x->file.count; i++)
        machine_quiet(&x->machines[i], NULL);
}

// The next agent around the ring that listens; NULL: no other does.
static const struct cluster_machine *neighbour_of(const struct cluster_work *x,
                                                  const struct cluster_machine *m)
{
    size_t self = (size_t)(m - x->machines), count = x->file.count;
    for (size_t step = 1; step < count; step++)
        if (x->machines[(self + step) % count].rank_port)
            return &x->machines[(self + step) % count];
    return NULL;
}

int machine_network(struct cluster_work *x, struct cluster_machine *m, struct error *e)
{
    const struct cluster_machine *master = &x->machines[0], *next = neighbour_of(x, m);
    bool listens = master->master_port || *fact_text(master->facts, "port_answers");
    struct buf vars, targets;
    json_t *facts = NULL;
    facts_judge_clock(m->clock_s - (master->facts ? master->clock_s : 0),
                      m->clock_unsure_s + (master->facts ? master->clock_unsure_s : 0),
                      m->findings);
    if (!m->host->is_agent)
        return 0;
    buf_init(&vars, VARS_MAX);
    buf_init(&targets, VARS_MAX);
    if (listens)
        buf_printf(&targets, "master@%s/%d", master->host->address, x->file.port);
    if (next)
        buf_printf(&targets, " ranks@%s/%ld", next->host->address, next->rank_port);
    remote_set(&vars, "PORTS", "");
    remote_set(&vars, "TARGETS", buf_str(&targets));
    int err = remote_run(x, m, SCRIPT_NETWORK, "probe", &vars, &facts, e);
    const struct fact_context context = {m->host, &x->file, 0, hosts_arch(&x->file)};
    if (!err)
        facts_judge_network(facts, &context, next ? next->host->name : NULL, m->findings);
    json_decref(facts);
    buf_free(&targets);
    buf_free(&vars);
    return err;
}

// --- daemons -------------------------------------------------------------------------------------

int machine_state(struct cluster_work *x, struct cluster_machine *m, struct error *e)
{
    json_decref(m->state);
    m->state = NULL;
    return remote_run(x, m, SCRIPT_HOST, "state", NULL, &m->state, e);
}

int machine_log(struct cluster_work *x, struct cluster_machine *m, const char *daemon, char **text,
                struct error *e)
{
    struct buf vars;
    buf_init(&vars, VARS_MAX);
    remote_set(&vars, "DAEMON", daemon);
    int err = remote_text(x, m, "log", &vars, text, e);
    buf_free(&vars);
    return err;
}

int machine_start(struct cluster_work *x, struct cluster_machine *m, const char *daemon,
                  bool *changed, struct error *e)
{
    struct buf vars;
    buf_init(&vars, VARS_MAX);
    remote_set(&vars, "DAEMON", daemon);
    int err = remote_act(x, m, "start", &vars, changed, e);
    buf_free(&vars);
    return err;
}

// ERR_STATE: the daemon does not run; the text is the reason from its log. Other errors: the
// machine could not be asked.
static int check_running(struct cluster_work *x, struct cluster_machine *m, const char *daemon,
                         struct error *e)
{
    int err = machine_state(x, m, e);
    if (err || strcmp(fact_text(m->state, daemon), "running") == 0)
        return err;
    char *log = NULL;
    err = machine_log(x, m, daemon, &log, e);
    if (!err) {
        char *reason = trouble_reason(log);
        err = error_set(e, ERR_STATE, "muster-%s does not run: %s", daemon, reason);
        free(reason);
    }
    free(log);
    return err;
}

int machine_await_master(struct cluster_work *x, struct cluster_machine *m, struct error *e)
{
    int64_t deadline = clock_mono_us() + MASTER_US;
    struct error last = {0};
    bool trusted = false;
    machine_note(x, m, "waiting for the master at %s", x->url);
    for (int look = 1;; look++) {
        int err = x->fingerprint[0] && !trusted ? api_trust(x, &last) : 0;
        trusted |= !err;
        err = err ? err : api_call(x, "GET", "/info", NULL, NULL, &last);
        if (!err)
            return 0;
        int fault = look % STATE_EVERY ? 0 : check_running(x, m, "master", e);
        if (fault)
            return fault;
        if (clock_mono_us() > deadline)
            return error_set(e, err, "the master runs and does not answer here: %s", last.text);
        clock_sleep_us(LOOK_US);
    }
}

// The lack of an agent, with the time at which the master heard from it before (""; RFC 3339);
// NULL: it lacks nothing. Writes into `text`.
static const char *lacking(const struct cluster_machine *m, const json_t *row, const char *before,
                           char *text, size_t cap)
{
    long long slots = jget_int(row, "slots", 0), gpus = (long long)fact_number(m->facts, "gpus");
    long long expected = m->host->slots ? m->host->slots : gpus;
    if (!row)
        return "it has not registered at the master";
    if (!jget_bool(row, "connected", false) ||
        (*before && strcmp(jget_string(row, "seen", ""), before) <= 0))
        return "the master does not hear from it";
    if (expected ? slots == expected : slots > 0)
        return NULL;
    snprintf(text, cap, "it offers %lld slots, and %lld were expected", slots, expected);
    return text;
}

int machine_await_agent(struct cluster_work *x, struct cluster_machine *m, struct error *e)
{
    int64_t deadline = clock_mono_us() + AGENT_US;
    char text[80], before[CLOCK_RFC3339_MAX] = "";
    bool asked = !m->agent_restarted;
    machine_note(x, m, "waiting until the master knows the agent");
    for (int look = 1;; look++) {
        json_t *row = api_agent(x, m->host->name, NULL);
        if (row && !asked) { // until now the master may have heard from the former process
            snprintf(before, sizeof(before), "%s", jget_string(row, "seen", ""));
            asked = true;
        }
        const char *missing = lacking(m, row, before, text, sizeof(text));
        json_decref(row);
        if (!missing)
            return 0;
        int fault = look % STATE_EVERY ? 0 : check_running(x, m, "agent", e);
        if (fault)
            return fault;
        if (clock_mono_us() > deadline)
            return error_set(e, ERR_TIMEOUT, "%s; its log is on the machine: muster cluster doctor",
                             missing);
        clock_sleep_us(LOOK_US);
    }
}
