// muster-master: starts the store, the core and the server, waits for a signal, and stops them.

#include <errno.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "api/wire.h"
#include "base/arena.h"
#include "base/flags.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/os/file.h"
#include "base/os/systemd.h"
#include "base/text/json.h"
#include "base/text/yaml.h"
#include "base/version.h"
#include "master/backups.h"
#include "master/common/free_space.h"
#include "master/common/storage.h"
#include "master/first_start.h"
#include "master/http/limits/connections.h"
#include "master/http/memory.h"
#include "master/http/routing/routes.h"
#include "master/http/server.h"
#include "master/kernel/core.h"
#include "master/modules.h"
#include "master/notify/log_followers.h"
#include "master/notify/mail.h"
#include "master/notify/webhook_delivery.h"
#include "master/options.h"
#include "master/relocate.h"
#include "master/sched/rules.h"
#include "master/set_up.h"
#include "master/tls/certificates.h"
#include "master/watch/watch.h"

enum {
    FILES_OF_MASTER = 512,  // open files besides connections
    SCHEDULE_GAP_US = 5000, // events within this time are decided in one scheduling pass
};

struct master {
    struct master_options options;
    struct master_arguments arguments;
    struct listening listening;
    enum sched_policy scheduler;
    struct db *db;
    struct log_followers *log_followers;
    struct hub *hub;
    struct core *core;
    struct server *server;
    struct backups *backups;
    struct delivery *delivery;
    struct mailer *mailer;
    struct meters *meters;
    struct watch *watch;
    struct scrape_access scrape;
    struct master_log *master_log;
    struct cluster_identity cluster;
    struct storage *storage;
    struct disk_size floor;
    struct free_space *free_space;
    struct db_reader *room_reader;
    char *config, *url_file;
};

// The default checkpoint_storage: an existing folder, by its full path.
static int make_storage(struct master *m, struct error *e)
{
    const struct master_options *o = &m->options;
    char *dir =
        o->checkpoint_dir ? xstrdup(o->checkpoint_dir) : path_join(o->data_dir, "checkpoints");
    char full[4096];
    int rc = dir_make(dir, 0755, e);
    if (!rc && !realpath(dir, full))
        rc = error_set_errno(e, ERR_IO, errno, "%s", dir);
    if (!rc) {
        json_t *storage = json_pack("{s:s, s:s}", "type", "directory", "container_path", full);
        char *text = storage ? json_text(storage) : NULL;
        json_decref(storage);
        if (text)
            rc = storage_new(text, o->storage_allow.items, (size_t)o->storage_allow.count,
                             &m->storage, e);
        else
            rc = error_set(e, ERR_INVALID, "%s: the name of the folder is not UTF-8", dir);
        free(text);
    }
    free(dir);
    return rc;
}

static void describe_pools(const struct master *m, struct json_writer *w)
{
    jw_key(w, "resource_pools");
    jw_array(w);
    for (size_t i = 0; i < m->arguments.pool_count; i++) {
        const struct core_pool_option *pool = &m->arguments.pools[i];
        jw_object(w);
        jw_kv_string(w, "pool_name", pool->name);
        jw_key(w, "scheduler");
        jw_object(w);
        jw_kv_string(w, "type", sched_policy_names[pool->as_default ? m->scheduler : pool->policy]);
        jw_object_end(w);
        jw_kv_int(w, "max_user_priority",
                  pool->max_user_priority ? pool->max_user_priority : m->options.max_user_priority);
        jw_kv_int(w, "preemption_timeout",
                  pool->preemption_timeout_us ? pool->preemption_timeout_us / 1000000
                                              : m->options.preemption_timeout);
        jw_object_end(w);
    }
    jw_array_end(w);
}

// Where scripts of Determined look for the kind of cluster and the pools that submissions go to.
static void describe_resource_manager(const struct master *m, struct json_writer *w)
{
    jw_key(w, "resource_manager");
    jw_object(w);
    jw_kv_string(w, "type", "agent");
    jw_key(w, "scheduler");
    jw_object(w);
    jw_kv_string(w, "type", sched_policy_names[m->scheduler]);
    jw_object_end(w);
    jw_kv_string(w, "default_compute_resource_pool", DEFAULT_POOL);
    jw_kv_string(w, "default_aux_resource_pool", DEFAULT_POOL);
    jw_object_end(w);
}

