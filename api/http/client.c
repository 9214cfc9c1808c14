#include <ctype.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "api/http/client_parts.h"
#include "api/http/plain.h"
#include "api/wire.h"
#include "base/arena.h"
#include "base/clock.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/os/file.h"
#include "base/text/host.h"
#include "base/text/json.h"

// An incoming answer. The body of a status of 300 or more is kept as the text of the error; other
// bodies go to `data`, which returns 0, STOP, or a negative error with *e set.
enum { STOP = 1 };
struct transfer {
    struct client *client;
    int (*data)(struct transfer *t, const char *bytes, size_t len, struct error *e);
    struct buf body; // the answer, a line, or the text of a failure
    struct error *e;
    int result; // result of `data`
    int fd;
    client_on_line *on_line;
    void *ctx;
};

// --- opening -------------------------------------------------------------------------------------

static void curl_init_once(void)
{
    must(!curl_global_init(CURL_GLOBAL_DEFAULT));
}

static int on_progress(void *ctx, curl_off_t down, curl_off_t now, curl_off_t up, curl_off_t sent)
{
    const struct client *c = ctx;
    (void)down, (void)now, (void)up, (void)sent;
    return c->cancel && atomic_load(c->cancel);
}

// Whether the beginning of the address lets a plain exchange try; plain_exchange() checks the host.
static bool plain_address(const char *url)
{
    return !strncmp(url, "http://localhost", 16) || !strncmp(url, "http://127.", 11);
}

// Completes the address.
static char *complete_url(const char *text)
{
    char *url = strstr(text, "://") ? xstrdup(text) : xasprintf("http://%s", text);
    for (size_t len = strlen(url); len && url[len - 1] == '/'; len--)
        url[len - 1] = '\0';
    return url;
}

// Checks the address, and decides whether to ignore proxies of the environment for it.
static int read_url(const struct client *c, bool *loopback, struct error *e)
{
    char *host = NULL;
    CURLU *url = curl_url();
    must(url);
    bool web = !strncmp(c->url, "http://", 7) || !strncmp(c->url, "https://", 8);
    bool good = web && !curl_url_set(url, CURLUPART_URL, c->url, 0) &&
                !curl_url_get(url, CURLUPART_HOST, &host, 0);
    *loopback = good && host_is_loopback(host);
    curl_free(host);
    curl_url_cleanup(url);
    if (!good)
        return error_set(e, ERR_INVALID,
                         "\"%.200s\" is not the address of a master; write it as http://host:8080",
                         c->url);
    return 0;
}

static void set_options(struct client *c, bool loopback)
{
    CURL *h = c->easy;
    curl_easy_setopt(h, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(h, CURLOPT_PROTOCOLS_STR, "http,https");
    curl_easy_setopt(h, CURLOPT_CONNECTTIMEOUT, (long)c->connect_timeout_s);
    curl_easy_setopt(h, CURLOPT_TCP_KEEPALIVE, 1L);
    curl_easy_setopt(h, CURLOPT_ERRORBUFFER, c->detail);
    curl_easy_setopt(h, CURLOPT_USERAGENT, "muster/" MUSTER_VERSION);
    curl_easy_setopt(h, CURLOPT_NOPROGRESS, 0L);
    curl_easy_setopt(h, CURLOPT_XFERINFOFUNCTION, on_progress);
    curl_easy_setopt(h, CURLOPT_XFERINFODATA, c);
    if (c->ca_file)
        curl_easy_setopt(h, CURLOPT_CAINFO, c->ca_file);
    if (c->only_ca_file)
        curl_easy_setopt(h, CURLOPT_CAPATH, NULL);
    if (loopback)
        curl_easy_setopt(h, CURLOPT_PROXY, "");
}

static void add_header(struct client *c, const char *line)
{
    struct curl_slist *longer = curl_slist_append(c->headers, line);
    must(longer);
    c->headers = longer;
}

static void make_headers(struct client *c)
{
    curl_slist_free_all(c->headers);
    c->headers = NULL;
    add_header(c, "Content-Type: application/json");
    add_header(c, "Expect:"); // avoids a round trip before a large body
    if (!c->token)
        return;
    char *line = xasprintf("%s: %s", c->token_header, c->token);
    add_header(c, line);
    explicit_bzero(line, strlen(line));
    free(line);
}

// Opens the handle of libcurl with its headers unless it is open. ERR_INVALID: a bad address.
static int need_curl(struct client *c, struct error *e)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    bool loopback;
    if (c->easy)
        return 0;
    pthread_once(&once, curl_init_once);
    int rc = read_url(c, &loopback, e);
    if (rc)
        return rc;
    c->easy = curl_easy_init();
    must(c->easy);
    set_options(c, loopback);
    make_headers(c);
    return 0;
}

