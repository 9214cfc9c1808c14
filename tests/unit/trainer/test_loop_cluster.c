// `muster-trainer worker` against a fake master: the reports and their order through failures of
// the master, a drain, and the end of the allocation.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <arpa/inet.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "api/checkpoint/checkpoint.h"
#include "api/config/expconf.h"
#include "base/arena.h"
#include "base/os/proc.h"
#include "tests/unit/trainer/ranks.h"
#include "tests/unit/trainer/toys.h"
#include "trainer/commands/commands.h"

// --- the fake master: one thread and one request per connection ----------------------------------

enum { CALLS_MAX = 200, ROUNDS_MAX = 16, REQUEST_MAX = 1 << 20 };

struct fake_call {
    char what[160]; // "POST /api/v1/..."
    json_t *body;
};

struct fake_master {
    int listener, port;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct fake_call calls[CALLS_MAX]; // accepted calls, without all_gathers and long-polls
    int call_count;
    json_t *gathered[ROUNDS_MAX];
    int connections;     // open connections
    json_t *checkpoints; // answer to the list of checkpoints
    int refuse;          // so many POST requests are first answered with 503
    int drain_after;     // metrics; -1: never
    int fence_after;     // metrics; -1: never
    int metrics;
    bool bad_token;
};

struct fake_request {
    char method[8], path[256];
    json_t *body;
    bool has_token;
};

static bool read_request(int fd, struct fake_request *r)
{
    char *text = xcalloc(1, REQUEST_MAX);
    size_t used = 0, want = REQUEST_MAX;
    char *body = NULL;
    while (used < want) {
        ssize_t n = recv(fd, text + used, REQUEST_MAX - 1 - used, 0);
        if (n <= 0)
            break;
        used += (size_t)n;
        if (!body && (body = strstr(text, "\r\n\r\n"))) {
            body += 4;
            const char *length = strcasestr(text, "content-length:");
            want = (size_t)(body - text) + (length ? strtoul(length + 15, NULL, 10) : 0);
        }
    }
    bool good = body && sscanf(text, "%7s %255s", r->method, r->path) == 2;
    r->has_token = strcasestr(text, "Grpc-Metadata-x-allocation-token: Bearer secret\r\n") != NULL;
    r->body = good ? json_loads(body, JSON_DECODE_ANY, NULL) : NULL;
    free(text);
    return good;
}

static void send_answer(int fd, int status, const char *body)
{
    char head[160];
    int n = snprintf(head, sizeof head,
                     "HTTP/1.1 %d x\r\nContent-Length: %zu\r\nConnection: close\r\n\r\n", status,
                     strlen(body));
    send(fd, head, (size_t)n, MSG_NOSIGNAL);
    send(fd, body, strlen(body), MSG_NOSIGNAL);
}

// Called under the lock; waits for all peers of the round.
static char *fake_gather(struct fake_master *m, const json_t *body)
{
    int round = 0, rank = 0;
    size_t peers = (size_t)jget_int(body, "numPeers", 1);
    sscanf(jget_string(body, "requestUuid", ""), "%d:%d", &round, &rank);
    must(round < ROUNDS_MAX);
    if (!m->gathered[round])
        m->gathered[round] = json_object();
    char key[24];
    snprintf(key, sizeof key, "%04d", rank);
    json_object_set(m->gathered[round], key, json_object_get(body, "data"));
    pthread_cond_broadcast(&m->changed);
    while (json_object_size(m->gathered[round]) < peers)
        pthread_cond_wait(&m->changed, &m->lock);
    json_t *data = json_array();
    for (size_t i = 0; i < peers; i++) {
        snprintf(key, sizeof key, "%04zu", i);
        json_array_append(data, json_object_get(m->gathered[round], key));
    }
    json_t *whole = json_pack("{s:o}", "data", data);
    char *text = json_text(whole);
    json_decref(whole);
    return text;
}

