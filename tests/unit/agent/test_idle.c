// Tasks that do nothing: when it is noticed, and what the kernel says about their processes.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/failures/idle.h"
#include "agent/failures/processes.h"
#include "base/clock.h"

enum { SECOND = 1000000, LIMIT = 100 * SECOND };

static void a_task_that_does_nothing_is_idle(void **state)
{
    (void)state;
    struct idle_watch w;
    idle_note_activity(&w, 1000);
    assert_false(idle_is_due(&w, 1000 + LIMIT / 4 - 1, LIMIT));
    assert_true(idle_is_due(&w, 1000 + LIMIT / 4, LIMIT));
    assert_int_equal(idle_look(&w, 1000 + LIMIT / 4, 77), LIMIT / 4);
    assert_false(idle_is_due(&w, 1000 + LIMIT / 2 - 1, LIMIT));
    assert_int_equal(idle_look(&w, 1000 + LIMIT, 77), LIMIT);
}

static void processor_time_is_activity(void **state)
{
    (void)state;
    struct idle_watch w;
    idle_note_activity(&w, 0);
    assert_int_equal(idle_look(&w, 10 * SECOND, 5 * SECOND), 10 * SECOND);
    // At the limit of 1 % of the whole time, then beyond it.
    assert_int_equal(idle_look(&w, 20 * SECOND, 5 * SECOND + SECOND / 5), 20 * SECOND);
    assert_int_equal(idle_look(&w, 20 * SECOND, 5 * SECOND + SECOND / 5 + 1), 0);
    assert_int_equal(idle_look(&w, 50 * SECOND, 5 * SECOND + SECOND / 5 + 1), 30 * SECOND);
    // A process has ended, and took its time with it.
    assert_int_equal(idle_look(&w, 60 * SECOND, 1 * SECOND), 0);
    assert_int_equal(idle_look(&w, 61 * SECOND, 1 * SECOND), 1 * SECOND);
}

static void output_is_activity(void **state)
{
    (void)state;
    struct idle_watch w;
    idle_note_activity(&w, 0);
    assert_int_equal(idle_look(&w, LIMIT - 1, 0), LIMIT - 1);
    idle_note_activity(&w, LIMIT);
    assert_int_equal(idle_look(&w, LIMIT + 1, 0), 1);
}

static pid_t fork_child(void (*work)(void))
{
    pid_t child = fork();
    if (child == 0) {
        setpgid(0, 0);
        work();
        _exit(0);
    }
    setpgid(child, child);
    return child;
}

static void sleep_long(void)
{
    for (;;)
        pause();
}

static void read_pipe(void)
{
    int fds[2];
    char byte;
    if (pipe(fds) == 0 && read(fds[0], &byte, 1) < 0)
        _exit(1);
}

static void wait_for_child(void)
{
    pid_t child = fork();
    if (child == 0)
        read_pipe();
    waitpid(child, NULL, 0);
}

static void stop(void)
{
    raise(SIGSTOP);
}

// Waits until the processes of the group are described so.
static void expect_description(void (*work)(void), const char *text, const char *other)
{
    char found[300] = "";
    pid_t child = fork_child(work);
    for (int i = 0; i < 3000 && strcmp(found, text) != 0 && strcmp(found, other) != 0; i++) {
        processes_describe(child, found, sizeof found);
        clock_sleep_us(10000);
    }
    killpg(child, SIGKILL);
    waitpid(child, NULL, 0);
    if (strcmp(found, other) != 0)
        assert_string_equal(found, text);
}

static void processes_are_described(void **state)
{
    (void)state;
    char found[300];
    expect_description(sleep_long, "sleeps (pause)",
                       "waits for events, such as data of a connection (ppoll)");
    expect_description(read_pipe, "waits for a pipe (read)", "-");
    expect_description(wait_for_child, "waits for a pipe (read)", "-");
    expect_description(stop, "is stopped by a signal or a debugger", "-");
    processes_describe(1 << 30, found, sizeof found);
    assert_string_equal(found, "has no process");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_task_that_does_nothing_is_idle),
        cmocka_unit_test(processor_time_is_activity),
        cmocka_unit_test(output_is_activity),
        cmocka_unit_test(processes_are_described),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
