#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/client_parts.h"
#include "base/arena.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/json.h"
#include "base/limits.h"
#include "base/log.h"

// One answer on its way in. What comes with a status of 300 or more is kept as the error's text;
// the rest goes to `data`, which returns 0, STOP, or a negative error with *e filled.
enum { STOP = 1 };
struct transfer {
    struct client *client;
    int (*data)(struct transfer *t, const char *bytes, size_t len, struct error *e);
    struct buf body; // the answer, a line, or the text of a failure
    struct error *e;
    int result; // of `data`
    int fd;
    const char *accept; // NULL: anything
    client_on_line *on_line;
    void *ctx;
};

// --- opening -------------------------------------------------------------------------------------

static void init_curl(void)
{
    must(!curl_global_init(CURL_GLOBAL_DEFAULT));
}

static int on_progress(void *ctx, curl_off_t down, curl_off_t now, curl_off_t up, curl_off_t sent)
{
    const struct client *c = ctx;
    (void)down, (void)now, (void)up, (void)sent;
    return c->cancel && atomic_load(c->cancel);
}

// Those that libcurl reads; the capital spelling of the first could come from a web server.
static bool has_proxy(void)
{
    static const char *const names[] = {"http_proxy", "all_proxy", "ALL_PROXY"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const char *value = getenv(names[i]);
        if (value && *value)
            return true;
    }
    return false;
}

static bool is_loopback(const char *host)
{
    return !strcmp(host, "localhost") || !strncmp(host, "127.", 4) || !strcmp(host, "[::1]");
}

// What is more than a host, a port and a path.
static bool read_by_curl(struct client *c)
{
    char *host = NULL;
    bool web = !strncmp(c->url, "http://", 7) || !strncmp(c->url, "https://", 8);
    if (!web)
        return false;
    CURLU *url = curl_url();
    must(url);
    bool good = !curl_url_set(url, CURLUPART_URL, c->url, 0) &&
                !curl_url_get(url, CURLUPART_HOST, &host, 0);
    c->loopback = good && is_loopback(host);
    curl_free(host);
    curl_url_cleanup(url);
    return good;
}

static int read_url(struct client *c, const char *text, struct error *e)
{
    c->url = strstr(text, "://") ? xstrdup(text) : xasprintf("http://%s", text);
    for (size_t len = strlen(c->url); len && c->url[len - 1] == '/'; len--)
        c->url[len - 1] = '\0';
    c->plain = plain_new(c->url);
    c->loopback = c->plain && plain_is_loopback(c->plain);
    if (!c->plain && !read_by_curl(c))
        return error_set(e, ERR_INVALID,
                         "\"%.200s\" is no address of a master; write it as http://host:8080",
                         text);
    if (c->plain && !c->loopback && has_proxy()) {
        plain_free(c->plain);
        c->plain = NULL;
    }
    return 0;
}

CURL *client_easy(struct client *c)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    if (c->easy)
        return c->easy;
    pthread_once(&once, init_curl);
    CURL *h = c->easy = curl_easy_init();
    must(h);
    curl_easy_setopt(h, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(h, CURLOPT_PROTOCOLS_STR, "http,https");
    curl_easy_setopt(h, CURLOPT_CONNECTTIMEOUT, c->connect_timeout_s);
    curl_easy_setopt(h, CURLOPT_TCP_KEEPALIVE, 1L);
    curl_easy_setopt(h, CURLOPT_ERRORBUFFER, c->detail);
    curl_easy_setopt(h, CURLOPT_USERAGENT, "muster/" MUSTER_VERSION);
    curl_easy_setopt(h, CURLOPT_NOPROGRESS, 0L);
    curl_easy_setopt(h, CURLOPT_XFERINFOFUNCTION, on_progress);
    curl_easy_setopt(h, CURLOPT_XFERINFODATA, c);
    if (c->ca_file)
        curl_easy_setopt(h, CURLOPT_CAINFO, c->ca_file);
    if (c->loopback)
        curl_easy_setopt(h, CURLOPT_PROXY, "");
    return h;
}

int client_open(const struct client_options *options, struct client **out, struct error *e)
{
    struct client *c = xcalloc(1, sizeof(*c));
    c->cancel = options->cancel;
    c->timeout_s = options->timeout_s ? options->timeout_s : 60;
    c->connect_timeout_s = options->connect_timeout_s ? options->connect_timeout_s : 5;
    c->ca_file = options->ca_file ? xstrdup(options->ca_file) : NULL;
    int rc = read_url(c, options->url ? options->url : "", e);
    client_set_token(c, options->auth, options->token);
    if (rc) {
        client_close(c);
        c = NULL;
    }
    *out = c;
    return rc;
}

