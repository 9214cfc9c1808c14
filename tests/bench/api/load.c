// The load generator of the API benchmark: kept connections in one thread, each with one request at
// a time. It prints one line of JSON with the number of answers, their rate and their durations.
//
//     load PORT TOKEN CONNECTIONS SECONDS EVERY_MS METHOD BODY PATH..
//
// BODY is a file, or - for none. With EVERY_MS 0 the next request follows the answer; otherwise
// each connection sends a request at that interval, and the connections are spread over it. A %d in
// a path is the number of the connection; the paths are used in turn.
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/os/file.h"

enum { ANSWER_MAX = 64 << 20, TOOK_MAX = 1 << 22, EVENTS = 64 };

struct load_connection {
    int number, fd;
    int64_t due, sent_at; // `due` is the time of the next request; 0 while one is under way
    struct buf request, answer;
};

struct api_load {
    const char *token, *method, **paths;
    int port, path_count, count;
    int64_t every, until, answers, bad, next_path;
    char *body;
    size_t body_len;
    int poll;
    struct load_connection *connections;
    int32_t *took; // microseconds of each answer
};

static void dial(struct api_load *l, struct load_connection *c)
{
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons((uint16_t)l->port)};
    int on = 1;
    inet_pton(AF_INET, "127.0.0.1", &to.sin_addr);
    c->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (c->fd < 0 || connect(c->fd, (struct sockaddr *)&to, sizeof to)) {
        fprintf(stderr, "load: cannot connect to port %d: %s\n", l->port, strerror(errno));
        exit(1);
    }
    setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    struct epoll_event e = {.events = EPOLLIN, .data.ptr = c};
    must(!epoll_ctl(l->poll, EPOLL_CTL_ADD, c->fd, &e));
}

static void add_path(struct api_load *l, struct load_connection *c)
{
    const char *path = l->paths[l->next_path++ % l->path_count], *mark = strstr(path, "%d");
    if (mark)
        buf_printf(&c->request, "%.*s%d%s", (int)(mark - path), path, c->number, mark + 2);
    else
        buf_puts(&c->request, path);
}

// A request is small compared to the socket's buffer, so one write sends it unless its body is
// large.
static void send_request(struct api_load *l, struct load_connection *c, int64_t now)
{
    buf_reset(&c->request);
    buf_reset(&c->answer);
    buf_printf(&c->request, "%s ", l->method);
    add_path(l, c);
    buf_printf(&c->request, " HTTP/1.1\r\nHost: m\r\nAuthorization: Bearer %s\r\n", l->token);
    if (l->body)
        buf_printf(&c->request, "Content-Length: %zu\r\n", l->body_len);
    buf_puts(&c->request, "\r\n");
    buf_append(&c->request, l->body ? l->body : "", l->body_len);
    must(!c->request.err);
    for (size_t at = 0; at < c->request.len;) {
        ssize_t n = send(c->fd, c->request.data + at, c->request.len - at, MSG_NOSIGNAL);
        must(n > 0);
        at += (size_t)n;
    }
    c->sent_at = now;
    c->due = 0;
}

// Returns the length of the answer once it is complete, else 0.
static size_t whole(const struct buf *answer)
{
    const char *end = strstr(buf_str(answer), "\r\n\r\n");
    if (!end)
        return 0;
    const char *length = strcasestr(buf_str(answer), "\r\nContent-Length: ");
    must(length && length < end); // no call of the benchmark sends chunked answers
    size_t bytes = (size_t)(end + 4 - buf_str(answer)) + strtoull(length + 18, NULL, 10);
    return answer->len >= bytes ? bytes : 0;
}

static void answered(struct api_load *l, struct load_connection *c, int64_t now)
{
    bool good = !strncmp(buf_str(&c->answer), "HTTP/1.1 200", 12);
    if (!good && !l->bad)
        fprintf(stderr, "load: the first bad answer: %.600s\n", buf_str(&c->answer));
    l->bad += !good;
    if (l->answers < TOOK_MAX)
        l->took[l->answers] = (int32_t)(now - c->sent_at);
    l->answers++;
    c->due = l->every ? c->sent_at + l->every : now;
}

