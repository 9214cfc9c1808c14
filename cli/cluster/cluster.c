#include "cli/cluster/cluster.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/text/json.h"
#include "cli/cluster/progress.h"
#include "cli/output/output.h"

enum { PIECE = 1 << 20, DRAW_MS = 100 };

// --- opening -------------------------------------------------------------------------------------

int cluster_open(struct cluster_work *x, struct cli *c, struct error *e)
{
    *x = (struct cluster_work){.c = c};
    pthread_mutex_init(&x->lock, NULL);
    pthread_mutex_init(&x->api_lock, NULL);
    pthread_cond_init(&x->moved, NULL);
    int err = hosts_read(c->args[0], &x->file, e);
    if (err)
        return err;
    x->machines = xcalloc(x->file.count, sizeof(*x->machines));
    for (size_t i = 0; i < x->file.count; i++) {
        x->machines[i].host = &x->file.hosts[i];
        x->machines[i].findings = json_array();
    }
    const char *address = x->file.hosts[0].address;
    bool v6 = strchr(address, ':') != NULL;
    x->url = xasprintf("https://%s%s%s:%d", v6 ? "[" : "", address, v6 ? "]" : "", x->file.port);
    return 0;
}

void cluster_close(struct cluster_work *x)
{
    for (size_t i = 0; i < x->file.count && x->machines; i++) {
        struct cluster_machine *m = &x->machines[i];
        ssh_close(m->ssh);
        json_decref(m->facts);
        json_decref(m->state);
        json_decref(m->findings);
        free(m->fault);
    }
    for (size_t i = 0; i < x->file.file_count && x->release.names; i++)
        free(x->release.names[i]);
    free(x->release.names);
    free(x->release.sha256);
    free(x->release.bytes);
    free(x->url);
    free(x->machines);
    free(x->plan.machines);
    hosts_free(&x->file);
    pthread_cond_destroy(&x->moved);
    pthread_mutex_destroy(&x->api_lock);
    pthread_mutex_destroy(&x->lock);
}

// --- the release ---------------------------------------------------------------------------------

static int digest_file(const char *path, char hex[SHA256_HEX], int64_t *bytes, struct error *e)
{
    uint8_t digest[SHA256_BYTES];
    struct sha256 *hash = sha256_new();
    char *piece = xcalloc(1, PIECE);
    int fd = open(path, O_RDONLY | O_CLOEXEC), err = 0;
    ssize_t n = -1;
    *bytes = 0;
    while (fd >= 0 && (n = read(fd, piece, PIECE)) > 0) {
        sha256_update(hash, piece, (size_t)n);
        *bytes += n;
    }
    if (n < 0)
        err = error_set_errno(e, ERR_IO, errno, "%s", path);
    if (fd >= 0)
        close(fd);
    sha256_final(hash, digest);
    hex_encode(digest, sizeof(digest), hex);
    free(piece);
    return err;
}

int cluster_read_release(struct cluster_work *x, struct error *e)
{
    struct release *r = &x->release;
    size_t count = x->file.file_count;
    struct buf all;
    char hex[SHA256_HEX];
    int err = 0;
    r->names = xcalloc(count, sizeof(*r->names));
    r->sha256 = xcalloc(count, sizeof(*r->sha256));
    r->bytes = xcalloc(count, sizeof(*r->bytes));
    buf_init(&all, count * SHA256_HEX + 1);
    for (size_t i = 0; i < count && !err; i++) {
        err = digest_file(x->file.files[i], r->sha256[i], &r->bytes[i], e);
        r->names[i] = xasprintf("%.16s%s", r->sha256[i], x->file.is_tarball ? ".tar" : ".deb");
        buf_puts(&all, r->sha256[i]);
    }
    sha256_hex(buf_str(&all), all.len, hex);
    memcpy(r->digest, hex, sizeof(r->digest) - 1);
    buf_free(&all);
    return err;
}

// --- threads -------------------------------------------------------------------------------------

void machine_note(struct cluster_work *x, struct cluster_machine *m, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    pthread_mutex_lock(&x->lock);
    vsnprintf(m->note, sizeof(m->note), fmt, args);
    pthread_mutex_unlock(&x->lock);
    va_end(args);
}

// Carries out one step without the lock, which the caller holds.
static void do_step(struct cluster_work *x, size_t i)
{
    struct cluster_machine *m = &x->machines[i];
    size_t step = x->plan.machines[i].step;
    bool changed = false;
    struct error e = {0};
    snprintf(m->note, sizeof(m->note), "%s", x->plan.steps[step].doing);
    pthread_mutex_unlock(&x->lock);
    int err = x->work[step](x, m, &changed, &e);
    pthread_mutex_lock(&x->lock);
    if (err) {
        free(m->fault);
        m->fault = xstrdup(e.text);
        snprintf(m->note, sizeof(m->note), "%s failed: %.80s", x->plan.steps[step].name, e.text);
    }
    plan_report(&x->plan, i, err != 0, changed);
    pthread_cond_broadcast(&x->moved);
}

