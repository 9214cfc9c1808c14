// How a rank's end is judged, and the last lines that are kept of it.
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

// As waitpid(2) gives them on Linux.
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
        enum verdict by_itself, told;
    } cases[] = {
        {"exit 0", EXITED(0), VERDICT_WELL, VERDICT_WELL},
        {"exit 1", EXITED(1), VERDICT_FAILED, VERDICT_FAILED},
        {"exit 6", EXITED(6), VERDICT_FAILED, VERDICT_FAILED},
        {"exit 127", EXITED(127), VERDICT_FAILED, VERDICT_FAILED},
        {"exit 128", EXITED(128), VERDICT_FAILED, VERDICT_FAILED},
        {"exit 137", EXITED(128 + SIGKILL), VERDICT_FAILED, VERDICT_ENDED},
        {"exit 143", EXITED(128 + SIGTERM), VERDICT_FAILED, VERDICT_ENDED},
        {"exit 139", EXITED(128 + SIGSEGV), VERDICT_FAILED, VERDICT_FAILED},
        {"exit 255", EXITED(255), VERDICT_FAILED, VERDICT_FAILED},
        {"SIGTERM", KILLED(SIGTERM), VERDICT_FAILED, VERDICT_ENDED},
        {"SIGKILL", KILLED(SIGKILL), VERDICT_FAILED, VERDICT_ENDED},
        {"SIGSEGV", KILLED(SIGSEGV), VERDICT_FAILED, VERDICT_FAILED},
        {"SIGSEGV, core dumped", DUMPED(SIGSEGV), VERDICT_FAILED, VERDICT_FAILED},
        {"SIGABRT, core dumped", DUMPED(SIGABRT), VERDICT_FAILED, VERDICT_FAILED},
        {"stopped", STOPPED(SIGSTOP), VERDICT_RUNS, VERDICT_RUNS},
        {"stopped by its terminal", STOPPED(SIGTTOU), VERDICT_RUNS, VERDICT_RUNS},
        {"continued", CONTINUED, VERDICT_RUNS, VERDICT_RUNS},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        if (judge_status(cases[i].status, false) != cases[i].by_itself)
            fail_msg("%s, by itself: %d", cases[i].what, judge_status(cases[i].status, false));
        if (judge_status(cases[i].status, true) != cases[i].told)
            fail_msg("%s, told to end: %d", cases[i].what, judge_status(cases[i].status, true));
    }
}

static void whoever_lost_a_peer_is_less_guilty(void **state)
{
    (void)state;
    assert_true(VERDICT_LOST_PEER < VERDICT_FAILED);
    assert_true(VERDICT_LOST_PEER > VERDICT_ENDED);
    assert_true(judge_blames_peers("RuntimeError: [1] is setting up NCCL communicator\n"
                                   "torch.distributed.DistBackendError: NCCL error in: x.cpp"));
    assert_true(judge_blames_peers("[../pair.cc:534] Connection closed by peer [10.0.0.1]:4711"));
    assert_true(judge_blames_peers("ncclRemoteError: A call failed possibly due to a network"));
    assert_false(judge_blames_peers("ValueError: the peer group must have a name"));
    assert_false(judge_blames_peers(""));
}

static void add(struct words *w, const char *line)
{
    words_add(w, line, strlen(line));
}

static void expect(const struct words *w, const char *all, const char *last)
{
    char text[64];
    json_t *value = words_json(w);
    assert_string_equal(json_string_value(value), all);
    json_decref(value);
    words_last(w, text, sizeof text);
    assert_string_equal(text, last);
}

static void lines_are_made_readable(void **state)
{
    (void)state;
    struct words w;
    words_init(&w);
    expect(&w, "", "");
    add(&w, "Traceback (most recent call last):");
    add(&w, "");
    add(&w, "\t  \033[0m");
    add(&w, "\t\033[1;31mValueError\033[0m: \033]bad\a");
    add(&w, "=========");
    expect(&w,
           "Traceback (most recent call last):\n ValueError: ]bad\n=========", "ValueError: ]bad");
    words_free(&w);

    words_init(&w);
    words_add(&w, "a\0b\xff\xc3\xa9\x80", 7);
    expect(&w, "ab\xef\xbf\xbd\xc3\xa9\xef\xbf\xbd", "ab\xff\xc3\xa9\x80");
    add(&w, "cut off in its sequence \033[1;3");
    expect(&w, "ab\xef\xbf\xbd\xc3\xa9\xef\xbf\xbd\ncut off in its sequence ",
           "cut off in its sequence ");
    words_free(&w);
}

static void the_reason_is_no_routine_line(void **state)
{
    (void)state;
    struct words w;
    words_init(&w);
    add(&w, "ts=2026-11-22T10:00:00.000Z level=info msg=\"training begins\"");
    add(&w, "ts=2026-11-22T10:00:00.000Z level=debug msg=step");
    char last[128];
    words_last(&w, last, sizeof last);
    assert_string_equal(last, "");
    static const char *const told[] = {
        "ts=2026-11-22T10:00:00.000Z level=error msg=\"loss is NaN\"",
        "ts=2026-11-22T10:00:00.000Z level=warn msg=slow",
        "ts=2026-11-22T10:00:00.000Z level=information",
        "ValueError: level=info is no level",
        "ts=0",
        "ts=0 level=info",
    };
    for (size_t i = 0; i < sizeof told / sizeof *told; i++) {
        add(&w, told[i]);
        add(&w, "ts=2026-11-22T10:00:01.000Z level=info msg=ends");
        words_last(&w, last, sizeof last);
        assert_string_equal(last, told[i]);
    }
    words_free(&w);
}

static void few_lines_are_kept(void **state)
{
    (void)state;
    struct words w;
    char line[2 * WORDS_LINE_BYTES], last[16];
    words_init(&w);
    for (int i = 0; i < 3 * WORDS_LINES; i++) {
        snprintf(line, sizeof line, "line %d", i);
        add(&w, line);
        assert_int_equal(w.lines, i < WORDS_LINES ? i + 1 : WORDS_LINES);
    }
    words_last(&w, last, sizeof last);
    assert_string_equal(last, "line 59");
    assert_memory_equal(w.text.data, "line 40\n", 8);
    memset(line, 'x', sizeof line);
    for (int i = 0; i < 100; i++) {
        words_add(&w, line, sizeof line);
        assert_true(w.text.len <= WORDS_BYTES);
    }
    assert_int_equal(w.lines, WORDS_BYTES / WORDS_LINE_BYTES);
    words_last(&w, last, sizeof last);
    assert_string_equal(last, "xxxxxxxxxxxxxxx");
    words_free(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(statuses),
        cmocka_unit_test(whoever_lost_a_peer_is_less_guilty),
        cmocka_unit_test(lines_are_made_readable),
        cmocka_unit_test(the_reason_is_no_routine_line),
        cmocka_unit_test(few_lines_are_kept),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
