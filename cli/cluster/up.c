// muster cluster up, upgrade and down: plans of steps that change the machines.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/clock.h"
#include "base/os/file.h"
#include "base/text/json.h"
#include "cli/cluster/api.h"
#include "cli/cluster/remote.h"
#include "cli/cluster/steps.h"
#include "cli/commands/commands.h"
#include "cli/output/output.h"

enum { PARALLEL = 32, VARS_MAX = 1 << 20 };

static int parallel_of(const struct cluster_work *x)
{
    return x->c->options.parallel ? (int)x->c->options.parallel : PARALLEL;
}

static bool all_done(const struct cluster_work *x)
{
    return x->c->exit_code == 0;
}

// --- up ------------------------------------------------------------------------------------------

static const struct plan_step up_steps[] = {
    {.name = "connect", .doing = "connecting", .roles = ROLE_BOTH},
    {.name = "check", .doing = "checking the machine", .roles = ROLE_BOTH},
    {.name = "listen", .doing = "opening ports", .roles = ROLE_BOTH, .gate = GATE_ALL},
    {.name = "network", .doing = "trying the network", .roles = ROLE_BOTH, .gate = GATE_ALL},
    {.name = "copy", .doing = "looking at the release", .roles = ROLE_BOTH, .gate = GATE_ALL},
    {.name = "unpack", .doing = "unpacking the release", .roles = ROLE_BOTH},
    {.name = "install", .doing = "installing", .roles = ROLE_BOTH},
    {.name = "configure", .doing = "writing the settings", .roles = ROLE_BOTH},
    {.name = "master", .doing = "starting the master", .roles = ROLE_MASTER},
    {.name = "enrol", .doing = "enrolling the agent", .roles = ROLE_AGENT, .gate = GATE_MASTER},
    {.name = "agent", .doing = "starting the agent", .roles = ROLE_AGENT},
    {.name = "ready", .doing = "waiting for the agent", .roles = ROLE_AGENT},
    {0},
};
static cluster_step *const up_work[] = {
    step_connect, step_check,     step_listen, step_network, step_copy,  step_unpack,
    step_install, step_configure, step_master, step_enrol,   step_agent, step_ready,
};

static void print_next(const struct cluster_work *x)
{
    if (x->c->options.quiet || x->c->format != OUTPUT_TABLE || !all_done(x))
        return;
    printf("\nThe cluster runs at %s.\n", x->url);
    if (x->signed_in_by_file)
        printf("This command is signed in there as admin. The first password of the users admin\n"
               "and determined is on %s, in /var/lib/muster/initial-password. Change both, then\n"
               "delete the file:\n"
               "  muster user change-password admin\n"
               "  muster user change-password determined\n",
               x->file.hosts[0].name);
    printf("Next:\n  muster agent list\n  muster experiment create FILE.yaml FOLDER --follow\n");
}

int run_cluster_up(struct cli *c, const struct command *self, struct error *e)
{
    struct cluster_work x;
    int err = cluster_open(&x, c, e);
    err = err ? err : hosts_check_files(&x.file, e);
    err = err ? err : cluster_read_release(&x, e);
    err = err ? err : api_open(&x, e);
    if (!err) {
        cluster_run(&x, up_steps, up_work, parallel_of(&x));
        machines_quiet(&x);
        err = cluster_print(&x, self->columns, "changed", e);
    }
    if (!err)
        print_next(&x);
    cluster_close(&x);
    return err;
}

// --- upgrade -------------------------------------------------------------------------------------

// Ends with the daemon of the new release, known to be the one that runs.
static int check_release(struct cluster_work *x, struct cluster_machine *m, const char *daemon,
                         struct error *e)
{
    char key[24], folder[64];
    snprintf(key, sizeof(key), "%s.exe", daemon);
    snprintf(folder, sizeof(folder), "/opt/muster/%s/", x->release.digest);
    int err = machine_state(x, m, e);
    if (err)
        return err;
    bool runs =
        strcmp(fact_text(m->state, "installed"), x->release.digest) == 0 &&
        strcmp(fact_text(m->state, daemon), "running") == 0 &&
        (!x->file.is_tarball || strncmp(fact_text(m->state, key), folder, strlen(folder)) == 0);
    return runs ? 0
                : error_set(e, ERR_VERSION, "muster-%s does not run the new release; %s", daemon,
                            *fact_text(m->state, key) ? fact_text(m->state, key) : "it is stopped");
}

static int step_switch_master(struct cluster_work *x, struct cluster_machine *m, bool *changed,
                              struct error *e)
{
    int err = remote_act(x, m, "install", NULL, changed, e);
    err = err ? err : machine_start(x, m, "master", changed, e);
    err = err ? err : machine_await_master(x, m, e);
    return err ? err : check_release(x, m, "master", e);
}

static int step_switch_agent(struct cluster_work *x, struct cluster_machine *m, bool *changed,
                             struct error *e)
{
    bool installed = false;
    int err = remote_act(x, m, "install", NULL, &installed, e);
    err = err ? err : step_agent(x, m, changed, e);
    m->agent_restarted |= installed; // the package restarts its service itself
    *changed |= installed;
    err = err ? err : machine_await_agent(x, m, e);
    return err ? err : check_release(x, m, "agent", e);
}