static void *work(void *arg)
{
    struct cluster_work *x = arg;
    size_t i = 0;
    pthread_mutex_lock(&x->lock);
    enum plan_answer answer;
    while ((answer = plan_pick(&x->plan, &i)) != PLAN_END) {
        if (answer == PLAN_RUN)
            do_step(x, i);
        else
            pthread_cond_wait(&x->moved, &x->lock);
    }
    pthread_cond_broadcast(&x->moved);
    pthread_mutex_unlock(&x->lock);
    return NULL;
}

static bool is_over(const struct cluster_work *x)
{
    for (size_t i = 0; i < x->plan.count; i++)
        if (x->plan.machines[i].state == PLAN_IDLE || x->plan.machines[i].state == PLAN_BUSY)
            return false;
    return true;
}

// Draws until all machines are done.
static void watch(struct cluster_work *x)
{
    struct cluster_progress progress;
    progress_begin(&progress, x);
    pthread_mutex_lock(&x->lock);
    while (!is_over(x)) {
        struct timespec until;
        progress_draw(&progress);
        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_nsec += DRAW_MS * 1000000L;
        until.tv_sec += until.tv_nsec / 1000000000L;
        until.tv_nsec %= 1000000000L;
        pthread_cond_timedwait(&x->moved, &x->lock, &until);
    }
    pthread_mutex_unlock(&x->lock);
    progress_end(&progress);
}

void cluster_run(struct cluster_work *x, const struct plan_step *steps,
                 cluster_step *const *work_of, int parallel)
{
    size_t count = x->file.count;
    size_t threads = (size_t)parallel < count ? (size_t)parallel : count;
    pthread_t *ids = xcalloc(threads, sizeof(*ids));
    free(x->plan.machines);
    x->plan.steps = steps;
    x->plan.machines = xcalloc(count, sizeof(*x->plan.machines));
    x->plan.count = count;
    x->plan.at_once = x->plan.at_once ? x->plan.at_once : 1;
    x->work = work_of;
    for (size_t i = 0; i < count; i++) {
        const struct host *host = &x->file.hosts[i];
        plan_add(&x->plan, i,
                 (host->is_master ? ROLE_MASTER : 0) | (host->is_agent ? ROLE_AGENT : 0));
    }
    size_t started = 0;
    while (started < threads && pthread_create(&ids[started], NULL, work, x) == 0)
        started++;
    if (started == 0)
        work(x);
    watch(x);
    for (size_t i = 0; i < started; i++)
        pthread_join(ids[i], NULL);
    free(ids);
}

// --- the result ----------------------------------------------------------------------------------

// "failed", "unchanged", .. of a machine; `done` is the word for a change.
static const char *result_of(const struct cluster_work *x, size_t i, const char *done)
{
    const struct plan_machine *m = &x->plan.machines[i];
    if (m->state == PLAN_FAILED)
        return "failed";
    if (m->state == PLAN_BARRED)
        return "not reached";
    return m->changed ? done : "unchanged";
}

static const char *roles_of(const struct host *host)
{
    return host->is_master && host->is_agent ? "master, agent"
           : host->is_master                 ? "master"
                                             : "agent";
}

// The step that failed, or that waits for another machine's.
static const char *step_of(const struct cluster_work *x, size_t i)
{
    const struct plan_machine *m = &x->plan.machines[i];
    return m->state == PLAN_DONE ? NULL : x->plan.steps[m->step].name;
}

static void print_warnings(const struct cluster_machine *m)
{
    const json_t *one;
    size_t i;
    json_array_foreach(m->findings, i, one)
    {
        if (strcmp(jget_string(one, "level", ""), "warning") == 0)
            fprintf(stderr, "warning: %s: %s; %s\n", m->host->name, jget_string(one, "problem", ""),
                    jget_string(one, "fix", ""));
    }
}

int cluster_print(struct cluster_work *x, const char *columns, const char *done, struct error *e)
{
    json_t *rows = json_array();
    bool failed = false;
    for (size_t i = 0; i < x->file.count; i++) {
        const struct cluster_machine *m = &x->machines[i];
        json_array_append_new(rows, json_pack("{s:s, s:s, s:s, s:s?, s:o?, s:O}", "host",
                                              m->host->name, "roles", roles_of(m->host), "result",
                                              result_of(x, i, done), "step", step_of(x, i), "fault",
                                              m->fault ? json_string_cut(m->fault) : NULL,
                                              "findings", m->findings));
        failed |= x->plan.machines[i].state != PLAN_DONE;
    }
    int err = output_rows(x->c, rows, columns, e);
    json_decref(rows);
    fflush(stdout);
    for (size_t i = 0; i < x->file.count && !err; i++) {
        const struct cluster_machine *m = &x->machines[i];
        if (!x->c->options.quiet)
            print_warnings(m);
        if (m->fault)
            fprintf(stderr, "muster: %s: %s: %s\n", m->host->name, step_of(x, i), m->fault);
    }
    if (!err && failed)
        x->c->exit_code = err_exit_code(ERR_PEER);
    return err;
}
