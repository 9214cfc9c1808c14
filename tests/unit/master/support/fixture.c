#include "tests/unit/master/support/fixture.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "db/logs/loglines.h"

struct http_fixture fx;

// glibc protects the names that locales share with a lock that ThreadSanitizer does not see.
const char *__tsan_default_suppressions(void);
const char *__tsan_default_suppressions(void)
{
    return "race:freelocale\nrace:_nl_unload_locale\n";
}

void grant(char token[TOKEN_TEXT], const char *kind, int64_t user, const char *allocation,
           int64_t expires)
{
    char hash[SHA256_HEX];
    auth_token_make(token, hash);
    if (user)
        STORE(TOKEN_INSERT, hash, kind, DB_NOT_NULL(user), allocation, I(1), expires);
    else
        STORE(TOKEN_INSERT, hash, kind, NULL, allocation, I(1), expires);
}

void store_experiment(int64_t id, const char *state, const char *name)
{
    STORE(EXPERIMENT_INSERT, id, state, name, "about it", "", "[\"a\",\"b\"]", I(2), I(1), "job", 0,
          "name: first\n",
          "{\"name\":\"first\",\"resources\":{\"resource_pool\":\"default\"},"
          "\"searcher\":{\"name\":\"single\",\"metric\":\"validation_loss\","
          "\"smaller_is_better\":true}}",
          I(42), "single", "{}", I(0), I(7), "", AT + id);
}

void store_trial(int64_t id, int64_t experiment, const char *task)
{
    STORE(TRIAL_INSERT, id, experiment, "request", task, "ACTIVE", "{\"width\":64}", I(5), AT);
}

static int64_t last_line; // of all tasks: numbers may have gaps

void store_log(const char *task, int64_t rank, const char *level, const char *text)
{
    const struct log_origin o = {.text = {[LOG_ALLOCATION] = "1.task.1",
                                          [LOG_AGENT] = "agent-a",
                                          [LOG_CONTAINER] = "container-1234",
                                          [LOG_SOURCE] = "task",
                                          [LOG_STDTYPE] = "stdout",
                                          [LOG_LEVEL] = level},
                                 .rank = rank};
    struct log_packer packer = {0};
    struct log_packed c;
    must(log_packer_add(&packer, &o, AT, text, strlen(text)));
    log_packer_pack(&packer, &c);
    STORE(LOG_CHUNK_INSERT, task, ++last_line, c.lines, c.bytes, c.first_time, c.last_time,
          DB_BLOB(c.origins, c.origins_len), DB_BLOB(c.data, c.data_len));
    log_packed_free(&c);
    log_packer_free(&packer);
}

static void store_running_trial(void)
{
    store_experiment(1, "ACTIVE", "first");
    store_trial(1, 1, "1.task");
    STORE(ALLOCATION_INSERT, "1.task.1", I(1), I(1), "RUNNING", I(2), "default", AT);
}

static void find_storage(void)
{
    struct error e = {0};
    char here[512], text[1024];
    assert_non_null(getcwd(here, sizeof here));
    snprintf(text, sizeof text, "{\"type\":\"directory\",\"container_path\":\"%s/checkpoints\"}",
             here);
    if (storage_new(text, NULL, 0, &fx.storage, &e))
        fail_msg("%s", e.text);
}

int64_t fixture_log_search_us;

void start_server(void)
{
    struct error e = {0};
    const struct server_options options = {.db = fx.db,
                                           .core = fx.core,
                                           .log_followers = fx.log_followers,
                                           .hub = fx.hub,
                                           .storage = fx.storage,
                                           .cluster_id = fx.cluster.id,
                                           .cluster_name = fx.cluster.name,
                                           .api_version = "0.38.1",
                                           .config = "{\"port\":0}",
                                           .bind = "127.0.0.1",
                                           .scrape = {.from = SCRAPE_TOKEN},
                                           .log_search_us = fixture_log_search_us};
    if (server_start(&options, &fx.server, &e))
        fail_msg("%s", e.text);
    fx.port = (int)strtol(strrchr(server_url(fx.server), ':') + 1, NULL, 10);
}

int fixture_start(void **state)
{
    (void)state;
    struct error e = {0};
    signal(SIGPIPE, SIG_IGN);
    log_set_level(LOG_LEVEL_WARN);
    setenv("MUSTER_INITIAL_PASSWORD", PASSWORD, 1);
    const struct first_start first = {.data_dir = ".", .cluster_name = "test"};
    if (db_open(".", &fx.db, &e) || first_start(fx.db, &first, &fx.cluster, &e))
        fail_msg("%s", e.text);
    store_running_trial();
    grant(fx.admin, "user", 1, NULL, 0);
    grant(fx.user, "user", 2, NULL, 0);
    grant(fx.agent, "agent", 0, NULL, 0);
    grant(fx.task, "allocation", 0, "1.task.1", 0);
    if (hub_start(fx.db, &fx.hub, &e))
        fail_msg("%s", e.text);
    find_storage();
    fx.core = stub_start();
    fx.log_followers = log_followers_new();
    start_server();
    return 0;
}

void stop_server(void)
{
    server_drain(fx.server);
    stub_let_go(fx.core, 503);
    server_stop(fx.server);
}

int fixture_stop(void **state)
{
    (void)state;
    stop_server();
    stub_stop(fx.core);
    log_followers_free(fx.log_followers);
    hub_free(fx.hub);
    db_close(fx.db);
    storage_free(fx.storage);
    free(fx.cluster.id);
    free(fx.cluster.name);
    return 0;
}

bool reaches(atomic_int *counter, int value)
{
    for (int i = 0; i < 500 && atomic_load(counter) != value; i++)
        clock_sleep_us(10000);
    return atomic_load(counter) == value;
}
