// Log lines in the core: who may send them, repetitions, merging, expiry.
#include "tests/unit/master/support/core_fixture.h"

#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/clock.h"
#include "db/logs/logs.h"

static void test_logs(void **state)
{
    (void)state;
    submit_slots(1, "");
    report("agent-1", 1, "");
    static const char lines[] =
        "{\"logs\":[{\"taskId\":\"1.1\",\"allocationId\":\"1.1.1\",\"agentId\":\"agent-1\","
        "\"rankId\":1,\"timestamp\":\"2026-11-21T09:00:00Z\",\"level\":\"LOG_LEVEL_WARNING\","
        "\"stdtype\":\"stderr\",\"log\":\"a line\\n\",\"sequence\":5},"
        "{\"task_id\":\"8.8\",\"log\":\"of nobody\"},{\"task_id\":\"1.01\"}]}";
    static const char stored[] = "task WARNING 1 1795251600000000: a line\n";
    int before = atomic_load(&cl.log_notices);
    call_ok(core_task_logs, as_agent(), NULL, lines);
    assert_int_equal(atomic_load(&cl.log_notices), before + 1);
    call_ok(core_task_logs, as_agent(), NULL, lines); // adds nothing
    assert_int_equal(atomic_load(&cl.log_notices), before + 1);
    assert_string_equal(logged("1.1"), stored);
    call_ok(core_task_logs, as_task("1.1.1"), NULL, "{\"logs\":[{\"log\":\"mine\"}]}");
    assert_non_null(strstr(logged("1.1"), "\ntask INFO -1 "));
    assert_non_null(strstr(logged("1.1"), ": mine\n"));
    assert_int_equal(call_status(core_task_logs, as_task("1.1.1"), NULL,
                                 "{\"logs\":[{\"taskId\":\"2.2\",\"log\":\"yours\"}]}"),
                     403);
    assert_int_equal(call_status(core_task_logs, as_agent(), NULL, NULL), 400);
    char *large = xcalloc(70100, 1);
    snprintf(large, 70100, "{\"logs\":[{\"taskId\":\"1.1\",\"log\":\"%*s\"}]}", 70000, "x");
    call_ok(core_task_logs, as_agent(), NULL, large);
    assert_non_null(strstr(logged("1.1"), " [cut: 4464 bytes more]\n"));
    free(large);
    report("agent-1", 1, task_in("1.1.1", "EXITED", EXIT_0));
    call_ok(core_task_logs, as_agent(), NULL, "{\"logs\":[{\"taskId\":\"1.1\",\"log\":\"end\"}]}");
    assert_non_null(strstr(logged("1.1"), ": end\n")); // the last ones come late
    assert_string_equal(logged("8.8"), "");
}

// A user may send lines for an experiment of his own, for programs that run elsewhere.
static void test_logs_of_users(void **state)
{
    (void)state;
    static const char lines[] = "[{\"task_id\":\"1.1\",\"log\":\"far away\"}]";
    submit_slots(1, "");
    call_ok(core_task_logs, as_user(OWNER, false), NULL, lines);
    assert_non_null(strstr(logged("1.1"), ": far away\n"));
    assert_int_equal(
        call_status(core_task_logs, as_user(OWNER, false), NULL, "[{\"task_id\":\"9.9\"}]"), 404);
}

static void post(int from, int to)
{
    struct buf body;
    buf_init(&body, 1 << 20);
    buf_puts(&body, "{\"taskId\":\"1.1\",\"allocationId\":\"1.1.1\",\"agentId\":\"a\",\"logs\":[");
    for (int i = from; i <= to; i++)
        buf_printf(&body, "%s{\"log\":\"line %d\",\"rankId\":%d,\"sequence\":%d}",
                   i == from ? "" : ",", i, i % 3, i);
    buf_puts(&body, "]}");
    call_ok(core_task_logs, as_agent(), NULL, buf_str(&body));
    buf_free(&body);
}

// Checks that lines 1 to `last` are there once and in order.
static void assert_lines(int last)
{
    const char *text = logged("1.1");
    for (int i = 1; i <= last; i++) {
        char expected[64];
        snprintf(expected, sizeof expected, ": line %d\n", i);
        text = strstr(text, expected);
        if (!text || strncmp(strchr(text + 1, '\n'), "\ntask INFO ", i < last ? 11 : 1))
            fail_msg("line %d", i);
        text++;
    }
    assert_string_equal(strchr(text, '\n'), "\n");
}

