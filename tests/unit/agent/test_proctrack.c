// Finds the processes of a task by environment, session and parent, also dying processes and
// namespaces.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/supervisor/proctrack.h"
#include "base/os/proc.h"

#define MARKER "MUSTER_RUN_DIR=/test/of/filter"

enum { LARGE = 256 << 20, TRIES = 20 };

static pid_t start_process(const char *marker, bool new_session)
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

static bool is_dead(pid_t pid) // and reaps it
{
    return waitpid(pid, NULL, WNOHANG) == pid;
}

static void test_by_environment(void **state)
{
    (void)state;
    pid_t ours = start_process(MARKER, true), other = start_process(MARKER "/more", true);
    const struct process_filter filter = {.marker = MARKER};
    assert_int_equal(proctrack_signal(&filter, 0), 1);
    assert_int_equal(proctrack_signal(&filter, SIGKILL), 1);
    waitpid(ours, NULL, 0);
    assert_int_equal(proctrack_signal(&filter, 0), 0);
    assert_false(is_dead(other));
    kill(other, SIGKILL);
    waitpid(other, NULL, 0);
}

static void test_by_session_and_parent(void **state)
{
    (void)state;
    pid_t child = start_process("A=1", true);
    const struct process_filter by_session = {.marker = MARKER, .session = child};
    const struct process_filter by_parent = {.marker = MARKER, .parent = getpid()};
    assert_int_equal(proctrack_signal(&by_session, 0), 1);
    assert_int_equal(proctrack_signal(&by_parent, SIGKILL), 1);
    siginfo_t info;
    assert_int_equal(waitid(P_PID, (id_t)child, &info, WEXITED | WNOWAIT), 0);
    assert_int_equal(proctrack_signal(&by_session, 0), 0); // a zombie does not count
    assert_int_equal(proctrack_signal(&by_parent, 0), 0);
    waitpid(child, NULL, 0);
}

// As torchrun starts its workers: in a session of their own, not as children of the supervisor.
static void test_processor_time_of_other_sessions(void **state)
{
    (void)state;
    const char *const argv[] = {"sh", "-c", "setsid sh -c 'while :; do :; done' & wait", NULL};
    const char *const envp[] = {MARKER, "PATH=/usr/bin:/bin", NULL};
    const struct proc_spec spec = {
        .argv = argv, .envp = envp, .fd_in = -1, .fd_out = -1, .fd_err = -1, .new_session = true};
    const struct process_filter filter = {.marker = MARKER};
    struct error e = {0};
    pid_t pid = 0;
    if (proc_spawn(&spec, &pid, NULL, &e) != 0)
        fail_msg("%s", e.text);
    int64_t used = 0;
    for (int i = 0; i < 3000 && used < 50000; i++) {
        used = proctrack_cpu(&filter);
        usleep(10000);
    }
    proctrack_signal(&filter, SIGKILL);
    waitpid(pid, NULL, 0);
    assert_true(used >= 50000);
    while (proctrack_signal(&filter, SIGKILL) > 0)
        usleep(1000);
    assert_int_equal(proctrack_cpu(&filter), 0);
}

static pid_t start_large(void)
{
    pid_t child = fork();
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL); // so that a failed test leaves no stopped process
        char *memory = malloc(LARGE);
        memset(memory, 1, LARGE);
        raise(SIGSTOP);
        _exit(memory[LARGE / 2]);
    }
    waitpid(child, NULL, WUNTRACED);
    return child;
}

// Returns whether proctrack_signal() found the process while it was dying.
static bool is_found_while_dying(pid_t child)
{
    const struct process_filter filter = {.marker = MARKER, .known = &child, .known_count = 1};
    bool seen = false;
    assert_int_equal(proctrack_signal(&filter, 0),
                     0); // known but not dying: it may be another process
    kill(child, SIGKILL);
    for (;;) {
        bool dead = is_dead(child);
        bool there = proctrack_signal(&filter, SIGKILL) > 0;
        if (dead) {
            assert_false(there);
            return seen;
        }
        seen |= there;
    }
}

// A process with much memory dies slowly and has no environment meanwhile.
static void test_dying_is_not_dead(void **state)
{
    (void)state;
    bool seen = false;
    for (int i = 0; i < TRIES && !seen; i++)
        seen = is_found_while_dying(start_large());
    assert_true(seen);
}

enum counting { COUNTED, NOT_COUNTED, NO_NAMESPACE, WRONG };

// Kills the first process of a pid namespace and says whether its large member was counted while it
// was dying. Nobody waits for the member meanwhile, so the first process stays. For a child, which
// makes no assertions.
static enum counting count_dying_member(void)
{
    if (unshare(CLONE_NEWPID) != 0)
        return NO_NAMESPACE;
    pid_t init = fork();
    if (init == 0)
        for (;;)
            pause();
    pid_t member = start_large();
    bool before = proctrack_count_ending(init) == 0; // it is not ending
    kill(init, SIGKILL);
    bool seen = false;
    siginfo_t info = {0};
    while (info.si_pid != member) {
        if (waitid(P_PID, (id_t)member, &info, WEXITED | WNOWAIT | WNOHANG) != 0)
            return WRONG;
        seen |= proctrack_count_ending(init) == 1;
    }
    bool after = proctrack_count_ending(init) == 0 && !is_dead(init);
    waitpid(member, NULL, 0);
    waitpid(init, NULL, 0);
    return !before || !after ? WRONG : seen ? COUNTED : NOT_COUNTED;
}

