#include "cli/cluster/steps.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/enrolment.h"
#include "base/arena.h"
#include "base/text/json.h"
#include "cli/cluster/api.h"
#include "cli/cluster/remote.h"

enum { VARS_MAX = 1 << 20 };

// --- machines ------------------------------------------------------------------------------------

int step_connect(struct cluster_work *x, struct cluster_machine *m, bool *changed, struct error *e)
{
    (void)changed;
    const struct ssh_options options = {.host = m->host->name,
                                        .user = x->file.ssh_user,
                                        .port = x->file.ssh_port,
                                        .key = x->file.ssh_key,
                                        .accept_new = x->c->options.accept_new};
    return m->ssh ? 0 : ssh_open(&options, &m->ssh, e);
}

static int report_first_error(const struct cluster_machine *m, size_t from, struct error *e)
{
    const json_t *error = finding_error(m->findings, from);
    return error ? error_set(e, ERR_STATE, "%s; %s", jget_string(error, "problem", ""),
                             jget_string(error, "fix", ""))
                 : 0;
}

int step_check(struct cluster_work *x, struct cluster_machine *m, bool *changed, struct error *e)
{
    (void)changed;
    int err = machine_check(x, m, e);
    return err ? err : report_first_error(m, 0, e);
}

// The processes of listeners end after minutes, so they begin when no machine is checked any more.
int step_listen(struct cluster_work *x, struct cluster_machine *m, bool *changed, struct error *e)
{
    (void)changed;
    return finding_error(m->findings, 0) ? 0 : machine_listen(x, m, e);
}

int step_network(struct cluster_work *x, struct cluster_machine *m, bool *changed, struct error *e)
{
    (void)changed;
    size_t before = json_array_size(m->findings);
    int err = machine_network(x, m, e);
    return err ? err : report_first_error(m, before, e);
}

int step_copy(struct cluster_work *x, struct cluster_machine *m, bool *changed, struct error *e)
{
    json_t *there = NULL;
    int err = machine_quiet(m, e);
    err = err ? err : remote_run(x, m, SCRIPT_HOST, "release", NULL, &there, e);
    bool has = strcmp(fact_text(there, "unpacked"), "yes") == 0 ||
               strcmp(fact_text(there, "installed"), x->release.digest) == 0;
    for (size_t i = 0; i < x->file.file_count && !err && !has; i++) {
        char key[64];
        snprintf(key, sizeof(key), "copied %s", x->release.names[i]);
        if (strcmp(fact_text(there, key), "yes") == 0 ||
            (!x->file.is_tarball && !hosts_needs_package(m->host, x->file.files[i])))
            continue;
        err = remote_copy(x, m, x->file.files[i], x->release.names[i], x->release.sha256[i],
                          x->release.bytes[i], e);
        *changed = true;
    }
    json_decref(there);
    return err;
}

int step_unpack(struct cluster_work *x, struct cluster_machine *m, bool *changed, struct error *e)
{
    return remote_act(x, m, "unpack", NULL, changed, e);
}

int step_install(struct cluster_work *x, struct cluster_machine *m, bool *changed, struct error *e)
{
    json_t *there = NULL;
    int err = remote_run(x, m, SCRIPT_HOST, "release", NULL, &there, e);
    const char *installed = fact_text(there, "installed");
    if (!err && *installed && strcmp(installed, x->release.digest) != 0)
        err = error_set(e, ERR_CONFLICT,
                        "another release is installed; change it on all machines: muster cluster "
                        "upgrade %s --to %s",
                        x->c->args[0], x->file.files[0]);
    err = err ? err : remote_act(x, m, "install", NULL, changed, e);
    json_decref(there);
    return err;
}

int step_configure(struct cluster_work *x, struct cluster_machine *m, bool *changed,
                   struct error *e)
{
    struct buf vars, text;
    buf_init(&vars, VARS_MAX);
    buf_init(&text, VARS_MAX);
    hosts_write_master_yaml(&x->file, &text);
    remote_set(&vars, "MASTER_YAML", buf_str(&text));
    buf_reset(&text);
    buf_puts(&text,
             "# Written by \"muster cluster up\", which replaces changes that are made here.\n");
    buf_printf(&text, "MUSTER_MASTER='%s'\nMUSTER_AGENT_FLAGS='", x->url);
    hosts_write_agent_flags(m->host, &text);
    buf_puts(&text, "'");
    remote_set(&vars, "AGENT_DEFAULTS", buf_str(&text));
    int err = text.err || vars.err ? error_set(e, ERR_TOO_LARGE, "the settings are too long")
                                   : remote_act(x, m, "configure", &vars, changed, e);
    buf_free(&text);
    buf_free(&vars);
    return err;
}

