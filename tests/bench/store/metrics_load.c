// The load of the metrics benchmark: each connection reports for its own trial and sends the next
// post after the answer to the last one. Prints the acknowledged points and times as one line of
// JSON.
//
//     metrics_load HOST PORT TOKEN SECONDS METRICS STEPS FIRST TRIAL..
//
// STEPS 0: single reports of METRICS values, as Determined's clients make them; otherwise columns
// of STEPS steps. Steps begin at FIRST, which has ten digits, so that they are patched in place:
// the benchmark measures the master, and one thread with epoll costs little.
#include <errno.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/rng.h"

enum { TRIALS_MAX = 1024, DIGITS = 10, STEPS_MAX = 65536, POSTS_MAX = 4 << 20, ANSWER_MAX = 4096 };

struct metrics_load {
    const char *host, *port, *token;
    int metrics, steps;
    int64_t first, until;
    int32_t *durations; // microseconds of each post
    size_t posts;
    int64_t acknowledged, refused; // posts
    int open;
};

struct metric_sender {
    struct buf request;
    size_t *positions, position_count; // positions of the digits of each step
    size_t sent;
    char answer[ANSWER_MAX];
    size_t answer_len;
    int fd;
    int64_t step, began, retry_at;
};

static void append_values(struct buf *out, struct rng *rng, int count)
{
    for (int i = 0; i < count; i++)
        buf_printf(out, "%s%.17g", i ? "," : "", rng_double(rng));
}

static void append_step(struct metric_sender *s, struct buf *body)
{
    s->positions[s->position_count++] = body->len;
    buf_printf(body, "%010d", 0);
}

static void append_report(const struct metrics_load *l, struct metric_sender *s, struct buf *body,
                          struct rng *rng)
{
    buf_puts(body, "{\"group\":\"training\",\"metrics\":{\"stepsCompleted\":");
    append_step(s, body);
    buf_puts(body, ",\"reportTime\":\"2026-11-21T09:00:00.123456Z\",\"metrics\":{\"avgMetrics\":{");
    for (int i = 0; i < l->metrics; i++)
        buf_printf(body, "%s\"layer_%02d.metric\":%.17g", i ? "," : "", i, rng_double(rng));
    buf_puts(body, "},\"batchMetrics\":null}}}");
}

static void append_columns(const struct metrics_load *l, struct metric_sender *s, struct buf *body,
                           struct rng *rng)
{
    buf_puts(body, "{\"group\":\"training\",\"steps\":[");
    for (int i = 0; i < l->steps; i++) {
        buf_puts(body, i ? "," : "");
        append_step(s, body);
    }
    buf_puts(body, "],\"metrics\":{");
    for (int i = 0; i < l->metrics; i++) {
        buf_printf(body, "%s\"layer_%02d.metric\":[", i ? "," : "", i);
        append_values(body, rng, l->steps);
        buf_puts(body, "]");
    }
    buf_puts(body, "}}");
}

static void build_request(const struct metrics_load *l, struct metric_sender *s, const char *trial)
{
    struct buf body;
    struct rng rng;
    rng_seed(&rng, 1, strtoul(trial, NULL, 10));
    s->step = l->first;
    s->positions = xcalloc((size_t)l->steps + 1, sizeof *s->positions);
    buf_init(&body, 64 << 20);
    if (l->steps)
        append_columns(l, s, &body, &rng);
    else
        append_report(l, s, &body, &rng);
    buf_init(&s->request, 64 << 20);
    buf_printf(&s->request,
               "POST /api/v1/trials/%s/metrics%s HTTP/1.1\r\nHost: %s\r\n"
               "Authorization: Bearer %s\r\nContent-Length: %zu\r\n\r\n",
               trial, l->steps ? "/columns" : "", l->host, l->token, body.len);
    for (size_t i = 0; i < s->position_count; i++)
        s->positions[i] += s->request.len;
    buf_append(&s->request, body.data, body.len);
    must(!body.err && !s->request.err);
    buf_free(&body);
}

static void number_steps(struct metric_sender *s)
{
    for (size_t i = 0; i < s->position_count; i++) {
        int64_t n = s->step + (int64_t)i;
        char *at = s->request.data + s->positions[i];
        for (int k = DIGITS - 1; k >= 0; k--, n /= 10)
            at[k] = (char)('0' + n % 10);
    }
}

static void sender_connect(const struct metrics_load *l, struct metric_sender *s)
{
    struct addrinfo hints = {.ai_family = AF_INET, .ai_socktype = SOCK_STREAM}, *found = NULL;
    must(!getaddrinfo(l->host, l->port, &hints, &found));
    s->fd = socket(AF_INET, SOCK_STREAM, 0);
    must(s->fd >= 0 && !connect(s->fd, found->ai_addr, found->ai_addrlen));
    setsockopt(s->fd, IPPROTO_TCP, TCP_NODELAY, &(int){1}, sizeof(int));
    freeaddrinfo(found);
}

static void sender_send(struct metric_sender *s)
{
    while (s->sent < s->request.len) {
        ssize_t n = send(s->fd, s->request.data + s->sent, s->request.len - s->sent,
                         MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n < 0 && errno == EAGAIN)
            return;
        must(n > 0);
        s->sent += (size_t)n;
    }
}

