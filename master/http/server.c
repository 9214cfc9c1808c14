#include "master/http/server.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/os/file.h"
#include "base/os/systemd.h"
#include "base/rng.h"
#include "base/text/pattern_cache.h"
#include "master/http/auth/auth.h"
#include "master/http/exchange.h"
#include "master/tls/serving.h"
#include "master/views/metrics/series_cache.h"

enum {
    CONNECTION_MEMORY = 32 * 1024, // bytes for the headers of one connection; a parameter takes 64
    ACCEPTED_AT_ONCE = 32,         // before open connections are served again
    SWEEP_MS = 1000,
    UNSENT_MAX = 256 * 1024, // bytes that the kernel buffers for a caller who does not read
    LISTEN_BACKLOG = 1024,
    ABANDONED_MS = 1000, // age of a request whose caller has left before it was accepted
    LAST_ANSWERS_US = 3 * 1000 * 1000, // time that a stop waits for the last answers
    URL_MAX = 320,
};

static void *on_uri(void *cls, const char *uri, struct MHD_Connection *connection)
{
    struct http_thread *t = cls;
    struct exchange *x = exchange_new(t);
    atomic_fetch_add(&t->server->service.active, 1);
    exchange_begin(x, connection, uri);
    return x;
}

// Both while the connection is in the table: libmicrohttpd closes its socket afterwards.
static void on_connection(void *cls, struct MHD_Connection *connection, void **own,
                          enum MHD_ConnectionNotificationCode what)
{
    struct http_thread *t = cls;
    if (what == MHD_CONNECTION_NOTIFY_STARTED) {
        const union MHD_ConnectionInfo *info =
            MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
        must(info);
        connections_begin(t->server->connections, t->arriving, info->connect_fd);
        *own = t->arriving;
        t->arriving = NULL;
    } else {
        connections_remove(t->server->connections, *own);
    }
}

static enum MHD_Result on_request(void *cls, struct MHD_Connection *connection, const char *url,
                                  const char *method, const char *version, const char *data,
                                  size_t *data_len, void **x)
{
    (void)cls, (void)connection, (void)url, (void)version;
    return exchange_step(*x, method, data, data_len);
}

static void on_completed(void *cls, struct MHD_Connection *connection, void **x,
                         enum MHD_RequestTerminationCode how)
{
    struct http_thread *t = cls;
    (void)connection, (void)how;
    if (!*x)
        return;
    exchange_end(*x);
    *x = NULL;
    atomic_fetch_sub(&t->server->service.active, 1);
}

__attribute__((format(printf, 2, 0))) static void on_log(void *cls, const char *format,
                                                         va_list args)
{
    char text[512], quoted[600];
    (void)cls;
    vsnprintf(text, sizeof text, format, args);
    text[strcspn(text, "\n")] = '\0';
    log_debug("libmicrohttpd", "text=%s", log_quote(quoted, sizeof quoted, text));
}

static void on_panic(void *cls, const char *file, unsigned line, const char *reason)
{
    (void)cls;
    log_die(file, (int)line, reason);
}

// libmicrohttpd would decode parameters that we have decoded already, and that we never ask it for.
static size_t leave_as_is(void *cls, struct MHD_Connection *connection, char *text)
{
    (void)cls, (void)connection;
    return strlen(text);
}

static int listen_on(const struct addrinfo *a)
{
    int on = 1;
    int fd = socket(a->ai_family, a->ai_socktype | SOCK_CLOEXEC | SOCK_NONBLOCK, a->ai_protocol);
    if (fd < 0)
        return -1;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (bind(fd, a->ai_addr, a->ai_addrlen) || listen(fd, LISTEN_BACKLOG)) {
        int saved = errno;
        close(fd);
        errno = saved;
        return -1;
    }
    return fd;
}

