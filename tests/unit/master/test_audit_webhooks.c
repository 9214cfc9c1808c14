// The selection of calls for the audit trail, the addresses that webhooks may use, and the ring
// buffer of the master's own log.

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/os/file.h"
#include "master/common/audit.h"
#include "master/common/master_log.h"
#include "master/notify/webhook_delivery.h"

static void expect_detail(const char *body, const char *expected)
{
    struct buf out;
    json_t *v = json_loads(body, 0, NULL);
    assert_non_null(v);
    buf_init(&out, 512);
    audit_describe(v, &out);
    assert_string_equal(buf_str(&out), expected);
    buf_free(&out);
    json_decref(v);
}

static void test_detail(void **state)
{
    (void)state;
    expect_detail("{}", "");
    expect_detail("{\"active\":false,\"id\":7,\"weight\":0.5,\"none\":null}",
                  "active=false, id=7, weight=0.5");
    expect_detail("{\"user\":{\"username\":\"bob\",\"admin\":true},\"password\":\"secret\"}",
                  "user.username=bob, user.admin=true, password");
    expect_detail("{\"agentId\":\"gpu7\",\"pool\":\"a100\",\"lifespan\":\"1h\",\"uses\":1}",
                  "agentId=gpu7, pool=a100, lifespan, uses=1");
    expect_detail("{\"url\":\"https://hooks.example/T0/secret\",\"config\":\"name: x\"}",
                  "url, config");
    expect_detail("{\"a\":{\"b\":{\"c\":\"secret\"}},\"list\":[\"secret\"]}", "a.b, list");
}

static void test_subject(void **state)
{
    (void)state;
    char word[AUDIT_SUBJECT];
    const char *const pairs[][2] = {{"/api/v1/users/3", "users"},
                                    {"/api/v1/tokens", "tokens"},
                                    {"/api/v1/", ""},
                                    {"/elsewhere/users", ""},
                                    {"/api/v1/a-word-that-is-longer-than-any-is", ""},
                                    {NULL, ""}};
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        audit_subject(pairs[i][0], word);
        assert_string_equal(word, pairs[i][1]);
    }
}

static bool is_recorded(const char *method, enum principal_kind kind, const char *name, int status)
{
    struct request rq = {.method = method, .principal = {.kind = kind}};
    snprintf(rq.principal.username, sizeof rq.principal.username, "%s", name);
    return audit_wants(&rq, status);
}

static void test_wants(void **state)
{
    (void)state;
    assert_true(is_recorded("POST", PRINCIPAL_USER, "a", 200));
    assert_true(is_recorded("DELETE", PRINCIPAL_USER, "a", 403));
    assert_false(is_recorded("GET", PRINCIPAL_USER, "a", 200));
    assert_false(is_recorded("GET", PRINCIPAL_USER, "a", 403));
    assert_false(is_recorded("POST", PRINCIPAL_USER, "a", 400));
    assert_false(is_recorded("POST", PRINCIPAL_USER, "a", 503));
    assert_false(is_recorded("POST", PRINCIPAL_TASK, "a", 200));
    assert_false(is_recorded("POST", PRINCIPAL_AGENT, "", 200));
    assert_true(is_recorded("POST", PRINCIPAL_NONE, "a", 403)); // a failed login
    assert_false(is_recorded("POST", PRINCIPAL_NONE, "", 403));
    assert_false(is_recorded(NULL, PRINCIPAL_USER, "a", 200));
}

static bool is_public(const char *text)
{
    struct sockaddr_in a4 = {.sin_family = AF_INET};
    struct sockaddr_in6 a6 = {.sin6_family = AF_INET6};
    if (inet_pton(AF_INET, text, &a4.sin_addr) == 1)
        return delivery_is_public((const struct sockaddr *)&a4);
    assert_int_equal(inet_pton(AF_INET6, text, &a6.sin6_addr), 1);
    return delivery_is_public((const struct sockaddr *)&a6);
}

