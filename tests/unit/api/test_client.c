// The HTTP client against a server in the test: one thread that answers each request with the next
// line of a script.
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "api/http/client.h"
#include "api/http/plain.h"
#include "base/arena.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/limits.h"
#include "base/os/file.h"
#include "base/text/json.h"

// --- the server ----------------------------------------------------------------------------------

struct scripted_answer {
    const char *raw; // bytes to send; NULL: closes the connection without an answer
    int64_t wait_us; // pause before sending
    size_t filler;   // bytes of 'x' after raw
};

struct scripted_server {
    int listener, port;
    const struct scripted_answer *script;
    size_t count;
    pthread_t thread;
    struct buf requests; // all received requests
    atomic_int served;
};

#define ANSWER(status, body) "HTTP/1.1 " status " X\r\nConnection: close\r\n\r\n" body
#define OK(body)             ANSWER("200", body)

// Reads one request: its head, and as many bytes as its Content-Length says.
static void read_request(int fd, struct buf *all)
{
    enum { TLS_HELLO = 0x16 }; // no request follows
    char bytes[4096];
    size_t start = all->len, want = SIZE_MAX;
    while (all->len - start < want) {
        ssize_t n = read(fd, bytes, sizeof(bytes));
        if (n <= 0)
            return;
        buf_append(all, bytes, (size_t)n);
        if (bytes[0] == TLS_HELLO)
            return;
        const char *head = buf_str(all) + start, *end = strstr(head, "\r\n\r\n");
        const char *length = strcasestr(head, "content-length:");
        if (end)
            want = (size_t)(end + 4 - head) +
                   (length && length < end ? strtoul(length + 15, NULL, 10) : 0);
    }
}

static void send_answer(int fd, const struct scripted_answer *a)
{
    char block[65536];
    memset(block, 'x', sizeof(block));
    if (a->wait_us)
        clock_sleep_us(a->wait_us);
    if (!a->raw || send(fd, a->raw, strlen(a->raw), MSG_NOSIGNAL) < 0)
        return;
    for (size_t left = a->filler; left;) {
        ssize_t n = send(fd, block, left < sizeof(block) ? left : sizeof(block), MSG_NOSIGNAL);
        if (n <= 0)
            return;
        left -= (size_t)n;
    }
}

static void *serve(void *ctx)
{
    struct scripted_server *s = ctx;
    for (size_t i = 0; i < s->count; i++) {
        int fd = accept(s->listener, NULL, NULL);
        if (fd < 0)
            break;
        read_request(fd, &s->requests);
        atomic_fetch_add(&s->served, 1);
        send_answer(fd, &s->script[i]);
        shutdown(fd, SHUT_WR);
        close(fd);
    }
    return NULL;
}

static int listen_somewhere(int *port)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof(at);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&at, sizeof(at)), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&at, &len), 0);
    assert_int_equal(listen(fd, 8), 0);
    *port = ntohs(at.sin_port);
    return fd;
}

static void start(struct scripted_server *s, const struct scripted_answer *script, size_t count)
{
    memset(s, 0, sizeof(*s));
    buf_init(&s->requests, 1 << 20);
    s->script = script;
    s->count = count;
    s->listener = listen_somewhere(&s->port);
    assert_int_equal(pthread_create(&s->thread, NULL, serve, s), 0);
}

static void stop(struct scripted_server *s)
{
    shutdown(s->listener, SHUT_RDWR);
    assert_int_equal(pthread_join(s->thread, NULL), 0);
    close(s->listener);
    buf_free(&s->requests);
}

// The transport of the calls: NULL is libcurl. Every test runs with both.
static client_exchange *transport;

static struct client *client_of(int port, const struct client_options *more)
{
    struct client_options o = more ? *more : (struct client_options){0};
    o.plain = transport;
    struct client *c;
    struct error e;
    char *url = xasprintf("http://127.0.0.1:%d/", port);
    o.url = url;
    if (client_open(&o, &c, &e))
        fail_msg("%s", e.text);
    free(url);
    return c;
}

static void assert_contains(const char *text, const char *part)
{
    if (!strstr(text, part))
        fail_msg("\"%s\" does not hold \"%s\"", text, part);
}