// The socket that systemd has kept over a restart; -1: none with this address. A program on this
// machine, such as a task of an agent, could otherwise take the address meanwhile and receive what
// agents and users send.
static int adopt_listener(const struct addrinfo *a)
{
    struct sockaddr_storage at = {0};
    socklen_t len = sizeof at;
    int fd = systemd_take_socket();
    if (fd < 0)
        return -1;
    if (!getsockname(fd, (struct sockaddr *)&at, &len) && len == a->ai_addrlen &&
        !memcmp(&at, a->ai_addr, len) && !fcntl(fd, F_SETFL, O_NONBLOCK) &&
        !listen(fd, LISTEN_BACKLOG))
        return fd;
    // Another address in the settings. systemd still has the socket open, so that close() alone
    // would leave its port in use.
    shutdown(fd, SHUT_RDWR);
    close(fd);
    return -1;
}

static int find_listener(const struct addrinfo *a)
{
    int fd = adopt_listener(a);
    if (fd >= 0)
        return fd;
    fd = listen_on(a);
    if (fd >= 0)
        systemd_keep_socket(fd);
    return fd;
}

static bool is_loopback(const struct sockaddr *a)
{
    if (a->sa_family == AF_INET6)
        return IN6_IS_ADDR_LOOPBACK(&((const struct sockaddr_in6 *)a)->sin6_addr);
    return a->sa_family == AF_INET &&
           ntohl(((const struct sockaddr_in *)a)->sin_addr.s_addr) >> 24 == IN_LOOPBACKNET;
}

// Passwords and tokens must not travel where others can read them, unless the administrator says
// so.
static int refuse_plain(const char *address, struct error *e)
{
    return error_set(e, ERR_INVALID,
                     "without https the master listens on this machine only, and %s is reached "
                     "from others: run muster-master --init once, which makes the certificates "
                     "for https; or listen on 127.0.0.1 behind a proxy that speaks https; or give "
                     "--insecure, and everybody on the network can read passwords and tokens",
                     address);
}

// plain: http, which may not leave this machine.
static int open_listener(const char *address, int port, bool plain, int *out, struct error *e)
{
    char service[16];
    struct addrinfo *found = NULL;
    const struct addrinfo want = {.ai_socktype = SOCK_STREAM,
                                  .ai_flags = AI_PASSIVE | AI_NUMERICSERV};
    snprintf(service, sizeof service, "%d", port);
    int rc = getaddrinfo(address, service, &want, &found);
    if (rc)
        return error_set(e, ERR_INVALID,
                         "cannot listen on %s: %s; give an address of this "
                         "machine with --bind",
                         address, gai_strerror(rc));
    if (plain && !is_loopback(found->ai_addr)) {
        freeaddrinfo(found);
        return refuse_plain(address, e);
    }
    *out = find_listener(found);
    int saved = errno;
    freeaddrinfo(found);
    if (*out >= 0)
        return 0;
    if (saved == EADDRINUSE)
        return error_set(e, ERR_CONFLICT,
                         "port %d of %s is in use by another program; stop it, or choose another "
                         "with --port (0: any free one)",
                         port, address);
    return error_set_errno(e, saved == EACCES || saved == EADDRNOTAVAIL ? ERR_INVALID : ERR_IO,
                           saved, "cannot listen on port %d of %s", port, address);
}

// The address by which a program on this machine reaches the listener. *reachable: others do, too.
static char *url_of(int listener, bool tls, bool *reachable)
{
    struct sockaddr_storage at;
    socklen_t len = sizeof at;
    char host[256], port[16];
    must(!getsockname(listener, (struct sockaddr *)&at, &len));
    *reachable = !is_loopback((struct sockaddr *)&at);
    must(!getnameinfo((struct sockaddr *)&at, len, host, sizeof host, port, sizeof port,
                      NI_NUMERICHOST | NI_NUMERICSERV));
    bool v6 = strchr(host, ':');
    if (!strcmp(host, "0.0.0.0"))
        snprintf(host, sizeof host, "127.0.0.1");
    if (!strcmp(host, "::"))
        snprintf(host, sizeof host, "::1");
    return xasprintf("%s://%s%s%s:%s", tls ? "https" : "http", v6 ? "[" : "", host, v6 ? "]" : "",
                     port);
}

