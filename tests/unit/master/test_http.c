// The server over real sockets, with a core stub that records its requests: authentication, limits,
// malformed input, parked requests, followed streams, and the stop.

#include "tests/unit/master/support/fixture.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/hash.h"
#include "base/limits.h"
#include "master/http/offload.h"
#include "master/http/routing/routes.h"

// The path of a route with 1 (or another valid value) for every {..}.
static void path_of(const struct route *r, char *out)
{
    for (const char *c = r->path; *c; c++) {
        if (*c == '{') {
            c += strcspn(c, "}");
            *out++ = '1';
        } else {
            *out++ = *c;
        }
    }
    *out = '\0';
}

static bool may_call(const struct route *r, int by)
{
    static const unsigned bits[CALLERS] = {0, AUTH_USER, AUTH_USER | AUTH_ADMIN, AUTH_AGENT,
                                           AUTH_TASK};
    return r->auth == AUTH_NONE || (r->auth & bits[by]);
}

// These calls do not return, or end the token.
static bool is_special(const struct route *r)
{
    return strstr(r->path, "signals/preemption") || strstr(r->path, "logout") ||
           strstr(r->path, "/events");
}

static void test_authorization_of_routes(void **state)
{
    (void)state;
    for (size_t i = 0; i < route_count; i++) {
        const struct route *r = &route_table[i];
        char path[256];
        path_of(r, path);
        for (int by = 0; by < CALLERS; by++) {
            bool allowed = may_call(r, by);
            if (allowed && is_special(r))
                continue;
            if (by == BY_USER && !strcmp(path, "/api/v1/users/1"))
                continue; // administrators only: see test_auth
            struct reply reply = call(r->method, path, by, r->body ? "{}" : NULL);
            int expected = by == BY_NONE ? 401 : 403;
            if (allowed ? reply.status == 401 || reply.status == 403 || reply.status >= 500
                        : reply.status != expected)
                fail_msg("%s %s by %d: %d %s", r->method, path, by, reply.status,
                         buf_str(&reply.body));
            if (!allowed)
                assert_true(*at(reply.json, "error.error") && *at(reply.json, "message"));
            reply_free(&reply);
        }
    }
}

static void test_malformed_bodies(void **state)
{
    (void)state;
    static const char *const bodies[] = {"{\"a\":",  "[]",  "\"text\"", "7", "{\"a\":1,\"a\":2}",
                                         "not json", "{}x", "\xff\xfe", NULL};
    STORE(CHECKPOINT_UPSERT, "1", "1.task", "1.task.1", 1, 1, "COMPLETED", 1, "{}", "{}", "{}",
          NULL, 1);
    STORE(TRIAL_INSERT, 99, 1, "other", "1", "COMPLETED", "{}", 0, 1);
    for (size_t i = 0; i < route_count; i++) {
        const struct route *r = &route_table[i];
        char path[256];
        path_of(r, path);
        int by = (r->auth & AUTH_TASK) ? BY_TASK : (r->auth & AUTH_AGENT) ? BY_AGENT : BY_ADMIN;
        if (r->body == BODY_NONE || is_special(r))
            continue;
        for (int b = 0; bodies[b]; b++) {
            if (!strcmp(path, "/task-logs") && !strcmp(bodies[b], "[]"))
                continue; // the body is a list
            if (r->takes && !strcmp(r->takes, "string") && *bodies[b] == '"')
                continue; // the body is a string
            struct reply reply = call(r->method, path, by, bodies[b]);
            if (reply.status != 400)
                fail_msg("%s %s with %s: %d %s", r->method, path, bodies[b], reply.status,
                         buf_str(&reply.body));
            assert_string_equal(at(reply.json, "error.reason"), "InvalidArgument");
            reply_free(&reply);
        }
    }
}

