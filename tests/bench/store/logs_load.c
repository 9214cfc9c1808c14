// The load of the log benchmark: each connection posts lines of its own task, as an agent does, and
// sends the next post after the answer to the last one. Prints the acknowledged lines and times as
// one line of JSON.
//
//     logs_load HOST PORT TOKEN SECONDS LINES_PER_POST FIRST TASK..
//
// Sequence numbers begin at FIRST, which has ten digits, so that they are patched in place: the
// benchmark measures the master, and the generator should cost little.
#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/rng.h"

enum { TASKS_MAX = 64, DIGITS = 10, POSTS_MAX = 1 << 20 };

struct log_load_sender {
    const char *host, *port, *token, *task;
    int64_t first, lines, until;
    struct buf request;
    size_t *positions; // positions of the digits in each line
    int fd;
    int64_t posted, refused;
    int32_t *durations; // microseconds of each post
    size_t posts;
    pthread_t thread;
};

// Writes a typical line of a training program, about 100 letters.
static void write_text(struct buf *out, struct rng *rng, int64_t line)
{
    static const char *const words[] = {"gradient", "norm",  "clipped", "shard",  "loaded",
                                        "epoch",    "cache", "rate",    "scaled", "batch"};
    buf_printf(out, "step %06lld loss %.6f accuracy %.4f lr %.3e", (long long)line, rng_double(rng),
               rng_double(rng), rng_double(rng) / 1000);
    for (int i = 0; i < 4; i++)
        buf_printf(out, " %s %.3f", words[rng_below(rng, 10)], rng_double(rng));
}

static void build_body(struct log_load_sender *s)
{
    static const char *const levels[] = {"INFO", "INFO", "INFO", "INFO", "WARNING", "ERROR"};
    struct buf body;
    struct rng rng;
    size_t *positions = xcalloc((size_t)s->lines, sizeof *positions);
    rng_seed(&rng, 1, (uint64_t)strtoul(s->task, NULL, 10));
    buf_init(&body, 64 << 20);
    buf_printf(&body,
               "{\"taskId\":\"%s\",\"allocationId\":\"%s.1\",\"agentId\":\"agent-1\","
               "\"containerId\":\"0d1e2f3a-0000-4000-8000-000000000000\",\"logs\":[",
               s->task, s->task);
    for (int64_t i = 0; i < s->lines; i++) {
        buf_printf(&body, "%s{\"sequence\":", i ? "," : "");
        positions[i] = body.len;
        buf_printf(
            &body,
            "%010d,\"timestamp\":\"2026-11-21T09:00:%02d.%06dZ\",\"rankId\":%d,"
            "\"level\":\"LOG_LEVEL_%s\",\"stdtype\":\"stdout\",\"source\":\"task\",\"log\":\"",
            0, (int)(i * 60 / s->lines), (int)(i * 997 % 1000000), (int)rng_below(&rng, 4),
            levels[rng_below(&rng, 6)]);
        write_text(&body, &rng, i);
        buf_puts(&body, "\"}");
    }
    buf_puts(&body, "]}");
    buf_init(&s->request, 64 << 20);
    buf_printf(&s->request,
               "POST /api/v1/task/logs HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer %s\r\n"
               "Content-Length: %zu\r\n\r\n",
               s->host, s->token, body.len);
    for (int64_t i = 0; i < s->lines; i++)
        positions[i] += s->request.len;
    buf_append(&s->request, body.data, body.len);
    s->positions = positions;
    must(!body.err && !s->request.err);
    buf_free(&body);
}

static void number_lines(struct log_load_sender *s)
{
    for (int64_t i = 0; i < s->lines; i++) {
        int64_t n = s->first + s->posted + i;
        char *at = s->request.data + s->positions[i];
        for (int k = DIGITS - 1; k >= 0; k--, n /= 10)
            at[k] = (char)('0' + n % 10);
    }
}

static void sender_connect(struct log_load_sender *s)
{
    struct addrinfo hints = {.ai_family = AF_INET, .ai_socktype = SOCK_STREAM}, *found = NULL;
    must(!getaddrinfo(s->host, s->port, &hints, &found));
    s->fd = socket(AF_INET, SOCK_STREAM, 0);
    must(s->fd >= 0 && !connect(s->fd, found->ai_addr, found->ai_addrlen));
    setsockopt(s->fd, IPPROTO_TCP, TCP_NODELAY, &(int){1}, sizeof(int));
    freeaddrinfo(found);
}

