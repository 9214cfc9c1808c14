// Streams of events over real sockets: contents, visibility, resuming, the end of a token, limits
// and the stop. The core is a stub; the test itself notes the changes.

#include "tests/unit/master/support/fixture.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/clock.h"
#include "base/limits.h"
#include "master/http/auth/auth.h"
#include "master/notify/hub.h"

struct event_reader { // of one stream
    int fd;
    struct buf text; // not yet taken
    char name[32];   // of the last event that was taken
    uint64_t number;
    json_t *data;
};

static struct event_reader open_stream(const char *query, int by)
{
    struct event_reader r = {.fd = dial()};
    struct reply head;
    char path[512];
    buf_init(&r.text, 16 << 20);
    snprintf(path, sizeof path, "/api/v1/events?%s", query);
    send_request(r.fd, "GET", path, by, NULL);
    assert_true(read_head(r.fd, &head));
    assert_int_equal(head.status, 200);
    assert_memory_equal(header_of(&head, "Content-Type"), "text/event-stream\r", 18);
    reply_free(&head);
    return r;
}

static void close_stream(struct event_reader *r)
{
    close(r->fd);
    json_decref(r->data);
    buf_free(&r->text);
}

// Returns true with the next event; false if the stream ended.
static bool take_event(struct event_reader *r)
{
    char *end;
    while (!(end = strstr(r->text.len ? r->text.data : "", "\n\n")))
        if (!read_chunk(r->fd, &r->text))
            return false;
    unsigned long long number;
    int at = 0;
    *end = '\0';
    if (!strncmp(r->text.data, "event: end\n", 11))
        return false;
    json_decref(r->data);
    assert_int_equal(sscanf(r->text.data, "id: %llu\nevent: %31s\ndata: %n", &number, r->name, &at),
                     2);
    r->number = number;
    r->data = json_loads(r->text.data + at, 0, NULL);
    assert_non_null(r->data);
    buf_drop_front(&r->text, (size_t)(end + 2 - r->text.data));
    return true;
}

static void expect_event(struct event_reader *r, const char *name)
{
    assert_true(take_event(r));
    if (strcmp(r->name, name) != 0)
        fail_msg("\"%s\" came, not \"%s\"", r->name, name);
}

static void note_change(enum event_topic topic, int64_t experiment, int64_t trial, const char *name)
{
    struct changes *n = changes_new();
    changes_add(n, topic, experiment, trial, name);
    hub_notify(fx.hub, n);
}

// No event comes before the one that the test sends now.
static void expect_silence(struct event_reader *r, int64_t marker)
{
    char name[32];
    snprintf(name, sizeof name, "marker-%lld", (long long)marker);
    struct changes *n = changes_new();
    change_set_data(changes_add(n, EVENT_AGENT, 0, 0, name), xstrdup("{\"marker\":1}"));
    hub_notify(fx.hub, n);
    expect_event(r, "agent");
    assert_int_equal(json_integer_value(value_at(r->data, "marker")), 1);
}

// --- delivered events ----------------------------------------------------------------------------