static void test_bad_tokens(void **state)
{
    (void)state;
    char expired[TOKEN_TEXT], kept[TOKEN_TEXT], ended[TOKEN_TEXT];
    memcpy(kept, fx.user, sizeof kept);
    assert_int_equal(status_of("GET", "/api/v1/me", BY_USER, NULL), 200);

    memset(fx.user, 'a', TOKEN_TEXT - 1);
    struct reply r = call("GET", "/api/v1/me", BY_USER, NULL);
    assert_int_equal(r.status, 401);
    assert_string_equal(at(r.json, "error.reason"), "Unauthenticated");
    assert_non_null(header_of(&r, "WWW-Authenticate"));
    reply_free(&r);

    grant(expired, "user", 2, NULL, clock_wall_us() - 1);
    memcpy(fx.user, expired, sizeof expired);
    r = call("GET", "/api/v1/me", BY_USER, NULL);
    assert_int_equal(r.status, 401);
    assert_non_null(strstr(at(r.json, "message"), "expired"));
    reply_free(&r);
    memcpy(fx.user, kept, sizeof kept);

    // The token of an ended allocation, before and after the token is deleted.
    memcpy(kept, fx.task, sizeof kept);
    STORE(ALLOCATION_INSERT, "1.task.0", I(1), I(0), "TERMINATED", I(2), "default", AT);
    grant(ended, "allocation", 0, "1.task.0", 0);
    for (int i = 0; i < 2; i++) {
        memcpy(fx.task, ended, sizeof kept);
        if (i)
            fx.task[0] = fx.task[0] == 'f' ? 'e' : 'f'; // now the token belongs to nobody
        r = call("POST", "/api/v1/trials/1/metrics", BY_TASK, "{}");
        assert_int_equal(r.status, 403);
        assert_non_null(strstr(at(r.json, "error.error"), "allocation has ended"));
        reply_free(&r);
    }
    memcpy(fx.task, kept, sizeof kept);
}

// From a page of this origin; NULL sends no origin.
static int by_cookie_from(const char *origin, const char *method, const char *path,
                          const char *token)
{
    char text[512], from[64] = "";
    struct reply r;
    int fd = dial();
    if (origin)
        snprintf(from, sizeof from, "Origin: %s\r\n", origin);
    int n = snprintf(text, sizeof text,
                     "%s %s HTTP/1.1\r\nHost: x\r\n%s"
                     "Cookie: theme=dark; muster_session=%s\r\nContent-Length: 0\r\n\r\n",
                     method, path, from, token);
    send_all(fd, text, (size_t)n);
    read_reply(fd, &r, strcmp(method, "HEAD") != 0);
    close(fd);
    int status = r.status;
    reply_free(&r);
    return status;
}

static int by_cookie(const char *method, const char *path, const char *token)
{
    return by_cookie_from("http://x", method, path, token);
}

// A call that changes something with the cookie must come from a page of this master; a read may
// come from anywhere.
static void test_origin_of_session_calls(void **state)
{
    (void)state;
    static const struct {
        const char *method, *path;
        bool reads;
    } calls[] = {{"GET", "/api/v1/me", true},
                 {"HEAD", "/api/v1/me", true},
                 {"POST", "/api/v1/users/setting", false},
                 {"PUT", "/api/v1/experiments/1/labels/one", false},
                 {"PATCH", "/api/v1/experiments/1", false},
                 {"DELETE", "/api/v1/experiments/1/labels/one", false}};
    static const char *const origins[] = {"http://x", "http://y", NULL};
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++)
        for (int k = 0; k < 3; k++) {
            bool allowed = calls[i].reads || k == 0;
            int status = by_cookie_from(origins[k], calls[i].method, calls[i].path, fx.user);
            if ((status != 403) != allowed || status == 401 || status == 405 || status == 404)
                fail_msg("%s from %s: %d", calls[i].method, origins[k] ? origins[k] : "nowhere",
                         status);
        }
}

