#include "trainer/launcher/cluster_launcher.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "api/checkpoint/checkpoint.h"
#include "api/http/client.h"
#include "base/arena.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/os/mailbox.h"
#include "base/text/json.h"
#include "trainer/launcher/report_batch.h"

#define SECOND INT64_C(1000000)

enum {
    QUEUE_MAX = 65536,
    BATCH_MAX = 256,
    RENDEZVOUS_S = 600,
    REPORT_S = 1800,
    SHUTDOWN_S = 5,
    LISTEN_PAUSE_S = 1
};

struct cluster_launcher {
    struct cluster_launcher_config config;
    char *allocation_path, *trial_path, *metrics_path, *progress_path;
    struct client *caller;   // used by the compute thread
    struct client *reporter; // used by the reporter
    struct client *listener; // used by the listener
    struct mailbox *queue;   // of struct queued_report
    pthread_t reporting, listening;
    bool threads;                 // the reporter and the listener run
    atomic_bool drain;            // the master asked for it
    atomic_bool stopping;         // cancels the calls of the threads
    atomic_bool unreachable;      // a report could not be delivered
    struct error why_unreachable; // written before `unreachable` is set
    int gathers;                  // number of all_gathers so far
};

// Another start of the trial has taken over, and the master rejects all that this process reports.
static void exit_if_fenced(const struct cluster_launcher *l, struct client *c,
                           const struct error *e)
{
    if (client_status(c) != 403 || !strstr(e->text, "allocation has ended"))
        return;
    log_error("this start of the trial has ended and another one may have taken over; exiting",
              "alloc=%s rank=%d", l->config.allocation, l->config.rank);
    fflush(stdout);
    _exit(CLUSTER_LAUNCHER_FENCED);
}

static int call_master(struct cluster_launcher *l, struct client *c, const char *method,
                       const char *path, const json_t *body, int patience_s, json_t **answer,
                       struct error *e)
{
    int64_t deadline = clock_mono_us() + patience_s * SECOND;
    int err = client_call_retry(c, method, path, body, deadline, answer, e);
    if (err)
        exit_if_fenced(l, c, e);
    return err;
}

// --- reports -------------------------------------------------------------------------------------

static void post_report(struct cluster_launcher *l, const char *path, const json_t *body)
{
    struct error e = {0};
    char why[ERROR_TEXT_MAX];
    if (atomic_load(&l->unreachable))
        return;
    int err;
    do { // the master may ask for patience, for example while its disk is full
        err = call_master(l, l->reporter, "POST", path, body, REPORT_S, NULL, &e);
    } while (err == ERR_UNAVAILABLE && client_retry_after(l->reporter) > 0 &&
             !atomic_load(&l->stopping));
    if (!err)
        return;
    if (err == ERR_UNAVAILABLE || err == ERR_TIMEOUT || err == ERR_BUSY || err == ERR_PEER) {
        l->why_unreachable = e;
        atomic_store(&l->unreachable, true);
    }
    log_error("the master did not accept a report", "path=%s err=%s", path,
              log_quote(why, sizeof why, e.text));
}

static void post_metrics(struct cluster_launcher *l, struct queued_report *const *reports, size_t n)
{
    json_t *columns = report_batch_json(reports, n, l->config.run);
    json_t *progress = json_pack("{s:f, s:b}", "progress", reports[n - 1]->progress, "isRaw", 1);
    post_report(l, l->metrics_path, columns);
    post_report(l, l->progress_path, progress);
    json_decref(progress);
    json_decref(columns);
}

static void *run_reporter(void *arg)
{
    struct cluster_launcher *l = arg;
    struct queued_report *reports[BATCH_MAX];
    size_t n;
    while ((n = mailbox_receive(l->queue, (void **)reports, BATCH_MAX, INT64_MAX)) > 0) {
        for (size_t i = 0, run; i < n; i += run) {
            run = report_batch_size(reports + i, n - i);
            if (reports[i]->path)
                post_report(l, reports[i]->path, reports[i]->body);
            else
                post_metrics(l, reports + i, run);
        }
        for (size_t i = 0; i < n; i++)
            queued_report_free(reports[i]);
    }
    return NULL;
}

static void enqueue_report(struct cluster_launcher *l, const struct queued_report *report)
{
    struct queued_report *r = xcalloc(1, sizeof *r);
    *r = *report;
    if (mailbox_send_wait(l->queue, r))
        queued_report_free(r); // the queue is closed because the process is ending
}

static void enqueue_call(struct cluster_launcher *l, char *path, json_t *body)
{
    must(body);
    enqueue_report(l, &(struct queued_report){.path = path, .body = body});
}