// --- daemons -------------------------------------------------------------------------------------

// Reads a file of the master's machine; "" if it is not there. Heap.
static int read_secret(struct cluster_work *x, struct cluster_machine *m, const char *path,
                       char **out, struct error *e)
{
    struct buf vars;
    buf_init(&vars, VARS_MAX);
    remote_set(&vars, "FILE", path);
    int err = remote_text(x, m, "secret", &vars, out, e);
    buf_free(&vars);
    return err;
}

static void forget(char *secret)
{
    if (secret)
        explicit_bzero(secret, strlen(secret));
    free(secret);
}

// Makes the master's certificate; SSH vouches for the fingerprint of its authority.
static int make_authority(struct cluster_work *x, struct cluster_machine *m, bool *changed,
                          struct error *e)
{
    struct buf vars;
    json_t *facts = NULL;
    char port[12];
    bool same = strcmp(m->host->name, m->host->address) == 0;
    char *names =
        same ? xstrdup(m->host->address) : xasprintf("%s %s", m->host->address, m->host->name);
    buf_init(&vars, VARS_MAX);
    snprintf(port, sizeof(port), "%d", x->file.port);
    remote_set(&vars, "NAMES", names);
    remote_set(&vars, "PORT", port);
    int err = remote_run(x, m, SCRIPT_HOST, "authority", &vars, &facts, e);
    err = err ? err : fingerprint_parse(fact_text(facts, "fingerprint"), x->fingerprint, e);
    *changed |= strcmp(fact_text(facts, "changed"), "yes") == 0;
    json_decref(facts);
    buf_free(&vars);
    free(names);
    return err;
}

int step_master(struct cluster_work *x, struct cluster_machine *m, bool *changed, struct error *e)
{
    char *password = NULL;
    int err = make_authority(x, m, changed, e);
    err = err ? err : machine_start(x, m, "master", changed, e);
    err = err ? err : machine_await_master(x, m, e);
    err = err ? err : read_secret(x, m, "/var/lib/muster/initial-password", &password, e);
    if (password)
        password[strcspn(password, "\n")] = '\0';
    err = err ? err : api_sign_in(x, password && *password ? password : NULL, e);
    forget(password);
    return err;
}

// Whether the agent has a credential that the master knows.
static int check_enrolled(struct cluster_work *x, struct cluster_machine *m, bool *enrolled,
                          struct error *e)
{
    struct buf vars;
    json_t *facts = NULL;
    buf_init(&vars, VARS_MAX);
    remote_set(&vars, "URL", x->url);
    int err = remote_run(x, m, SCRIPT_HOST, "enrolled", &vars, &facts, e);
    *enrolled =
        strcmp(fact_text(facts, "enrolled"), "yes") == 0 && api_has_credential(x, m->host->name);
    json_decref(facts);
    buf_free(&vars);
    return err;
}

int step_enrol(struct cluster_work *x, struct cluster_machine *m, bool *changed, struct error *e)
{
    bool enrolled = false;
    char *line = NULL;
    int err = check_enrolled(x, m, &enrolled, e);
    if (err || enrolled)
        return err;
    struct buf vars;
    buf_init(&vars, VARS_MAX);
    err = api_enrol(x, m->host->name, &line, e);
    if (!err) {
        remote_set(&vars, "LINE", line);
        remote_set(&vars, "AGENT_ID", m->host->name);
        err = remote_act(x, m, "enroll", &vars, changed, e);
        explicit_bzero(vars.data, vars.len);
    }
    forget(line);
    buf_free(&vars);
    return err;
}

int step_agent(struct cluster_work *x, struct cluster_machine *m, bool *changed, struct error *e)
{
    bool started = false;
    int err = machine_start(x, m, "agent", &started, e);
    m->agent_restarted = started && *fact_text(m->facts, "agent_pid");
    *changed |= started;
    return err;
}

int step_ready(struct cluster_work *x, struct cluster_machine *m, bool *changed, struct error *e)
{
    (void)changed;
    return machine_await_agent(x, m, e);
}