static void forget_token(struct client *c)
{
    if (c->token)
        explicit_bzero(c->token, strlen(c->token));
    free(c->token);
    c->token = NULL;
}

void client_close(struct client *c)
{
    if (!c)
        return;
    if (c->easy)
        curl_easy_cleanup(c->easy);
    plain_free(c->plain);
    forget_token(c);
    free(c->ca_file);
    free(c->url);
    free(c);
}

void client_set_token(struct client *c, enum client_auth auth, const char *token)
{
    static const char *const names[] = {
        [CLIENT_BEARER] = "Authorization", [CLIENT_TASK] = "Grpc-Metadata-x-allocation-token"};
    forget_token(c);
    if (auth == CLIENT_NO_AUTH || !token)
        return;
    int len = (int)strcspn(token, " \t\r\n"); // as read from a file, with its newline
    c->token = xasprintf("%s: Bearer %.*s", names[auth], len, token);
}

static void add_header(struct curl_slist **list, const char *line)
{
    struct curl_slist *longer = curl_slist_append(*list, line);
    must(longer);
    *list = longer;
}

struct curl_slist *client_headers(const struct client *c, const char *accept)
{
    struct curl_slist *list = NULL;
    char *line = accept ? xasprintf("Accept: %s", accept) : NULL;
    add_header(&list, "Content-Type: application/json");
    add_header(&list, "Expect:"); // no round trip before a large body
    if (line)
        add_header(&list, line);
    if (c->token)
        add_header(&list, c->token);
    free(line);
    return list;
}

// --- one exchange --------------------------------------------------------------------------------

static int keep_body(struct transfer *t, const char *bytes, size_t len, struct error *e)
{
    if (!buf_append(&t->body, bytes, len))
        return 0;
    return error_set(e, ERR_TOO_LARGE, "%s: the answer is larger than %zu bytes", t->client->url,
                     t->body.limit);
}

static int take(void *ctx, int status, const char *bytes, size_t len)
{
    struct transfer *t = ctx;
    t->result = status >= 300 ? keep_body(t, bytes, len, t->e) : t->data(t, bytes, len, t->e);
    return t->result;
}

static size_t on_data(char *bytes, size_t size, size_t count, void *ctx)
{
    const struct transfer *t = ctx;
    long status = 0;
    curl_easy_getinfo(t->client->easy, CURLINFO_RESPONSE_CODE, &status);
    return take(ctx, (int)status, bytes, size * count) ? 0 : size * count;
}

int client_transport_failed(struct client *c, CURLcode code, struct error *e)
{
    const char *detail = *c->detail ? c->detail : curl_easy_strerror(code);
    switch (code) {
    case CURLE_ABORTED_BY_CALLBACK:
        return error_set(e, ERR_TIMEOUT, "%s: the call was cancelled", c->url);
    case CURLE_OPERATION_TIMEDOUT:
        c->may_retry = true;
        return error_set(e, ERR_TIMEOUT,
                         "%s did not answer in time (%s). Check that the master runs and that "
                         "this machine reaches it",
                         c->url, detail);
    case CURLE_PEER_FAILED_VERIFICATION:
    case CURLE_SSL_CACERT_BADFILE:
    case CURLE_SSL_CONNECT_ERROR:
        return error_set(e, ERR_PEER,
                         "%s: no trusted connection (%s). Check the address, and give the "
                         "certificate of its authority as CA file",
                         c->url, detail);
    default:
        c->may_retry = true;
        return error_set(e, ERR_UNAVAILABLE,
                         "cannot reach %s (%s). Check that the master runs there and that the "
                         "address is right",
                         c->url, detail);
    }
}

// The server's own sentence, in either of the wire's shapes.
int client_http_failed(struct client *c, const char *method, const char *path,
                       const struct buf *body, struct error *e)
{
    json_t *answer = NULL;
    int code = err_from_http(c->status);
    json_parse(buf_str(body), body->len, "answer", &answer, NULL);
    const char *text = jget_string(jget(answer, "error"), "error", NULL);
    if (!text)
        text = jget_string(answer, "message", NULL);
    c->may_retry = c->status == 429 || c->status == 502 || c->status == 503 || c->status == 504;
    if (text)
        error_set(e, code, "%s", text);
    else
        error_set(e, code, "%s %s: %s answered HTTP status %d", method, path, c->url, c->status);
    json_decref(answer);
    return code;
}

static bool has_body(const char *method, const char *body)
{
    return body || (strcmp(method, "GET") && strcmp(method, "DELETE"));
}

