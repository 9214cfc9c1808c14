// Classifies the ends of ranks, and keeps their last lines.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/logs/log_tail.h"
#include "agent/supervisor/rank_exit.h"

// Statuses of waitpid(2) on Linux.
#define EXITED(code)   ((code) << 8)
#define KILLED(signal) (signal)
#define DUMPED(signal) ((signal) | 0x80)
#define STOPPED(sig)   (((sig) << 8) | 0x7f)
#define CONTINUED      0xffff

static void statuses(void **state)
{
    (void)state;
    static const struct {
        const char *what;
        int status;
        enum rank_exit by_itself, asked;
    } cases[] = {
        {"exit 0", EXITED(0), RANK_SUCCEEDED, RANK_SUCCEEDED},
        {"exit 1", EXITED(1), RANK_FAILED, RANK_FAILED},
        {"exit 6", EXITED(6), RANK_FAILED, RANK_FAILED},
        {"exit 127", EXITED(127), RANK_FAILED, RANK_FAILED},
        {"exit 128", EXITED(128), RANK_FAILED, RANK_FAILED},
        {"exit 137", EXITED(128 + SIGKILL), RANK_FAILED, RANK_TERMINATED},
        {"exit 143", EXITED(128 + SIGTERM), RANK_FAILED, RANK_TERMINATED},
        {"exit 139", EXITED(128 + SIGSEGV), RANK_FAILED, RANK_FAILED},
        {"exit 255", EXITED(255), RANK_FAILED, RANK_FAILED},
        {"SIGTERM", KILLED(SIGTERM), RANK_FAILED, RANK_TERMINATED},
        {"SIGKILL", KILLED(SIGKILL), RANK_FAILED, RANK_TERMINATED},
        {"SIGSEGV", KILLED(SIGSEGV), RANK_FAILED, RANK_FAILED},
        {"SIGSEGV, core dumped", DUMPED(SIGSEGV), RANK_FAILED, RANK_FAILED},
        {"SIGABRT, core dumped", DUMPED(SIGABRT), RANK_FAILED, RANK_FAILED},
        {"stopped", STOPPED(SIGSTOP), RANK_RUNNING, RANK_RUNNING},
        {"stopped by its terminal", STOPPED(SIGTTOU), RANK_RUNNING, RANK_RUNNING},
        {"continued", CONTINUED, RANK_RUNNING, RANK_RUNNING},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        if (rank_exit_classify(cases[i].status, false) != cases[i].by_itself)
            fail_msg("%s, by itself: %d", cases[i].what,
                     rank_exit_classify(cases[i].status, false));
        if (rank_exit_classify(cases[i].status, true) != cases[i].asked)
            fail_msg("%s, told to end: %d", cases[i].what,
                     rank_exit_classify(cases[i].status, true));
    }
}

static void exit_codes_are_those_of_a_shell(void **state)
{
    (void)state;
    assert_int_equal(rank_exit_code(EXITED(0)), 0);
    assert_int_equal(rank_exit_code(EXITED(255)), 255);
    assert_int_equal(rank_exit_code(KILLED(SIGTERM)), 143);
    assert_int_equal(rank_exit_code(DUMPED(SIGSEGV)), 139);
}

static void whoever_lost_a_peer_is_less_guilty(void **state)
{
    (void)state;
    assert_true(RANK_LOST_PEER < RANK_FAILED);
    assert_true(RANK_LOST_PEER > RANK_TERMINATED);
    assert_true(rank_exit_blames_peer("RuntimeError: [1] is setting up NCCL communicator\n"
                                      "torch.distributed.DistBackendError: NCCL error in: x.cpp"));
    assert_true(
        rank_exit_blames_peer("[../pair.cc:534] Connection closed by peer [10.0.0.1]:4711"));
    assert_true(rank_exit_blames_peer("ncclRemoteError: A call failed possibly due to a network"));
    assert_false(rank_exit_blames_peer("ValueError: the peer group must have a name"));
    assert_false(rank_exit_blames_peer(""));
}

static void tail_add_line(struct log_tail *w, const char *line)
{
    log_tail_add(w, line, strlen(line));
}

static void expect_tail(const struct log_tail *w, const char *all, const char *last)
{
    char text[64];
    json_t *value = log_tail_json(w, 0);
    assert_string_equal(json_string_value(value), all);
    json_decref(value);
    log_tail_last_line(w, text, sizeof text);
    assert_string_equal(text, last);
}