static void *run_listener(void *arg)
{
    struct cluster_launcher *l = arg;
    char *path = xasprintf("%s/signals/preemption?timeout_seconds=20", l->allocation_path);
    while (!atomic_load(&l->stopping) && !atomic_load(&l->drain)) {
        struct error e = {0};
        json_t *answer = NULL;
        int err = client_call(l->listener, "GET", path, NULL, &answer, &e);
        if (err) {
            exit_if_fenced(l, l->listener, &e);
            for (int i = 0; i < 10 * LISTEN_PAUSE_S && !atomic_load(&l->stopping); i++)
                clock_sleep_us(SECOND / 10);
        } else if (jget_bool(answer, "preempt", false)) {
            atomic_store(&l->drain, true);
            log_info("drain requested", "alloc=%s", l->config.allocation);
        }
        json_decref(answer);
    }
    free(path);
    return NULL;
}

// --- the operations of the launcher --------------------------------------------------------------

static int cluster_gather(void *ctx, const json_t *mine, json_t **all, struct error *e)
{
    struct cluster_launcher *l = ctx;
    char id[64], *path = xasprintf("%s/all_gather", l->allocation_path);
    json_t *answer = NULL;
    snprintf(id, sizeof id, "%d:%d", l->gathers++, l->config.rank);
    json_t *body =
        json_pack("{s:s, s:i, s:O}", "requestUuid", id, "numPeers", l->config.world, "data", mine);
    int err = call_master(l, l->caller, "POST", path, body, RENDEZVOUS_S, &answer, e);
    json_t *data = jget(answer, "data");
    if (err)
        error_prefix(e, "the rendezvous of the ranks failed");
    else if (json_array_size(data) != (size_t)l->config.world)
        err = error_set(e, ERR_PEER, "the master gathered %zu of %d ranks", json_array_size(data),
                        l->config.world);
    else
        *all = json_incref(data);
    json_decref(answer);
    json_decref(body);
    free(path);
    return err;
}

static void cluster_step(void *ctx, int64_t step, double loss)
{
    (void)ctx, (void)step, (void)loss; // the metrics are sufficient here
}

static void cluster_metrics(void *ctx, const char *group, int64_t step, int64_t steps,
                            const json_t *metrics)
{
    struct cluster_launcher *l = ctx;
    char line[METRICS_LINE_MAX];
    puts(metrics_line(line, sizeof line, step, steps, metrics));
    // The reporter gets a copy, because threads share no JSON objects.
    enqueue_report(l, &(struct queued_report){.group = group,
                                              .step = step,
                                              .progress = (double)step / (double)steps,
                                              .wall_us = clock_wall_us(),
                                              .metrics = json_deep_copy(metrics)});
}

static void cluster_checkpoint(void *ctx, const struct snapshot_info *info)
{
    struct cluster_launcher *l = ctx;
    struct error e = {0};
    char time[CLOCK_RFC3339_MAX], why[ERROR_TEXT_MAX];
    json_t *resources = NULL;
    if (checkpoint_resources(info->folder, &resources, &e)) {
        log_error("cannot register the checkpoint", "checkpoint=%s err=%s", info->id,
                  log_quote(why, sizeof why, e.text));
        return;
    }
    printf("step %lld  checkpoint %s\n", (long long)info->step, info->id);
    enqueue_call(l, xstrdup("/api/v1/checkpoints"),
                 json_pack("{s:s, s:s, s:s, s:{s:I}, s:o, s:s, s:s, s:{}}", "uuid", info->id,
                           "taskId", l->config.task, "allocationId", l->config.allocation,
                           "metadata", "steps_completed", (json_int_t)info->step, "resources",
                           resources, "state", "STATE_COMPLETED", "reportTime",
                           clock_format(clock_wall_us(), time), "training"));
}

static void cluster_note(void *ctx, const char *text)
{
    (void)ctx;
    puts(text); // stdout is the task's log
}

static int cluster_poll(void *ctx, bool *drain, struct error *e)
{
    struct cluster_launcher *l = ctx;
    *drain = atomic_load(&l->drain);
    if (atomic_load(&l->unreachable))
        return error_set(e, ERR_UNAVAILABLE, "the master is unreachable: %s",
                         l->why_unreachable.text);
    return 0;
}

static void cluster_permanent_failure(void *ctx, const char *why)
{
    struct cluster_launcher *l = ctx;
    struct error e = {0};
    char *path = xasprintf("%s/early_exit", l->trial_path);
    char quoted[ERROR_TEXT_MAX];
    json_t *body = json_pack("{s:s}", "reason", "EXITED_REASON_INVALID_HP");
    log_error("no restart can help", "rank=%d err=%s", l->config.rank,
              log_quote(quoted, sizeof quoted, why));
    int err = call_master(l, l->caller, "POST", path, body, SHUTDOWN_S, NULL, &e);
    if (err && err != ERR_INVALID) // ERR_INVALID: another rank reported first
        log_error("cannot report the early exit", "err=%s",
                  log_quote(quoted, sizeof quoted, e.text));
    json_decref(body);
    free(path);
}