// The cookie of the web page holds a user's token, for calls of users.
static void test_sessions(void **state)
{
    (void)state;
    char expired[TOKEN_TEXT];
    grant(expired, "user", 2, NULL, clock_wall_us() - 1);
    assert_int_equal(by_cookie("GET", "/api/v1/me", fx.user), 200);
    assert_int_equal(by_cookie("GET", "/api/v1/me", expired), 401);
    assert_int_equal(by_cookie("GET", "/api/v1/me", fx.task),
                     403); // the same token in the Authorization header is accepted
    assert_int_equal(status_of("GET", "/api/v1/me", BY_TASK, NULL), 200);
    assert_int_equal(by_cookie("GET", "/api/v1/me", fx.agent), 403);
    assert_int_equal(by_cookie("GET", "/api/v1/master/config", fx.user), 403);
    assert_int_equal(by_cookie("GET", "/api/v1/master/config", fx.admin), 200);
    assert_int_equal(by_cookie("POST", "/api/v1/agents/a/sync", fx.agent), 401);
}

static void test_request_seen_by_a_handler(void **state)
{
    (void)state;
    struct reply r = call("POST", "/api/v1/agents/a%20b%2Fc/sync?timeout_seconds=7", BY_AGENT,
                          "{\"unknown\":null,\"deep\":{\"a\":[1,2]}}");
    assert_int_equal(r.status, 200);
    assert_string_equal(at(r.json, "who"), "agent");
    assert_string_equal(json_string_value(json_array_get(jget(r.json, "params"), 0)), "a b/c");
    assert_string_equal(at(r.json, "query"), "7"); // requested as timeoutSeconds
    assert_non_null(jget_path(r.json, "body.deep.a"));
    reply_free(&r);

    r = call("POST", "/api/v1/trials/1/kill", BY_USER, NULL);
    assert_int_equal(r.status, 200);
    assert_string_equal(at(r.json, "username"), "determined");
    assert_null(jget(r.json, "body"));
    reply_free(&r);

    r = call("POST", "/api/v1/trials/1/progress", BY_TASK, "null");
    assert_int_equal(r.status, 200);
    assert_string_equal(at(r.json, "who"), "task");
    assert_string_equal(at(r.json, "allocation"), "1.task.1");
    assert_string_equal(at(r.json, "username"), "determined"); // the experiment's owner
    reply_free(&r);
}

static void test_head_options_and_404(void **state)
{
    (void)state;
    struct reply r = call("HEAD", "/info", BY_NONE, NULL);
    assert_int_equal(r.status, 200);
    assert_true(strtol(header_of(&r, "Content-Length"), NULL, 10) > 2);
    reply_free(&r);
    r = call("OPTIONS", "/api/v1/users", BY_NONE, NULL);
    assert_int_equal(r.status, 204);
    assert_int_equal(strncmp(header_of(&r, "Allow"), "GET, HEAD, POST, PATCH, OPTIONS", 31), 0);
    reply_free(&r);
    r = call("PUT", "/api/v1/users", BY_USER, "{}");
    assert_int_equal(r.status, 405);
    assert_non_null(header_of(&r, "Allow"));
    reply_free(&r);
    r = call("GET", "/api/v1/nothing", BY_USER, NULL);
    assert_int_equal(r.status, 404);
    assert_string_equal(at(r.json, "error.reason"), "NotFound");
    reply_free(&r);
    assert_int_equal(status_of("GET", "/api/v1/experiments?limit=%zz", BY_USER, NULL), 400);
    r = call("GET", "/", BY_NONE, NULL);
    assert_int_equal(r.status, 200);
    const char *style = strstr(buf_str(&r.body), "<style>") + 7;
    uint8_t digest[SHA256_BYTES];
    struct sha256 *hash = sha256_new();
    sha256_update(hash, style, (size_t)(strstr(style, "</style>") - style));
    sha256_final(hash, digest);
    char *digest_text = base64_encode(digest, sizeof digest);
    assert_non_null(strstr(header_of(&r, "Content-Security-Policy"), digest_text));
    free(digest_text);
    assert_non_null(strstr(buf_str(&r.body), "/api/v1/openapi.json"));
    reply_free(&r);
}