int client_open(const struct client_options *options, struct client **out, struct error *e)
{
    enum { CONNECT_TIMEOUT_S = 5, TIMEOUT_S = 60, PLAIN_CALLS = 4 };
    *out = NULL;
    struct client *c = xcalloc(1, sizeof(*c));
    c->cancel = options->cancel;
    c->timeout_s = options->timeout_s ? options->timeout_s : TIMEOUT_S;
    c->connect_timeout_s =
        options->connect_timeout_s ? options->connect_timeout_s : CONNECT_TIMEOUT_S;
    c->url = complete_url(options->url ? options->url : "");
    c->ca_file = options->ca_file ? xstrdup(options->ca_file) : NULL;
    c->only_ca_file = options->only_ca_file;
    client_set_token(c, options->auth, options->token);
    if (options->plain && !c->cancel && plain_address(c->url)) {
        c->plain = options->plain;
        c->plain_calls = PLAIN_CALLS; // libcurl keeps its connection, which pays off for more
    }
    int rc = c->plain ? 0 : need_curl(c, e);
    if (rc)
        client_close(c);
    else
        *out = c;
    return rc;
}

void client_close(struct client *c)
{
    if (!c)
        return;
    client_set_token(c, CLIENT_NO_AUTH, NULL);
    if (c->easy) {
        curl_easy_cleanup(c->easy);
        curl_slist_free_all(c->headers);
    }
    free(c->ca_file);
    free(c->url);
    free(c);
}

void client_set_token(struct client *c, enum client_auth auth, const char *token)
{
    static const char *const names[] = {
        [CLIENT_BEARER] = "Authorization", [CLIENT_TASK] = "Grpc-Metadata-x-allocation-token"};
    if (c->token)
        explicit_bzero(c->token, strlen(c->token));
    free(c->token);
    c->token = NULL;
    if (auth != CLIENT_NO_AUTH && token) {
        int len = (int)strcspn(token, " \t\r\n"); // a token read from a file may end with a newline
        c->token = xasprintf("Bearer %.*s", len, token);
        c->token_header = names[auth];
    }
    if (c->easy)
        make_headers(c);
}

// --- one exchange --------------------------------------------------------------------------------

static int answer_too_large(const struct client *c, const struct buf *answer, struct error *e)
{
    return error_set(e, ERR_TOO_LARGE, "%s: the answer is larger than %zu bytes", c->url,
                     answer->limit);
}

static int body_append(struct transfer *t, const char *bytes, size_t len, struct error *e)
{
    return buf_append(&t->body, bytes, len) ? answer_too_large(t->client, &t->body, e) : 0;
}

static size_t on_answer_data(char *bytes, size_t size, size_t count, void *ctx)
{
    struct transfer *t = ctx;
    long status = 0;
    curl_easy_getinfo(t->client->easy, CURLINFO_RESPONSE_CODE, &status);
    t->result = status >= 300 ? body_append(t, bytes, size * count, t->e)
                              : t->data(t, bytes, size * count, t->e);
    return t->result ? 0 : size * count;
}

// A server with https closes the connection of a client that speaks http to it.
static const char *hint_of_https(const struct client *c, CURLcode code)
{
    bool closed = code == CURLE_RECV_ERROR || code == CURLE_GOT_NOTHING;
    return closed && !strncmp(c->url, "http://", 7) ? "; if it serves https, write https://" : "";
}

// Whether the server has answered the beginning of a TLS connection with something else. libcurl
// reports a connection that broke during the handshake by the same code, but that may pass.
static bool server_speaks_no_tls(const char *detail)
{
    static const char *const texts[] = {"wrong version number", "packet length too long", // OpenSSL
                                        "unexpected TLS packet"};                         // GnuTLS
    for (size_t i = 0; i < sizeof(texts) / sizeof(*texts); i++)
        if (strstr(detail, texts[i]))
            return true;
    return false;
}

static int no_secure_connection(const struct client *c, const char *detail, struct error *e)
{
    return error_set(e, ERR_PEER,
                     "%s: no secure connection (%s). If the server there has no certificate, "
                     "write http:// instead of https://",
                     c->url, detail);
}