static void stop_threads(struct cluster_launcher *l, int64_t patience_us)
{
    if (!l->threads)
        return;
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += patience_us / SECOND;
    mailbox_close(l->queue);
    if (pthread_timedjoin_np(l->reporting, NULL, &until)) {
        atomic_store(&l->stopping, true);
        pthread_join(l->reporting, NULL);
    }
    atomic_store(&l->stopping, true);
    pthread_join(l->listening, NULL);
    l->threads = false;
}

static int cluster_finish(void *ctx, bool drained, struct error *e)
{
    struct cluster_launcher *l = ctx;
    if (!l->threads)
        return 0;
    if (drained)
        enqueue_call(l, xasprintf("%s/signals/ack_preemption", l->allocation_path), json_object());
    stop_threads(l, 2 * REPORT_S * SECOND);
    bool drain;
    return cluster_poll(l, &drain, e);
}

static const struct launcher_ops cluster_ops = {
    .all_gather = cluster_gather,
    .step = cluster_step,
    .metrics = cluster_metrics,
    .checkpoint = cluster_checkpoint,
    .note = cluster_note,
    .poll = cluster_poll,
    .permanent_failure = cluster_permanent_failure,
    .finish = cluster_finish,
};

struct launcher cluster_launcher_base(struct cluster_launcher *l)
{
    return (struct launcher){.ops = &cluster_ops, .ctx = l};
}

// --- opening and closing -------------------------------------------------------------------------

static int start_threads(struct cluster_launcher *l, struct error *e)
{
    l->queue = mailbox_new(QUEUE_MAX);
    if (pthread_create(&l->reporting, NULL, run_reporter, l))
        return error_set(e, ERR_INTERNAL, "cannot start the thread that reports to the master");
    if (pthread_create(&l->listening, NULL, run_listener, l)) {
        mailbox_close(l->queue);
        pthread_join(l->reporting, NULL);
        return error_set(e, ERR_INTERNAL, "cannot start the thread that listens to the master");
    }
    l->threads = true;
    return 0;
}

int cluster_launcher_open(const struct cluster_launcher_config *config,
                          struct cluster_launcher **out, struct error *e)
{
    struct cluster_launcher *l = xcalloc(1, sizeof *l);
    l->config = *config;
    char *allocation = client_escape(config->allocation);
    l->allocation_path = xasprintf("/api/v1/allocations/%s", allocation);
    l->trial_path = xasprintf("/api/v1/trials/%lld", (long long)config->trial);
    l->metrics_path = xasprintf("%s/metrics/columns", l->trial_path);
    l->progress_path = xasprintf("%s/progress", l->trial_path);
    free(allocation);
    const struct client_options options = {.url = config->master,
                                           .auth = CLIENT_TASK,
                                           .token = config->token,
                                           .ca_file = config->ca_file,
                                           .cancel = &l->stopping};
    int err = client_open(&options, &l->caller, e);
    if (!err && config->rank == 0) {
        err = client_open(&options, &l->reporter, e);
        if (!err)
            err = client_open(&options, &l->listener, e);
        if (!err)
            err = start_threads(l, e);
    }
    if (err) {
        cluster_launcher_close(l);
        return err;
    }
    *out = l;
    return 0;
}

void cluster_launcher_close(struct cluster_launcher *l)
{
    if (!l)
        return;
    stop_threads(l, SHUTDOWN_S * SECOND);
    mailbox_free(l->queue);
    client_close(l->listener);
    client_close(l->reporter);
    client_close(l->caller);
    free(l->progress_path);
    free(l->metrics_path);
    free(l->trial_path);
    free(l->allocation_path);
    free(l);
}

static int by_steps(const void *a, const void *b)
{
    const json_t *const *x = a, *const *y = b;
    int64_t p = jget_int(jget(*x, "metadata"), "steps_completed", 0);
    int64_t q = jget_int(jget(*y, "metadata"), "steps_completed", 0);
    return p < q ? 1 : p > q ? -1 : 0;
}

int cluster_launcher_checkpoints(struct cluster_launcher *l, char ***uuids, int *count,
                                 struct error *e)
{
    char *path = xasprintf("%s/checkpoints?states=STATE_COMPLETED", l->trial_path);
    json_t *answer = NULL;
    int err = call_master(l, l->caller, "GET", path, NULL, RENDEZVOUS_S, &answer, e);
    free(path);
    if (err)
        return err;
    const json_t *list = jget(answer, "checkpoints");
    size_t n = json_array_size(list);
    const json_t **sorted = xcalloc(n + 1, sizeof *sorted);
    for (size_t i = 0; i < n; i++)
        sorted[i] = json_array_get(list, i);
    qsort(sorted, n, sizeof *sorted, by_steps);
    *uuids = xcalloc(n + 1, sizeof **uuids);
    *count = (int)n;
    for (size_t i = 0; i < n; i++)
        (*uuids)[i] = xstrdup(jget_string(sorted[i], "uuid", ""));
    free(sorted);
    json_decref(answer);
    return 0;
}