static void test_ending_namespace(void **state)
{
    (void)state;
    enum counting found = NOT_COUNTED;
    for (int i = 0; i < TRIES && found == NOT_COUNTED; i++) {
        int status;
        pid_t child = fork();
        if (child == 0)
            _exit((int)count_dying_member());
        waitpid(child, &status, 0);
        assert_true(WIFEXITED(status));
        found = (enum counting)WEXITSTATUS(status);
    }
    if (found == NO_NAMESPACE)
        skip();
    assert_int_equal(found, COUNTED);
}

// For a child, which makes no assertions. 0: the mark of a process in another pid namespace counts
// only for a task that has none.
static int look_into_another_namespace(void)
{
    if (unshare(CLONE_NEWPID) != 0)
        return NO_NAMESPACE;
    pid_t member = start_process(MARKER, true);
    const struct process_filter any = {.marker = MARKER}, own = {.marker = MARKER, .init = 1},
                                other = {.marker = MARKER, .pid_namespace = 1};
    bool good = proctrack_signal(&any, 0) == 1 && proctrack_signal(&own, 0) == 0 &&
                proctrack_signal(&other, 0) == 0;
    kill(member, SIGKILL);
    waitpid(member, NULL, 0);
    return good ? 0 : WRONG;
}

static void test_marks_in_other_namespaces(void **state)
{
    (void)state;
    int status;
    pid_t child = fork();
    if (child == 0)
        _exit(look_into_another_namespace());
    waitpid(child, &status, 0);
    if (WEXITSTATUS(status) == NO_NAMESPACE)
        skip();
    assert_int_equal(WEXITSTATUS(status), 0);
}

// --- orphans -------------------------------------------------------------------------------------

static char folder[64]; // the folder of an agent's tasks

static int make_folder(void **state)
{
    (void)state;
    snprintf(folder, sizeof folder, "/tmp/test_sweep.XXXXXX");
    return mkdtemp(folder) ? 0 : -1;
}

static int remove_folder(void **state)
{
    (void)state;
    return rmdir(folder);
}

// Runs this program again with the marker of `task`, and below `new_root` if it is given.
static pid_t start_task(const char *task, const char *new_root)
{
    char marker[160];
    snprintf(marker, sizeof marker, "MUSTER_RUN_DIR=%s", task);
    const char *const argv[] = {"/proc/self/exe", "wait", new_root, NULL};
    const char *const envp[] = {marker, NULL};
    int ready[2];
    char answer = 0;
    assert_int_equal(pipe(ready), 0);
    const struct proc_spec spec = {.argv = argv,
                                   .envp = envp,
                                   .fd_in = -1,
                                   .fd_out = ready[1],
                                   .fd_err = -1,
                                   .new_session = true,
                                   .die_with_parent = true};
    struct error e = {0};
    pid_t pid = 0;
    if (proc_spawn(&spec, &pid, NULL, &e) != 0)
        fail_msg("%s", e.text);
    close(ready[1]);
    assert_int_equal(read(ready[0], &answer, 1), 1);
    close(ready[0]);
    if (answer == '+')
        return pid;
    waitpid(pid, NULL, 0);
    return 0;
}

// Writes '+' to stdout when it has reached its place.
static int wait_below(const char *new_root)
{
    bool there =
        !new_root ||
        ((chroot(new_root) == 0 || (unshare(CLONE_NEWUSER) == 0 && chroot(new_root) == 0)) &&
         chdir("/") == 0);
    if (write(STDOUT_FILENO, there ? "+" : "-", 1) != 1 || !there)
        return 1;
    for (;;)
        pause();
}

static void test_a_stray_has_no_folder(void **state)
{
    (void)state;
    char task[96], gone[96];
    snprintf(task, sizeof task, "%s/1.1.1", folder);
    snprintf(gone, sizeof gone, "%s/1.1.2", folder);
    assert_int_equal(mkdir(task, 0700), 0);
    pid_t live = start_task(task, NULL), orphan = start_task(gone, NULL);
    assert_int_equal(proctrack_kill_orphans(folder), 1);
    assert_int_equal(waitpid(orphan, NULL, 0), orphan);
    assert_int_equal(proctrack_kill_orphans(folder), 0);
    assert_false(is_dead(live));
    assert_int_equal(rmdir(task), 0);
    assert_int_equal(proctrack_kill_orphans(folder), 1);
    waitpid(live, NULL, 0);
}

// As under chroot, bwrap and apptainer, the process has the variable, but does not see the folder.
static void test_another_root_is_no_stray(void **state)
{
    (void)state;
    char task[96];
    snprintf(task, sizeof task, "%s/1.1.1", folder);
    assert_int_equal(mkdir(task, 0700), 0);
    pid_t live = start_task(task, folder);
    if (!live) {
        rmdir(task);
        skip(); // neither root nor in a namespace of its own
    }
    assert_int_equal(proctrack_kill_orphans(folder), 0);
    assert_false(is_dead(live));
    assert_int_equal(rmdir(task), 0);
    assert_int_equal(proctrack_kill_orphans(folder), 1);
    waitpid(live, NULL, 0);
}

int main(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "wait") == 0)
        return wait_below(argv[2]);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_by_environment),
        cmocka_unit_test(test_by_session_and_parent),
        cmocka_unit_test(test_processor_time_of_other_sessions),
        cmocka_unit_test(test_dying_is_not_dead),
        cmocka_unit_test(test_ending_namespace),
        cmocka_unit_test(test_marks_in_other_namespaces),
        cmocka_unit_test_setup_teardown(test_a_stray_has_no_folder, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(test_another_root_is_no_stray, make_folder, remove_folder),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
