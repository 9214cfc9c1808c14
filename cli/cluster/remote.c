#include "cli/cluster/remote.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/clock.h"
#include "cli/output/meter.h"

// CMakeLists.txt names the folder of the scripts.
#define SCRIPT(name, path)                                                                         \
    __asm__(".pushsection .rodata\n"                                                               \
            ".globl cluster_script_" #name "\n"                                                    \
            "cluster_script_" #name ":\n"                                                          \
            ".incbin \"" path "\"\n"                                                               \
            ".byte 0\n"                                                                            \
            ".popsection\n");                                                                      \
    extern const char cluster_script_##name[];
SCRIPT(check, CLUSTER_SCRIPTS "/check.sh")
SCRIPT(network, CLUSTER_SCRIPTS "/network.sh")
SCRIPT(host, CLUSTER_SCRIPTS "/host.sh")

enum {
    INPUT_MAX = 4 << 20,
    LOOK_S = 120,     // of silence: the driver of many GPUs may answer late
    WORK_S = 35 * 60, // the start of a master may bring a large store up to date for 30 minutes
};

static const char *script_text(enum remote_script script)
{
    static const char *const texts[] = {cluster_script_check, cluster_script_network,
                                        cluster_script_host};
    return texts[script];
}

void remote_set(struct buf *vars, const char *name, const char *value)
{
    buf_printf(vars, "%s='", name);
    for (const char *p = value; *p; p++) {
        if (*p == '\'')
            buf_puts(vars, "'\\''");
        else
            buf_append(vars, p, 1);
    }
    buf_puts(vars, "'\n");
}

static bool is_root(const struct cluster_work *x)
{
    return strcmp(x->file.ssh_user, "root") == 0;
}

// The variables that every action of host.sh finds.
static void set_usual(const struct cluster_work *x, const struct cluster_machine *m,
                      struct buf *vars)
{
    char roles[32];
    struct buf names;
    buf_init(&names, INPUT_MAX);
    for (size_t i = 0; i < x->file.file_count && x->release.names; i++)
        if (x->file.is_tarball || hosts_needs_package(m->host, x->file.files[i]))
            buf_printf(&names, "%s%s", names.len ? " " : "", x->release.names[i]);
    snprintf(roles, sizeof(roles), "%s %s", m->host->is_master ? "master" : "",
             m->host->is_agent ? "agent" : "");
    remote_set(vars, "MASTER", m->host->is_master ? "yes" : "no");
    remote_set(vars, "AGENT", m->host->is_agent ? "yes" : "no");
    remote_set(vars, "ROLES", roles);
    remote_set(vars, "KIND", x->file.is_tarball ? "tarball" : "packages");
    remote_set(vars, "DIGEST", x->release.digest[0] ? x->release.digest : "none");
    remote_set(vars, "FILES", buf_str(&names));
    remote_set(vars, "CHECKPOINTS",
               x->file.checkpoints ? x->file.checkpoints : "/var/lib/muster-checkpoints");
    remote_set(vars, "KEEP_CHECKPOINTS", x->file.checkpoints ? "yes" : "no");
    buf_free(&names);
}

// The last line that is not empty, without its end.
static char *last_line(const char *text)
{
    size_t end = strlen(text);
    while (end > 0 && (text[end - 1] == '\n' || text[end - 1] == ' '))
        end--;
    size_t begin = end;
    while (begin > 0 && text[begin - 1] != '\n')
        begin--;
    return xasprintf("%.*s", (int)(end - begin), text + begin);
}

static int report_script(const struct ssh_result *r, const char *what, struct error *e)
{
    char *line = last_line(buf_str(&r->err));
    if (strstr(buf_str(&r->err), "No space left on device"))
        error_set(e, ERR_FULL,
                  "the disk is full: %s; delete files there, then run the command again", line);
    else
        error_set(e, ERR_PEER, "%s%s", *line ? "" : what, *line ? line : ": it failed");
    free(line);
    return e->code;
}

// For how long, in seconds, a script may be silent.
static int patience_of(enum remote_script script, const char *action)
{
    static const char *const looks[] = {"release", "state", "log", "secret", "enrolled"};
    bool is_look = script != SCRIPT_HOST;
    for (size_t i = 0; i < sizeof(looks) / sizeof(looks[0]); i++)
        is_look |= strcmp(action, looks[i]) == 0;
    return is_look ? LOOK_S : WORK_S;
}