static char *poll_preemption(struct fake_master *m)
{
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += 1;
    while (m->drain_after < 0 || m->metrics < m->drain_after)
        if (pthread_cond_timedwait(&m->changed, &m->lock, &until))
            return xstrdup("{\"preempt\":false}");
    return xstrdup("{\"preempt\":true}");
}

static void record_call(struct fake_master *m, const char *what, json_t *body)
{
    must(m->call_count < CALLS_MAX);
    struct fake_call *call = &m->calls[m->call_count++];
    snprintf(call->what, sizeof call->what, "%s", what);
    call->body = body;
}

// Records each step as if it had been reported alone.
static void record_metrics(struct fake_master *m, const json_t *columns)
{
    const json_t *steps = jget(columns, "steps");
    const char *name;
    json_t *values;
    for (size_t i = 0; i < json_array_size(steps); i++) {
        json_t *metrics = json_object();
        json_object_foreach(jget(columns, "metrics"), name, values)
        {
            must(json_array_size(values) == json_array_size(steps));
            if (!json_is_null(json_array_get(values, i)))
                json_object_set(metrics, name, json_array_get(values, i));
        }
        record_call(m, "trials/3/metrics",
                    json_pack("{s:O, s:O, s:O, s:o}", "group", jget(columns, "group"), "trialRunId",
                              jget(columns, "trialRunId"), "step", json_array_get(steps, i),
                              "metrics", metrics));
        m->metrics++;
    }
}

static char *fake_master_handle(struct fake_master *m, struct fake_request *r, int *status)
{
    *status = 200;
    if (!r->has_token)
        m->bad_token = true;
    if (strstr(r->path, "/all_gather"))
        return fake_gather(m, r->body);
    if (strstr(r->path, "/signals/preemption"))
        return poll_preemption(m);
    if (strcmp(r->method, "GET") == 0)
        return m->checkpoints ? json_text(m->checkpoints) : xstrdup("{\"checkpoints\":[]}");
    if (m->refuse > 0) {
        m->refuse--;
        *status = 503;
        return xstrdup("");
    }
    if (m->fence_after >= 0 && m->metrics >= m->fence_after) {
        *status = 403;
        return xstrdup("{\"error\":{\"error\":\"allocation has ended\"}}");
    }
    const char *what = strstr(r->path, "/v1/") + 4;
    if (strcmp(what, "trials/3/metrics/columns") == 0)
        record_metrics(m, r->body);
    else
        record_call(m, what, json_incref(r->body));
    pthread_cond_broadcast(&m->changed);
    return xstrdup("{}");
}

struct fake_connection {
    struct fake_master *master;
    int fd;
};

static void *serve_connection(void *arg)
{
    struct fake_connection *v = arg;
    struct fake_request r = {0};
    if (read_request(v->fd, &r)) {
        int status;
        pthread_mutex_lock(&v->master->lock);
        char *text = fake_master_handle(v->master, &r, &status);
        pthread_mutex_unlock(&v->master->lock);
        send_answer(v->fd, status, text);
        free(text);
    }
    json_decref(r.body);
    close(v->fd);
    pthread_mutex_lock(&v->master->lock);
    v->master->connections--;
    pthread_cond_broadcast(&v->master->changed);
    pthread_mutex_unlock(&v->master->lock);
    free(v);
    return NULL;
}

static void *fake_master_serve(void *arg)
{
    struct fake_master *m = arg;
    int fd;
    while ((fd = accept(m->listener, NULL, NULL)) >= 0) {
        pthread_t thread;
        struct fake_connection *v = xcalloc(1, sizeof *v);
        *v = (struct fake_connection){.master = m, .fd = fd};
        pthread_mutex_lock(&m->lock);
        m->connections++;
        pthread_mutex_unlock(&m->lock);
        must(pthread_create(&thread, NULL, serve_connection, v) == 0);
        pthread_detach(thread);
    }
    return NULL;
}

