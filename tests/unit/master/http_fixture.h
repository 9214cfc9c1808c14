// A master without a core, on a port of its own, and a small HTTP client. For tests of master/http;
// include it in the one file of a test program.
#ifndef TESTS_MASTER_HTTP_FIXTURE_H
#define TESTS_MASTER_HTTP_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <netinet/in.h>
#include <signal.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "core_stub.h"
#include "master/http/auth.h"
#include "master/http/first_start.h"
#include "master/http/follow.h"
#include "master/http/server.h"

#define PASSWORD "correct horse battery staple"

static struct fixture {
    struct db *db;
    struct core *core;
    struct follow *follow;
    struct server *server;
    struct cluster_identity cluster;
    int port;
    char user[TOKEN_TEXT], admin[TOKEN_TEXT], agent[TOKEN_TEXT], task[TOKEN_TEXT];
} fx;

// glibc guards the names it shares between locales with a lock that ThreadSanitizer does not see.
const char *__tsan_default_suppressions(void);
const char *__tsan_default_suppressions(void)
{
    return "race:freelocale\nrace:_nl_unload_locale\n";
}

// One statement, committed.
#define STORE(stmt, ...)                                                                           \
    do {                                                                                           \
        struct db_batch *batch_ = db_batch_new();                                                  \
        struct error error_ = {0};                                                                 \
        db_batch_add(batch_, STMT_##stmt, __VA_ARGS__);                                            \
        if (db_commit_wait(fx.db, batch_, &error_))                                                \
            fail_msg("%s", error_.text);                                                           \
    } while (0)

#define I(value) ((int64_t)(value))
#define AT       I(1700000000000000) // 2023-11-14T22:13:20Z

static inline void grant(char token[TOKEN_TEXT], const char *kind, int64_t user,
                         const char *allocation, int64_t expires)
{
    char hash[SHA256_HEX];
    auth_token_make(token, hash);
    if (user)
        STORE(TOKEN_INSERT, "ssisii", hash, kind, user, allocation, I(1), expires);
    else
        STORE(TOKEN_INSERT, "ssnsii", hash, kind, allocation, I(1), expires);
}

static inline void store_experiment(int64_t id, const char *state, const char *name)
{
    STORE(EXPERIMENT_INSERT, "isssssiisnssissiisi", id, state, name, "about it", "",
          "[\"a\",\"b\"]", I(2), I(1), "job", "name: first\n",
          "{\"name\":\"first\",\"resources\":{\"resource_pool\":\"default\"},"
          "\"searcher\":{\"name\":\"single\",\"metric\":\"validation_loss\","
          "\"smaller_is_better\":true}}",
          I(42), "single", "{}", I(0), I(7), "", AT + id);
}

static inline void store_trial(int64_t id, int64_t experiment, const char *task)
{
    STORE(TRIAL_INSERT, "iissssii", id, experiment, "request", task, "ACTIVE", "{\"width\":64}",
          I(5), AT);
}

static inline void store_log(const char *task, int64_t rank, const char *level, const char *text)
{
    STORE(LOG_INSERT, "ssssiissssn", task, "1.task.1", "agent-a", "container-1234", rank, AT, level,
          "stdout", "task", text);
}

// Experiment 1 of user 2 (determined), trial 1, task "1.task", its running allocation "1.task.1".
static inline void store_running_trial(void)
{
    store_experiment(1, "ACTIVE", "first");
    store_trial(1, 1, "1.task");
    STORE(ALLOCATION_INSERT, "siisisi", "1.task.1", I(1), I(1), "RUNNING", I(2), "default", AT);
}

static inline void start_server(void)
{
    struct error e = {0};
    const struct server_options options = {.db = fx.db,
                                           .core = fx.core,
                                           .follow = fx.follow,
                                           .cluster_id = fx.cluster.id,
                                           .cluster_name = fx.cluster.name,
                                           .config = "{\"port\":0}",
                                           .bind = "127.0.0.1"};
    if (server_start(&options, &fx.server, &e))
        fail_msg("%s", e.text);
    fx.port = atoi(strrchr(server_url(fx.server), ':') + 1);
}

static inline int fixture_start(void **state)
{
    (void)state;
    struct error e = {0};
    signal(SIGPIPE, SIG_IGN);
    log_set_level(LOG_LEVEL_WARN);
    setenv("MUSTER_INITIAL_PASSWORD", PASSWORD, 1);
    const struct first_start first = {.data_dir = ".", .cluster_name = "test"};
    if (db_open(".", &fx.db, &e) || first_start(fx.db, &first, &fx.cluster, &e))
        fail_msg("%s", e.text);
    store_running_trial();
    grant(fx.admin, "user", 1, NULL, 0);
    grant(fx.user, "user", 2, NULL, 0);
    grant(fx.agent, "agent", 0, NULL, 0);
    grant(fx.task, "allocation", 0, "1.task.1", 0);
    fx.core = stub_start();
    fx.follow = follow_new();
    start_server();
    return 0;
}

static inline void stop_server(void)
{
    server_drain(fx.server);
    stub_let_go(fx.core, 503);
    server_stop(fx.server);
}

static inline int fixture_stop(void **state)
{
    (void)state;
    stop_server();
    stub_stop(fx.core);
    follow_free(fx.follow);
    db_close(fx.db);
    free(fx.cluster.id);
    free(fx.cluster.name);
    return 0;
}

// --- the client ----------------------------------------------------------------------------------

struct reply {
    int status;
    char head[4096];
    struct buf body;
    json_t *json; // NULL: the body is none
};

static inline void reply_free(struct reply *r)
{
    buf_free(&r->body);
    json_decref(r->json);
    *r = (struct reply){0};
}

static inline int dial(void)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons((uint16_t)fx.port)};
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const struct timeval patience = {.tv_sec = 20};
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    if (connect(fd, (struct sockaddr *)&at, sizeof at))
        fail_msg("cannot connect");
    return fd;
}