static void sender_start_post(struct metrics_load *l, struct metric_sender *s)
{
    if (clock_mono_us() >= l->until || l->posts == POSTS_MAX) {
        close(s->fd);
        s->fd = -1;
        l->open--;
        return;
    }
    number_steps(s);
    s->began = clock_mono_us();
    s->sent = s->answer_len = 0;
    sender_send(s);
}

// Returns the status of a complete answer; 0: it is not complete yet.
static int sender_receive(struct metric_sender *s)
{
    ssize_t n =
        recv(s->fd, s->answer + s->answer_len, ANSWER_MAX - 1 - s->answer_len, MSG_DONTWAIT);
    if (n < 0 && errno == EAGAIN)
        return 0;
    must(n > 0);
    s->answer_len += (size_t)n;
    s->answer[s->answer_len] = '\0';
    const char *end = strstr(s->answer, "\r\n\r\n"),
               *length = strcasestr(s->answer, "content-length:");
    if (!end || !length)
        return 0;
    size_t whole = (size_t)(end + 4 - s->answer) + strtoul(length + 15, NULL, 10);
    return s->answer_len >= whole ? (int)strtol(s->answer + 9, NULL, 10) : 0;
}

static void sender_finish_post(struct metrics_load *l, struct metric_sender *s)
{
    int status = sender_receive(s);
    if (!status)
        return;
    l->durations[l->posts++] = (int32_t)(clock_mono_us() - s->began);
    if (status == 200) {
        l->acknowledged++;
        s->step += l->steps ? l->steps : 1;
        sender_start_post(l, s);
    } else if (status == 429) {
        l->refused++;
        s->retry_at = clock_mono_us() + 1000000; // the answer asks for this delay
    } else {
        log_die(__FILE__, __LINE__, s->answer);
    }
}

static void run_load(struct metrics_load *l, struct metric_sender *senders, int count)
{
    int poll = epoll_create1(EPOLL_CLOEXEC);
    struct epoll_event events[256];
    for (int i = 0; i < count; i++) {
        struct epoll_event e = {.events = EPOLLIN | EPOLLOUT | EPOLLET, .data.ptr = &senders[i]};
        sender_connect(l, &senders[i]);
        must(!epoll_ctl(poll, EPOLL_CTL_ADD, senders[i].fd, &e));
        sender_start_post(l, &senders[i]);
    }
    while (l->open > 0) {
        int n = epoll_wait(poll, events, 256, 100);
        for (int i = 0; i < n; i++) {
            struct metric_sender *s = events[i].data.ptr;
            if (s->fd >= 0 && !s->retry_at && (events[i].events & EPOLLOUT))
                sender_send(s);
            if (s->fd >= 0 && !s->retry_at && (events[i].events & EPOLLIN))
                sender_finish_post(l, s);
        }
        for (int i = 0; l->refused && i < count; i++)
            if (senders[i].retry_at && senders[i].retry_at <= clock_mono_us()) {
                senders[i].retry_at = 0;
                sender_start_post(l, &senders[i]);
            }
    }
    close(poll);
}

static int compare_numbers(const void *a, const void *b)
{
    return *(const int32_t *)a - *(const int32_t *)b;
}

static void print_result(struct metrics_load *l, double seconds)
{
    double points = (double)l->acknowledged * l->metrics * (l->steps ? l->steps : 1);
    qsort(l->durations, l->posts, sizeof *l->durations, compare_numbers);
    printf("{\"points\": %.0f, \"posts\": %lld, \"seconds\": %.3f, \"p50_ms\": %.3f, "
           "\"p99_ms\": %.3f, \"worst_ms\": %.3f, \"refused\": %lld}\n",
           points, (long long)l->acknowledged, seconds, l->durations[l->posts / 2] / 1e3,
           l->durations[l->posts * 99 / 100] / 1e3, l->durations[l->posts - 1] / 1e3,
           (long long)l->refused);
}

int main(int argc, char **argv)
{
    static struct metric_sender senders[TRIALS_MAX];
    int count = argc - 8;
    if (count < 1 || count > TRIALS_MAX || strlen(argv[7]) != DIGITS) {
        fprintf(stderr, "metrics_load HOST PORT TOKEN SECONDS METRICS STEPS FIRST TRIAL..\n");
        return 2;
    }
    struct metrics_load l = {.host = argv[1], .port = argv[2], .token = argv[3], .open = count};
    l.metrics = (int)strtol(argv[5], NULL, 10);
    l.steps = (int)strtol(argv[6], NULL, 10);
    l.first = strtoll(argv[7], NULL, 10);
    l.durations = xcalloc(POSTS_MAX, sizeof *l.durations);
    must(l.metrics > 0 && l.steps >= 0 && l.steps <= STEPS_MAX);
    for (int i = 0; i < count; i++)
        build_request(&l, &senders[i], argv[8 + i]);
    int64_t start = clock_mono_us();
    l.until = start + (int64_t)(strtod(argv[4], NULL) * 1e6);
    run_load(&l, senders, count);
    print_result(&l, (double)(clock_mono_us() - start) / 1e6);
    return 0;
}