static int read_certificate(struct server *s, const struct server_options *o, struct error *e)
{
    const struct serving_options files = {o->cert_file, o->key_file, o->own_certificate_of};
    if (!o->cert_file && !o->key_file)
        return 0;
    if (!o->cert_file || !o->key_file)
        return error_set(e, ERR_INVALID, "https needs both --tls-cert and --tls-key");
    if (MHD_is_feature_supported(MHD_FEATURE_TLS) != MHD_YES)
        return error_set(e, ERR_INVALID, "this libmicrohttpd was built without TLS");
    int rc = serving_start(&files, &s->serving, e);
    s->service.serving = s->serving;
    return rc;
}

// TCP keep-alive notices a peer that disappeared; the kernel buffers at most this much for a peer
// that does not read.
static void set_socket(int fd)
{
    const int on = 1, idle_s = 60, every_s = 15, probes = 4, unsent = UNSENT_MAX;
    setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle_s, sizeof idle_s);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &every_s, sizeof every_s);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &probes, sizeof probes);
    setsockopt(fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT, &unsent, sizeof unsent);
}

// A caller who waited while the master restarted has given up, and was told that the request
// failed: the request must not be executed now.
static bool is_abandoned(int fd)
{
    struct tcp_info info;
    socklen_t len = sizeof info;
    return !getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &len) &&
           info.tcpi_state != TCP_ESTABLISHED && info.tcpi_last_data_recv > ABANDONED_MS;
}

static void take_in(struct http_thread *t, int fd, const struct sockaddr *peer, socklen_t len)
{
    struct connections *all = t->server->connections;
    t->arriving = is_abandoned(fd) ? NULL : connections_admit(all, peer, clock_mono_us());
    if (!t->arriving) {
        close(fd);
        return;
    }
    set_socket(fd);
    if (MHD_add_connection(t->daemon, fd, peer, len) != MHD_YES && t->arriving)
        connections_remove(all, t->arriving); // it has not begun, and its socket is closed
    t->arriving = NULL;
}