static void test_values_match_the_store(void **state)
{
    (void)state;
    store_experiment(40, "ACTIVE", "told");
    store_trial(400, 40, "40.400");
    STORE(TRIAL_SET_METRICS, I(7),
          "{\"metrics\":{\"avgMetrics\":{\"loss\":0.25}},\"totalBatches\":7}",
          "{\"gpu\":{\"use\":{\"last\":0.75,\"steps\":4}}}", I(1), I(400));
    struct event_reader r = open_stream("", BY_USER);
    expect_event(&r, "start");
    note_change(EVENT_EXPERIMENT, 40, 0, "");
    expect_event(&r, "experiment");
    assert_string_equal(at(r.data, "name"), "told");
    assert_string_equal(at(r.data, "state"), "STATE_QUEUED");
    assert_string_equal(at(r.data, "workspaceId"), "1");
    uint64_t first = r.number;
    note_change(EVENT_TRIAL, 0, 400, "");
    expect_event(&r, "trial");
    assert_int_equal(r.number, first + 1);
    assert_string_equal(at(r.data, "experimentId"), "40");
    assert_string_equal(at(r.data, "steps"), "7");
    note_change(EVENT_METRICS, 0, 400, "training");
    expect_event(&r, "metrics");
    assert_string_equal(at(r.data, "steps"), "7");
    assert_true(json_number_value(value_at(r.data, "metrics.loss")) == 0.25);
    note_change(EVENT_METRICS, 0, 400, "gpu");
    expect_event(&r, "metrics");
    assert_string_equal(at(r.data, "steps"), "4");
    assert_true(json_number_value(value_at(r.data, "metrics.use")) == 0.75);
    note_change(EVENT_LOGS, 0, 0, "40.400");
    expect_event(&r, "logs");
    assert_string_equal(at(r.data, "trialId"), "400");
    note_change(EVENT_WORKSPACE, 0, 0, "1");
    expect_event(&r, "workspace");
    assert_string_equal(at(r.data, "id"), "1");
    hub_add_change(fx.hub, EVENT_MODEL, 1, 77); // deleted by now
    expect_event(&r, "model");
    assert_true(json_is_true(value_at(r.data, "deleted")));
    close_stream(&r);
}

// A caller who may not read the audit trail learns only that something changed, and its topic.
static void test_changes_with_an_audit_row(void **state)
{
    (void)state;
    struct event_reader r = open_stream("topics=audit", BY_USER);
    expect_event(&r, "start");
    assert_int_equal(status_of("POST", "/api/v1/templates/told", BY_USER, "{\"config\":{}}"), 200);
    expect_event(&r, "audit");
    assert_string_equal(at(r.data, "of"), "templates");
    note_change(EVENT_AUDIT, 0, 0, "users");
    expect_event(&r, "audit");
    assert_string_equal(at(r.data, "of"), "users");
    assert_int_equal(status_of("POST", "/api/v1/tokens", BY_USER, "{\"userId\":1}"), 403);
    expect_event(&r, "audit"); // the refused call added a row, too
    close_stream(&r);
}

static void test_deleted_objects(void **state)
{
    (void)state;
    struct event_reader r = open_stream("", BY_USER);
    expect_event(&r, "start");
    struct changes *n = changes_new();
    changes_add(n, EVENT_EXPERIMENT, 9999, 0, "")->workspace_id = 1;
    changes_add(n, EVENT_EXPERIMENT, 9998, 0, ""); // an object without a known owner
    hub_notify(fx.hub, n);
    expect_event(&r, "experiment");
    assert_string_equal(at(r.data, "id"), "9999");
    assert_true(json_is_true(value_at(r.data, "deleted")));
    expect_silence(&r, 1);
    close_stream(&r);
}

static void test_close_changes_are_merged(void **state)
{
    (void)state;
    enum { TIMES = 1000 };
    struct event_reader r = open_stream("topics=metrics,trials&experimentIds=40", BY_USER);
    expect_event(&r, "start");
    for (int i = 0; i < TIMES; i++) {
        note_change(EVENT_METRICS, 40, 400, "training");
        clock_sleep_us(100);
    }
    int told = 0;
    note_change(EVENT_TRIAL, 40, 400, "");
    do {
        assert_true(take_event(&r));
        told += !strcmp(r.name, "metrics");
    } while (strcmp(r.name, "trial") != 0);
    // Lasts a little more than 0.1 s, which gives about two events; a slow machine takes longer and
    // gives more.
    assert_in_range(told, 1, TIMES / 10);
    close_stream(&r);
}

// --- resuming ------------------------------------------------------------------------------------

