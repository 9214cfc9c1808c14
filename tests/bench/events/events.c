// The cost of sending events of changes to followers; see README.md.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>

#include "base/clock.h"
#include "base/log.h"
#include "master/first_start.h"
#include "master/http/auth/auth.h"
#include "master/http/server.h"

enum { EXPERIMENTS = 50, TRIALS = 20, FOLLOWERS_MAX = 60 };

#define I(value) ((int64_t)(value))

struct follower_result { // written by the followers' process at its end
    long long events, bytes;
};

// --- the followers -------------------------------------------------------------------------------

static int dial(int port, const char *token)
{
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    char request[512];
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    must(fd >= 0 && !connect(fd, (struct sockaddr *)&to, sizeof to));
    int len = snprintf(request, sizeof request,
                       "GET /api/v1/events HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\n\r\n",
                       token);
    must(write(fd, request, (size_t)len) == len);
    return fd;
}

static long long count_events(const char *text, ssize_t len)
{
    long long count = 0;
    for (ssize_t i = 0; i + 7 <= len; i++) // a match that two reads share is one in thousands
        count += text[i] == '\n' && !memcmp(text + i, "\nevent:", 7);
    return count;
}

static struct follower_result follow(int count, int port, const char *token)
{
    struct follower_result told = {0};
    struct pollfd polls[FOLLOWERS_MAX];
    static char text[1 << 16];
    for (int i = 0; i < count; i++)
        polls[i] = (struct pollfd){.fd = dial(port, token), .events = POLLIN};
    for (int open = count; open;) {
        must(poll(polls, (nfds_t)count, -1) > 0);
        for (int i = 0; i < count; i++) {
            ssize_t n = polls[i].revents ? read(polls[i].fd, text, sizeof text) : 0;
            if (polls[i].revents && n <= 0) {
                polls[i].fd = -1;
                open--;
            } else if (n > 0) {
                told.events += count_events(text, n);
                told.bytes += n;
            }
        }
    }
    return told;
}

// --- the master's side ---------------------------------------------------------------------------

static void fill(struct db *db, const char *hash)
{
    struct db_batch *b = db_batch_new();
    struct error e = {0};
    DB_ADD(b, TOKEN_INSERT, hash, "user", DB_NOT_NULL(I(1)), NULL, I(1), I(0));
    for (int64_t x = 1; x <= EXPERIMENTS; x++) {
        DB_ADD(b, EXPERIMENT_INSERT, x, "ACTIVE", "run", "", "", "[]", I(1), I(1), "job", I(0), "",
               "{}", I(42), "single", "{}", I(0), I(1), "", I(1));
        for (int64_t t = x * 100; t < x * 100 + TRIALS; t++) {
            char task[32];
            snprintf(task, sizeof task, "%lld.%lld", (long long)x, (long long)t);
            DB_ADD(b, TRIAL_INSERT, t, x, "r", task, "ACTIVE", "{}", I(1), I(1));
            DB_ADD(b, TRIAL_SET_METRICS, I(70),
                   "{\"metrics\":{\"avgMetrics\":{\"loss\":0.25,\"step_ms\":12.5,"
                   "\"samples_per_second\":3124.5}},\"totalBatches\":70}",
                   "{}", I(1), t);
        }
    }
    if (db_commit_wait(db, b, &e))
        log_die(__FILE__, __LINE__, e.text);
}

static double cpu_s(void)
{
    struct rusage u;
    getrusage(RUSAGE_SELF, &u);
    return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) +
           (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec) / 1e6;
}

static void change(struct hub *hub, int64_t number)
{
    int64_t x = 1 + number % EXPERIMENTS, t = x * 100 + number / EXPERIMENTS % TRIALS;
    struct changes *n = changes_new();
    changes_add(n, EVENT_METRICS, x, t, "training")->workspace_id = 1;
    hub_notify(hub, n);
}

static void run_load(struct hub *hub, int64_t rate, int64_t seconds)
{
    int64_t began = clock_mono_us();
    for (int64_t i = 0; i < rate * seconds; i++) {
        int64_t due = began + i * 1000000 / rate, now = clock_mono_us();
        if (due > now)
            clock_sleep_us(due - now);
        change(hub, i);
    }
}

static long number_of(const char *text, long most)
{
    char *end;
    long n = strtol(text, &end, 10);
    if (*end || n < 1 || n > most) {
        fprintf(stderr, "\"%s\" is no number from 1 to %ld\n", text, most);
        exit(2);
    }
    return n;
}

static struct server *serve(struct db *db, struct hub *hub, struct log_followers *logs)
{
    struct error e = {0};
    struct server *server;
    const struct server_options options = {.db = db,
                                           .log_followers = logs,
                                           .hub = hub,
                                           .cluster_id = "x",
                                           .cluster_name = "x",
                                           .config = "{}",
                                           .bind = "127.0.0.1"};
    if (server_start(&options, &server, &e))
        log_die(__FILE__, __LINE__, e.text);
    return server;
}

// Forks before there are threads; gets the port when the server is up.
static pid_t start_followers(long count, const char *token, int ports, int results)
{
    pid_t pid = fork();
    int port;
    if (pid)
        return pid;
    must(read(ports, &port, sizeof port) == sizeof port);
    struct follower_result told = follow((int)count, port, token);
    must(write(results, &told, sizeof told) == sizeof told);
    _exit(0);
}

int main(int argc, char **argv)
{
    if (argc != 4) {
        fprintf(stderr, "usage: bench_events FOLLOWERS CHANGES_A_SECOND SECONDS\n");
        return 2;
    }
    long followers = number_of(argv[1], FOLLOWERS_MAX), rate = number_of(argv[2], 1000000),
         seconds = number_of(argv[3], 600);
    char token[TOKEN_TEXT], hash[SHA256_HEX];
    int ports[2], results[2];
    struct error e = {0};
    struct db *db;
    struct hub *hub;
    struct cluster_identity cluster;
    struct log_followers *logs = log_followers_new();
    struct follower_result told;
    auth_token_make(token, hash);
    must(!pipe(ports) && !pipe(results));
    start_followers(followers, token, ports[0], results[1]);
    const struct first_start first = {.data_dir = ".", .cluster_name = "bench"};
    if (db_open(".", &db, &e) || first_start(db, &first, &cluster, &e) || hub_start(db, &hub, &e))
        log_die(__FILE__, __LINE__, e.text);
    fill(db, hash);
    struct server *server = serve(db, hub, logs);
    int port = (int)strtol(strrchr(server_url(server), ':') + 1, NULL, 10);
    must(write(ports[1], &port, sizeof port) == sizeof port);
    clock_sleep_us(1000000); // the followers are connected

    double before = cpu_s();
    run_load(hub, rate, seconds);
    clock_sleep_us(500000);
    double used = cpu_s() - before;
    server_drain(server);
    server_stop(server);
    must(read(results[0], &told, sizeof told) == sizeof told);
    wait(NULL);
    printf("{\"bench\":\"events\",\"followers\":%ld,\"changes\":%ld,\"told\":%.0f,"
           "\"bytes\":%lld,\"cpu_percent\":%.2f,\"cpu_ms_per_1000\":%.2f}\n",
           followers, rate, (double)told.events / (double)followers / (double)seconds,
           told.bytes / followers, 100 * used / (double)seconds,
           1e6 * used / (double)(rate * seconds));
    hub_free(hub);
    log_followers_free(logs);
    db_close(db);
    free(cluster.id);
    free(cluster.name);
    return 0;
}