static void accept_some(struct http_thread *t)
{
    for (int i = 0; i < ACCEPTED_AT_ONCE; i++) {
        struct sockaddr_storage peer;
        socklen_t len = sizeof peer;
        int fd = accept4(t->server->listener, (struct sockaddr *)&peer, &len,
                         SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (fd >= 0) {
            take_in(t, fd, (struct sockaddr *)&peer, len);
        } else if (errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS) {
            connections_make_room(t->server->connections);
            return;
        } else if (errno != EINTR && errno != ECONNABORTED) {
            return;
        }
    }
}

// Waits for a new connection, a ready or an overdue one, or the bell. True: a connection has
// arrived.
static bool wait_for_work(struct http_thread *t)
{
    bool open = !atomic_load(&t->server->draining);
    const union MHD_DaemonInfo *info = MHD_get_daemon_info(t->daemon, MHD_DAEMON_INFO_EPOLL_FD);
    must(info && info->epoll_fd >= 0);
    struct pollfd ready[] = {{.fd = info->epoll_fd, .events = POLLIN},
                             {.fd = t->bell, .events = POLLIN},
                             {.fd = open ? t->server->listener : -1, .events = POLLIN}};
    MHD_UNSIGNED_LONG_LONG left;
    bool bounded = MHD_get_timeout(t->daemon, &left) == MHD_YES && left < SWEEP_MS;
    eventfd_t rung;
    int count = poll(ready, 3, bounded ? (int)left : SWEEP_MS);
    if (count > 0 && ready[1].revents)
        eventfd_read(t->bell, &rung);
    return count > 0 && ready[2].revents;
}

// The http threads are ours, and MHD_run() never waits. A thread of libmicrohttpd that finds
// exactly 128 connections ready (its MAX_EVENTS) asks epoll for more before it serves them, and
// waits there as if it had nothing to do. MHD_run() may also lose its own signal that a connection
// was resumed, and MHD_get_timeout() does not know of it, so whoever resumes a connection also
// rings the bell. libmicrohttpd does not listen either: the table of connections decides who may
// connect.
static void *run_thread(void *arg)
{
    struct http_thread *t = arg;
    while (!atomic_load(&t->server->stopping)) {
        if (wait_for_work(t))
            accept_some(t);
        MHD_run(t->daemon);
        connections_sweep(t->server->connections, clock_mono_us());
    }
    return NULL;
}

// TLS 1.2 and 1.3; GnuTLS would allow the versions before, which RFC 8996 has withdrawn.
static const char tls_versions[] = "NORMAL:-VERS-TLS1.0:-VERS-TLS1.1";

static struct MHD_Daemon *new_daemon(struct http_thread *t)
{
    const struct server *s = t->server;
    unsigned flags = MHD_USE_EPOLL | MHD_USE_NO_LISTEN_SOCKET | MHD_ALLOW_SUSPEND_RESUME |
                     MHD_USE_ITC | MHD_USE_ERROR_LOG | (s->serving ? MHD_USE_TLS : 0);
    struct MHD_OptionItem tls[] = {
        {MHD_OPTION_HTTPS_CERT_CALLBACK, 0, (void *)(intptr_t)serving_retrieve},
        {MHD_OPTION_HTTPS_PRIORITIES, 0, (void *)(intptr_t)tls_versions},
        {MHD_OPTION_END, 0, NULL}};
    // MHD_OPTION_EXTERNAL_LOGGER comes first, so that errors in the other options are logged.
    return MHD_start_daemon(
        flags, 0, NULL, NULL, on_request, NULL, MHD_OPTION_EXTERNAL_LOGGER, on_log, NULL,
        MHD_OPTION_CONNECTION_LIMIT, (unsigned)INT_MAX, MHD_OPTION_CONNECTION_MEMORY_LIMIT,
        (size_t)CONNECTION_MEMORY, MHD_OPTION_CONNECTION_TIMEOUT, (unsigned)IDLE_S,
        MHD_OPTION_NOTIFY_CONNECTION, on_connection, t, MHD_OPTION_URI_LOG_CALLBACK, on_uri, t,
        MHD_OPTION_NOTIFY_COMPLETED, on_completed, t, MHD_OPTION_UNESCAPE_CALLBACK, leave_as_is,
        NULL, MHD_OPTION_SIGPIPE_HANDLED_BY_APP, 1, MHD_OPTION_ARRAY, s->serving ? tls : tls + 2,
        MHD_OPTION_END);
}

static int start_thread(struct http_thread *t, struct server *s, struct error *e)
{
    t->server = s;
    t->bell = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (t->bell < 0)
        return error_set_errno(e, ERR_INTERNAL, errno, "cannot make an event");
    int rc = db_reader_open(s->service.db, &t->db, e);
    if (rc)
        return rc;
    t->daemon = new_daemon(t);
    if (!t->daemon)
        return error_set(e, ERR_INTERNAL,
                         "libmicrohttpd does not start; --log-level debug says why");
    int err = pthread_create(&t->thread, NULL, run_thread, t);
    t->running = !err;
    return err ? error_set_errno(e, ERR_INTERNAL, err, "cannot start a thread") : 0;
}

// Also frees a server whose start failed.
static void stop_thread(struct http_thread *t)
{
    if (t->running) {
        eventfd_write(t->bell, 1);
        pthread_join(t->thread, NULL);
    }
    if (t->daemon)
        MHD_stop_daemon(t->daemon);
    while (t->spare) {
        struct exchange *x = t->spare;
        t->spare = x->spare;
        exchange_free(x);
    }
    if (t->db)
        db_reader_close(t->db);
    if (t->bell >= 0)
        close(t->bell);
}

static void stop_threads(struct server *s)
{
    atomic_store(&s->stopping, true);
    for (int i = 0; i < HTTP_THREADS; i++)
        stop_thread(&s->threads[i]);
}

static void free_server(struct server *s)
{
    stop_threads(s);
    // The thread of a download ends by itself after its caller has left.
    seats_wait(&s->service.downloads);
    seats_wait(&s->service.media);
    seats_wait(&s->service.backups);
    if (s->listener >= 0)
        close(s->listener);
    offload_free(s->offload);
    offload_free(s->service.searcher);
    pattern_cache_free(s->service.patterns);
    pump_free(s->pump);
    pump_free(s->readers);
    parking_free(s->parking);
    connections_free(s->connections);
    routes_free(s->routes);
    throttle_free(s->service.logins);
    series_cache_free(s->service.series);
    serving_stop(s->serving);
    free(s->openapi);
    free(s->url);
    free(s);
}

static struct server *new_server(const struct server_options *o)
{
    struct server *s = xcalloc(1, sizeof *s);
    s->listener = -1;
    bodies_init(&s->bodies, o->bodies_max);
    uuid_make(s->master_id);
    s->slow_us = o->slow_request_us;
    s->connections = connections_new(
        &(struct connections_limits){.most = o->connections ? o->connections : LIMIT_CONNECTIONS,
                                     .per_address = o->connections_per_address});
    s->routes = routes_new(route_table, route_count);
    s->openapi = routes_openapi(route_table, route_count);
    s->service = (struct service){.db = o->db,
                                  .core = o->core,
                                  .log_followers = o->log_followers,
                                  .hub = o->hub,
                                  .delivery = o->delivery,
                                  .meters = o->meters,
                                  .watch = o->watch,
                                  .connections = s->connections,
                                  .scrape = o->scrape,
                                  .master_log = o->master_log,
                                  .storage = o->storage,
                                  .free_space = o->free_space,
                                  .logins = throttle_new(),
                                  .patterns = pattern_cache_new(),
                                  .search_us = o->log_search_us ? o->log_search_us
                                                                : LIMIT_LOG_SEARCH_S * 1000000LL,
                                  .series = series_cache_new(),
                                  .cluster_id = o->cluster_id,
                                  .cluster_name = o->cluster_name,
                                  .api_version = o->api_version,
                                  .log_days = o->log_days ? o->log_days : -1,
                                  .master_id = s->master_id,
                                  .config = o->config,
                                  .page = o->page,
                                  .tls = o->cert_file,
                                  .master_url = o->master_url,
                                  .openapi = s->openapi};
    for (int i = 0; i < HTTP_THREADS; i++)
        s->threads[i].bell = -1;
    return s;
}

int server_start(const struct server_options *o, struct server **out, struct error *e)
{
    struct server *s = new_server(o);
    int rc = page_check(&o->page, e);
    if (!rc)
        rc = read_certificate(s, o, e);
    if (!rc)
        rc = open_listener(o->bind, o->port, !s->serving && !o->insecure, &s->listener, e);
    if (!rc)
        rc = parking_new(&s->parking, e);
    if (!rc)
        rc = offload_new(o->db, OFFLOAD_THREADS, &s->offload, e);
    if (!rc)
        rc = offload_new(o->db, 1, &s->service.searcher, e);
    if (!rc)
        rc = pump_new(o->db, &s->pump, e);
    if (!rc)
        rc = pump_new(o->db, &s->readers, e);
    if (!rc)
        s->url = url_of(s->listener, s->serving, &s->service.reachable);
    MHD_set_panic_func(on_panic, NULL);
    for (int i = 0; !rc && i < HTTP_THREADS; i++)
        rc = start_thread(&s->threads[i], s, e);
    if (rc) {
        free_server(s);
        return rc;
    }
    *out = s;
    return 0;
}

const char *server_url(const struct server *s)
{
    return s->url;
}

void server_drain(struct server *s)
{
    atomic_store(&s->draining, true);
    for (int i = 0; i < HTTP_THREADS; i++)
        eventfd_write(s->threads[i].bell, 1);
    log_followers_end_all(s->service.log_followers);
    hub_end_all(s->service.hub);
}

void server_stop(struct server *s)
{
    int64_t deadline = clock_mono_us() + LAST_ANSWERS_US;
    while (atomic_load(&s->service.active) && clock_mono_us() < deadline) {
        log_followers_end_all(
            s->service.log_followers); // including streams that were being opened at this moment
        hub_end_all(s->service.hub);
        clock_sleep_us(2000);
    }
    if (atomic_load(&s->service.active))
        log_warn("stopping with requests under way", "count=%d", atomic_load(&s->service.active));
    parking_close(s->parking); // libmicrohttpd must not stop with suspended connections
    free_server(s);
}