static void fake_master_open(struct fake_master *m)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof address;
    *m = (struct fake_master){.drain_after = -1, .fence_after = -1};
    pthread_mutex_init(&m->lock, NULL);
    pthread_cond_init(&m->changed, NULL);
    m->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    must(bind(m->listener, (struct sockaddr *)&address, sizeof address) == 0);
    must(listen(m->listener, 64) == 0);
    must(getsockname(m->listener, (struct sockaddr *)&address, &len) == 0);
    m->port = ntohs(address.sin_port);
}

// After this the caller may read the recorded calls.
static void fake_master_stop(struct fake_master *m)
{
    shutdown(m->listener, SHUT_RDWR);
    pthread_join(m->thread, NULL);
    close(m->listener);
    pthread_mutex_lock(&m->lock);
    while (m->connections > 0)
        pthread_cond_wait(&m->changed, &m->lock);
    pthread_mutex_unlock(&m->lock);
}

static void fake_master_free(struct fake_master *m)
{
    assert_false(m->bad_token);
    for (int i = 0; i < m->call_count; i++)
        json_decref(m->calls[i].body);
    for (int i = 0; i < ROUNDS_MAX; i++)
        json_decref(m->gathered[i]);
    json_decref(m->checkpoints);
    pthread_cond_destroy(&m->changed);
    pthread_mutex_destroy(&m->lock);
}

// --- the workers ---------------------------------------------------------------------------------

static char *config_text(const char *yaml)
{
    struct error e = {0};
    struct yaml_doc doc = {0};
    char cwd[512];
    must(getcwd(cwd, sizeof cwd));
    if (expconf_parse(yaml, strlen(yaml), "test.yaml", &doc, &e))
        fail_msg("%s", e.text);
    json_object_set_new(doc.root, "checkpoint_storage",
                        json_pack("{s:s, s:s}", "type", "directory", "container_path", cwd));
    char *text = json_text(doc.root);
    yaml_doc_free(&doc);
    return text;
}

static void set_number(const char *name, int value)
{
    char text[16];
    snprintf(text, sizeof text, "%d", value);
    setenv(name, text, 1);
}

// A rank is this test program, started again with the argument `worker`.
static pid_t start_worker(int rank)
{
    pid_t pid;
    struct error e = {0};
    set_number("RANK", rank);
    const struct proc_spec spec = {.argv = (const char *[]){"/proc/self/exe", "worker", NULL},
                                   .fd_in = -1,
                                   .fd_out = STDOUT_FILENO,
                                   .fd_err = STDERR_FILENO,
                                   .die_with_parent = true};
    if (proc_spawn(&spec, &pid, NULL, &e))
        fail_msg("%s", e.text);
    return pid;
}

static void set_environment(const struct fake_master *m, const char *yaml, int world,
                            const char *latest)
{
    char url[64], *config = config_text(yaml);
    snprintf(url, sizeof url, "http://127.0.0.1:%d", m->port);
    setenv("DET_MASTER", url, 1);
    setenv("DET_SESSION_TOKEN", "secret", 1);
    setenv("DET_ALLOCATION_ID", "7.1", 1);
    setenv("DET_TASK_ID", "7", 1);
    set_number("DET_TRIAL_ID", 3);
    set_number("DET_TRIAL_RUN_ID", 1);
    set_number("DET_TRIAL_SEED", 11);
    setenv("DET_EXPERIMENT_CONFIG", config, 1);
    setenv("DET_HPARAMS", "{}", 1);
    setenv("DET_LATEST_CHECKPOINT", latest ? latest : "", 1);
    set_number("WORLD_SIZE", world);
    free(config);
}

// Runs all ranks and stores their exit codes.
static void run_workers(struct fake_master *m, const char *yaml, int world, const char *latest,
                        int *codes)
{
    pid_t pids[RANKS_MAX];
    must(pthread_create(&m->thread, NULL, fake_master_serve, m) == 0);
    set_environment(m, yaml, world, latest);
    for (int r = 0; r < world; r++)
        pids[r] = start_worker(r);
    for (int r = 0; r < world; r++) {
        int status;
        must(waitpid(pids[r], &status, 0) == pids[r]);
        codes[r] = WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
    }
    fake_master_stop(m);
}