// {"a":"xxx.."} of exactly `len` bytes.
static char *body_of(size_t len)
{
    char *body = xcalloc(1, len + 1);
    memset(body, 'x', len);
    memcpy(body, "{\"a\":\"", 6);
    memcpy(body + len - 2, "\"}", 2);
    return body;
}

static int status_of_chunked(const char *path, const char *body)
{
    struct reply r;
    char head[512];
    int fd = dial();
    size_t left = strlen(body);
    int n = snprintf(head, sizeof head,
                     "POST %s HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n"
                     "Authorization: Bearer %s\r\n\r\n",
                     path, fx.user);
    send_all(fd, head, (size_t)n);
    while (left) {
        size_t piece = left < 60000 ? left : 60000;
        n = snprintf(head, sizeof head, "%zx\r\n", piece);
        send_all(fd, head, (size_t)n);
        send_all(fd, body, piece);
        send_all(fd, "\r\n", 2);
        body += piece;
        left -= piece;
    }
    send_all(fd, "0\r\n\r\n", 5);
    read_reply(fd, &r, true);
    int status = r.status;
    reply_free(&r);
    close(fd);
    return status;
}

static void test_body_limits(void **state)
{
    (void)state;
    char *fits = body_of(LIMIT_BODY_CALL), *past = body_of(LIMIT_BODY_CALL + 1);
    assert_int_equal(status_of("POST", "/api/v1/trials/1/kill", BY_USER, fits), 200);
    assert_int_equal(status_of_chunked("/api/v1/trials/1/kill", fits), 200);
    struct reply r = call("POST", "/api/v1/trials/1/kill", BY_USER, past);
    assert_int_equal(r.status, 413);
    assert_non_null(strstr(at(r.json, "message"), "262144"));
    reply_free(&r);
    assert_int_equal(status_of_chunked("/api/v1/trials/1/kill", past), 413);
    static const char levels[] =
        "{\"a\":[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]}";
    assert_int_equal(status_of("POST", "/api/v1/trials/1/kill", BY_USER, levels), 400);
    // Submissions with files may be larger; a caller without the right is refused whatever the size
    // of the body is.
    assert_int_equal(status_of("POST", "/api/v1/experiments", BY_USER, past), 400);
    assert_int_equal(status_of("POST", "/api/v1/experiments", BY_NONE, past), 401);
    free(fits);
    free(past);

    // With Expect, the refusal comes before the body.
    int fd = dial();
    const char *head = "POST /api/v1/experiments HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\n"
                       "Content-Length: 200000000\r\n\r\n";
    send_all(fd, head, strlen(head));
    read_reply(fd, &r, true);
    assert_int_equal(r.status, 401);
    reply_free(&r);
    close(fd);
}

// The memory reserved for a body is released once its answer is being sent, which may be after the
// client received it.
static int status_unless(int other, const char *body)
{
    int status = other;
    for (int i = 0; i < 500 && status == other; i++) {
        clock_sleep_us(i ? 10000 : 0);
        status = status_of("POST", "/api/v1/trials/1/kill", BY_USER, body);
    }
    return status;
}

// A slow sender holds the memory for its announced length. Returns false if the server refused this
// sender because the memory of another one was not released yet.
static bool while_another_sends(const char *body)
{
    struct reply r;
    char head[512];
    int fd = dial();
    int n = snprintf(head, sizeof head,
                     "POST /api/v1/trials/1/kill HTTP/1.1\r\nHost: x\r\nContent-Length: %zu\r\n"
                     "Authorization: Bearer %s\r\n\r\n",
                     strlen(body), fx.user);
    send_all(fd, head, (size_t)n);
    clock_sleep_us(20000);
    int other = status_of("POST", "/api/v1/trials/1/kill", BY_USER, body);
    send_all(fd, body, strlen(body));
    read_reply(fd, &r, true);
    int own = r.status;
    assert_true(own == 200 || header_of(&r, "Retry-After"));
    reply_free(&r);
    close(fd);
    return own == 200 && other == 503;
}

