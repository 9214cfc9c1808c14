// docs/operating.md lists the metrics for operators, and packaging/monitoring has a dashboard; a
// test compares both with these functions.
#include "master/views/monitoring/monitoring.h"

#include <stdio.h>

#include "base/version.h"
#include "db/figures.h"
#include "master/common/meters.h"
#include "master/common/process_figures.h"
#include "master/http/limits/connections.h"
#include "master/http/routing/routes.h"
#include "master/views/monitoring/exposition.h"
#include "master/views/views.h"
#include "master/watch/watch.h"

enum { ALERTS_SHOWN = 100, ALERTS_MOST = 1000 };

// --- probes --------------------------------------------------------------------------------------

static int answer_text(struct view *v, const char *text)
{
    v->content_type = "text/plain; charset=utf-8";
    buf_puts(&v->rq->answer, text);
    return 0;
}

int view_healthz(struct view *v, struct error *e)
{
    (void)e;
    return answer_text(v, "ok\n");
}

int view_readyz(struct view *v, struct error *e)
{
    int rc = v->service->watch ? watch_ready(v->service->watch, e) : 0;
    return rc ? rc : answer_text(v, "ok\n");
}

// --- requests ------------------------------------------------------------------------------------

static void write_requests(struct buf *out, const struct meters *m)
{
    static const char *const classes[METER_CLASSES] = {"1xx", "2xx", "3xx", "4xx", "5xx"};
    char status[8];
    exposition_family(out, "muster_http_requests_total", EXPOSITION_COUNTER,
                      "Answered requests by status");
    for (int i = 100; i < METER_STATUSES; i++) {
        int64_t count = meters_answered(m, i);
        snprintf(status, sizeof status, "%d", i);
        if (count)
            exposition_sample(out, "muster_http_requests_total", LABELS({"code", status}),
                              (double)count);
    }
    exposition_family(out, "muster_http_request_duration_seconds", EXPOSITION_HISTOGRAM,
                      "Time from the last header to the answer, without the arrival of the body "
                      "and without the waiting of a long poll");
    for (size_t r = 0; r <= route_count; r++)
        for (int i = 0; i < METER_CLASSES; i++) {
            const struct histogram *h = meters_of_route(m, r, i);
            if (h)
                exposition_histogram(
                    out, "muster_http_request_duration_seconds",
                    LABELS({"method", r < route_count ? route_table[r].method : "none"},
                           {"route", r < route_count ? route_table[r].path : "none"},
                           {"code", classes[i]}),
                    h);
        }
}

static void write_connections(struct buf *out, const struct service *s)
{
    struct connections_count n = connections_count(s->connections);
    exposition_family(out, "muster_http_connections", EXPOSITION_GAUGE,
                      "Open connections by class of caller");
    exposition_sample(out, "muster_http_connections", LABELS({"class", "user"}), n.users);
    exposition_sample(out, "muster_http_connections", LABELS({"class", "agent"}), n.agents);
    exposition_sample(out, "muster_http_connections", LABELS({"class", "newcomer"}), n.newcomers);
    exposition_family(out, "muster_http_connections_closed_total", EXPOSITION_COUNTER,
                      "Connections that the master closed or refused, by reason");
    exposition_sample(out, "muster_http_connections_closed_total", LABELS({"reason", "evicted"}),
                      (double)n.evicted);
    exposition_sample(out, "muster_http_connections_closed_total", LABELS({"reason", "slow"}),
                      (double)n.slow);
    exposition_sample(out, "muster_http_connections_closed_total", LABELS({"reason", "refused"}),
                      (double)n.refused);
    exposition_single(out, "muster_http_requests_in_progress", EXPOSITION_GAUGE,
                      "Requests that are not answered yet, with long polls and streams",
                      atomic_load(&s->active));
}

// --- the cluster ---------------------------------------------------------------------------------

static void write_by_state(struct buf *out, const char *name, const char *pool,
                           const int64_t *counts, const char *const *words, int states)
{
    for (int i = 0; i < states; i++)
        exposition_sample(out, name, LABELS({"pool", pool}, {"state", words[i]}),
                          (double)counts[i]);
}