// The n-th call whose path ends with this; else NULL.
static const struct fake_call *find_call(const struct fake_master *m, const char *what, int n)
{
    for (int i = 0; i < m->call_count; i++)
        if (strcmp(m->calls[i].what, what) == 0 && n-- == 0)
            return &m->calls[i];
    return NULL;
}

static void assert_report(const struct fake_call *c, const char *group, int64_t step)
{
    assert_non_null(c);
    assert_string_equal(jget_string(c->body, "group", ""), group);
    assert_int_equal(jget_int(c->body, "trialRunId", 0), 1);
    assert_int_equal(jget_int(c->body, "step", -1), step);
    assert_true(json_object_size(jget(c->body, "metrics")) >= 2);
}

static const char *checkpoint_of(const struct fake_master *m, int n, int64_t step)
{
    const struct fake_call *c = find_call(m, "checkpoints", n);
    assert_non_null(c);
    assert_string_equal(jget_string(c->body, "state", ""), "STATE_COMPLETED");
    assert_string_equal(jget_string(c->body, "allocationId", ""), "7.1");
    assert_int_equal(jget_int(jget(c->body, "metadata"), "steps_completed", -1), step);
    assert_true(json_object_size(jget(c->body, "resources")) == 3);
    return jget_string(c->body, "uuid", "");
}

static void state_digest(const char *uuid, char state[SHA256_HEX])
{
    char weights[SHA256_HEX];
    struct checkpoint *ck = NULL;
    struct error e = {0};
    if (checkpoint_open(uuid, &ck, &e))
        fail_msg("%s", e.text);
    checkpoint_digests(ck, weights, state);
    checkpoint_close(ck);
}

static void assert_complete_training(const struct fake_master *m)
{
    const struct {
        const char *group;
        int64_t step;
    } story[] = {{"validation", 0}, {"training", 5},  {"validation", 6},
                 {"training", 10},  {"training", 12}, {"validation", 12}};
    for (int i = 0; i < 6; i++)
        assert_report(find_call(m, "trials/3/metrics", i), story[i].group, story[i].step);
    assert_null(find_call(m, "trials/3/metrics", 6));
    const struct fake_call *last = NULL, *progress;
    for (int i = 0; (progress = find_call(m, "trials/3/progress", i)); i++)
        last = progress;
    assert_non_null(last);
    assert_true(jget_double(last->body, "progress", 0) == 1.0);
    checkpoint_of(m, 0, 4);
    checkpoint_of(m, 1, 8);
    checkpoint_of(m, 2, 12);
    assert_string_equal(m->calls[m->call_count - 1].what, "checkpoints");
}

static void test_story_of_a_training(void **state)
{
    (void)state;
    struct fake_master m;
    int codes[2];
    fake_master_open(&m);
    run_workers(&m, toys_mlp, 2, NULL, codes);
    assert_int_equal(codes[0], 0);
    assert_int_equal(codes[1], 0);
    assert_complete_training(&m);
    assert_null(find_call(&m, "allocations/7.1/signals/ack_preemption", 0));
    fake_master_free(&m);
}

static void test_reports_outlive_a_master_that_refuses(void **state)
{
    (void)state;
    struct fake_master m;
    int codes[1];
    fake_master_open(&m);
    m.refuse = 4;
    run_workers(&m, toys_mlp, 1, NULL, codes);
    assert_int_equal(codes[0], 0);
    assert_int_equal(m.refuse, 0);
    assert_complete_training(&m);
    fake_master_free(&m);
}

// A training that is long enough for a drain in the middle.
static const char long_mlp[] =
    TOYS_HEAD "trainer:\n"
              "  model: {family: mlp, hidden: [24], classes: 4, dropout: 0.1}\n" TOYS_IDX
              "  global_batch_size: 32\n  micro_batch_size: 4\n  steps: 20000\n"
              "  optimizer: {name: adamw, learning_rate: 0.01}\n  report_every: 20\n";