static void lines_are_made_readable(void **state)
{
    (void)state;
    struct log_tail w;
    log_tail_init(&w);
    expect_tail(&w, "", "");
    tail_add_line(&w, "Traceback (most recent call last):");
    tail_add_line(&w, "");
    tail_add_line(&w, "\t  \033[0m");
    tail_add_line(&w, "\t\033[1;31mValueError\033[0m: \033]bad\a");
    tail_add_line(&w, "=========");
    expect_tail(
        &w, "Traceback (most recent call last):\n ValueError: ]bad\n=========", "ValueError: ]bad");
    log_tail_free(&w);

    log_tail_init(&w);
    log_tail_add(&w, "a\0b\xff\xc3\xa9\x80", 7);
    expect_tail(&w, "ab\xef\xbf\xbd\xc3\xa9\xef\xbf\xbd", "ab\xff\xc3\xa9\x80");
    tail_add_line(&w, "cut off in its sequence \033[1;3");
    expect_tail(&w, "ab\xef\xbf\xbd\xc3\xa9\xef\xbf\xbd\ncut off in its sequence ",
                "cut off in its sequence ");
    log_tail_free(&w);
}

static void the_reason_is_no_routine_line(void **state)
{
    (void)state;
    struct log_tail w;
    log_tail_init(&w);
    tail_add_line(&w, "ts=2026-11-22T10:00:00.000Z level=info msg=\"training begins\"");
    tail_add_line(&w, "ts=2026-11-22T10:00:00.000Z level=debug msg=step");
    char last[128];
    log_tail_last_line(&w, last, sizeof last);
    assert_string_equal(last, "");
    static const char *const last_lines[] = {
        "ts=2026-11-22T10:00:00.000Z level=error msg=\"loss is NaN\"",
        "ts=2026-11-22T10:00:00.000Z level=warn msg=slow",
        "ts=2026-11-22T10:00:00.000Z level=information",
        "ValueError: level=info is no level",
        "ts=0",
        "ts=0 level=info",
    };
    for (size_t i = 0; i < sizeof last_lines / sizeof *last_lines; i++) {
        tail_add_line(&w, last_lines[i]);
        tail_add_line(&w, "ts=2026-11-22T10:00:01.000Z level=info msg=ends");
        log_tail_last_line(&w, last, sizeof last);
        assert_string_equal(last, last_lines[i]);
    }
    log_tail_free(&w);
}

static size_t count_newlines(const char *text)
{
    size_t count = 0;
    for (; (text = strchr(text, '\n')); text++)
        count++;
    return count;
}

static void few_lines_are_kept(void **state)
{
    (void)state;
    struct log_tail w;
    char line[2 * LOG_TAIL_LINE_BYTES], last[16];
    log_tail_init(&w);
    for (int i = 0; i < 5 * LOG_TAIL_KEPT_LINES; i++) {
        snprintf(line, sizeof line, "line %d", i);
        tail_add_line(&w, line);
        assert_true(w.lines <= 2 * LOG_TAIL_KEPT_LINES);
        assert_true(w.lines >= LOG_TAIL_KEPT_LINES || w.lines == (size_t)i + 1);
        assert_int_equal(count_newlines(log_tail_text(&w)), w.lines);
    }
    log_tail_last_line(&w, last, sizeof last);
    assert_string_equal(last, "line 1499");
    json_t *value = log_tail_json(&w, 0);
    assert_memory_equal(json_string_value(value), "line 1480\n", 10);
    assert_int_equal(count_newlines(json_string_value(value)), LOG_TAIL_LINES - 1);
    json_decref(value);
    memset(line, 'x', sizeof line);
    for (int i = 0; i < 500; i++) {
        log_tail_add(&w, line, sizeof line);
        assert_true(w.text.len <= 2 * LOG_TAIL_KEPT_BYTES);
    }
    value = log_tail_json(&w, 0);
    assert_int_equal(json_string_length(value),
                     LOG_TAIL_BYTES / LOG_TAIL_LINE_BYTES * LOG_TAIL_LINE_BYTES - 1);
    json_decref(value);
    log_tail_last_line(&w, last, sizeof last);
    assert_string_equal(last, "xxxxxxxxxxxxxxx");
    log_tail_free(&w);
}

static void lines_up_to_the_error_are_shown(void **state)
{
    (void)state;
    struct log_tail w;
    log_tail_init(&w);
    tail_add_line(&w, "ValueError: x");
    for (int i = 0; i < 2 * LOG_TAIL_LINES; i++)
        tail_add_line(&w, "of the launcher");
    json_t *value = log_tail_json(&w, 1);
    assert_string_equal(json_string_value(value), "ValueError: x");
    json_decref(value);
    value = log_tail_json(&w, LOG_TAIL_LINES + 1);
    assert_int_equal(count_newlines(json_string_value(value)), LOG_TAIL_LINES - 1);
    assert_null(strstr(json_string_value(value), "ValueError"));
    json_decref(value);
    log_tail_free(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(statuses),
        cmocka_unit_test(exit_codes_are_those_of_a_shell),
        cmocka_unit_test(whoever_lost_a_peer_is_less_guilty),
        cmocka_unit_test(lines_are_made_readable),
        cmocka_unit_test(the_reason_is_no_routine_line),
        cmocka_unit_test(few_lines_are_kept),
        cmocka_unit_test(lines_up_to_the_error_are_shown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