int client_transport_failed(struct client *c, CURLcode code, struct error *e)
{
    const char *detail = *c->detail ? c->detail : curl_easy_strerror(code);
    if (code == CURLE_SSL_CONNECT_ERROR && server_speaks_no_tls(detail))
        return no_secure_connection(c, detail, e);
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
        c->untrusted = true;
        c->may_retry = c->answered; // it was trusted before: a certificate that expired is renewed
        // fall through
    case CURLE_SSL_CACERT_BADFILE:
        return error_set(
            e, ERR_PEER,
            "%s: no trusted connection (%s). Check the address, and give the "
            "certificate of its authority as CA file (muster trust gets it). If the "
            "certificate lacks this name: muster-master --init --host-name NAME. If it has "
            "expired: the log of the master says why",
            c->url, detail);
    default:
        c->may_retry = true;
        return error_set(e, ERR_UNAVAILABLE,
                         "cannot reach %s (%s). Check that the master runs there and that the "
                         "address is right%s",
                         c->url, detail, hint_of_https(c, code));
    }
}

// The server's own sentence, in either form of error bodies (docs/wire.md).
int client_http_failed(struct client *c, const char *method, const char *path,
                       const struct buf *body, struct error *e)
{
    json_t *answer = NULL;
    int code = err_from_http(c->status);
    json_parse(buf_str(body), body->len, "answer", &answer, NULL);
    const json_t *failure = jget(answer, "error");
    if (code == ERR_INVALID && jget_int(failure, "code", 0) == WIRE_FAILED_PRECONDITION)
        code = ERR_STATE; // the request is right, but its object is in the wrong state
    const char *text = jget_string(failure, "error", NULL);
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

static void set_method(struct client *c, const char *method, const char *body)
{
    bool has_body = body || (strcmp(method, "GET") && strcmp(method, "DELETE"));
    if (has_body) { // a POST without a body still sends a Content-Length of 0
        curl_easy_setopt(c->easy, CURLOPT_POST, 1L);
        curl_easy_setopt(c->easy, CURLOPT_POSTFIELDS, body ? body : "");
        curl_easy_setopt(c->easy, CURLOPT_POSTFIELDSIZE_LARGE,
                         (curl_off_t)(body ? strlen(body) : 0));
    } else {
        curl_easy_setopt(c->easy, CURLOPT_HTTPGET, 1L);
    }
    curl_easy_setopt(c->easy, CURLOPT_CUSTOMREQUEST, method);
}

// Runs one request; the caller has set t->data, t->body and their state.
static int run_request(struct client *c, const char *method, const char *path, const char *body,
                       long timeout_s, struct transfer *t, struct error *e)
{
    struct error own;
    long status = 0;
    curl_off_t asked = 0;
    int rc = need_curl(c, e);
    if (rc)
        return rc;
    char *url = xasprintf("%s%s", c->url, path);
    t->client = c;
    t->e = e ? e : &own;
    c->may_retry = false;
    c->untrusted = false;
    *c->detail = '\0';
    set_method(c, method, body);
    curl_easy_setopt(c->easy, CURLOPT_URL, url);
    curl_easy_setopt(c->easy, CURLOPT_HTTPHEADER, c->headers);
    curl_easy_setopt(c->easy, CURLOPT_TIMEOUT, timeout_s);
    curl_easy_setopt(c->easy, CURLOPT_WRITEFUNCTION, on_answer_data);
    curl_easy_setopt(c->easy, CURLOPT_WRITEDATA, t);
    CURLcode code = curl_easy_perform(c->easy);
    curl_easy_getinfo(c->easy, CURLINFO_RESPONSE_CODE, &status);
    curl_easy_getinfo(c->easy, CURLINFO_RETRY_AFTER, &asked);
    c->status = (int)status;
    c->answered = c->answered || status;
    c->retry_after_s = asked;
    free(url);
    if (t->result)
        return t->result == STOP ? 0 : t->result;
    if (code)
        return client_transport_failed(c, code, e);
    return status >= 300 ? client_http_failed(c, method, path, &t->body, e) : 0;
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
                         "%s %s: %s sent an answer that is not JSON (%.200s). Check that this is "
                         "the address of a master",
                         method, path, c->url, why.text);
    if (answer)
        *answer = parsed;
    else
        json_decref(parsed);
    return 0;
}

// Makes one call without libcurl. *made is false if nothing was sent.
static int call_plain(struct client *c, const char *method, const char *path, const char *body,
                      struct buf *answer, bool *made, struct error *e)
{
    struct plain_call call = {.url = c->url,
                              .method = method,
                              .path = path,
                              .body = body,
                              .authorization = c->token ? c->token_header : NULL,
                              .token = c->token,
                              .timeout_s = c->timeout_s,
                              .answer = answer,
                              .detail = c->detail};
    c->may_retry = false;
    *c->detail = '\0';
    CURLcode code = c->plain(&call);
    c->plain_calls--;
    c->status = call.status;
    c->retry_after_s = call.retry_after_s;
    *made = code != CURLE_COULDNT_CONNECT;
    if (code == CURLE_FILESIZE_EXCEEDED)
        return answer_too_large(c, answer, e);
    if (code)
        return client_transport_failed(c, code, e);
    return call.status >= 300 ? client_http_failed(c, method, path, answer, e) : 0;
}