// Makes one call to a server with one answer.
static int call_once(const char *raw, size_t filler, json_t **answer, struct error *e)
{
    const struct scripted_answer script[] = {{raw, 0, filler}};
    struct scripted_server s;
    start(&s, script, 1);
    struct client *c = client_of(s.port, NULL);
    int rc = client_call(c, "GET", "/api/v1/me", NULL, answer, e);
    client_close(c);
    stop(&s);
    return rc;
}

// --- bad input -----------------------------------------------------------------------------------

static void addresses_that_are_none(void **state)
{
    static const char *const bad[] = {
        "", "http://", "ftp://host", "http://ho st", "file:///etc/passwd", "http://host:99999"};
    struct client *c;
    struct error e;
    (void)state;
    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
        struct client_options o = {.url = bad[i]};
        assert_int_equal(client_open(&o, &c, &e), ERR_INVALID);
        assert_null(c);
        assert_contains(e.text, "is not the address of a master; write it as http://host:8080");
    }
    struct client_options o = {.url = NULL};
    assert_int_equal(client_open(&o, &c, NULL), ERR_INVALID);
    client_close(NULL);
}

static void nobody_answers(void **state)
{
    int port;
    struct error e;
    json_t *answer;
    (void)state;
    int fd = listen_somewhere(&port);
    close(fd); // the port is free again, and no one listens
    struct client *c = client_of(port, NULL);
    assert_int_equal(client_call(c, "GET", "/info", NULL, &answer, &e), ERR_UNAVAILABLE);
    assert_null(answer);
    char *address = xasprintf("cannot reach http://127.0.0.1:%d (", port);
    assert_contains(e.text, address);
    assert_contains(e.text, "Check that the master runs there");
    assert_int_equal(client_status(c), 0);
    free(address);
    client_close(c);
}

static void a_closed_connection_may_mean_https(void **state)
{
    const struct scripted_answer script[] = {{NULL, 0, 0}};
    struct scripted_server s;
    struct error e;
    (void)state;
    start(&s, script, 1);
    struct client *c = client_of(s.port, NULL);
    assert_int_equal(client_call(c, "GET", "/info", NULL, NULL, &e), ERR_UNAVAILABLE);
    assert_contains(e.text, "if it serves https, write https://");
    client_close(c);
    stop(&s);
}

static void a_certificate_that_is_none(void **state)
{
    const struct scripted_answer script[] = {{OK("{}"), 0, 0}};
    struct scripted_server s;
    struct client *c;
    struct error e;
    (void)state;
    start(&s, script, 1);
    char *url = xasprintf("https://127.0.0.1:%d", s.port);
    struct client_options o = {.url = url};
    assert_int_equal(client_open(&o, &c, &e), 0);
    assert_int_equal(client_call(c, "GET", "/info", NULL, NULL, &e), ERR_PEER);
    assert_contains(e.text, "write http:// instead of https://");
    client_close(c);
    o.ca_file = "/nonexistent.pem";
    assert_int_equal(client_open(&o, &c, &e), 0);
    assert_int_not_equal(client_call(c, "GET", "/info", NULL, NULL, &e), 0);
    client_close(c);
    free(url);
    stop(&s);
}

static void answers_that_are_no_json(void **state)
{
    struct error e;
    json_t *answer;
    (void)state;
    assert_int_equal(call_once(OK("<html>"), 0, &answer, &e), ERR_PEER);
    assert_null(answer);
    assert_contains(e.text, "sent an answer that is not JSON");
    assert_int_equal(call_once(OK("{\"a\":1}{}"), 0, &answer, &e), ERR_PEER);
    assert_int_equal(call_once("SSH-2.0-OpenSSH\r\n", 0, &answer, &e), ERR_UNAVAILABLE);
    assert_int_equal(call_once(NULL, 0, &answer, &e), ERR_UNAVAILABLE);
    assert_int_equal(
        call_once("HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\n{\"cut", 0, &answer, &e),
        ERR_UNAVAILABLE);
    assert_null(answer);
}