static void write_pools(struct buf *out, const struct cluster_counts *c)
{
    exposition_family(out, "muster_slots", EXPOSITION_GAUGE, "Slots by pool and state");
    for (size_t i = 0; i < c->pool_count; i++)
        write_by_state(out, "muster_slots", c->pools[i].name, c->pools[i].slots, slot_count_words,
                       SLOT_COUNTS);
    exposition_family(out, "muster_agents", EXPOSITION_GAUGE, "Agents by pool and state");
    for (size_t i = 0; i < c->pool_count; i++)
        write_by_state(out, "muster_agents", c->pools[i].name, c->pools[i].agents,
                       agent_count_words, AGENT_STATES);
    exposition_family(out, "muster_jobs", EXPOSITION_GAUGE,
                      "Experiments and tasks that have not ended, by pool and state");
    for (size_t i = 0; i < c->pool_count; i++)
        write_by_state(out, "muster_jobs", c->pools[i].name, c->pools[i].jobs, job_count_words,
                       JOB_COUNTS);
    exposition_family(out, "muster_gangs_waiting", EXPOSITION_GAUGE,
                      "Starts of trials and tasks that wait for slots, by pool");
    for (size_t i = 0; i < c->pool_count; i++)
        exposition_sample(out, "muster_gangs_waiting", LABELS({"pool", c->pools[i].name}),
                          (double)c->pools[i].waiting_gangs);
    exposition_family(out, "muster_alerts_open", EXPOSITION_GAUGE, "Open alerts by kind");
    for (int i = 0; i < ALERT_KINDS; i++)
        exposition_sample(out, "muster_alerts_open", LABELS({"kind", alert_words[i]}),
                          (double)c->alerts[i]);
}

