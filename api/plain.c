#include "api/plain.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/clock.h"

enum {
    HEAD_MAX = 64 * 1024, // of a request
    LINE_MAX_BYTES = 16 * 1024,
    IN_BYTES = 64 * 1024,
    LOOK_US = 200 * 1000, // how often a cancel is looked for
};

struct plain {
    char *host, *port, *authority, *path;
    int fd;         // -1: none
    bool came;      // a byte of the answer
    size_t at, end; // of what has come and is not read yet
    char in[IN_BYTES];
};

// --- addresses -----------------------------------------------------------------------------------

static bool is_host(const char *host, size_t len)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                                  "-._:";
    return len && strspn(host, letters) >= len;
}

struct plain *plain_new(const char *url)
{
    if (strncmp(url, "http://", 7))
        return NULL;
    const char *from = url + 7, *path = from + strcspn(from, "/?#");
    bool brackets = *from == '[';
    const char *host = from + brackets;
    size_t len = strcspn(host, brackets ? "]/" : ":/?#");
    const char *rest = host + len + (brackets && host[len] == ']');
    bool port = *rest == ':';
    size_t digits = strspn(rest + port, "0123456789");
    long number = port ? strtol(rest + 1, NULL, 10) : 80;
    if ((brackets && host[len] != ']') || !is_host(host, len) || rest + port + digits != path ||
        (port && !digits) || (!port && digits) || number < 1 || number > 65535 ||
        strpbrk(path, "?# "))
        return NULL;
    struct plain *p = xcalloc(1, sizeof *p);
    p->host = xasprintf("%.*s", (int)len, host);
    p->port = xasprintf("%ld", number);
    p->authority = xasprintf("%.*s", (int)(path - from), from);
    p->path = xstrdup(path);
    p->fd = -1;
    return p;
}

static void hang_up(struct plain *p)
{
    if (p->fd >= 0)
        close(p->fd);
    p->fd = -1;
    p->at = p->end = 0;
}

void plain_free(struct plain *p)
{
    if (!p)
        return;
    hang_up(p);
    free(p->host);
    free(p->port);
    free(p->authority);
    free(p->path);
    free(p);
}

bool plain_is_loopback(const struct plain *p)
{
    return !strcmp(p->host, "localhost") || !strncmp(p->host, "127.", 4) || !strcmp(p->host, "::1");
}

const char *plain_path(const struct plain *p)
{
    return p->path;
}

// --- waiting -------------------------------------------------------------------------------------

// Of the call, and of one step of it; both are monotonic times.
static enum plain_end wait_for(struct plain *p, struct plain_call *call, short *events,
                               int64_t until)
{
    struct pollfd fd = {.fd = p->fd, .events = *events};
    for (;;) {
        int64_t left = (until < call->deadline ? until : call->deadline) - clock_mono_us();
        if (call->cancel && atomic_load(call->cancel))
            return PLAIN_CANCELLED;
        if (left <= 0) {
            snprintf(call->detail, sizeof call->detail, "port %s of %s did not answer in time",
                     p->port, p->host);
            return PLAIN_TIMEOUT;
        }
        int n = poll(&fd, 1, (int)((left < LOOK_US ? left : LOOK_US) / 1000) + 1);
        if (n > 0) {
            *events = fd.revents;
            return PLAIN_DONE;
        }
    }
}

static enum plain_end fail(struct plain *p, struct plain_call *call, const char *what, int err)
{
    snprintf(call->detail, sizeof call->detail, "%s port %s of %s: %s", what, p->port, p->host,
             strerror(err));
    return PLAIN_FAILED;
}

// --- connecting ----------------------------------------------------------------------------------