static void statuses_become_errors(void **state)
{
    static const struct {
        const char *raw, *text;
        int code;
    } cases[] = {
        {ANSWER("404", "{\"error\":{\"code\":5,\"error\":\"trial 7 is gone\"}}"), "trial 7 is gone",
         ERR_NOT_FOUND},
        {ANSWER("403", "{\"message\":\"allocation has ended\"}   "), "allocation has ended",
         ERR_FORBIDDEN},
        {ANSWER("401", ""), "GET /api/v1/me: http://127.0.0.1", ERR_AUTH},
        {ANSWER("500", "oops"), "answered HTTP status 500", ERR_INTERNAL},
        {ANSWER("409", "{\"error\":\"no object\"}"), "answered HTTP status 409", ERR_CONFLICT},
        {ANSWER("504", ""), "status 504", ERR_TIMEOUT},
        {ANSWER("400", "{\"error\":{\"code\":3,\"error\":\"no number\"}}"), "no number",
         ERR_INVALID},
        {ANSWER("400", "{\"error\":{\"code\":9,\"error\":\"it has ended\"}}"), "it has ended",
         ERR_STATE},
        {ANSWER("400", "{\"error\":\"no object\"}"), "answered HTTP status 400", ERR_INVALID},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        struct error e;
        json_t *answer;
        assert_int_equal(call_once(cases[i].raw, 0, &answer, &e), cases[i].code);
        assert_null(answer);
        assert_contains(e.text, cases[i].text);
    }
    assert_int_equal(call_once("HTTP/1.1 302 X\r\nLocation: http://elsewhere/\r\n"
                               "Content-Length: 0\r\n\r\n",
                               0, NULL, NULL) < 0,
                     1);
}

static void answers_larger_than_the_limit(void **state)
{
    struct error e;
    (void)state;
    assert_int_equal(call_once(OK(""), LIMIT_BODY + 1, NULL, &e), ERR_TOO_LARGE);
    assert_contains(e.text, "the answer is larger than");
    assert_int_equal(call_once(OK(""), LIMIT_BODY, NULL, &e),
                     ERR_PEER); // at the limit it is read, but it is not JSON
}

static void a_call_ends_in_time(void **state)
{
    const struct scripted_answer script[] = {{OK("{}"), 1500000, 0}};
    const struct client_options o = {.timeout_s = 1};
    struct scripted_server s;
    struct error e;
    (void)state;
    start(&s, script, 1);
    struct client *c = client_of(s.port, &o);
    assert_int_equal(client_call(c, "GET", "/slow", NULL, NULL, &e), ERR_TIMEOUT);
    assert_contains(e.text, "did not answer in time");
    client_close(c);
    stop(&s);
}

// --- requests ------------------------------------------------------------------------------------

static void requests_carry_method_path_body_and_token(void **state)
{
    const struct scripted_answer script[] = {
        {OK("{\"id\": 7}"), 0, 0}, {OK(""), 0, 0}, {OK("{}"), 0, 0}, {OK("{}"), 0, 0}};
    const struct client_options o = {.auth = CLIENT_BEARER, .token = "secret\n"};
    struct scripted_server s;
    struct error e;
    json_t *answer, *body = json_pack("{s:s}", "a", "gr\u00fcn");
    (void)state;
    start(&s, script, 4);
    struct client *c = client_of(s.port, &o);
    assert_int_equal(client_call(c, "POST", "/api/v1/x?y=1", body, &answer, &e), 0);
    assert_int_equal(jget_int(answer, "id", 0), 7);
    assert_int_equal(client_status(c), 200);
    json_decref(answer);
    assert_contains(buf_str(&s.requests), "POST /api/v1/x?y=1 HTTP/1.1\r\n");
    assert_contains(buf_str(&s.requests), "\r\nAuthorization: Bearer secret\r\n");
    assert_contains(buf_str(&s.requests), "\r\n\r\n{\"a\":\"gr\u00fcn\"}");
    assert_null(strstr(buf_str(&s.requests), "Expect:"));

    buf_reset(&s.requests);
    client_set_token(c, CLIENT_TASK, "t");
    assert_int_equal(client_call(c, "POST", "/empty", NULL, &answer, &e), 0);
    assert_int_equal(json_object_size(answer), 0); // an empty body gives an empty object
    json_decref(answer);
    assert_contains(buf_str(&s.requests), "\r\nGrpc-Metadata-x-allocation-token: Bearer t\r\n");
    assert_contains(buf_str(&s.requests), "\r\nContent-Length: 0\r\n");
    assert_null(strstr(buf_str(&s.requests), "Authorization"));

    buf_reset(&s.requests);
    client_set_token(c, CLIENT_NO_AUTH, "t");
    assert_int_equal(client_call(c, "DELETE", "/thing", NULL, NULL, &e), 0);
    assert_contains(buf_str(&s.requests), "DELETE /thing HTTP/1.1\r\n");
    assert_null(strstr(buf_str(&s.requests), "Bearer"));

    buf_reset(&s.requests);
    assert_int_equal(client_call(c, "PATCH", "/thing", body, NULL, &e), 0);
    assert_contains(buf_str(&s.requests), "PATCH /thing HTTP/1.1\r\n");
    assert_contains(buf_str(&s.requests), "\r\n\r\n{\"a\":\"gr\u00fcn\"}");
    client_close(c);
    json_decref(body);
    stop(&s);
}