static int run_script(struct cluster_work *x, struct cluster_machine *m, enum remote_script script,
                      const char *action, struct buf *vars, struct ssh_result *r, struct error *e)
{
    struct buf input;
    buf_init(&input, INPUT_MAX);
    remote_set(&input, "ACTION", action);
    if (script == SCRIPT_HOST)
        set_usual(x, m, &input);
    if (vars)
        buf_puts(&input, buf_str(vars));
    buf_puts(&input, script_text(script));
    const char *command = script == SCRIPT_HOST && !is_root(x) ? "sudo -n -- sh -s" : "sh -s";
    ssh_set_patience(m->ssh, patience_of(script, action));
    int err = input.err ? error_set(e, input.err, "the settings are too long")
                        : ssh_run(m->ssh, command, buf_str(&input), input.len, r, e);
    if (!err && r->exit_code != 0)
        err = report_script(r, action, e);
    if (input.data)
        explicit_bzero(input.data, input.len); // it may hold a token
    buf_free(&input);
    return err;
}

int remote_run(struct cluster_work *x, struct cluster_machine *m, enum remote_script script,
               const char *action, struct buf *vars, json_t **facts, struct error *e)
{
    struct ssh_result r = {0};
    int err = run_script(x, m, script, action, vars, &r, e);
    if (!err && facts)
        *facts = facts_parse(buf_str(&r.out));
    ssh_result_free(&r);
    return err;
}

int remote_act(struct cluster_work *x, struct cluster_machine *m, const char *action,
               struct buf *vars, bool *changed, struct error *e)
{
    json_t *facts = NULL;
    int err = remote_run(x, m, SCRIPT_HOST, action, vars, &facts, e);
    *changed |= strcmp(fact_text(facts, "changed"), "yes") == 0;
    json_decref(facts);
    return err;
}

int remote_text(struct cluster_work *x, struct cluster_machine *m, const char *action,
                struct buf *vars, char **text, struct error *e)
{
    struct ssh_result r = {0};
    int err = run_script(x, m, SCRIPT_HOST, action, vars, &r, e);
    *text = NULL;
    if (!err) { // without the last line, which says whether something has changed
        char *end = r.out.data ? strstr(r.out.data, "changed=") : NULL;
        for (char *next = end; next; next = strstr(next + 1, "\nchanged="))
            end = *next == '\n' ? next + 1 : next;
        if (end)
            *end = '\0';
        *text = xstrdup(buf_str(&r.out));
    }
    ssh_result_free(&r);
    return err;
}

// --- files ---------------------------------------------------------------------------------------

struct copying {
    struct cluster_work *x;
    struct cluster_machine *m;
    int64_t total;
};

static void on_sent(void *arg, int64_t bytes)
{
    const struct copying *k = arg;
    char have[24], all[24];
    machine_note(k->x, k->m, "copying %s of %s", meter_bytes(bytes, have, sizeof(have)),
                 meter_bytes(k->total, all, sizeof(all)));
}

// The command reads all input in any case, so that the sender never waits for it in vain.
int remote_copy(struct cluster_work *x, struct cluster_machine *m, const char *path,
                const char *name, const char *sha256, int64_t bytes, struct error *e)
{
    struct copying k = {x, m, bytes};
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return error_set(e, ERR_IO, "%s cannot be opened", path);
    char *command = xasprintf(
        "%ssh -c 'c=/var/cache/muster-cluster; mkdir -p $c; "
        "cat >$c/%s.$$ || { r=$?; cat >/dev/null; rm -f $c/%s.$$; exit $r; }; "
        "echo \"%s  $c/%s.$$\" | sha256sum -c --status || { rm -f $c/%s.$$; echo \"the copy is "
        "damaged; run the command again\" >&2; exit 1; }; sync $c/%s.$$; mv $c/%s.$$ $c/%s'",
        is_root(x) ? "" : "sudo -n -- ", name, name, sha256, name, name, name, name, name);
    struct ssh_result r = {0};
    ssh_set_patience(m->ssh, WORK_S);
    int err = ssh_send_file(m->ssh, command, fd, on_sent, &k, &r, e);
    if (!err && r.exit_code != 0)
        err = report_script(&r, "copy", e);
    ssh_result_free(&r);
    free(command);
    close(fd);
    return err;
}

int remote_clock(struct cluster_machine *m, double *ahead_s, double *unsure_s, struct error *e)
{
    struct ssh_result r = {0};
    ssh_set_patience(m->ssh, LOOK_S);
    int64_t before = clock_wall_us();
    int err = ssh_run(m->ssh, "date +clock=%s.%N", "", 0, &r, e);
    int64_t after = clock_wall_us();
    json_t *facts = facts_parse(buf_str(&r.out)); // the user's shell may print a greeting, too
    double there_s = fact_number(facts, "clock");
    if (!err && there_s <= 0)
        err = error_set(e, ERR_PEER, "date +%%s.%%N prints no time");
    *ahead_s = there_s - (double)(before + after) / 2e6;
    *unsure_s = (double)(after - before) / 2e6;
    json_decref(facts);
    ssh_result_free(&r);
    return err;
}