static void test_addresses(void **state)
{
    (void)state;
    static const char *const open[] = {"8.8.8.8",        "172.15.255.255", "172.32.0.0",
                                       "192.167.1.1",    "11.0.0.1",       "169.253.1.1",
                                       "100.63.255.255", "100.128.0.0",    "2606:4700::1111"};
    static const char *const closed[] = {"127.0.0.1",
                                         "127.9.9.9",
                                         "10.0.0.1",
                                         "172.16.0.1",
                                         "172.31.255.255",
                                         "192.168.0.1",
                                         "169.254.169.254",
                                         "0.0.0.0",
                                         "100.64.0.1",
                                         "198.18.0.1",
                                         "224.0.0.1",
                                         "255.255.255.255",
                                         "::1",
                                         "::",
                                         "fe80::1",
                                         "fc00::1",
                                         "fd12::1",
                                         "ff02::1",
                                         "::ffff:10.0.0.1",
                                         "::ffff:127.0.0.1",
                                         "64:ff9b::7f00:1",
                                         "2002:7f00:1::"};
    for (size_t i = 0; i < sizeof open / sizeof *open; i++)
        if (!is_public(open[i]))
            fail_msg("%s", open[i]);
    for (size_t i = 0; i < sizeof closed / sizeof *closed; i++)
        if (is_public(closed[i]))
            fail_msg("%s", closed[i]);
    const struct sockaddr other = {.sa_family = AF_UNIX};
    assert_false(delivery_is_public(&other));
}

static void test_backoff(void **state)
{
    (void)state;
    assert_int_equal(delivery_backoff(0), 1);
    assert_int_equal(delivery_backoff(1), 2);
    assert_int_equal(delivery_backoff(8), 256);
    assert_int_equal(delivery_backoff(9), 600);
    assert_int_equal(delivery_backoff(1000), 600);
}

static void test_key(void **state)
{
    struct error e;
    char *first, *second;
    (void)state;
    assert_int_equal(delivery_key("webhook.key", &first, &e), 0);
    assert_int_equal(strlen(first), 64);
    assert_int_equal(delivery_key("webhook.key", &second, &e), 0);
    assert_string_equal(first, second);
    free(first);
    free(second);
    assert_int_equal(file_write_durable("webhook.key", "\n", 1, 0600, &e), 0);
    assert_int_equal(delivery_key("webhook.key", &first, &e), ERR_INVALID);
    unlink("webhook.key");
}

static void test_journal(void **state)
{
    (void)state;
    struct master_log *j = master_log_new();
    struct arena arena = {0};
    struct master_log_entry entries[4];
    int64_t before, newest;
    log_set_level(LOG_LEVEL_WARN);
    log_info("not shown", "n=0");
    log_warn("first", "n=1");
    log_error("second", "n=%d", 2);
    assert_int_equal(master_log_read(j, 0, &arena, entries, 4), 2);
    assert_string_equal(entries[0].text, "msg=\"first\" n=1");
    assert_int_equal(entries[1].level, LOG_LEVEL_ERROR);
    assert_int_equal(entries[1].id, 2);
    assert_int_equal(master_log_read(j, 1, &arena, entries, 4), 1);
    assert_int_equal(master_log_read(j, 2, &arena, entries, 4), 0);

    int nowhere = dup(STDERR_FILENO), saved = nowhere;
    assert_non_null(freopen("/dev/null", "w", stderr));
    for (int i = 0; i < MASTER_LOG_LINES; i++)
        log_warn("more", "i=%d", i);
    fflush(stderr);
    dup2(saved, STDERR_FILENO);
    close(saved);
    master_log_range(j, &before, &newest);
    assert_int_equal(newest, MASTER_LOG_LINES + 2);
    assert_int_equal(before, 2); // the newest stay
    assert_int_equal(master_log_read(j, 0, &arena, entries, 1), 1);
    assert_int_equal(entries[0].id, 3);
    arena_free(&arena);
    master_log_free(j);
    log_warn("nobody listens", "n=3");
    log_set_level(LOG_LEVEL_INFO);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_detail),  cmocka_unit_test(test_subject),
        cmocka_unit_test(test_wants),   cmocka_unit_test(test_addresses),
        cmocka_unit_test(test_backoff), cmocka_unit_test(test_key),
        cmocka_unit_test(test_journal),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