static void an_address_without_scheme(void **state)
{
    const struct scripted_answer script[] = {{OK("{}"), 0, 0}};
    struct scripted_server s;
    struct client *c;
    struct error e;
    (void)state;
    start(&s, script, 1);
    char *url = xasprintf("localhost:%d//", s.port);
    struct client_options o = {.url = url, .plain = transport};
    assert_int_equal(client_open(&o, &c, &e), 0);
    assert_int_equal(client_call(c, "GET", "/info", NULL, NULL, &e), 0);
    assert_contains(buf_str(&s.requests), "GET /info HTTP/1.1");
    client_close(c);
    free(url);
    stop(&s);
}

// --- another try ---------------------------------------------------------------------------------

#define UNAVAILABLE ANSWER("503", "")

static void calls_are_repeated_until_they_succeed(void **state)
{
    const struct scripted_answer script[] = {
        {UNAVAILABLE, 0, 0}, {NULL, 0, 0}, {ANSWER("429", ""), 0, 0}, {OK("{\"ok\":  1}"), 0, 0}};
    struct scripted_server s;
    struct error e;
    json_t *answer;
    (void)state;
    start(&s, script, 4);
    struct client *c = client_of(s.port, NULL);
    int64_t before = clock_mono_us();
    if (client_call_retry(c, "GET", "/", NULL, before + 20000000, &answer, &e))
        fail_msg("%s", e.text);
    assert_int_equal(jget_int(answer, "ok", 0), 1);
    assert_true(clock_mono_us() - before >= 700000); // 0.1 + 0.2 + 0.4 s
    assert_int_equal(atomic_load(&s.served), 4);
    json_decref(answer);
    client_close(c);
    stop(&s);
}

static void what_cannot_mend_is_not_repeated(void **state)
{
    static const char *const raw[] = {ANSWER("403", ""), ANSWER("500", ""), OK("oops")};
    (void)state;
    for (size_t i = 0; i < sizeof(raw) / sizeof(*raw); i++) {
        const struct scripted_answer script[] = {{raw[i], 0, 0}, {OK("{}"), 0, 0}};
        struct scripted_server s;
        struct error e;
        start(&s, script, 2);
        struct client *c = client_of(s.port, NULL);
        assert_int_not_equal(
            client_call_retry(c, "GET", "/", NULL, clock_mono_us() + 5000000, NULL, &e), 0);
        assert_int_equal(atomic_load(&s.served), 1);
        client_close(c);
        stop(&s);
    }
}

static void tries_end_at_the_deadline(void **state)
{
    const struct scripted_answer script[] = {{UNAVAILABLE, 0, 0},
                                             {UNAVAILABLE, 0, 0},
                                             {UNAVAILABLE, 0, 0},
                                             {UNAVAILABLE, 0, 0},
                                             {UNAVAILABLE, 0, 0}};
    struct scripted_server s;
    struct error e;
    (void)state;
    start(&s, script, 5);
    struct client *c = client_of(s.port, NULL);
    int64_t before = clock_mono_us();
    assert_int_equal(client_call_retry(c, "GET", "/", NULL, before + 500000, NULL, &e),
                     ERR_UNAVAILABLE);
    assert_true(clock_mono_us() - before < 1000000);
    assert_int_equal(atomic_load(&s.served), 3); // at 0, 0.1 and 0.3 s; 0.7 s is too late
    assert_contains(e.text, "status 503");
    client_close(c);
    stop(&s);
}