static void write_counters(struct buf *out, const struct meters *m)
{
    static const struct {
        enum meter which;
        const char *name, *help;
    } rows[] = {
        {METER_TRIAL_RESTARTS, "muster_trial_restarts_total", "Restarts of trials after failures"},
        {METER_AGENTS_LOST, "muster_agents_lost_total", "Agents that were lost"},
        {METER_METRIC_REPORTS, "muster_metric_reports_total", "Reported steps of trials"},
        {METER_LOG_LINES, "muster_log_lines_total", "Stored log lines of tasks"},
        {METER_SLOW_REQUESTS, "muster_slow_requests_total", "Requests that the log calls slow"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        exposition_single(out, rows[i].name, EXPOSITION_COUNTER, rows[i].help,
                          (double)meters_counted(m, rows[i].which));
}

static void write_core(struct buf *out, const struct meters *m, const struct watch_figures *f)
{
    exposition_family(out, "muster_scheduler_pass_duration_seconds", EXPOSITION_HISTOGRAM,
                      "Time of scheduling passes");
    exposition_histogram(out, "muster_scheduler_pass_duration_seconds", NULL, meters_decisions(m));
    exposition_single(out, "muster_core_queue_length", EXPOSITION_GAUGE,
                      "Messages that wait for the core thread", (double)f->core_queue);
    exposition_single(out, "muster_core_answer_age_seconds", EXPOSITION_GAUGE,
                      "Time since the core thread answered last; about a second is normal",
                      f->core_answered_us < 0 ? -1 : (double)f->core_answered_us / 1e6);
}

// --- the store and the machine -------------------------------------------------------------------

static void write_outboxes(struct buf *out, struct db_reader *db)
{
    struct db_rows *rows = db_query_all(db, STMT_OUTBOX_LENGTHS);
    if (db_next(rows) == 1) {
        exposition_family(out, "muster_outbox_length", EXPOSITION_GAUGE,
                          "Messages that are not delivered yet");
        exposition_sample(out, "muster_outbox_length", LABELS({"to", "webhooks"}),
                          (double)DB_GET(rows, OUTBOX_LENGTHS, webhooks));
        exposition_sample(out, "muster_outbox_length", LABELS({"to", "mail"}),
                          (double)DB_GET(rows, OUTBOX_LENGTHS, mails));
    }
    db_rows_close(rows);
}

static void write_store(struct buf *out, const struct service *s)
{
    struct db_figures f;
    db_read_figures(s->db, &f);
    exposition_family(out, "muster_store_commit_duration_seconds", EXPOSITION_HISTOGRAM,
                      "Time of transactions of the store, with their flush to the disk");
    exposition_histogram(out, "muster_store_commit_duration_seconds", NULL, f.commits);
    exposition_single(out, "muster_store_queue_length", EXPOSITION_GAUGE,
                      "Batches that wait for the writer of the store", (double)f.queued);
    exposition_family(out, "muster_store_size_bytes", EXPOSITION_GAUGE,
                      "Size of the store's files");
    exposition_sample(out, "muster_store_size_bytes", LABELS({"file", "store"}), (double)f.bytes);
    exposition_sample(out, "muster_store_size_bytes", LABELS({"file", "log"}), (double)f.log_bytes);
}

static void write_disks(struct buf *out, const struct free_space *free_space)
{
    static const char *const names[] = {"muster_disk_free_bytes", "muster_disk_size_bytes",
                                        "muster_disk_floor_bytes"};
    static const char *const helps[] = {
        "Free space by place, as the master counts it",
        "Size of the file system by place",
        "Free space below which the master refuses work, by place",
    };
    for (int i = 0; free_space && i < 3; i++) {
        exposition_family(out, names[i], EXPOSITION_GAUGE, helps[i]);
        for (int place = 0; place < FREE_SPACE_PLACES; place++) {
            struct free_space_figures f;
            free_space_read(free_space, (enum free_space_place)place, &f);
            const uint64_t values[] = {f.free, f.total, f.minimum};
            exposition_sample(out, names[i], LABELS({"place", free_space_words[place]}),
                              (double)values[i]);
        }
    }
}

static void write_process(struct buf *out)
{
    struct process_figures p;
    process_figures_read(&p);
    const struct {
        const char *name, *help;
        enum exposition_type type;
        double value;
    } rows[] = {
        {"process_cpu_seconds_total", "User and system time", EXPOSITION_COUNTER, p.cpu_s},
        {"process_resident_memory_bytes", "Resident memory", EXPOSITION_GAUGE,
         (double)p.resident_bytes},
        {"process_virtual_memory_bytes", "Virtual memory", EXPOSITION_GAUGE,
         (double)p.virtual_bytes},
        {"process_open_fds", "Open file descriptors", EXPOSITION_GAUGE, (double)p.open_files},
        {"process_max_fds", "Limit on file descriptors", EXPOSITION_GAUGE, (double)p.most_files},
        {"process_threads", "Threads", EXPOSITION_GAUGE, (double)p.threads},
        {"process_start_time_seconds", "Start, in seconds since 1970", EXPOSITION_GAUGE,
         p.started_at},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        exposition_single(out, rows[i].name, rows[i].type, rows[i].help, rows[i].value);
}

int view_metrics(struct view *v, struct error *e)
{
    const struct service *s = v->service;
    struct watch_figures f;
    struct buf *out = &v->rq->answer;
    (void)e;
    v->content_type = "text/plain; version=0.0.4; charset=utf-8";
    exposition_family(out, "muster_build_info", EXPOSITION_GAUGE, "The version; always 1");
    exposition_sample(out, "muster_build_info", LABELS({"version", MUSTER_VERSION}), 1);
    bool watched = watch_read(s->watch, &v->rq->arena, &f);
    write_core(out, s->meters, &f);
    if (watched) {
        write_pools(out, &f.counts);
        exposition_single(out, "muster_backup_newest_timestamp_seconds", EXPOSITION_GAUGE,
                          "Time of the newest backup by --backup-every, in seconds since 1970; 0: "
                          "there is none",
                          (double)f.newest_backup);
    }
    write_counters(out, s->meters);
    write_requests(out, s->meters);
    write_connections(out, s);
    write_store(out, s);
    write_outboxes(out, v->db);
    write_disks(out, s->free_space);
    write_process(out);
    return 0;
}

// --- alerts --------------------------------------------------------------------------------------

int view_alerts(struct view *v, struct error *e)
{
    int64_t limit;
    int rc = request_query_int(v->rq, "limit", ALERTS_SHOWN, &limit, e);
    if (!rc && (limit < 1 || limit > ALERTS_MOST))
        rc = error_set(e, ERR_INVALID, "limit: 1 to %d", ALERTS_MOST);
    if (rc)
        return rc;
    struct db_rows *rows = DB_QUERY(v->db, ALERTS_NEWEST, limit);
    int more;
    jw_object(&v->w);
    jw_key(&v->w, "alerts");
    jw_array(&v->w);
    while ((more = db_next(rows)) == 1) {
        jw_object(&v->w);
        jw_kv_int(&v->w, "id", DB_GET(rows, ALERTS_NEWEST, id));
        jw_kv_string(&v->w, "kind", DB_GET(rows, ALERTS_NEWEST, kind));
        jw_kv_string(&v->w, "subject", DB_GET(rows, ALERTS_NEWEST, subject));
        jw_kv_string(&v->w, "text", DB_GET(rows, ALERTS_NEWEST, text));
        write_time(&v->w, "beganAt", DB_GET(rows, ALERTS_NEWEST, began_at));
        write_time(&v->w, "endedAt", DB_GET(rows, ALERTS_NEWEST, ended_at));
        jw_object_end(&v->w);
    }
    jw_array_end(&v->w);
    jw_object_end(&v->w);
    db_rows_close(rows);
    return more < 0 ? store_failed(e) : 0;
}