static void test_resuming_at_every_point(void **state)
{
    (void)state;
    enum { EVENTS = 12 };
    uint64_t number[EVENTS + 1];
    char query[64];
    struct event_reader whole = open_stream("", BY_USER);
    expect_event(&whole, "start");
    number[0] = whole.number;
    for (int i = 1; i <= EVENTS; i++) {
        note_change(i % 2 ? EVENT_EXPERIMENT : EVENT_TRIAL, 40, i % 2 ? 0 : 400, "");
        expect_event(&whole, i % 2 ? "experiment" : "trial");
        number[i] = whole.number;
    }
    for (int from = 0; from <= EVENTS; from++) {
        snprintf(query, sizeof query, "since=%llu", (unsigned long long)number[from]);
        struct event_reader again = open_stream(query, BY_USER);
        expect_event(&again, "start");
        for (int i = from + 1; i <= EVENTS; i++) {
            expect_event(&again, i % 2 ? "experiment" : "trial");
            assert_int_equal(again.number, number[i]);
        }
        expect_silence(&again, 10 + from);
        close_stream(&again);
    }
    close_stream(&whole);
}

static void test_unknown_event_id(void **state)
{
    (void)state;
    char query[64];
    uint64_t last = hub_last(fx.hub);
    const uint64_t places[] = {0, 1, last + 1000,
                               (last >> HUB_NUMBER_BITS) << HUB_NUMBER_BITS >> 1};
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        snprintf(query, sizeof query, "since=%llu", (unsigned long long)places[i]);
        struct event_reader r = open_stream(query, BY_USER);
        expect_event(&r, "start");
        expect_event(&r, "reset");
        assert_true(r.number >= last && r.number <= hub_last(fx.hub));
        expect_silence(&r, 30 + (int64_t)i);
        close_stream(&r);
    }
}

static void test_slow_reader_is_reset(void **state)
{
    (void)state;
    struct event_reader r = open_stream("topics=agents", BY_USER);
    expect_event(&r, "start");
    char *data = xcalloc(1, 60001); // together more than the socket buffers hold
    memset(data, 'x', 60000);
    memcpy(data, "{\"x\":\"", 6);
    memcpy(data + 59998, "\"}", 2);
    uint64_t before = hub_last(fx.hub);
    for (int i = 0; i < 600; i++) {
        char name[32];
        struct changes *n = changes_new();
        snprintf(name, sizeof name, "agent-%d", i);
        change_set_data(changes_add(n, EVENT_AGENT, 0, 0, name), xstrdup(data));
        hub_notify(fx.hub, n);
        if (i % 50 == 49) // one round of the hub for each fifty changes
            for (int t = 0; t < 500 && hub_last(fx.hub) < before + (uint64_t)i + 1; t++)
                clock_sleep_us(10000);
    }
    int events = 0;
    do {
        assert_true(take_event(&r));
        events++;
    } while (strcmp(r.name, "reset") != 0);
    assert_true(events < 600);
    assert_int_equal(r.number, before + 600);
    expect_silence(&r, 50);
    free(data);
    close_stream(&r);
}

// --- recipients ----------------------------------------------------------------------------------

static void test_visibility(void **state)
{
    (void)state;
    STORE(WORKSPACE_INSERT, DB_NOT_NULL(I(50)), "closed", I(1), AT);
    STORE(WORKSPACE_SET_TEAM, 1.0, I(0), I(0), "none", I(50));
    STORE(PROJECT_INSERT, I(50), "p", I(50), "", I(1), AT, "P50");
    store_experiment(50, "ACTIVE", "secret");
    STORE(EXPERIMENT_SET_PROJECT, I(50), I(50));
    struct event_reader user = open_stream("", BY_USER), admin = open_stream("", BY_ADMIN);
    expect_event(&user, "start");
    expect_event(&admin, "start");
    note_change(EVENT_EXPERIMENT, 50, 0, "");
    expect_event(&admin, "experiment");
    note_change(EVENT_WORKSPACE, 0, 0, "50");
    expect_event(&admin, "workspace");
    expect_silence(&user, 60);
    expect_event(&admin, "agent");

    STORE(MEMBER_SET, I(50), I(2), "viewer", 1.0, I(0));
    clock_sleep_us(2200 * 1000); // the hub checks the rights of the user again
    note_change(EVENT_EXPERIMENT, 50, 0, "");
    expect_event(&user, "experiment");
    assert_string_equal(at(user.data, "name"), "secret");
    close_stream(&user);
    close_stream(&admin);
    assert_int_equal(status_of("GET", "/api/v1/events", BY_TASK, NULL), 403);
    assert_int_equal(status_of("GET", "/api/v1/events", BY_AGENT, NULL), 403);
}