static void *cancel_soon(void *ctx)
{
    clock_sleep_us(300000);
    atomic_store((atomic_bool *)ctx, true);
    return NULL;
}

static void another_thread_ends_a_call(void **state)
{
    const struct scripted_answer script[] = {{OK("{}"), 3000000, 0}};
    atomic_bool cancel = false;
    const struct client_options o = {.cancel = &cancel};
    pthread_t thread;
    struct scripted_server s;
    struct error e;
    int port;
    (void)state;
    start(&s, script, 1);
    struct client *c = client_of(s.port, &o);
    assert_int_equal(pthread_create(&thread, NULL, cancel_soon, &cancel), 0);
    int64_t before = clock_mono_us();
    assert_int_equal(client_call_retry(c, "GET", "/", NULL, before + 60000000, NULL, &e),
                     ERR_TIMEOUT);
    assert_true(clock_mono_us() - before < 2000000);
    assert_contains(e.text, "the call was cancelled");
    assert_int_equal(pthread_join(thread, NULL), 0);
    client_close(c);
    stop(&s);

    close(listen_somewhere(&port)); // nothing listens between two tries
    atomic_store(&cancel, false);
    c = client_of(port, &o);
    assert_int_equal(pthread_create(&thread, NULL, cancel_soon, &cancel), 0);
    before = clock_mono_us();
    assert_int_not_equal(client_call_retry(c, "GET", "/", NULL, before + 60000000, NULL, &e), 0);
    assert_true(clock_mono_us() - before < 2000000);
    assert_int_equal(pthread_join(thread, NULL), 0);
    client_close(c);
}

// --- streams -------------------------------------------------------------------------------------

struct lines {
    struct buf text;
    int stop_after, code;
};

static int on_line(void *ctx, const json_t *result, struct error *e)
{
    struct lines *l = ctx;
    char *text = json_text(result);
    buf_printf(&l->text, "%s;", text);
    free(text);
    if (--l->stop_after == 0)
        return l->code < 0 ? error_set(e, l->code, "enough") : l->code;
    return 0;
}

static int stream_once(const char *raw, size_t filler, struct lines *l, struct error *e)
{
    const struct scripted_answer script[] = {{raw, 0, filler}};
    struct scripted_server s;
    start(&s, script, 1);
    struct client *c = client_of(s.port, NULL);
    buf_init(&l->text, 1 << 16);
    int rc = client_stream(c, "/logs", on_line, l, e);
    client_close(c);
    stop(&s);
    return rc;
}

#define STREAM OK("")

static void check_stream(const char *raw, int stop_after, int stop_code, int code,
                         const char *lines, const char *text)
{
    struct lines l = {.stop_after = stop_after, .code = stop_code};
    struct error e = {0};
    assert_int_equal(stream_once(raw, 0, &l, &e), code);
    assert_string_equal(buf_str(&l.text), lines);
    assert_contains(e.text, text);
    buf_free(&l.text);
}