static void describe_monitoring(const struct master *m, struct json_writer *w)
{
    const struct master_options *o = &m->options;
    jw_kv_int(w, "backup_every", o->backup_every);
    jw_kv_int(w, "backup_keep", o->backup_keep);
    jw_kv_string(w, "metrics", o->metrics);
    jw_kv_int(w, "slow_request", o->slow_request);
    jw_kv_int(w, "store_slow", o->store_slow);
    jw_kv_int(w, "alert_calm", o->alert_calm);
    jw_kv_string(w, "smtp_url", o->smtp_url);
    jw_kv_string(w, "smtp_from", o->smtp_from);
    jw_key(w, "alert_mail");
    jw_array(w);
    for (int i = 0; i < o->alert_mail.count; i++)
        jw_string(w, o->alert_mail.items[i]);
    jw_array_end(w);
}

// The configuration for GET /api/v1/master/config, without secrets.
static void describe_config(struct master *m)
{
    const struct master_options *o = &m->options;
    struct buf out;
    struct json_writer w;
    buf_init(&out, 64 * 1024);
    jw_init(&w, &out);
    jw_object(&w);
    jw_kv_string(&w, "cluster_name", m->cluster.name);
    jw_kv_string(&w, "api_version", o->api_version);
    jw_kv_string(&w, "bind", m->listening.bind);
    jw_kv_int(&w, "port", o->port);
    jw_kv_string(&w, "master_url", o->master_url);
    jw_kv_string(&w, "external_url", o->external_url);
    jw_kv_string(&w, "data_dir", o->data_dir);
    jw_kv_raw(&w, "checkpoint_storage", storage_default(m->storage));
    jw_kv_string(&w, "disk_floor", o->disk_floor ? o->disk_floor : "1GiB or 5%");
    jw_key(&w, "storage_allow");
    jw_array(&w);
    for (int i = 0; i < o->storage_allow.count; i++)
        jw_string(&w, o->storage_allow.items[i]);
    jw_array_end(&w);
    jw_kv_bool(&w, "tls", m->listening.cert_file);
    jw_kv_int(&w, "agent_silence", o->agent_silence);
    jw_kv_int(&w, "agent_reconnect", o->agent_reconnect);
    jw_kv_int(&w, "kill_grace", o->kill_grace);
    jw_kv_int(&w, "preemption_timeout", o->preemption_timeout);
    jw_kv_int(&w, "restart_backoff", o->restart_backoff);
    jw_kv_int(&w, "log_retention_days", o->log_retention_days);
    jw_kv_string(&w, "webhook_key_file", o->webhook_key_file);
    describe_monitoring(m, &w);
    jw_kv_string(&w, "scheduler", o->scheduler);
    jw_kv_int(&w, "max_user_priority", o->max_user_priority);
    describe_pools(m, &w);
    describe_resource_manager(m, &w);
    jw_kv_raw(&w, "feature_switches", "[]"); // Muster has none
    jw_object_end(&w);
    m->config = buf_take(&out);
}

static int open_store(struct master *m, struct error *e)
{
    const struct master_options *o = &m->options;
    int rc = db_open(o->data_dir, &m->db, e);
    if (rc)
        return rc;
    const struct first_start first = {.data_dir = o->data_dir,
                                      .password_file = o->password_file,
                                      .cluster_name = o->cluster_name,
                                      .refuse_token = o->no_shared_agent_token,
                                      .make_no_token = certificates_exist(o->data_dir)};
    rc = first_start(m->db, &first, &m->cluster, e);
    rc = rc ? rc : make_storage(m, e);
    return rc || o->checkpoint_dir ? rc : relocate_checkpoints(m->db, m->storage, e);
}

// Makes pages read the notice to all users again.
static void room_changed(void *hub)
{
    hub_add_audit_change(hub, "/api/v1/master/cluster_message");
}

// Free pages inside the store count as free space, because new rows fill them first.
static uint64_t spare_of_store(void *reader)
{
    return (uint64_t)db_spare_bytes(reader);
}