static void test_revoked_token(void **state)
{
    (void)state;
    char token[TOKEN_TEXT], kept[TOKEN_TEXT], hash[SHA256_HEX];
    memcpy(kept, fx.user, sizeof kept);
    grant(token, "user", 2, NULL, 0);
    memcpy(fx.user, token, sizeof token);
    struct event_reader r = open_stream("", BY_USER);
    expect_event(&r, "start");
    memcpy(fx.user, kept, sizeof kept);
    sha256_hex(token, strlen(token), hash);
    STORE(TOKEN_DELETE, hash);
    int64_t began = clock_mono_us();
    assert_false(take_event(&r)); // the stream ended by itself, without a last event
    assert_true(clock_mono_us() - began < 4 * 1000000);
    close_stream(&r);
}

static void test_too_many_streams(void **state)
{
    (void)state;
    struct event_reader all[LIMIT_EVENT_STREAMS_USER];
    for (int i = 0; i < LIMIT_EVENT_STREAMS_USER; i++)
        all[i] = open_stream("", BY_USER);
    struct reply r = call("GET", "/api/v1/events", BY_USER, NULL);
    assert_int_equal(r.status, 429);
    assert_non_null(header_of(&r, "Retry-After"));
    reply_free(&r);
    struct event_reader other =
        open_stream("", BY_ADMIN); // the limit applies to each user separately
    for (int i = 0; i < LIMIT_EVENT_STREAMS_USER; i++)
        close_stream(&all[i]);
    int status = 429;
    for (int i = 0; i < 200 && status == 429; i++) { // the server notices it within moments
        clock_sleep_us(20000);
        struct event_reader again = {.fd = dial()};
        struct reply head;
        send_request(again.fd, "GET", "/api/v1/events", BY_USER, NULL);
        assert_true(read_head(again.fd, &head));
        status = head.status;
        reply_free(&head);
        close(again.fd);
    }
    assert_int_equal(status, 200);
    close_stream(&other);
}

static void test_bad_queries(void **state)
{
    (void)state;
    static const char *const wrong[] = {"topics=trial", "experimentIds=x", "experimentIds=1,,2",
                                        "trialIds=0",   "trialIds=-1",     "experimentIds=1%202",
                                        "since=x",      "since=-1",        "since=12345%0Aid:%201"};
    char path[128];
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        snprintf(path, sizeof path, "/api/v1/events?%s", wrong[i]);
        if (status_of("GET", path, BY_USER, NULL) != 400)
            fail_msg("%s was taken", wrong[i]);
    }
}

static void test_stop_ends_streams(void **state)
{
    (void)state;
    struct event_reader r = open_stream("", BY_USER);
    expect_event(&r, "start");
    int64_t began = clock_mono_us();
    stop_server();
    assert_true(clock_mono_us() - began < 2 * 1000000);
    assert_false(take_event(&r));
    close_stream(&r);
    start_server();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_values_match_the_store),
        cmocka_unit_test(test_changes_with_an_audit_row),
        cmocka_unit_test(test_deleted_objects),
        cmocka_unit_test(test_close_changes_are_merged),
        cmocka_unit_test(test_resuming_at_every_point),
        cmocka_unit_test(test_unknown_event_id),
        cmocka_unit_test(test_slow_reader_is_reset),
        cmocka_unit_test(test_visibility),
        cmocka_unit_test(test_revoked_token),
        cmocka_unit_test(test_too_many_streams),
        cmocka_unit_test(test_bad_queries),
        cmocka_unit_test(test_stop_ends_streams),
    };
    return cmocka_run_group_tests(tests, fixture_start, fixture_stop);
}