// Lines that a sender repeats, in whole or in part, also to the next master, are stored once.
static void test_logs_sent_again(void **state)
{
    (void)state;
    submit_slots(1, "");
    post(1, 10);
    post(1, 10);
    post(6, 15);
    assert_lines(15);
    restart_core();
    post(1, 15);
    post(15, 16);
    post(16, 16);
    assert_lines(16);
    assert_stored("SELECT last_sequence || count(*) FROM log_senders", "161");
}

// Waits for work that is done in steps beside the core.
static void assert_soon(const char *sql, const char *expected)
{
    for (int i = 0; i < 2000 && strcmp(stored(sql), expected); i++) {
        advance(SECOND);
        clock_sleep_us(5000);
    }
    assert_stored(sql, expected);
}

// Many small chunks are merged: at once when there are many, else when the log is quiet.
static void test_logs_are_merged(void **state)
{
    (void)state;
    submit_slots(1, "");
    for (int i = 1; i <= 200; i++)
        post(i, i);
    settle();
    assert_lines(200);
    assert_stored("SELECT count(*) < 100 FROM log_chunks", "1");
    advance(12 * SECOND);
    assert_soon("SELECT count(*) < 8 FROM log_chunks", "1");
    assert_lines(200);
    assert_stored("SELECT sum(lines) || ' ' || max(last_id) FROM log_chunks", "200 200");
    restart_core();
    post(201, 203);
    assert_lines(203);
}

// Chunks are merged while others arrive, and while an earlier merge is not committed yet.
static void test_logs_are_merged_under_load(void **state)
{
    (void)state;
    enum { ROUNDS = 12, POSTS = 48, LINES = 8 };
    char *text = xcalloc(2000, 1);
    memset(text, 'x', 1999);
    submit_slots(1, "");
    for (int round = 0, line = 0; round < ROUNDS; round++) {
        struct core_call *calls[POSTS];
        for (int i = 0; i < POSTS; i++) {
            struct buf body;
            buf_init(&body, 1 << 20);
            buf_puts(&body, "[");
            for (int k = 0; k < LINES; k++) {
                line++;
                buf_printf(&body,
                           "%s{\"taskId\":\"1.1\",\"sequence\":%d,\"timestamp\":"
                           "\"2026-11-21T09:00:00Z\",\"log\":\"%d %s\"}",
                           k ? "," : "", line, line, text);
            }
            buf_puts(&body, "]");
            calls[i] = call_start(core_task_logs, as_agent(), NULL, NULL, buf_str(&body));
            buf_free(&body);
        }
        for (int i = 0; i < POSTS; i++)
            json_decref(call_end(calls[i]));
    }
    advance(12 * SECOND);
    assert_soon("SELECT count(*) < 150 FROM log_chunks", "1"); // of 576
    struct log_reader log;
    const struct log_line *line;
    const struct log_origin *from;
    int64_t id, expected = 0;
    int step = LOG_MORE;
    log_reader_init(&log, full_id("1.1"), false, &log_query_all);
    while ((step = log_reader_next(&log, cl.reader, &line, &from, &id, NULL)) > 0)
        if (step == LOG_LINE) {
            assert_int_equal(id, ++expected);
            assert_int_equal(strtol(line->text, NULL, 10), expected);
        }
    log_reader_free(&log);
    assert_int_equal(expected, ROUNDS * POSTS * LINES);
    free(text);
}

// A reader that begins at any position gets each later line once, in both directions; the position
// may be the first, a middle or the last line of a chunk.
static void read_on_from(int64_t place, bool newest_first, int last)
{
    struct log_reader log;
    const struct log_line *line;
    const struct log_origin *from;
    int64_t id, expected = place;
    int step = LOG_MORE, steps = 0;
    log_reader_init(&log, full_id("1.1"), newest_first, &log_query_all);
    log.position = place;
    while ((step = log_reader_next(&log, cl.reader, &line, &from, &id, NULL)) > 0) {
        assert_true(++steps < 1000); // else it never ends
        if (step == LOG_LINE) {
            expected += newest_first ? -1 : 1;
            assert_int_equal(id, expected);
            char text[32];
            snprintf(text, sizeof text, "line %lld", (long long)expected);
            assert_string_equal(line->text, text);
        }
    }
    assert_int_equal(step, LOG_NONE);
    assert_int_equal(expected, newest_first ? 1 : last);
    log_reader_free(&log);
}