static void test_total_size_of_bodies(void **state)
{
    (void)state;
    struct error e = {0};
    struct server *all = fx.server;
    const struct server_options options = {.db = fx.db,
                                           .core = fx.core,
                                           .log_followers = fx.log_followers,
                                           .hub = fx.hub,
                                           .cluster_id = "x",
                                           .cluster_name = "x",
                                           .config = "{}",
                                           .bind = "127.0.0.1",
                                           .bodies_max = 100000};
    int port = fx.port;
    char *large = body_of(60000);
    assert_int_equal(server_start(&options, &fx.server, &e), 0);
    fx.port = (int)strtol(strrchr(server_url(fx.server), ':') + 1, NULL, 10);
    for (int i = 0; i < 3; i++) { // each releases its memory
        assert_int_equal(status_unless(503, large), 200);
        bool refused = false;
        for (int k = 0; k < 200 && !refused; k++)
            refused = while_another_sends(large);
        assert_true(refused);
    }
    free(large);
    server_drain(fx.server);
    server_stop(fx.server);
    fx.server = all;
    fx.port = port;
}

struct held_job {
    struct offload_job job;
    pthread_mutex_t *gate;
    atomic_int *done;
};

static void run_held(struct offload_job *j, struct db_reader *db)
{
    struct held_job *h = (struct held_job *)j;
    assert_non_null(db);
    pthread_mutex_lock(h->gate);
    pthread_mutex_unlock(h->gate);
    atomic_fetch_add(h->done, 1);
}

static void test_workers_are_bounded(void **state)
{
    (void)state;
    enum { ROOM = OFFLOAD_THREADS + OFFLOAD_QUEUE };
    static struct held_job jobs[ROOM + 1];
    struct offload *o = NULL;
    struct error e = {0};
    pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER;
    atomic_int done = 0;
    assert_int_equal(offload_new(fx.db, OFFLOAD_THREADS, &o, &e), 0);
    pthread_mutex_lock(&gate);
    int taken = 0;
    // The threads may remove their connections from the queue at any time.
    for (; taken < ROOM; taken++) {
        jobs[taken] = (struct held_job){{run_held}, &gate, &done};
        for (int i = 0; offload_submit(o, &jobs[taken].job, &e) && i < 1000; i++)
            clock_sleep_us(1000);
    }
    jobs[ROOM] = (struct held_job){{run_held}, &gate, &done};
    assert_int_equal(offload_submit(o, &jobs[ROOM].job, &e), ERR_BUSY);
    pthread_mutex_unlock(&gate);
    offload_free(o);
    assert_int_equal(atomic_load(&done), ROOM);
    pthread_mutex_destroy(&gate);
}

static void test_keep_alive(void **state)
{
    (void)state;
    int fd = dial();
    for (int i = 0; i < 50; i++) {
        struct reply r;
        char path[64];
        snprintf(path, sizeof path, "/api/v1/agents/a%d", i);
        if (i % 3 == 2)
            send_request(fd, "GET", "/api/v1/nothing", BY_USER, NULL);
        else
            send_request(fd, i % 3 ? "POST" : "GET", i % 3 ? "/api/v1/trials/1/kill" : path,
                         BY_USER, i % 3 ? "{}" : NULL);
        read_reply(fd, &r, true);
        assert_int_equal(r.status, i % 3 == 2 ? 404 : 200);
        if (i % 3 == 0)
            assert_string_equal(json_string_value(json_array_get(jget(r.json, "params"), 0)),
                                path + strlen("/api/v1/agents/"));
        reply_free(&r);
    }
    close(fd);
}

#define POLL "/api/v1/allocations/1.task.1/signals/preemption?timeout_seconds=20"

