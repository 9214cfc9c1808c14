// The report of a hang describes the process of a rank that waits, also below a launcher.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/failures/processes.h"
#include "base/os/proc.h"

enum { TRIES = 1000, PAUSE_US = 10000 };

// Starts a rank that runs the script, and waits until its description has these words.
static void expect_description(const char *script, const char *words)
{
    const char *const argv[] = {"sh", "-c", script, NULL};
    const char *const envp[] = {"PATH=/usr/bin:/bin", NULL};
    const struct proc_spec spec = {.argv = argv,
                                   .envp = envp,
                                   .fd_in = -1,
                                   .fd_out = -1,
                                   .fd_err = -1,
                                   .new_group = true,
                                   .die_with_parent = true};
    struct error e = {0};
    char what[300] = "";
    pid_t pid = 0;
    if (proc_spawn(&spec, &pid, NULL, &e) != 0)
        fail_msg("%s", e.text);
    for (int i = 0; i < TRIES && !strstr(what, words); i++) {
        processes_describe(pid, what, sizeof what);
        usleep(PAUSE_US);
    }
    kill(-pid, SIGKILL);
    waitpid(pid, NULL, 0);
    if (!strstr(what, words))
        fail_msg("\"%s\" lacks \"%s\"", what, words);
    processes_describe(pid, what, sizeof what);
    assert_string_equal(what, "has no process");
}

static void a_program_is_described(void **state)
{
    (void)state;
    expect_description("exec sleep 1000", "sleeps (");
}

static void a_child_is_described(void **state)
{
    (void)state;
    expect_description("sleep 1000; true", "sleeps (");
}

// As torchrun starts its workers. The worker ends with its launcher.
static void a_child_in_its_own_session_is_described(void **state)
{
    (void)state;
    expect_description("setsid setpriv --pdeathsig KILL sleep 1000; true", "sleeps (");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_program_is_described),
        cmocka_unit_test(a_child_is_described),
        cmocka_unit_test(a_child_in_its_own_session_is_described),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