// What the server closes early is seen when the answer is read.
static inline void send_all(int fd, const void *data, size_t len)
{
    const char *p = data;
    while (len) {
        ssize_t n = send(fd, p, len, MSG_NOSIGNAL);
        if (n <= 0)
            return;
        p += n;
        len -= (size_t)n;
    }
}

// One byte at a time is enough for tests; -1: the end.
static inline int next_byte(int fd)
{
    unsigned char c;
    return recv(fd, &c, 1, 0) == 1 ? c : -1;
}

static inline bool read_line(int fd, struct buf *line)
{
    buf_reset(line);
    for (int c; (c = next_byte(fd)) >= 0;) {
        char byte = (char)c;
        buf_append(line, &byte, 1);
        if (c == '\n')
            return true;
    }
    return false;
}

static inline void read_bytes(int fd, struct buf *out, size_t len)
{
    char piece[4096];
    while (len) {
        ssize_t n = recv(fd, piece, len < sizeof piece ? len : sizeof piece, 0);
        if (n <= 0)
            return;
        buf_append(out, piece, (size_t)n);
        len -= (size_t)n;
    }
}

static inline const char *header_of(const struct reply *r, const char *name)
{
    const char *at = strcasestr(r->head, name);
    return at ? at + strlen(name) + 2 : NULL;
}

static inline bool read_head(int fd, struct reply *r)
{
    struct buf line;
    size_t used = 0;
    *r = (struct reply){0};
    buf_init(&r->body, (size_t)1 << 30);
    buf_init(&line, 1 << 16);
    while (read_line(fd, &line) && line.len > 2)
        used += (size_t)snprintf(r->head + used, sizeof r->head - used, "%s", buf_str(&line));
    buf_free(&line);
    return sscanf(r->head, "HTTP/1.1 %d", &r->status) == 1;
}

