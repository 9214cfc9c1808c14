// Streams that stay open while their caller's rights change. A user opens each kind of stream for
// each way of losing the rights; all of these streams must end, and those of a user who keeps the
// rights must continue. The core is a stub.

#include "tests/unit/master/support/fixture.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "base/clock.h"

enum { FIRST = 100, PATIENCE_US = 12 * 1000000 };

enum way { LOGOUT, EXPIRY, DEACTIVATION, REMOVAL, DEFAULT_ROLE, MOVE, DELETION, NONE, WAYS };

static const char *const way_names[WAYS] = {"logout",       "expiry", "deactivation", "removal",
                                            "default role", "move",   "deletion",     "none"};

// The streams that wait for something, with the id of the experiment of this way.
static const struct {
    const char *path;
    bool of_token; // stream_ends only with the token, because it covers everything
} streams[] = {
    {"/api/v1/trials/%d/logs?follow=true", false},
    {"/api/v1/tasks/%d.task/logs?follow=true", false},
    {"/api/v1/experiments/metrics-stream/metric-names?ids=%d&periodSeconds=3600", false},
    {"/api/v1/experiments/metrics-stream/metric-names?ids=1&ids=%d&periodSeconds=3600", false},
    {"/api/v1/events?experimentIds=%d", true},
};

enum { STREAMS = sizeof streams / sizeof *streams };

static int64_t make_user(enum way way)
{
    char name[32];
    snprintf(name, sizeof name, "user-%d", way);
    STORE(USER_INSERT, name, name, I(0), I(1), "", AT);
    struct db_reader *db;
    assert_int_equal(db_reader_open(fx.db, &db, NULL), 0);
    struct db_rows *rows = DB_QUERY(db, USER_BY_NAME, name);
    assert_int_equal(db_next(rows), 1);
    int64_t id = DB_GET(rows, USER_BY_NAME, id);
    db_rows_close(rows);
    db_reader_close(db);
    return id;
}

// A workspace with an experiment that its only member, or everybody, may see.
static int64_t create_experiment(enum way way)
{
    int64_t id = FIRST + way, user = make_user(way);
    char name[32], task[32];
    snprintf(name, sizeof name, "workspace-%d", way);
    snprintf(task, sizeof task, "%d.task", FIRST + way);
    STORE(WORKSPACE_INSERT, DB_NOT_NULL(id), name, I(1), AT);
    STORE(WORKSPACE_SET_TEAM, 1.0, I(0), I(0), way == DEFAULT_ROLE ? "viewer" : "none", id);
    if (way != DEFAULT_ROLE)
        STORE(MEMBER_SET, id, user, "viewer", 1.0, I(0));
    STORE(PROJECT_INSERT, id, "p", id, "", I(1), AT, "");
    store_experiment(id, "ACTIVE", name);
    STORE(EXPERIMENT_SET_PROJECT, id, id);
    store_trial(id, id, task);
    store_log(task, 0, "INFO", "one\n");
    grant(fx.others[way], "user", user, NULL, way == EXPIRY ? clock_wall_us() + 3 * 1000000 : I(0));
    return user;
}

static void remove_rights(enum way way, int64_t user)
{
    char hash[SHA256_HEX];
    int64_t id = FIRST + way;
    switch (way) {
    case LOGOUT:
        sha256_hex(fx.others[way], strlen(fx.others[way]), hash);
        STORE(TOKEN_DELETE, hash);
        break;
    case DEACTIVATION:
        STORE(USER_SET_ACTIVE, I(0), AT, user);
        break;
    case REMOVAL:
        STORE(MEMBER_SET, id, user, "", 1.0, I(0));
        break;
    case DEFAULT_ROLE:
        STORE(WORKSPACE_SET_TEAM, 1.0, I(0), I(0), "none", id);
        break;
    case MOVE:
        STORE(EXPERIMENT_SET_PROJECT, I(FIRST + LOGOUT), id);
        break;
    case DELETION:
        STORE(EXPERIMENT_DELETE_TRIALS, id);
        STORE(EXPERIMENT_DELETE, id);
        break;
    default:
        break;
    }
}