static int watch_room(struct master *m, struct error *e)
{
    int rc = db_reader_open(m->db, &m->room_reader, e);
    if (rc)
        return rc;
    const struct free_space_options options = {
        .paths = {[FREE_SPACE_DATA] = m->options.data_dir,
                  [FREE_SPACE_CHECKPOINTS] = storage_own(m->storage)},
        .floor = m->floor,
        .spare = spare_of_store,
        .spare_ctx = m->room_reader,
        .changed = room_changed,
        .ctx = m->hub};
    m->free_space = free_space_new(&options);
    return free_space_start(m->free_space, e);
}

// Starts the delivery of webhooks and loads the key that signs them.
static int start_delivery(struct master *m, struct error *e)
{
    const struct master_options *o = &m->options;
    char *key = NULL, *path = o->webhook_key_file ? xstrdup(o->webhook_key_file)
                                                  : path_join(o->data_dir, "webhook.key");
    int rc = delivery_key(path, &key, e);
    if (!rc)
        rc = delivery_start(m->db, key, &m->delivery, e);
    if (key)
        explicit_bzero(key, strlen(key));
    free(key);
    free(path);
    return rc;
}

static struct mailer_options mail_options(const struct master *m)
{
    const struct master_options *o = &m->options;
    return (struct mailer_options){.url = o->smtp_url,
                                   .from = o->smtp_from,
                                   .to = o->alert_mail.items,
                                   .to_count = o->alert_mail.count,
                                   .user = o->smtp_user,
                                   .password_file = o->smtp_password_file,
                                   .cluster_name = m->cluster.name};
}

// Checks the flags of monitoring and alerts.
static int check_monitoring(struct master *m, struct error *e)
{
    const struct mailer_options mail = mail_options(m);
    int rc = scrape_from_parse(m->options.metrics, &m->scrape.from, e);
    if (rc)
        return error_prefix(e, "--metrics");
    bool any = mail.to_count || mail.user || mail.password_file;
    if (!mail.url && any)
        return error_set(e, ERR_INVALID,
                         "--alert-mail, --smtp-user and --smtp-password-file need --smtp-url, the "
                         "server for e-mails");
    return mail.url ? mailer_check(&mail, e) : 0;
}

// Makes the meters and the watch, which begins to work with the core, and starts the e-mails.
static int start_monitoring(struct master *m, struct error *e)
{
    const struct master_options *o = &m->options;
    const struct mailer_options mail = mail_options(m);
    m->meters = meters_new(route_count);
    m->watch = watch_new(&(struct watch_options){.db = m->db,
                                                 .free_space = m->free_space,
                                                 .store_slow_us = o->store_slow * 1000,
                                                 .backup_every_us = o->backup_every * 3600000000});
    char *path = path_join(o->data_dir, "metrics.token");
    int rc = scrape_read_token(path, &m->scrape, e);
    free(path);
    return rc || !mail.url ? rc : mailer_start(m->db, &mail, &m->mailer, e);
}

static int start_server(struct master *m, struct error *e)
{
    const struct master_options *o = &m->options;
    const struct server_options server = {
        .db = m->db,
        .core = m->core,
        .log_followers = m->log_followers,
        .hub = m->hub,
        .delivery = m->delivery,
        .meters = m->meters,
        .watch = m->watch,
        .scrape = m->scrape,
        .slow_request_us = o->slow_request * 1000,
        .master_log = m->master_log,
        .storage = m->storage,
        .free_space = m->free_space,
        .cluster_id = m->cluster.id,
        .cluster_name = m->cluster.name,
        .api_version = o->api_version,
        .log_days = o->log_retention_days,
        .config = m->config,
        .page = {page_files, o->webui_dir},
        .bind = m->listening.bind,
        .insecure = o->insecure,
        .master_url = o->master_url,
        .port = (int)o->port,
        .cert_file = m->listening.cert_file,
        .key_file = m->listening.key_file,
        .own_certificate_of = m->listening.own_certificate_of,
        .connections = (int)o->connections,
        .connections_per_address = (int)o->connections_per_address,
    };
    return server_start(&server, &m->server, e);
}

// The core thread says so, because nothing goes on without it.
static void tell_alive(void)
{
    systemd_notify("WATCHDOG=1");
}