static int call_text(struct client *c, const char *method, const char *path, const char *body,
                     json_t **answer, struct error *e)
{
    struct transfer t = {.data = body_append};
    bool made = false;
    int rc = 0;
    buf_init(&t.body, LIMIT_BODY);
    if (c->plain_calls > 0)
        rc = call_plain(c, method, path, body, &t.body, &made, e);
    if (!made)
        rc = run_request(c, method, path, body, c->timeout_s, &t, e);
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

// Sleeps until `until` in short steps, to notice a cancel. False: cancelled.
static bool client_sleep_until(const struct client *c, int64_t until)
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
        int64_t asked = rc && c->may_retry ? client_retry_after(c) * 1000000 : 0;
        int64_t next = clock_mono_us() + (pause > asked ? pause : asked);
        if (!rc || !c->may_retry || next > deadline || !client_sleep_until(c, next))
            break;
        pause = pause * 2 < PAUSE_MAX_US ? pause * 2 : PAUSE_MAX_US;
    }
    free(text);
    return rc;
}

int64_t client_retry_after(const struct client *c)
{
    enum { RETRY_AFTER_MAX_S = 60 };
    int64_t seconds = c->retry_after_s > 0 ? c->retry_after_s : 0;
    return seconds < RETRY_AFTER_MAX_S ? seconds : RETRY_AFTER_MAX_S;
}

bool client_is_untrusted(const struct client *c)
{
    return c->untrusted;
}

int client_status(const struct client *c)
{
    return c->status;
}

// --- streams and downloads -----------------------------------------------------------------------

static int handle_line(struct transfer *t, struct error *e)
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
        rc = error_set(e, ERR_PEER, "%s: a line of the stream is not JSON (%.200s)", t->client->url,
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

static int split_lines(struct transfer *t, const char *bytes, size_t len, struct error *e)
{
    while (len) {
        const char *end = memchr(bytes, '\n', len);
        size_t part = end ? (size_t)(end - bytes) : len;
        if (buf_append(&t->body, bytes, part))
            return error_set(e, ERR_TOO_LARGE, "%s: a line of the stream is longer than %d bytes",
                             t->client->url, LIMIT_BODY_SMALL);
        if (!end)
            return 0;
        int rc = handle_line(t, e);
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
    struct transfer t = {.data = split_lines, .on_line = on_line, .ctx = ctx};
    buf_init(&t.body, LIMIT_BODY_SMALL);
    int rc = run_request(c, "GET", path, NULL, 0, &t, e);
    if (!rc && !t.result)
        rc = handle_line(&t, e); // the last line may lack its newline
    buf_free(&t.body);
    return rc > 0 ? 0 : rc;
}

static int write_fd(struct transfer *t, const char *bytes, size_t len, struct error *e)
{
    if (!file_write_all(t->fd, bytes, len))
        return 0;
    return error_set_errno(e, ERR_IO, errno, "cannot write the data from %s", t->client->url);
}

int client_download(struct client *c, const char *path, const char *accept, int fd, struct error *e)
{
    struct transfer t = {.data = write_fd, .fd = fd};
    char *line = accept ? xasprintf("Accept: %s", accept) : NULL;
    int rc = need_curl(c, e);
    struct curl_slist *plain = c->headers;
    buf_init(&t.body, LIMIT_BODY_SMALL);
    if (line && !rc) { // put before the client's list for this call only; the list is shared
        c->headers = curl_slist_append(NULL, line);
        must(c->headers);
        c->headers->next = plain;
    }
    if (!rc)
        rc = run_request(c, "GET", path, NULL, 0, &t, e);
    if (line && c->headers != plain) {
        c->headers->next = NULL;
        curl_slist_free_all(c->headers);
        c->headers = plain;
    }
    free(line);
    buf_free(&t.body);
    return rc;
}

char *client_escape(const char *text)
{
    static const char plain[] = "-._~", digits[] = "0123456789ABCDEF"; // RFC 3986, section 2.3
    struct buf out;
    buf_init(&out, 3 * strlen(text) + 1);
    for (; *text != '\0'; text++) {
        unsigned char byte = (unsigned char)*text;
        char escaped[] = {'%', digits[byte >> 4], digits[byte & 15]};
        if (byte < 0x80 && (isalnum(byte) || strchr(plain, byte)))
            buf_append(&out, text, 1);
        else
            buf_append(&out, escaped, sizeof(escaped));
    }
    char *copy = xstrdup(buf_str(&out));
    buf_free(&out);
    return copy;
}