static enum plain_end dial(struct plain *p, struct plain_call *call, const struct addrinfo *a)
{
    int on = 1, err = 0;
    socklen_t len = sizeof err;
    short events = POLLOUT;
    p->fd = socket(a->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (p->fd < 0)
        return fail(p, call, "connecting to", errno);
    setsockopt(p->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    setsockopt(p->fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
    if (!connect(p->fd, a->ai_addr, a->ai_addrlen))
        return PLAIN_DONE;
    if (errno != EINPROGRESS)
        return fail(p, call, "connecting to", errno);
    enum plain_end end = wait_for(p, call, &events, clock_mono_us() + call->connect_us);
    if (end)
        return end;
    getsockopt(p->fd, SOL_SOCKET, SO_ERROR, &err, &len);
    return err ? fail(p, call, "connecting to", err) : PLAIN_DONE;
}

static enum plain_end connect_to(struct plain *p, struct plain_call *call)
{
    struct addrinfo want = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV}, *all = NULL;
    int rc = getaddrinfo(p->host, p->port, &want, &all);
    if (rc) {
        snprintf(call->detail, sizeof call->detail, "%s: %s", p->host, gai_strerror(rc));
        return PLAIN_FAILED;
    }
    enum plain_end end = PLAIN_FAILED;
    for (const struct addrinfo *a = all; a && end; a = a->ai_next) {
        hang_up(p);
        end = dial(p, call, a);
        if (end == PLAIN_CANCELLED)
            break;
    }
    freeaddrinfo(all);
    if (end)
        hang_up(p);
    return end;
}

// --- sending -------------------------------------------------------------------------------------

// Stops early when an answer comes before all has been sent, or the peer takes no more: what it has
// to say is read then. *whole false: so it was.
static enum plain_end send_all(struct plain *p, struct plain_call *call, const struct buf *request,
                               bool *whole)
{
    for (size_t at = 0; at < request->len;) {
        ssize_t n = send(p->fd, request->data + at, request->len - at, MSG_NOSIGNAL);
        if (n > 0) {
            at += (size_t)n;
            continue;
        }
        short events = POLLOUT | POLLIN;
        if (n < 0 && errno != EAGAIN && errno != EINTR) {
            *whole = false;
            return PLAIN_DONE;
        }
        enum plain_end end = wait_for(p, call, &events, INT64_MAX);
        if (end || !(events & POLLOUT)) {
            *whole = false;
            return end;
        }
    }
    return PLAIN_DONE;
}

// --- receiving -----------------------------------------------------------------------------------

static enum plain_end broken(struct plain *p, struct plain_call *call, const char *what)
{
    snprintf(call->detail, sizeof call->detail, "port %s of %s %s", p->port, p->host, what);
    return PLAIN_FAILED;
}

// More bytes; *over: the peer has ended the connection.
static enum plain_end fill(struct plain *p, struct plain_call *call, bool *over)
{
    if (p->at == p->end)
        p->at = p->end = 0;
    if (p->end == IN_BYTES) {
        memmove(p->in, p->in + p->at, p->end - p->at);
        p->end -= p->at;
        p->at = 0;
    }
    for (;;) {
        ssize_t n = recv(p->fd, p->in + p->end, IN_BYTES - p->end, 0);
        *over = n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR);
        if (*over)
            return PLAIN_DONE;
        if (n > 0) {
            p->end += (size_t)n;
            p->came = true;
            return PLAIN_DONE;
        }
        short events = POLLIN;
        enum plain_end end = wait_for(p, call, &events, INT64_MAX);
        if (end)
            return end;
    }
}

// The next line without its end; it is good until the next is read.
static enum plain_end read_line(struct plain *p, struct plain_call *call, char **line)
{
    for (;;) {
        char *from = p->in + p->at, *end = memchr(from, '\n', p->end - p->at);
        bool over;
        if (end) {
            p->at += (size_t)(end + 1 - from);
            *end = '\0';
            if (end > from && end[-1] == '\r')
                end[-1] = '\0';
            *line = from;
            return PLAIN_DONE;
        }
        if (p->end - p->at > LINE_MAX_BYTES)
            return broken(p, call, "sends something that is no HTTP");
        enum plain_end rc = fill(p, call, &over);
        if (rc)
            return rc;
        if (over)
            return broken(p, call, "ended the connection before its answer was whole");
    }
}

// Hands on `len` bytes of the body; -1: all until the connection ends.
static enum plain_end pass_on(struct plain *p, struct plain_call *call, int64_t len)
{
    while (len) {
        bool over = false;
        enum plain_end rc = p->at == p->end ? fill(p, call, &over) : PLAIN_DONE;
        if (rc)
            return rc;
        if (over)
            return len < 0 ? PLAIN_DONE
                           : broken(p, call, "ended the connection before its answer was whole");
        size_t n = p->end - p->at;
        if (len > 0 && (int64_t)n > len)
            n = (size_t)len;
        if (call->take(call->ctx, call->status, p->in + p->at, n))
            return PLAIN_STOPPED;
        p->at += n;
        len -= len > 0 ? (int64_t)n : 0;
    }
    return PLAIN_DONE;
}

static enum plain_end read_chunks(struct plain *p, struct plain_call *call)
{
    for (;;) {
        char *line, *end;
        enum plain_end rc = read_line(p, call, &line);
        if (rc)
            return rc;
        unsigned long long len = strtoull(line, &end, 16);
        if (end == line || len > INT64_MAX)
            return broken(p, call, "sends something that is no HTTP");
        if (len)
            rc = pass_on(p, call, (int64_t)len);
        do { // behind the last chunk there may be more headers
            if (!rc)
                rc = read_line(p, call, &line);
        } while (!rc && !len && *line);
        if (rc || !len)
            return rc;
    }
}

struct head {
    int64_t length; // -1: not told
    bool chunked, close;
};

static void read_header(struct head *h, char *line)
{
    char *colon = strchr(line, ':');
    if (!colon)
        return;
    *colon = '\0';
    const char *value = colon + 1 + strspn(colon + 1, " \t");
    if (!strcasecmp(line, "Content-Length"))
        h->length = strtoll(value, NULL, 10);
    else if (!strcasecmp(line, "Transfer-Encoding"))
        h->chunked = strcasestr(value, "chunked") != NULL;
    else if (!strcasecmp(line, "Connection"))
        h->close = strcasestr(value, "close") != NULL;
}

static enum plain_end read_head(struct plain *p, struct plain_call *call, struct head *h)
{
    do {
        char *line;
        int status = 0;
        *h = (struct head){.length = -1};
        enum plain_end rc = read_line(p, call, &line);
        if (rc)
            return rc;
        if (sscanf(line, "HTTP/1.%*1d %3d", &status) != 1 || status < 100)
            return broken(p, call, "sends something that is no HTTP");
        h->close = !strncmp(line, "HTTP/1.0", 8);
        call->status = status;
        while (!(rc = read_line(p, call, &line)) && *line)
            read_header(h, line);
        if (rc)
            return rc;
    } while (call->status < 200);
    return PLAIN_DONE;
}

static enum plain_end receive(struct plain *p, struct plain_call *call)
{
    struct head h;
    enum plain_end rc = read_head(p, call, &h);
    bool bodiless = call->status == 204 || call->status == 304;
    if (!rc && !bodiless)
        rc = h.chunked ? read_chunks(p, call) : pass_on(p, call, h.length);
    if (rc || h.close || (!bodiless && !h.chunked && h.length < 0))
        hang_up(p);
    return rc;
}

// --- a call --------------------------------------------------------------------------------------

static void write_request(const struct plain *p, const struct plain_call *call, struct buf *out)
{
    buf_init(out, call->body_len + HEAD_MAX);
    buf_printf(out, "%sHost: %s\r\n", call->head, p->authority);
    if (call->body)
        buf_printf(out, "Content-Length: %zu\r\n", call->body_len);
    buf_puts(out, "\r\n");
    if (call->body)
        buf_append(out, call->body, call->body_len);
}

static enum plain_end attempt(struct plain *p, struct plain_call *call, const struct buf *request)
{
    bool whole = true;
    p->came = false;
    enum plain_end rc = send_all(p, call, request, &whole);
    if (!rc)
        rc = receive(p, call);
    if (rc || !whole)
        hang_up(p);
    return rc;
}

enum plain_end plain_perform(struct plain *p, struct plain_call *call)
{
    struct buf request;
    bool kept = p->fd >= 0;
    call->status = 0;
    *call->detail = '\0';
    write_request(p, call, &request);
    enum plain_end rc = kept ? attempt(p, call, &request) : connect_to(p, call);
    // A kept connection may have been ended by the peer meanwhile; then it has not read the call.
    bool again = kept && rc == PLAIN_FAILED && !p->came;
    if (again)
        rc = connect_to(p, call);
    if (!rc && (again || !kept))
        rc = attempt(p, call, &request);
    explicit_bzero(request.data, request.len); // it has the token
    buf_free(&request);
    return rc;
}