static void test_parked_client_disconnects(void **state)
{
    (void)state;
    int fds[20];
    for (int i = 0; i < 20; i++) {
        fds[i] = dial();
        send_request(fds[i], "GET", POLL, BY_TASK, NULL);
    }
    assert_true(reaches(&stub_of(fx.core)->parked_count, 20));
    int64_t left = clock_mono_us();
    for (int i = 0; i < 10; i++)
        close(fds[i]);
    assert_true(reaches(&stub_of(fx.core)->parked_count, 10));
    assert_true(clock_mono_us() - left < 1500000); // a sweep takes 0.2 s; sanitizers are slow
    assert_int_equal(atomic_load(&stub_of(fx.core)->gone_count), 10);

    stub_let_go(fx.core, 200); // the others are answered
    for (int i = 10; i < 20; i++) {
        struct reply r;
        read_reply(fds[i], &r, true);
        assert_int_equal(r.status, 200);
        assert_non_null(json_object_get(r.json, "preempt"));
        reply_free(&r);
        close(fds[i]);
    }
    assert_int_equal(atomic_load(&stub_of(fx.core)->gone_count), 10);
}

// Reads one line of a stream; fails if none comes.
static json_t *read_result(int fd)
{
    struct buf chunk;
    buf_init(&chunk, 1 << 20);
    if (!read_chunk(fd, &chunk))
        fail_msg("the stream ended");
    json_error_t why;
    json_t *line = json_loadb(chunk.data, chunk.len, JSON_DISABLE_EOF_CHECK, &why);
    buf_free(&chunk);
    assert_non_null(line);
    json_t *result = json_incref(jget(line, "result"));
    json_decref(line);
    return result;
}

static void expect_line(int fd, const char *text)
{
    json_t *line = read_result(fd);
    assert_string_equal(at(line, "log"), text);
    json_decref(line);
}

static int follow_trial(int64_t trial, const char *filter)
{
    char path[128];
    struct reply r;
    int fd = dial();
    snprintf(path, sizeof path, "/api/v1/trials/%lld/logs?follow=true%s", (long long)trial, filter);
    send_request(fd, "GET", path, BY_USER, NULL);
    assert_true(read_head(fd, &r));
    assert_int_equal(r.status, 200);
    reply_free(&r);
    return fd;
}

static void test_follow(void **state)
{
    (void)state;
    store_trial(20, 1, "20.task");
    store_log("20.task", 0, "INFO", "one\n");
    int fd = follow_trial(20, ""), other = follow_trial(20, ""), leaves = follow_trial(20, ""),
        picky = follow_trial(20, "&levels=LOG_LEVEL_ERROR");
    expect_line(fd, "one\n");
    expect_line(other, "one\n");
    expect_line(leaves, "one\n");
    close(leaves);
    for (int i = 0; i < 20; i++) {
        char text[32];
        snprintf(text, sizeof text, "line %d\n", i);
        store_log("20.task", 0, "INFO", text);
        log_followers_notify(fx.log_followers, "20.task");
        if (i % 5 == 4)
            clock_sleep_us(20000); // the server's threads go to sleep now and then
        expect_line(fd, text);
        expect_line(other, text);
        if (i % 7 == 3) {
            store_log("20.task", 0, "ERROR", "bad\n");
            log_followers_notify(fx.log_followers, "20.task");
            expect_line(fd, "bad\n");
            expect_line(other, "bad\n");
            expect_line(picky, "bad\n");
        }
    }
    log_followers_notify(fx.log_followers, "another.task");

    STORE(TRIAL_END, "COMPLETED", "", clock_wall_us(), I(20));
    log_followers_notify(fx.log_followers, "20.task");
    store_log("20.task", 0, "INFO", "a last word\n"); // which arrives a little later
    log_followers_notify(fx.log_followers, "20.task");
    expect_line(fd, "a last word\n");
    expect_line(other, "a last word\n");
    struct buf rest;
    buf_init(&rest, 1 << 16);
    assert_false(read_chunk(fd, &rest)); // the end of the chunked body
    assert_false(read_chunk(other, &rest));
    assert_false(read_chunk(picky, &rest));
    close(picky);
    assert_int_equal(rest.len, 0);
    buf_free(&rest);
    close(fd);
    close(other);
}