static int open_stream(enum way way, int stream)
{
    char path[256];
    struct reply head;
    int fd = dial();
    const struct timeval patience = {.tv_sec = PATIENCE_US / 1000000};
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
    snprintf(path, sizeof path, streams[stream].path, FIRST + way);
#pragma GCC diagnostic pop
    send_request(fd, "GET", path, BY_OTHER + (int)way, NULL);
    assert_true(read_head(fd, &head));
    if (head.status != 200)
        fail_msg("%s by %s: %d", path, way_names[way], head.status);
    reply_free(&head);
    struct buf first;
    buf_init(&first, 1 << 20);
    assert_true(read_chunk(fd, &first)); // the stream has started
    buf_free(&first);
    return fd;
}

// Reads to the proper end of the stream, which carries the reason.
static void expect_end(int fd, enum way way, int stream)
{
    struct buf rest;
    buf_init(&rest, 1 << 20);
    while (read_chunk(fd, &rest))
        continue;
    const char *text = buf_str(&rest);
    const char *code = way == LOGOUT || way == EXPIRY ? "\"httpCode\":401"
                       : way == DEACTIVATION          ? "\"httpCode\":403"
                                                      : "\"httpCode\":404";
    if (!strstr(text, "\"error\"") || !strstr(text, code))
        fail_msg("%s after %s ended with: %s", streams[stream].path, way_names[way], text);
    if (streams[stream].of_token)
        assert_non_null(strstr(text, "event: end\ndata: {"));
    buf_free(&rest);
    close(fd);
}

static bool stream_ends(enum way way, int stream)
{
    return way != NONE && (way <= DEACTIVATION || !streams[stream].of_token);
}

static void test_streams_end_with_the_rights(void **state)
{
    (void)state;
    int64_t users[WAYS];
    int fds[WAYS][STREAMS];
    for (enum way way = 0; way < WAYS; way++)
        users[way] = create_experiment(way);
    for (enum way way = 0; way < WAYS; way++)
        for (int i = 0; i < STREAMS; i++)
            fds[way][i] = open_stream(way, i);
    for (enum way way = 0; way < WAYS; way++)
        remove_rights(way, users[way]);
    int64_t began = clock_mono_us();
    for (enum way way = 0; way < WAYS; way++)
        for (int i = 0; i < STREAMS; i++)
            if (stream_ends(way, i))
                expect_end(fds[way][i], way, i);
    assert_true(clock_mono_us() - began < PATIENCE_US);

    char task[32];
    struct buf line;
    snprintf(task, sizeof task, "%d.task", FIRST + NONE); // a user who keeps the rights
    store_log(task, 0, "INFO", "two\n");
    log_followers_notify(fx.log_followers, task);
    buf_init(&line, 1 << 20);
    assert_true(read_chunk(fds[NONE][0], &line));
    assert_non_null(strstr(buf_str(&line), "two"));
    buf_free(&line);
    for (enum way way = 0; way < WAYS; way++)
        for (int i = 0; i < STREAMS; i++)
            if (!stream_ends(way, i))
                close(fds[way][i]);
}

// A stream with much left to send stops reading once the token of its task is deleted.
static void test_slowly_read_stream(void **state)
{
    (void)state;
    enum { LINE = 16 * 1024, LINES = 2000 };
    char token[TOKEN_TEXT], kept[TOKEN_TEXT], hash[SHA256_HEX], *text = xcalloc(1, LINE + 1);
    struct reply head;
    struct buf piece;
    size_t read = 0;
    memset(text, 'x', LINE);
    for (int i = 0; i < LINES; i++)
        store_log("1.task", 0, "INFO", text);
    grant(token, "user", 2, NULL, 0);
    memcpy(kept, fx.user, sizeof kept);
    memcpy(fx.user, token, sizeof token);
    int fd = dial();
    send_request(fd, "GET", "/api/v1/tasks/1.task/logs", BY_USER, NULL);
    memcpy(fx.user, kept, sizeof kept);
    assert_true(read_head(fd, &head));
    assert_int_equal(head.status, 200);
    reply_free(&head);
    sha256_hex(token, strlen(token), hash);
    STORE(TOKEN_DELETE, hash);
    clock_sleep_us(2500 * 1000);
    buf_init(&piece, 1 << 20);
    bool refused = false;
    while (read_chunk(fd, &piece)) {
        refused |= strstr(buf_str(&piece), "\"error\"") != NULL;
        read += piece.len;
        buf_reset(&piece);
    }
    assert_true(refused);
    assert_true(read < (size_t)LINE * LINES);
    buf_free(&piece);
    free(text);
    close(fd);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_streams_end_with_the_rights),
        cmocka_unit_test(test_slowly_read_stream),
    };
    return cmocka_run_group_tests(tests, fixture_start, fixture_stop);
}
