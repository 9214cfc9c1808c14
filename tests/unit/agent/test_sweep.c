// Whose process is it? By its environment, its session, its parent; and dying is not dead.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/sweep.h"
#include "base/proc.h"

#define MARKER "MUSTER_RUN_DIR=/test/of/sweep"

enum { LARGE = 256 << 20, TRIES = 20 };

static pid_t start(const char *marker, bool new_session)
{
    const char *const argv[] = {"sleep", "1000", NULL};
    const char *const envp[] = {"A=B", marker, "C=D", NULL};
    const struct proc_spec spec = {.argv = argv,
                                   .envp = envp,
                                   .fd_in = -1,
                                   .fd_out = -1,
                                   .fd_err = -1,
                                   .new_session = new_session,
                                   .die_with_parent = true};
    struct error e = {0};
    pid_t pid = 0;
    if (proc_spawn(&spec, &pid, NULL, &e) != 0)
        fail_msg("%s", e.text);
    return pid;
}

static bool is_dead(pid_t pid) // and gives it up
{
    return waitpid(pid, NULL, WNOHANG) == pid;
}

static void test_by_environment(void **state)
{
    (void)state;
    pid_t ours = start(MARKER, true), other = start(MARKER "/more", true);
    const struct sweep sweep = {.marker = MARKER};
    assert_int_equal(sweep_processes(&sweep, 0), 1);
    assert_int_equal(sweep_processes(&sweep, SIGKILL), 1);
    waitpid(ours, NULL, 0);
    assert_int_equal(sweep_processes(&sweep, 0), 0);
    assert_false(is_dead(other));
    kill(other, SIGKILL);
    waitpid(other, NULL, 0);
}

static void test_by_session_and_parent(void **state)
{
    (void)state;
    pid_t child = start("A=1", true);
    const struct sweep by_session = {.marker = MARKER, .session = child};
    const struct sweep by_parent = {.marker = MARKER, .parent = getpid()};
    assert_int_equal(sweep_processes(&by_session, 0), 1);
    assert_int_equal(sweep_processes(&by_parent, SIGKILL), 1);
    siginfo_t info;
    assert_int_equal(waitid(P_PID, (id_t)child, &info, WEXITED | WNOWAIT), 0);
    assert_int_equal(sweep_processes(&by_session, 0), 0); // a zombie has nothing
    assert_int_equal(sweep_processes(&by_parent, 0), 0);
    waitpid(child, NULL, 0);
}

static pid_t start_large(void)
{
    pid_t child = fork();
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL); // a failed test leaves no stopped process behind
        char *memory = malloc(LARGE);
        memset(memory, 1, LARGE);
        raise(SIGSTOP);
        _exit(memory[LARGE / 2]);
    }
    waitpid(child, NULL, WUNTRACED);
    return child;
}

// Whether it was seen dying before it was dead.
static bool see_it_die(pid_t child)
{
    const struct sweep sweep = {.marker = MARKER, .known = &child, .known_count = 1};
    bool seen = false;
    assert_int_equal(sweep_processes(&sweep, 0), 0); // known, and not dying: perhaps another's
    kill(child, SIGKILL);
    for (;;) {
        bool dead = is_dead(child);
        bool there = sweep_processes(&sweep, SIGKILL) > 0;
        if (dead) {
            assert_false(there);
            return seen;
        }
        seen |= there;
    }
}

// A process with much memory takes its time to die, and has lost its environment by then.
static void test_dying_is_not_dead(void **state)
{
    (void)state;
    bool seen = false;
    for (int i = 0; i < TRIES && !seen; i++)
        seen = see_it_die(start_large());
    assert_true(seen);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_by_environment),
        cmocka_unit_test(test_by_session_and_parent),
        cmocka_unit_test(test_dying_is_not_dead),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