// The next chunk of a stream; false at its end.
static inline bool read_chunk(int fd, struct buf *out)
{
    struct buf line;
    buf_init(&line, 256);
    bool there = read_line(fd, &line);
    size_t len = there ? strtoul(buf_str(&line), NULL, 16) : 0;
    if (len)
        read_bytes(fd, out, len);
    if (there)
        read_line(fd, &line);
    buf_free(&line);
    return len;
}

static inline void read_reply(int fd, struct reply *r, bool has_body)
{
    if (!read_head(fd, r))
        return;
    const char *length = header_of(r, "Content-Length");
    if (has_body && length)
        read_bytes(fd, &r->body, strtoul(length, NULL, 10));
    else if (has_body && header_of(r, "Transfer-Encoding"))
        while (read_chunk(fd, &r->body))
            ;
    r->json = r->body.len ? json_loadb(r->body.data, r->body.len, 0, NULL) : NULL;
}

enum { BY_NONE, BY_USER, BY_ADMIN, BY_AGENT, BY_TASK, CALLERS };

static inline void send_request(int fd, const char *method, const char *path, int by,
                                const char *body)
{
    const char *const tokens[] = {NULL, fx.user, fx.admin, fx.agent, fx.task};
    struct buf text;
    buf_init(&text, (size_t)1 << 28);
    buf_printf(&text, "%s %s HTTP/1.1\r\nHost: x\r\n", method, path);
    if (by == BY_TASK)
        buf_printf(&text, "Grpc-Metadata-x-allocation-token: Bearer %s\r\n", tokens[by]);
    else if (by)
        buf_printf(&text, "Authorization: Bearer %s\r\n", tokens[by]);
    if (body)
        buf_printf(&text, "Content-Length: %zu\r\n", strlen(body));
    buf_puts(&text, "\r\n");
    if (body)
        buf_puts(&text, body);
    send_all(fd, text.data, text.len);
    buf_free(&text);
}

// One call on a connection of its own.
static inline struct reply call(const char *method, const char *path, int by, const char *body)
{
    struct reply r;
    int fd = dial();
    send_request(fd, method, path, by, body);
    read_reply(fd, &r, strcmp(method, "HEAD") != 0);
    close(fd);
    return r;
}

static inline int status_of(const char *method, const char *path, int by, const char *body)
{
    struct reply r = call(method, path, by, body);
    int status = r.status;
    reply_free(&r);
    return status;
}

static inline json_t *get_json(const char *path, int by)
{
    struct reply r = call("GET", path, by, NULL);
    if (r.status != 200 || !r.json)
        fail_msg("GET %s: %d %s", path, r.status, buf_str(&r.body));
    json_t *json = json_incref(r.json);
    reply_free(&r);
    return json;
}

// The value at a dotted path ("trials.0.id"); NULL when it is not there.
static inline const json_t *value_at(const json_t *json, const char *path)
{
    while (json && *path) {
        char part[64];
        size_t len = strcspn(path, ".");
        snprintf(part, sizeof part, "%.*s", (int)len, path);
        json = json_is_array(json) ? json_array_get(json, (size_t)atoi(part))
                                   : json_object_get(json, part);
        path += len + (path[len] == '.');
    }
    return json;
}

// The same as text; "" for null and for what is not there.
static inline const char *at(const json_t *json, const char *path)
{
    static char text[16][64]; // a few at once
    static int turn;
    const json_t *v = value_at(json, path);
    if (json_is_string(v))
        return json_string_value(v);
    char *out = text[turn++ % 16];
    if (json_is_integer(v))
        snprintf(out, 64, "%lld", (long long)json_integer_value(v));
    else if (json_is_real(v))
        snprintf(out, 64, "%g", json_real_value(v));
    else
        snprintf(out, 64, "%s", json_is_true(v) ? "true" : json_is_false(v) ? "false" : "");
    return out;
}

// Waits up to five seconds for a counter of the stub.
static inline bool reaches(atomic_int *counter, int value)
{
    for (int i = 0; i < 500 && atomic_load(counter) != value; i++)
        clock_sleep_us(10000);
    return atomic_load(counter) == value;
}

#endif