// The new release is everywhere before the first daemon is restarted.
static const struct plan_step upgrade_steps[] = {
    {.name = "connect", .doing = "connecting", .roles = ROLE_BOTH},
    {.name = "check", .doing = "checking the machine", .roles = ROLE_BOTH},
    {.name = "copy", .doing = "looking at the release", .roles = ROLE_BOTH},
    {.name = "unpack", .doing = "unpacking the release", .roles = ROLE_BOTH},
    {.name = "master",
     .doing = "restarting the master",
     .roles = ROLE_MASTER,
     .gate = GATE_ALL_GOOD},
    {.name = "agent",
     .doing = "restarting the agent",
     .roles = ROLE_AGENT,
     .gate = GATE_MASTER,
     .one_by_one = true,
     .ends_after_failure = true},
    {0},
};
static cluster_step *const upgrade_work[] = {
    step_connect, step_check, step_copy, step_unpack, step_switch_master, step_switch_agent,
};

// Replaces the files of the hosts file by those of --to, which are of the same kind.
static int use_release(struct cluster_work *x, struct error *e)
{
    const struct flag_list *to = &x->c->options.to_files;
    struct hosts_file *f = &x->file;
    if (to->count == 0)
        return error_set(e, ERR_INVALID,
                         "--to is missing: the tarball, or each of the packages, "
                         "of the new release");
    for (size_t i = 0; i < f->file_count; i++)
        free(f->files[i]);
    f->file_count = (size_t)to->count;
    f->files = xrealloc(f->files, f->file_count * sizeof(*f->files));
    int err = f->is_tarball == !strstr(to->items[0], ".deb")
                  ? 0
                  : error_set(e, ERR_INVALID,
                              "--to: the cluster was installed from %s; give %s of the new release",
                              f->is_tarball ? "a tarball" : "packages",
                              f->is_tarball ? "the tarball" : "the packages");
    for (size_t i = 0; i < f->file_count; i++) {
        f->files[i] = xstrdup(to->items[i]);
        if (!err && !path_exists(f->files[i]))
            err = error_set(e, ERR_NOT_FOUND, "--to: there is no file %s", f->files[i]);
    }
    if (!err && f->is_tarball && f->file_count > 1)
        err = error_set(e, ERR_INVALID, "--to takes one tarball, or several packages");
    return err;
}

int run_cluster_upgrade(struct cli *c, const struct command *self, struct error *e)
{
    struct cluster_work x;
    int err = cluster_open(&x, c, e);
    err = err ? err : use_release(&x, e);
    err = err ? err : cluster_read_release(&x, e);
    err = err ? err : api_open(&x, e);
    err = err ? err : api_sign_in(&x, NULL, e);
    if (!err) {
        x.plan.at_once = (size_t)parallel_of(&x);
        if (!c->options.parallel)
            x.plan.at_once = 1;
        cluster_run(&x, upgrade_steps, upgrade_work, PARALLEL);
        err = cluster_print(&x, self->columns, "upgraded", e);
    }
    if (!err && all_done(&x) && !c->options.quiet && c->format == OUTPUT_TABLE)
        printf("\nName the new release in %s, under install, too.\n", c->args[0]);
    cluster_close(&x);
    return err;
}

// --- down ----------------------------------------------------------------------------------------

static int stop_daemon(struct cluster_work *x, struct cluster_machine *m, const char *daemon,
                       bool *changed, struct error *e)
{
    struct buf vars;
    buf_init(&vars, VARS_MAX);
    remote_set(&vars, "DAEMON", daemon);
    int err = remote_act(x, m, "stop", &vars, changed, e);
    buf_free(&vars);
    return err;
}

static int step_stop_agent(struct cluster_work *x, struct cluster_machine *m, bool *changed,
                           struct error *e)
{
    return stop_daemon(x, m, "agent", changed, e);
}

static int step_stop_master(struct cluster_work *x, struct cluster_machine *m, bool *changed,
                            struct error *e)
{
    return stop_daemon(x, m, "master", changed, e);
}

static int step_purge(struct cluster_work *x, struct cluster_machine *m, bool *changed,
                      struct error *e)
{
    return x->c->options.purge ? remote_act(x, m, "purge", NULL, changed, e) : 0;
}

static const struct plan_step down_steps[] = {
    {.name = "connect", .doing = "connecting", .roles = ROLE_BOTH},
    {.name = "agent", .doing = "stopping the agent", .roles = ROLE_AGENT},
    {.name = "master", .doing = "stopping the master", .roles = ROLE_MASTER, .gate = GATE_ALL},
    {.name = "purge", .doing = "deleting", .roles = ROLE_BOTH},
    {0},
};
static cluster_step *const down_work[] = {step_connect, step_stop_agent, step_stop_master,
                                          step_purge};

int run_cluster_down(struct cli *c, const struct command *self, struct error *e)
{
    struct cluster_work x;
    int err = cluster_open(&x, c, e);
    if (!err && c->options.purge)
        err = cli_confirm(
            c, e, "Delete Muster from %zu machines, with all experiments, metrics%s and logs?",
            x.file.count, x.file.checkpoints ? "" : ", checkpoints");
    if (!err) {
        cluster_run(&x, down_steps, down_work, parallel_of(&x));
        err = cluster_print(&x, self->columns, c->options.purge ? "deleted" : "stopped", e);
    }
    if (!err && all_done(&x) && !c->options.purge && !c->options.quiet && c->format == OUTPUT_TABLE)
        printf("\nAll data is kept. To start again: muster cluster up %s\n", c->args[0]);
    cluster_close(&x);
    return err;
}