static void test_logs_are_read_on_from_any_line(void **state)
{
    (void)state;
    static const int chunks[] = {1, 7, 2, 1, 5, 3};
    int last = 0;
    submit_slots(1, "");
    for (size_t i = 0; i < sizeof chunks / sizeof *chunks; i++) {
        post(last + 1, last + chunks[i]);
        last += chunks[i];
    }
    assert_stored("SELECT count(*) FROM log_chunks", "6");
    for (int place = 0; place <= last; place++) {
        read_on_from(place, false, last);
        read_on_from(place + 1, true, last);
    }
}

// --- how long logs are kept ----------------------------------------------------------------------

static void print_and_end(const char *task, const char *allocation)
{
    char line[128];
    snprintf(line, sizeof line, "[{\"taskId\":\"%s\",\"log\":\"said\"}]", task);
    call_ok(core_task_logs, as_agent(), NULL, line);
    report("agent-1", 1, task_in(allocation, "EXITED", EXIT_0));
    report("agent-1", 1, "");
}

static void test_logs_expire(void **state)
{
    (void)state;
    const int64_t day = 86400LL * SECOND;
    static const char *const configs[] = {"", "retention_policy: {log_retention_days: 1}\n",
                                          "retention_policy: {log_retention_days: 3}\n",
                                          "retention_policy: {log_retention_days: -1}\n"};
    cl.more.log_days = 2;
    restart_core();
    report("agent-1", 1, "");
    for (int i = 0; i < 4; i++) {
        char task[16], allocation[24];
        int64_t id = submit_slots(1, configs[i]);
        snprintf(task, sizeof task, "%d.%d", (int)id, i + 1);
        snprintf(allocation, sizeof allocation, "%s.1", task);
        report("agent-1", 1, "");
        print_and_end(task, allocation);
    }
    const char *left = "SELECT group_concat(id, ' ') FROM (SELECT t.id FROM trials t JOIN "
                       "log_chunks USING (task_id) ORDER BY t.id)";
    advance(2 * 3600LL * SECOND);
    assert_stored(left, "1 2 3 4");
    advance(day);
    assert_soon(left, "1 3 4");
    advance(day);
    assert_soon(left, "3 4");
    call_ok(core_experiment_retain_logs, as_user(OWNER, false), "3", "{\"numDays\":5}");
    call_ok(core_trial_retain_logs, as_user(OWNER, false), "4", "{\"numDays\":3}");
    advance(day);
    assert_soon(left, "3");
    call_ok(core_experiment_retain_logs, as_user(OWNER, false), "3", "{\"num_days\":0}");
    advance(3600LL * SECOND);
    assert_soon("SELECT count(*) FROM log_chunks", "0");
    call_ok(core_experiments_retain_logs, as_user(OWNER, false), NULL,
            "{\"experimentIds\":[1,2],\"numDays\":7}");
    assert_stored("SELECT group_concat(coalesce(log_retention_days, 'null'), ' ') FROM experiments",
                  "7 7 0 null");
    static const char *const bad[] = {"{}", "{\"numDays\":-2}", "{\"numDays\":32768}"};
    for (int i = 0; i < 3; i++)
        assert_int_equal(
            call_status(core_experiment_retain_logs, as_user(OWNER, false), "3", bad[i]), 400);
    assert_int_equal(
        call_status(core_trial_retain_logs, as_user(OWNER, false), "99", "{\"numDays\":1}"), 404);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, cluster_setup, cluster_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_logs),
        TEST(test_logs_of_users),
        TEST(test_logs_sent_again),
        TEST(test_logs_are_read_on_from_any_line),
        TEST(test_logs_are_merged),
        TEST(test_logs_are_merged_under_load),
        TEST(test_logs_expire),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