static int start_services(struct master *m, struct error *e)
{
    const struct master_options *o = &m->options;
    m->log_followers = log_followers_new();
    describe_config(m);
    struct sched_rules rules = sched_default_rules;
    if (o->preempt_after >= 0)
        rules.min_runtime = o->preempt_after * 1000000;
    if (o->grow_after >= 0)
        rules.grow_after = o->grow_after * 1000000;
    int rc = hub_start(m->db, &m->hub, e);
    if (!rc)
        rc = watch_room(m, e);
    if (!rc)
        rc = start_delivery(m, e);
    if (!rc)
        rc = start_monitoring(m, e);
    if (rc)
        return rc;
    const struct core_options core = {
        .modules = master_modules,
        .cluster_id = m->cluster.id,
        .cluster_name = m->cluster.name,
        .master_url = o->master_url ? o->master_url : "",
        .external_url = o->external_url,
        .storage = m->storage,
        .free_space = m->free_space,
        .meters = m->meters,
        .alert_calm_us = o->alert_calm * 1000000,
        .mail_alerts = m->mailer,
        .agent_silence_us = o->agent_silence * 1000000,
        .agent_reconnect_us = o->agent_reconnect * 1000000,
        .kill_grace_us = o->kill_grace * 1000000,
        .preemption_timeout_us = o->preemption_timeout * 1000000,
        .restart_backoff_us = o->restart_backoff * 1000000,
        .log_days = o->log_retention_days,
        .schedule_gap_us = SCHEDULE_GAP_US,
        .scheduler = m->scheduler,
        .max_user_priority = (int)o->max_user_priority,
        .pools = m->arguments.pools,
        .pool_count = m->arguments.pool_count,
        .rules = &rules,
        .logs_committed = log_followers_notify,
        .logs_ctx = m->log_followers,
        .outbox_committed = delivery_wake,
        .outbox_ctx = m->delivery,
        .events_committed = hub_notify,
        .events_ctx = m->hub,
        .alive = systemd_watchdog_us() ? tell_alive : NULL,
        .alive_us = systemd_watchdog_us(),
    };
    rc = core_new(m->db, &core, &m->core, e);
    if (rc)
        return rc;
    rc = start_server(m, e); // before the core starts: a port in use causes no harm yet
    if (!rc)
        rc = core_start(m->core, e);
    return rc;
}

static int start_backups(struct master *m, struct error *e)
{
    const struct master_options *o = &m->options;
    if (!o->backup_every)
        return 0;
    char *folder = path_join(o->data_dir, "backups");
    int rc = backups_start(db_path(m->db), folder, m->free_space, o->backup_every * 3600 * 1000000,
                           (int)o->backup_keep, &m->backups, e);
    free(folder);
    return rc;
}

static int announce(struct master *m, struct error *e)
{
    char quoted[1024];
    char *line = xasprintf("%s\n", server_url(m->server));
    m->url_file = path_join(m->options.data_dir, "master.url");
    int rc = file_write_durable(m->url_file, line, strlen(line), 0644, e);
    free(line);
    line = xasprintf("READY=1\nSTATUS=listening on %s", server_url(m->server));
    if (!rc)
        systemd_notify(line);
    free(line);
    log_info("master is up", "version=%s url=%s data=%s", MUSTER_VERSION, server_url(m->server),
             log_quote(quoted, sizeof quoted, m->options.data_dir));
    return rc;
}

static void stop_master(struct master *m, bool core_runs)
{
    if (m->url_file)
        unlink(m->url_file);
    watch_stop(m->watch);
    backups_stop(m->backups);
    if (m->server)
        server_drain(m->server);
    if (core_runs)
        core_stop(m->core);
    if (m->server)
        server_stop(m->server);
    delivery_stop(m->delivery);
    mailer_stop(m->mailer);
    if (m->core)
        core_free(m->core);
    watch_free(m->watch);
    meters_free(m->meters);
    free_space_free(m->free_space);
    db_reader_close(m->room_reader);
    log_followers_free(m->log_followers);
    hub_free(m->hub);
    if (m->db)
        db_close(m->db);
    free(m->cluster.id);
    free(m->cluster.name);
    storage_free(m->storage);
    free(m->config);
    free(m->url_file);
}

// One file per connection, and an eighth more for connections that are being closed.
static rlim_t files_for(long long connections)
{
    return (rlim_t)(connections + connections / 8 + FILES_OF_MASTER);
}