static void set_method(struct client *c, const char *method, const char *body)
{
    if (has_body(method, body)) { // a POST of nothing still says that its length is 0
        curl_easy_setopt(c->easy, CURLOPT_POST, 1L);
        curl_easy_setopt(c->easy, CURLOPT_POSTFIELDS, body ? body : "");
        curl_easy_setopt(c->easy, CURLOPT_POSTFIELDSIZE_LARGE,
                         (curl_off_t)(body ? strlen(body) : 0));
    } else {
        curl_easy_setopt(c->easy, CURLOPT_HTTPGET, 1L);
    }
    curl_easy_setopt(c->easy, CURLOPT_CUSTOMREQUEST, method);
}

static CURLcode run_curl(struct client *c, const char *method, const char *path, const char *body,
                         long timeout_s, struct transfer *t)
{
    long status = 0;
    char *url = xasprintf("%s%s", c->url, path);
    CURL *h = client_easy(c);
    struct curl_slist *headers = client_headers(c, t->accept);
    set_method(c, method, body);
    curl_easy_setopt(h, CURLOPT_URL, url);
    curl_easy_setopt(h, CURLOPT_HTTPHEADER, headers);
    curl_easy_setopt(h, CURLOPT_TIMEOUT, timeout_s);
    curl_easy_setopt(h, CURLOPT_WRITEFUNCTION, on_data);
    curl_easy_setopt(h, CURLOPT_WRITEDATA, t);
    CURLcode code = curl_easy_perform(h);
    curl_easy_getinfo(h, CURLINFO_RESPONSE_CODE, &status);
    c->status = (int)status;
    curl_slist_free_all(headers);
    free(url);
    return code;
}

static CURLcode run_plain(struct client *c, const char *method, const char *path, const char *body,
                          long timeout_s, struct transfer *t)
{
    static const CURLcode codes[] = {[PLAIN_DONE] = CURLE_OK,
                                     [PLAIN_STOPPED] = CURLE_WRITE_ERROR,
                                     [PLAIN_CANCELLED] = CURLE_ABORTED_BY_CALLBACK,
                                     [PLAIN_TIMEOUT] = CURLE_OPERATION_TIMEDOUT,
                                     [PLAIN_FAILED] = CURLE_COULDNT_CONNECT};
    char *head = xasprintf("%s %s%s HTTP/1.1\r\nUser-Agent: muster/" MUSTER_VERSION
                           "\r\nContent-Type: application/json\r\nAccept: %s\r\n%s%s",
                           method, plain_path(c->plain), path, t->accept ? t->accept : "*/*",
                           c->token ? c->token : "", c->token ? "\r\n" : "");
    const char *sent = has_body(method, body) && !body ? "" : body;
    struct plain_call call = {.head = head,
                              .body = sent,
                              .body_len = sent ? strlen(sent) : 0,
                              .connect_us = c->connect_timeout_s * 1000000,
                              .deadline =
                                  timeout_s ? clock_mono_us() + timeout_s * 1000000 : INT64_MAX,
                              .cancel = c->cancel,
                              .take = take,
                              .ctx = t};
    enum plain_end end = plain_perform(c->plain, &call);
    c->status = call.status;
    snprintf(c->detail, sizeof c->detail, "%s", call.detail);
    explicit_bzero(head, strlen(head));
    free(head);
    return codes[end];
}

// Runs one request; t->data, t->body and what they need are set.
static int exchange(struct client *c, const char *method, const char *path, const char *body,
                    long timeout_s, struct transfer *t, struct error *e)
{
    struct error own;
    t->client = c;
    t->e = e ? e : &own;
    c->may_retry = false;
    *c->detail = '\0';
    CURLcode code = c->plain ? run_plain(c, method, path, body, timeout_s, t)
                             : run_curl(c, method, path, body, timeout_s, t);
    if (t->result)
        return t->result == STOP ? 0 : t->result;
    if (code)
        return client_transport_failed(c, code, e);
    return c->status >= 300 ? client_http_failed(c, method, path, &t->body, e) : 0;
}

// --- calls ---------------------------------------------------------------------------------------

static int read_answer(struct client *c, const char *method, const char *path,
                       const struct buf *body, json_t **answer, struct error *e)
{
    struct error why;
    json_t *parsed = NULL;
    if (!body->len)
        parsed = json_object();
    else if (json_parse(body->data, body->len, "answer", &parsed, &why))
        return error_set(e, ERR_PEER,
                         "%s %s: %s answered something that is no JSON (%.200s). Is this the "
                         "address of a master?",
                         method, path, c->url, why.text);
    if (answer)
        *answer = parsed;
    else
        json_decref(parsed);
    return 0;
}

static int call_text(struct client *c, const char *method, const char *path, const char *body,
                     json_t **answer, struct error *e)
{
    struct transfer t = {.data = keep_body};
    buf_init(&t.body, LIMIT_BODY);
    int rc = exchange(c, method, path, body, c->timeout_s, &t, e);
    if (!rc)
        rc = read_answer(c, method, path, &t.body, answer, e);
    buf_free(&t.body);
    return rc;
}