static void send_all(struct log_load_sender *s)
{
    for (size_t sent = 0; sent < s->request.len;) {
        ssize_t n = send(s->fd, s->request.data + sent, s->request.len - sent, MSG_NOSIGNAL);
        must(n > 0);
        sent += (size_t)n;
    }
}

// Returns the status of the answer, which is small and arrives in one piece.
static int receive_status(struct log_load_sender *s)
{
    char answer[4096];
    size_t len = 0;
    for (;;) {
        ssize_t n = recv(s->fd, answer + len, sizeof answer - 1 - len, 0);
        must(n > 0);
        len += (size_t)n;
        answer[len] = '\0';
        const char *end = strstr(answer, "\r\n\r\n"),
                   *length = strcasestr(answer, "content-length:");
        if (end && length && len >= (size_t)(end + 4 - answer) + strtoul(length + 15, NULL, 10))
            return (int)strtol(answer + 9, NULL, 10);
    }
}

static void *sender_main(void *arg)
{
    struct log_load_sender *s = arg;
    sender_connect(s);
    while (clock_mono_us() < s->until && s->posts < POSTS_MAX) {
        number_lines(s);
        int64_t start = clock_mono_us();
        send_all(s);
        int status = receive_status(s);
        s->durations[s->posts++] = (int32_t)(clock_mono_us() - start);
        if (status == 200) {
            s->posted += s->lines;
        } else {
            must(status == 429);
            s->refused++;
            clock_sleep_us(1000000);
        }
    }
    close(s->fd);
    return NULL;
}

static int compare_numbers(const void *a, const void *b)
{
    return *(const int32_t *)a - *(const int32_t *)b;
}

static void print_result(struct log_load_sender *senders, int count, double seconds)
{
    int64_t lines = 0, refused = 0;
    size_t posts = 0, n = 0;
    for (int i = 0; i < count; i++) {
        lines += senders[i].posted;
        refused += senders[i].refused;
        posts += senders[i].posts;
    }
    int32_t *durations = xcalloc(posts + 1, sizeof *durations);
    for (int i = 0; i < count; i++)
        for (size_t k = 0; k < senders[i].posts; k++)
            durations[n++] = senders[i].durations[k];
    qsort(durations, posts, sizeof *durations, compare_numbers);
    printf("{\"lines\": %lld, \"seconds\": %.3f, \"p50_ms\": %.3f, \"p99_ms\": %.3f, "
           "\"bytes\": %.0f, \"refused\": %lld}\n",
           (long long)lines, seconds, durations[posts / 2] / 1e3, durations[posts * 99 / 100] / 1e3,
           (double)senders[0].request.len * (double)posts, (long long)refused);
    free(durations);
}

int main(int argc, char **argv)
{
    static struct log_load_sender senders[TASKS_MAX];
    int count = argc - 7;
    if (count < 1 || count > TASKS_MAX || strlen(argv[6]) != DIGITS) {
        fprintf(stderr, "logs_load HOST PORT TOKEN SECONDS LINES_PER_POST FIRST TASK..\n");
        return 2;
    }
    for (int i = 0; i < count; i++) {
        senders[i] = (struct log_load_sender){.host = argv[1],
                                              .port = argv[2],
                                              .token = argv[3],
                                              .task = argv[7 + i],
                                              .lines = strtoll(argv[5], NULL, 10),
                                              .first = strtoll(argv[6], NULL, 10)};
        senders[i].durations = xcalloc(POSTS_MAX, sizeof(int32_t));
        build_body(&senders[i]);
    }
    int64_t start = clock_mono_us();
    for (int i = 0; i < count; i++) {
        senders[i].until = start + (int64_t)(strtod(argv[4], NULL) * 1e6);
        must(!pthread_create(&senders[i].thread, NULL, sender_main, &senders[i]));
    }
    for (int i = 0; i < count; i++)
        pthread_join(senders[i].thread, NULL);
    print_result(senders, count, (double)(clock_mono_us() - start) / 1e6);
    return 0;
}