static void test_drain_is_acknowledged_last(void **state)
{
    (void)state;
    struct fake_master m;
    int codes[2];
    fake_master_open(&m);
    m.drain_after = 3;
    run_workers(&m, long_mlp, 2, NULL, codes);
    assert_int_equal(codes[0], 0);
    assert_int_equal(codes[1], 0);
    assert_string_equal(m.calls[m.call_count - 1].what, "allocations/7.1/signals/ack_preemption");
    assert_string_equal(m.calls[m.call_count - 2].what, "checkpoints");
    int64_t at = jget_int(jget(m.calls[m.call_count - 2].body, "metadata"), "steps_completed", 0);
    assert_true(at > 0 && at < 20000);
    fake_master_free(&m);
}

static void test_damaged_latest_checkpoint_falls_back(void **state)
{
    (void)state;
    struct fake_master first, second;
    int codes[2];
    char expected[SHA256_HEX], got[SHA256_HEX];
    fake_master_open(&first);
    run_workers(&first, toys_mlp, 1, NULL, codes);
    state_digest(checkpoint_of(&first, 2, 12), expected);
    const char *latest = checkpoint_of(&first, 1, 8), *earlier = checkpoint_of(&first, 0, 4);
    char path[128];
    snprintf(path, sizeof path, "%s/weights.safetensors", latest);
    assert_int_equal(truncate(path, 100), 0);

    fake_master_open(&second);
    second.checkpoints = json_pack("{s:[{s:s, s:{s:i}}, {s:s, s:{s:i}}]}", "checkpoints", "uuid",
                                   earlier, "metadata", "steps_completed", 4, "uuid", latest,
                                   "metadata", "steps_completed", 8);
    run_workers(&second, toys_mlp, 2, latest, codes);
    assert_int_equal(codes[0], 0);
    assert_int_equal(codes[1], 0);
    checkpoint_of(&second, 0, 8);
    state_digest(checkpoint_of(&second, 1, 12), got);
    assert_string_equal(got, expected);
    fake_master_free(&second);
    fake_master_free(&first);
}

static void test_ended_allocation_ends_the_process(void **state)
{
    (void)state;
    struct fake_master m;
    int codes[2];
    int64_t begin = clock_mono_us();
    fake_master_open(&m);
    m.fence_after = 2;
    run_workers(&m, long_mlp, 2, NULL, codes);
    assert_int_equal(codes[0], 80);
    assert_int_equal(codes[1], err_exit_code(ERR_PEER));
    assert_true(clock_mono_us() - begin < 20 * SECOND);
    fake_master_free(&m);
}

static void test_hopeless_data_is_reported(void **state)
{
    (void)state;
    struct fake_master m;
    int codes[2];
    fake_master_open(&m);
    run_workers(&m,
                TOYS_HEAD "trainer:\n"
                          "  model: {family: gpt, layers: 1, heads: 2, width: 16, context: 12}\n"
                          "  data: {format: bytes, path: nowhere.txt}\n"
                          "  global_batch_size: 4\n  micro_batch_size: 2\n  steps: 12\n"
                          "  optimizer: {name: sgd, learning_rate: 0.1}\n",
                2, NULL, codes);
    assert_int_equal(codes[0], err_exit_code(ERR_NOT_FOUND));
    const struct fake_call *c = find_call(&m, "trials/3/early_exit", 0);
    assert_non_null(c);
    assert_string_equal(jget_string(c->body, "reason", ""), "EXITED_REASON_INVALID_HP");
    fake_master_free(&m);
}

int main(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "worker") == 0)
        return command_worker(argc - 1, argv + 1);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_story_of_a_training),
        cmocka_unit_test(test_reports_outlive_a_master_that_refuses),
        cmocka_unit_test(test_drain_is_acknowledged_last),
        cmocka_unit_test(test_damaged_latest_checkpoint_falls_back),
        cmocka_unit_test(test_ended_allocation_ends_the_process),
        cmocka_unit_test(test_hopeless_data_is_reported),
    };
    return cmocka_run_group_tests(tests, toys_make, NULL);
}