int client_call(struct client *c, const char *method, const char *path, const json_t *body,
                json_t **answer, struct error *e)
{
    char *text = body ? json_text(body) : NULL;
    if (answer)
        *answer = NULL;
    int rc = call_text(c, method, path, text, answer, e);
    free(text);
    return rc;
}

// Sleeps until `until`, awake often enough to notice a cancel. False: cancelled.
static bool sleep_until(const struct client *c, int64_t until)
{
    for (;;) {
        int64_t left = until - clock_mono_us();
        if (c->cancel && atomic_load(c->cancel))
            return false;
        if (left <= 0)
            return true;
        clock_sleep_us(left < 100000 ? left : 100000);
    }
}

int client_call_retry(struct client *c, const char *method, const char *path, const json_t *body,
                      int64_t deadline, json_t **answer, struct error *e)
{
    enum { PAUSE_FIRST_US = 100000, PAUSE_MAX_US = 5000000 };
    char *text = body ? json_text(body) : NULL;
    int64_t pause = PAUSE_FIRST_US;
    int rc;
    if (answer)
        *answer = NULL;
    for (;;) {
        rc = call_text(c, method, path, text, answer, e);
        int64_t next = clock_mono_us() + pause;
        if (!rc || !c->may_retry || next > deadline || !sleep_until(c, next))
            break;
        pause = pause * 2 < PAUSE_MAX_US ? pause * 2 : PAUSE_MAX_US;
    }
    free(text);
    return rc;
}

int client_status(const struct client *c)
{
    return c->status;
}

// --- streams and downloads -----------------------------------------------------------------------

static int take_line(struct transfer *t, struct error *e)
{
    struct error why;
    json_t *line = NULL;
    int rc;
    if (!t->body.len)
        return 0;
    rc = json_parse(t->body.data, t->body.len, "stream", &line, &why);
    buf_reset(&t->body);
    const json_t *failure = jget(line, "error");
    if (rc)
        rc = error_set(e, ERR_PEER, "%s: a line of the stream is no JSON (%.200s)", t->client->url,
                       why.text);
    else if (failure)
        rc = error_set(e, err_from_http((int)jget_int(failure, "httpCode", 500)), "%s",
                       jget_string(failure, "message", "the stream ended with an error"));
    else if (!json_object_get(line, "result"))
        rc = error_set(e, ERR_PEER, "%s: a line of the stream has neither result nor error",
                       t->client->url);
    else
        rc = t->on_line(t->ctx, json_object_get(line, "result"), e);
    json_decref(line);
    return rc;
}

static int cut_lines(struct transfer *t, const char *bytes, size_t len, struct error *e)
{
    while (len) {
        const char *end = memchr(bytes, '\n', len);
        size_t part = end ? (size_t)(end - bytes) : len;
        if (buf_append(&t->body, bytes, part))
            return error_set(e, ERR_TOO_LARGE, "%s: a line of the stream is longer than %d bytes",
                             t->client->url, LIMIT_BODY_SMALL);
        if (!end)
            return 0;
        int rc = take_line(t, e);
        if (rc)
            return rc;
        bytes += part + 1;
        len -= part + 1;
    }
    return 0;
}

int client_stream(struct client *c, const char *path, client_on_line *on_line, void *ctx,
                  struct error *e)
{
    struct transfer t = {.data = cut_lines, .on_line = on_line, .ctx = ctx};
    buf_init(&t.body, LIMIT_BODY_SMALL);
    int rc = exchange(c, "GET", path, NULL, 0, &t, e);
    if (!rc && !t.result)
        rc = take_line(&t, e); // the last one may lack its newline
    buf_free(&t.body);
    return rc > 0 ? 0 : rc;
}

static int write_fd(struct transfer *t, const char *bytes, size_t len, struct error *e)
{
    if (!file_write_all(t->fd, bytes, len))
        return 0;
    return error_set_errno(e, ERR_IO, errno, "cannot write what %s sends", t->client->url);
}

int client_download(struct client *c, const char *path, const char *accept, int fd, struct error *e)
{
    struct transfer t = {.data = write_fd, .fd = fd, .accept = accept};
    buf_init(&t.body, LIMIT_BODY_SMALL);
    int rc = exchange(c, "GET", path, NULL, 0, &t, e);
    buf_free(&t.body);
    return rc;
}

char *client_escape(const char *text)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                                "-._~";
    char *escaped = xcalloc(3 * strlen(text) + 1, 1), *to = escaped;
    for (; *text; text++) {
        if (strchr(plain, *text))
            *to++ = *text;
        else
            to += snprintf(to, 4, "%%%02X", (unsigned)(unsigned char)*text);
    }
    return escaped;
}