static void receive(struct api_load *l, struct load_connection *c)
{
    char part[64 * 1024];
    ssize_t n = recv(c->fd, part, sizeof part, MSG_DONTWAIT);
    if (n <= 0) {
        if (n < 0 && errno == EAGAIN)
            return;
        fprintf(stderr, "load: the master closed a connection\n");
        exit(1);
    }
    buf_append(&c->answer, part, (size_t)n);
    must(!c->answer.err);
    if (whole(&c->answer))
        answered(l, c, clock_mono_us());
}

// Sends the requests that are due; returns the time until the next one.
static int64_t send_due(struct api_load *l)
{
    int64_t now = clock_mono_us(), wait = 100 * 1000;
    for (int i = 0; i < l->count; i++) {
        struct load_connection *c = &l->connections[i];
        if (c->due && c->due <= now && now < l->until)
            send_request(l, c, now);
        else if (c->due && c->due - now < wait)
            wait = c->due - now;
    }
    return wait < 0 ? 0 : wait;
}

static int under_way(const struct api_load *l)
{
    int n = 0;
    for (int i = 0; i < l->count; i++)
        n += !l->connections[i].due;
    return n;
}

static void run(struct api_load *l)
{
    struct epoll_event events[EVENTS];
    int64_t start = clock_mono_us();
    for (int i = 0; i < l->count; i++)
        l->connections[i].due = start + 1 + (l->every ? l->every * i / l->count : 0);
    while (clock_mono_us() < l->until || under_way(l)) {
        int64_t wait = send_due(l);
        int n = epoll_wait(l->poll, events, EVENTS, (int)((wait + 999) / 1000));
        for (int i = 0; i < n; i++)
            receive(l, events[i].data.ptr);
    }
}

static int compare(const void *a, const void *b)
{
    int32_t x = *(const int32_t *)a, y = *(const int32_t *)b;
    return (x > y) - (x < y);
}

static double part(const struct api_load *l, double q)
{
    int64_t n = l->answers < TOOK_MAX ? l->answers : TOOK_MAX;
    return n ? l->took[(int64_t)((double)(n - 1) * q)] / 1e3 : 0;
}

static void report(struct api_load *l, double seconds)
{
    struct timespec cpu;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &cpu);
    qsort(l->took, (size_t)(l->answers < TOOK_MAX ? l->answers : TOOK_MAX), sizeof *l->took,
          compare);
    printf("{\"answers\":%lld,\"bad\":%lld,\"seconds\":%.3f,\"rate\":%.1f,\"p50_ms\":%.3f,"
           "\"p99_ms\":%.3f,\"max_ms\":%.3f,\"own_cpu_s\":%.2f}\n",
           (long long)l->answers, (long long)l->bad, seconds, (double)l->answers / seconds,
           part(l, 0.5), part(l, 0.99), part(l, 1), (double)cpu.tv_sec + (double)cpu.tv_nsec / 1e9);
}

int main(int argc, char **argv)
{
    if (argc < 9) {
        fputs("usage: load PORT TOKEN CONNECTIONS SECONDS EVERY_MS METHOD BODY PATH..\n", stderr);
        return 2;
    }
    struct api_load l = {.port = (int)strtol(argv[1], NULL, 10),
                         .token = argv[2],
                         .count = (int)strtol(argv[3], NULL, 10),
                         .every = strtoll(argv[5], NULL, 10) * 1000,
                         .method = argv[6],
                         .paths = (const char **)argv + 8,
                         .path_count = argc - 8};
    struct error e;
    if (strcmp(argv[7], "-") && file_read(argv[7], ANSWER_MAX, &l.body, &l.body_len, &e)) {
        fprintf(stderr, "load: %s\n", e.text);
        return 1;
    }
    l.poll = epoll_create1(EPOLL_CLOEXEC);
    l.took = xcalloc(TOOK_MAX, sizeof *l.took);
    l.connections = xcalloc((size_t)l.count, sizeof *l.connections);
    for (int i = 0; i < l.count; i++) {
        struct load_connection *c = &l.connections[i];
        c->number = i;
        buf_init(&c->request, ANSWER_MAX);
        buf_init(&c->answer, ANSWER_MAX);
        dial(&l, c);
    }
    int64_t start = clock_mono_us();
    l.until = start + (int64_t)(strtod(argv[4], NULL) * 1e6);
    run(&l);
    report(&l, (double)(clock_mono_us() - start) / 1e6);
    return 0;
}