static void test_follow_of_an_ended_task(void **state)
{
    (void)state;
    store_trial(21, 1, "21.task");
    store_log("21.task", 0, "INFO", "only\n");
    STORE(TRIAL_END, "ERROR", "", AT, I(21));
    int64_t start = clock_mono_us();
    struct reply r = call("GET", "/api/v1/trials/21/logs?follow=true", BY_USER, NULL);
    assert_int_equal(r.status, 200);
    assert_non_null(strstr(buf_str(&r.body), "only"));
    assert_true(clock_mono_us() - start < 1500000);
    reply_free(&r);
}

static void test_port_in_use(void **state)
{
    (void)state;
    struct error e = {0};
    struct server *second = NULL;
    struct server_options options = {.db = fx.db,
                                     .core = fx.core,
                                     .log_followers = fx.log_followers,
                                     .cluster_id = "x",
                                     .cluster_name = "x",
                                     .config = "{}",
                                     .bind = "127.0.0.1",
                                     .port = fx.port};
    assert_int_equal(server_start(&options, &second, &e), ERR_CONFLICT);
    assert_non_null(strstr(e.text, "in use"));
    options.bind = "no.such.host.invalid";
    assert_int_equal(server_start(&options, &second, &e), ERR_INVALID);
    options.bind = "192.0.2.1"; // not an address of this machine
    options.port = 0;
    assert_int_equal(server_start(&options, &second, &e), ERR_INVALID);
    options.bind = "127.0.0.1";
    options.cert_file = "nothing.pem";
    assert_int_equal(server_start(&options, &second, &e), ERR_INVALID);
    options.key_file = "nothing.pem";
    assert_int_equal(server_start(&options, &second, &e), ERR_NOT_FOUND);
}

static void test_stop(void **state)
{
    (void)state;
    store_trial(22, 1, "22.task");
    store_log("22.task", 0, "INFO", "one\n");
    int polls[5], follows[5], idle = dial(), slow = dial();
    send_all(slow, "POST /api/v1/trials/1/kill HTTP/1.1\r\n", 37); // the rest is never sent
    for (int i = 0; i < 5; i++) {
        polls[i] = dial();
        send_request(polls[i], "GET", POLL, BY_TASK, NULL);
        follows[i] = follow_trial(22, "");
        expect_line(follows[i], "one\n");
    }
    assert_true(reaches(&stub_of(fx.core)->parked_count, 5));
    close(slow);
    int64_t start = clock_mono_us();
    stop_server();
    assert_true(clock_mono_us() - start < 2500000);
    for (int i = 0; i < 5; i++) {
        struct reply r;
        struct buf rest;
        read_reply(polls[i], &r, true);
        assert_int_equal(r.status, 503);
        assert_non_null(strcasestr(r.head, "Connection: close"));
        reply_free(&r);
        buf_init(&rest, 1 << 16);
        assert_false(read_chunk(follows[i], &rest));
        buf_free(&rest);
        close(polls[i]);
        close(follows[i]);
    }
    assert_int_equal(next_byte(idle), -1);
    close(idle);
    start_server();
    assert_int_equal(status_of("GET", "/api/v1/me", BY_USER, NULL), 200);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_authorization_of_routes),
        cmocka_unit_test(test_malformed_bodies),
        cmocka_unit_test(test_bad_tokens),
        cmocka_unit_test(test_sessions),
        cmocka_unit_test(test_origin_of_session_calls),
        cmocka_unit_test(test_request_seen_by_a_handler),
        cmocka_unit_test(test_head_options_and_404),
        cmocka_unit_test(test_body_limits),
        cmocka_unit_test(test_total_size_of_bodies),
        cmocka_unit_test(test_workers_are_bounded),
        cmocka_unit_test(test_keep_alive),
        cmocka_unit_test(test_parked_client_disconnects),
        cmocka_unit_test(test_follow),
        cmocka_unit_test(test_follow_of_an_ended_task),
        cmocka_unit_test(test_port_in_use),
        cmocka_unit_test(test_stop),
    };
    return cmocka_run_group_tests(tests, fixture_start, fixture_stop);
}