// Raises the limit of open files for the connections, or else lowers the number of connections.
static void fit_connections(struct master_options *o)
{
    struct rlimit limit;
    rlim_t want = files_for(o->connections);
    if (getrlimit(RLIMIT_NOFILE, &limit) || limit.rlim_cur >= want)
        return;
    rlim_t before = limit.rlim_cur;
    limit.rlim_cur = want < limit.rlim_max ? want : limit.rlim_max;
    if (setrlimit(RLIMIT_NOFILE, &limit))
        limit.rlim_cur = before;
    if (limit.rlim_cur >= want)
        return;
    long long asked = o->connections;
    while (o->connections > CONNECTIONS_LEAST && files_for(o->connections) > limit.rlim_cur)
        o->connections--;
    log_warn("fewer connections than asked for: raise the limit on open files (ulimit -n, or "
             "LimitNOFILE= of the unit)",
             "connections=%lld asked=%lld files=%llu needed=%llu", o->connections, asked,
             (unsigned long long)limit.rlim_cur, (unsigned long long)want);
}

static int run_master(struct master *m, const sigset_t *stop, struct error *e)
{
    int rc = open_store(m, e);
    if (!rc)
        rc = start_services(m, e);
    bool core_runs = !rc;
    if (!rc)
        rc = start_backups(m, e);
    if (!rc)
        rc = watch_start(m->watch, m->core, m->backups ? backups_newest : NULL, m->backups, e);
    if (!rc)
        rc = announce(m, e);
    if (!rc) {
        int signal_number = 0;
        sigwait(stop, &signal_number);
        systemd_notify("STOPPING=1");
        log_info("master is stopping", "signal=%s", signal_number == SIGINT ? "INT" : "TERM");
        pthread_sigmask(SIG_UNBLOCK, stop, NULL); // a second signal ends the process at once
    }
    stop_master(m, core_runs);
    return rc;
}

// Checks the settings that are words with a meaning.
static int check_settings(struct master *m, struct error *e)
{
    const struct master_options *o = &m->options;
    enum log_level level;
    int rc = log_parse_level(o->log_level, &level);
    if (rc)
        return error_set(e, rc, "--log-level: \"%s\" is none of debug, info, warn, error",
                         o->log_level);
    log_set_level(level);
    if (o->host_names.count)
        return error_set(e, ERR_INVALID, "--host-name belongs to --init: give both");
    m->floor = free_space_floor_default;
    if (o->disk_floor && (rc = disk_size_parse(o->disk_floor, &m->floor, e)))
        return error_prefix(e, "--disk-floor");
    if (o->external_url && (rc = options_check_url(o->external_url, e)))
        return error_prefix(e, "--external-url");
    rc = check_monitoring(m, e);
    if (!rc && (rc = options_policy(o->scheduler, &m->scheduler, e)))
        return error_prefix(e, "--scheduler");
    return rc;
}

static int serve(struct master *m, struct error *e)
{
    sigset_t stop;
    systemd_open();
    umask(077);
    fit_connections(&m->options);
    delivery_forget_proxies();
    signal(SIGPIPE, SIG_IGN);
    signal(SIGXFSZ, SIG_IGN); // a file at its size limit is an error like a full disk
    sigemptyset(&stop);
    sigaddset(&stop, SIGTERM);
    sigaddset(&stop, SIGINT);
    pthread_sigmask(SIG_BLOCK, &stop, NULL); // in every thread; this one waits for the signals
    m->master_log = master_log_new();
    listening_choose(&m->options, &m->listening);
    int rc = run_master(m, &stop, e);
    listening_free(&m->listening);
    master_log_free(m->master_log);
    return rc;
}

int main(int argc, char **argv)
{
    struct master m = {0};
    struct error e = {0};

    memory_set_up();
    int rc = options_parse(&m.options, argc, argv, &m.arguments, &e);
    if (!rc && m.options.help) {
        options_help();
    } else if (!rc && m.options.version) {
        printf("muster-master %s\n", muster_version);
    } else if (!rc && m.options.init) {
        rc = set_up_tls(&m.options, &e);
    } else if (!rc) {
        rc = check_settings(&m, &e);
        rc = rc ? rc : serve(&m, &e);
    }
    if (rc)
        fprintf(stderr, "muster-master: %s\n", e.text);
    options_free(&m.arguments);
    return err_exit_code(rc);
}