static void streams_that_end_badly(void **state)
{
    (void)state;
    check_stream(STREAM "{\"result\":1}\n{\"error\":{\"httpCode\":404,\"message\":\"gone\"}}\n"
                        "{\"result\":2}\n",
                 0, 0, ERR_NOT_FOUND, "1;", "gone");
    check_stream(STREAM "{\"error\":{}}\n", 0, 0, ERR_INTERNAL, "", "ended with an error");
    check_stream(STREAM "{\"result\":1}\n{\"res", 0, 0, ERR_PEER, "1;", "is not JSON");
    check_stream(STREAM "oops\n", 0, 0, ERR_PEER, "", "is not JSON");
    check_stream(STREAM "{\"other\":1}\n", 0, 0, ERR_PEER, "", "neither");
    check_stream(ANSWER("404", "{\"message\":\"no one\"}"), 0, 0, ERR_NOT_FOUND, "", "no one");
    check_stream(
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nd\r\n{\"result\":1}\n\r\n5\r\n", 0, 0,
        ERR_UNAVAILABLE, "1;", "cannot reach");

    struct lines l = {0};
    struct error e;
    assert_int_equal(stream_once(STREAM "\"", LIMIT_BODY_SMALL, &l, &e), ERR_TOO_LARGE);
    assert_contains(e.text, "a line of the stream is longer than");
    buf_free(&l.text);
}

static void lines_of_a_stream_arrive(void **state)
{
    (void)state;
    check_stream(STREAM, 0, 0, 0, "", "");
    check_stream(STREAM "{\"result\":{\"a\":1}}\n\n{\"result\":null}\n{\"result\":[2]}", 0, 0, 0,
                 "{\"a\":1};null;[2];", "");
    check_stream("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
                 "5\r\n{\"res\r\n9\r\nult\":1}\n{\r\nb\r\n\"result\":2}\r\n1\r\n\n\r\n0\r\n\r\n",
                 0, 0, 0, "1;2;", "");
    check_stream(STREAM "{\"result\":1}\n{\"result\":2}\n{\"result\":3}\n", 2, 1, 0, "1;2;", "");
    check_stream(STREAM "{\"result\":1}\n{\"result\":2}\n", 1, ERR_IO, ERR_IO, "1;", "enough");
    check_stream(STREAM "{\"result\":1}", 1, 1, 0, "1;", "");
}

// --- downloads -----------------------------------------------------------------------------------

static int download_once(const char *raw, size_t filler, int fd, char **request, struct error *e)
{
    const struct scripted_answer script[] = {{raw, 0, filler}, {OK("{}"), 0, 0}};
    struct scripted_server s;
    start(&s, script, 2);
    struct client *c = client_of(s.port, NULL);
    int rc = client_download(c, "/checkpoints/x", "application/gzip", fd, e);
    *request = xstrdup(buf_str(&s.requests));
    buf_reset(&s.requests);
    assert_int_equal(client_call(c, "GET", "/next", NULL, NULL, NULL), 0);
    assert_null(strstr(buf_str(&s.requests), "application/gzip")); // only for that one call
    client_close(c);
    stop(&s);
    return rc;
}

static void bodies_are_written_to_a_descriptor(void **state)
{
    struct error e = {0};
    char *request, *data;
    size_t len;
    (void)state;
    int fd = open("body", O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    assert_int_equal(download_once(STREAM, 3000000, fd, &request, &e), 0);
    assert_contains(request, "GET /checkpoints/x HTTP/1.1");
    assert_contains(request, "\r\nAccept: application/gzip\r\n");
    free(request);
    assert_int_equal(file_read("body", 4000000, &data, &len, &e), 0);
    assert_int_equal(len, 3000000);
    assert_int_equal(data[2999999], 'x');
    free(data);

    assert_int_equal(ftruncate(fd, 0), 0);
    assert_int_equal(download_once(ANSWER("404", "{\"message\":\"no one\"}"), 0, fd, &request, &e),
                     ERR_NOT_FOUND);
    free(request);
    assert_string_equal(e.text, "no one");
    assert_int_equal(lseek(fd, 0, SEEK_END), 0); // the error only goes into the text
    close(fd);

    fd = open("body", O_RDONLY | O_CLOEXEC);
    assert_int_equal(download_once(STREAM "data", 0, fd, &request, &e), ERR_IO);
    assert_contains(e.text, "cannot write the data from http://127.0.0.1");
    free(request);
    close(fd);
}

static void texts_are_escaped_for_paths(void **state)
{
    (void)state;
    char *text = client_escape("a b/c?d=\u00fc&1.2-3_4~");
    assert_string_equal(text, "a%20b%2Fc%3Fd%3D%C3%BC%261.2-3_4~");
    free(text);
    text = client_escape("");
    assert_string_equal(text, "");
    free(text);
}

static void a_plain_client_goes_over_to_libcurl(void **state)
{
    struct scripted_answer script[6];
    const struct client_options o = {.auth = CLIENT_BEARER, .token = "t"};
    struct scripted_server s;
    (void)state;
    for (size_t i = 0; i < 6; i++)
        script[i] = (struct scripted_answer){STREAM "{\"result\": {}}\n", 0, 0};
    start(&s, script, 6);
    struct client *c = client_of(s.port, &o);
    struct lines l = {0};
    buf_init(&l.text, 1 << 20);
    assert_int_equal(client_stream(c, "/stream", on_line, &l, NULL),
                     0); // only libcurl reads streams
    for (int i = 0; i < 5; i++)
        assert_int_equal(client_call(c, "GET", "/info", NULL, NULL, NULL), 0);
    assert_int_equal(atomic_load(&s.served), 6);
    size_t tokens = 0;
    for (const char *at = buf_str(&s.requests); (at = strstr(at, "Bearer t\r\n")); at++)
        tokens++;
    assert_int_equal(tokens, 6);
    buf_free(&l.text);
    client_close(c);
    stop(&s);
}

static void a_pause_that_the_server_asks_for(void **state)
{
    const struct scripted_answer script[] = {
        {"HTTP/1.1 503 X\r\nRetry-After: 7\r\nConnection: close\r\n\r\n", 0, 0}, {OK("{}"), 0, 0}};
    struct scripted_server s;
    (void)state;
    start(&s, script, 2);
    struct client *c = client_of(s.port, NULL);
    assert_int_equal(client_call(c, "GET", "/info", NULL, NULL, NULL), ERR_UNAVAILABLE);
    assert_int_equal(client_retry_after(c), 7);
    assert_int_equal(client_call(c, "GET", "/info", NULL, NULL, NULL), 0);
    assert_int_equal(client_retry_after(c), 0);
    client_close(c);
    stop(&s);
}

static void plain_exchanges_are_for_this_machine_alone(void **state)
{
    static const char *const urls[] = {"https://127.0.0.1:1",
                                       "http://localhost.example.org:1",
                                       "http://127.example.org:1",
                                       "http://10.0.0.1:1",
                                       "http://127.0.0.1:1/prefix",
                                       "http://u@127.0.0.1",
                                       "http://127.0.0.1:99999",
                                       "http://127.0.0.1:x",
                                       ""};
    (void)state;
    for (size_t i = 0; i < sizeof(urls) / sizeof(*urls); i++) {
        char detail[CURL_ERROR_SIZE] = "";
        struct buf answer;
        buf_init(&answer, 100);
        struct plain_call call = {.url = urls[i],
                                  .method = "GET",
                                  .path = "/",
                                  .timeout_s = 5,
                                  .answer = &answer,
                                  .detail = detail};
        assert_int_equal(plain_exchange(&call), CURLE_COULDNT_CONNECT);
        assert_string_equal(detail, ""); // it did not even try
        buf_free(&answer);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(addresses_that_are_none),
        cmocka_unit_test(nobody_answers),
        cmocka_unit_test(a_closed_connection_may_mean_https),
        cmocka_unit_test(a_certificate_that_is_none),
        cmocka_unit_test(answers_that_are_no_json),
        cmocka_unit_test(statuses_become_errors),
        cmocka_unit_test(answers_larger_than_the_limit),
        cmocka_unit_test(a_call_ends_in_time),
        cmocka_unit_test(requests_carry_method_path_body_and_token),
        cmocka_unit_test(an_address_without_scheme),
        cmocka_unit_test(calls_are_repeated_until_they_succeed),
        cmocka_unit_test(what_cannot_mend_is_not_repeated),
        cmocka_unit_test(tries_end_at_the_deadline),
        cmocka_unit_test(another_thread_ends_a_call),
        cmocka_unit_test(streams_that_end_badly),
        cmocka_unit_test(lines_of_a_stream_arrive),
        cmocka_unit_test(bodies_are_written_to_a_descriptor),
        cmocka_unit_test(texts_are_escaped_for_paths),
        cmocka_unit_test(a_plain_client_goes_over_to_libcurl),
        cmocka_unit_test(a_pause_that_the_server_asks_for),
        cmocka_unit_test(plain_exchanges_are_for_this_machine_alone),
    };
    int failed = cmocka_run_group_tests_name("libcurl", tests, NULL, NULL);
    transport = plain_exchange;
    return failed + cmocka_run_group_tests_name("plain", tests, NULL, NULL);
}
