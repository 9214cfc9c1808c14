// Child processes: inheritance, failures to start, and death with the parent.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/os/file.h"
#include "base/os/proc.h"

// Runs `spec` to its end; returns its output (heap string) and its status.
static char *run_to_end(struct proc_spec spec, int *status)
{
    int out[2];
    struct error e;
    assert_int_equal(pipe2(out, O_CLOEXEC), 0);
    spec.fd_out = out[1];
    spec.fd_err = STDERR_FILENO;
    pid_t pid;
    if (proc_spawn(&spec, &pid, NULL, &e) != 0)
        fail_msg("%s", e.text);
    close(out[1]);
    char *text = xcalloc(4096, 1);
    size_t len = 0;
    ssize_t n;
    while (len < 4095 && (n = read(out[0], text + len, 4095 - len)) > 0)
        len += (size_t)n;
    close(out[0]);
    assert_int_equal(waitpid(pid, status, 0), pid);
    return text;
}

static char *run_shell(const char *script, struct proc_spec spec)
{
    int status;
    spec.argv = (const char *const[]){"sh", "-c", script, NULL};
    spec.fd_in = -1;
    char *text = run_to_end(spec, &status);
    assert_int_equal(status, 0);
    return text;
}

static void shell_prints(const char *script, struct proc_spec spec, const char *expected)
{
    char *text = run_shell(script, spec);
    assert_string_equal(text, expected);
    free(text);
}

static void argv_is_no_shell_string(void **state)
{
    (void)state;
    int status;
    struct proc_spec spec = {
        .argv = (const char *const[]){"printf", "%s|", "a b", "$HOME", "*", NULL}, .fd_in = -1};
    char *text = run_to_end(spec, &status);
    assert_string_equal(text, "a b|$HOME|*|");
    free(text);
}

static void environment_and_folder(void **state)
{
    (void)state;
    shell_prints("pwd", (struct proc_spec){.cwd = "/"}, "/\n");
    shell_prints("echo $ONLY$HOME",
                 (struct proc_spec){.envp = (const char *const[]){"ONLY=this", NULL}}, "this\n");
    setenv("MUSTER_TEST_INHERITED", "yes", 1);
    shell_prints("echo $MUSTER_TEST_INHERITED", (struct proc_spec){0}, "yes\n");
}

static void no_input_by_default(void **state)
{
    (void)state;
    shell_prints("cat; readlink /proc/self/fd/0", (struct proc_spec){0}, "/dev/null\n");
}

// No descriptor of this process leaks, not even one that was opened without close-on-exec.
static void no_descriptor_leaks(void **state)
{
    (void)state;
    int leaky = open("/dev/null", O_RDONLY); // without O_CLOEXEC
    int high = fcntl(leaky, F_DUPFD, 200);
    int status;
    struct proc_spec spec = {.argv = (const char *const[]){"ls", "/proc/self/fd", NULL},
                             .fd_in = -1};
    char *text = run_to_end(spec, &status);
    assert_string_equal(text, "0\n1\n2\n3\n"); // 3 is the folder that ls reads
    free(text);
    close(high);
    close(leaky);
}

// The descriptors of a proc_spec may be 0, 1 and 2, in any order.
static void descriptors_may_change_places(void **state)
{
    (void)state;
    int out = open("out", O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    int err = open("err", O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    int saved_out = fcntl(1, F_DUPFD_CLOEXEC, 10), saved_err = fcntl(2, F_DUPFD_CLOEXEC, 10);
    fflush(stdout);
    dup2(out, 1);
    dup2(err, 2);
    struct proc_spec spec = {.argv = (const char *const[]){"sh", "-c", "echo o; echo e >&2", NULL},
                             .fd_in = -1,
                             .fd_out = 2,
                             .fd_err = 1};
    pid_t pid;
    int rc = proc_spawn(&spec, &pid, NULL, NULL), status = -1;
    dup2(saved_out, 1);
    dup2(saved_err, 2);
    assert_int_equal(rc, 0);
    waitpid(pid, &status, 0);
    assert_int_equal(status, 0);
    char *text;
    assert_int_equal(file_read("out", 100, &text, NULL, NULL), 0);
    assert_string_equal(text, "e\n");
    free(text);
    assert_int_equal(file_read("err", 100, &text, NULL, NULL), 0);
    assert_string_equal(text, "o\n");
    free(text);
    close(saved_out);
    close(saved_err);
    close(out);
    close(err);
}

static void fails_to_start(struct proc_spec spec, int code, const char *expected)
{
    struct error e;
    pid_t pid = -1;
    int pidfd = -1;
    assert_int_equal(proc_spawn(&spec, &pid, &pidfd, &e), code);
    assert_string_equal(e.text, expected);
    assert_int_equal(pid, -1);
    assert_int_equal(pidfd, -1);
    assert_int_equal(waitpid(-1, NULL, WNOHANG), -1); // no child remains
    assert_int_equal(errno, ECHILD);
}

static void failures_to_start(void **state)
{
    (void)state;
    const char *const absent[] = {"muster-no-such-program", NULL}, *const echo[] = {"true", NULL};
    const char *const file[] = {"./plain", NULL};
    fails_to_start((struct proc_spec){.argv = absent, .fd_in = -1, .fd_out = -1, .fd_err = -1},
                   ERR_NOT_FOUND, "cannot start muster-no-such-program: No such file or directory");
    fails_to_start(
        (struct proc_spec){
            .argv = echo, .cwd = "/no/such/folder", .fd_in = -1, .fd_out = -1, .fd_err = -1},
        ERR_NOT_FOUND, "cannot start true in folder /no/such/folder: No such file or directory");
    assert_int_equal(file_write_durable("plain", "x", 1, 0644, NULL), 0);
    fails_to_start((struct proc_spec){.argv = file, .fd_in = -1, .fd_out = -1, .fd_err = -1},
                   ERR_IO, "cannot start ./plain: Permission denied");
    fails_to_start((struct proc_spec){.argv = echo, .fd_in = 999, .fd_out = -1, .fd_err = -1},
                   ERR_IO, "cannot start true: setting its input and output: Bad file descriptor");
}

static void signals_are_as_new(void **state)
{
    (void)state;
    signal(SIGPIPE, SIG_IGN);
    sigset_t block, old;
    sigemptyset(&block);
    sigaddset(&block, SIGTERM);
    sigprocmask(SIG_BLOCK, &block, &old);
    char *text =
        run_shell("grep -E 'SigBlk|SigIgn' /proc/self/status | cut -f2", (struct proc_spec){0});
    sigset_t now;
    sigprocmask(SIG_SETMASK, &old, &now);
    signal(SIGPIPE, SIG_DFL);
    assert_string_equal(text, "0000000000000000\n0000000000000000\n");
    assert_true(sigismember(&now, SIGTERM)); // and those of this process are unchanged
    assert_false(sigismember(&now, SIGUSR1));
    free(text);
}

static void groups_and_sessions(void **state)
{
    (void)state;
    // Fields 1, 5 and 6 of stat: pid, process group, session.
    const char *script = "set -- $(cat /proc/$$/stat); [ $1 = $5 ] && echo group; [ $1 = $6 ] && "
                         "echo session; true";
    shell_prints(script, (struct proc_spec){0}, "");
    shell_prints(script, (struct proc_spec){.new_group = true}, "group\n");
    shell_prints(script, (struct proc_spec){.new_session = true}, "group\nsession\n");
    shell_prints(script, (struct proc_spec){.new_session = true, .new_group = true},
                 "group\nsession\n");
}

static void pidfd_tells_the_end(void **state)
{
    (void)state;
    struct proc_spec spec = {
        .argv = (const char *const[]){"cat", NULL}, .fd_in = -1, .fd_out = -1, .fd_err = -1};
    int in[2];
    assert_int_equal(pipe2(in, O_CLOEXEC), 0);
    spec.fd_in = in[0];
    pid_t pid;
    int pidfd;
    assert_int_equal(proc_spawn(&spec, &pid, &pidfd, NULL), 0);
    assert_int_equal(fcntl(pidfd, F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
    struct pollfd watch = {.fd = pidfd, .events = POLLIN};
    assert_int_equal(poll(&watch, 1, 0), 0);
    close(in[0]);
    close(in[1]); // the program ends at the end of its input
    assert_int_equal(poll(&watch, 1, 20000), 1);
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    close(pidfd);
}

// A child starts a grandchild that dies with it, reports its pid, and exits.
static void dies_with_its_parent(void **state)
{
    (void)state;
    int ends[2], life[2];
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    assert_int_equal(pipe2(life, O_CLOEXEC), 0);
    pid_t middle = fork();
    if (middle == 0) {
        pid_t pid;
        struct proc_spec spec = {.argv = (const char *const[]){"sleep", "100", NULL},
                                 .fd_in = -1,
                                 .fd_out = life[1],
                                 .fd_err = -1,
                                 .die_with_parent = true};
        bool ok = proc_spawn(&spec, &pid, NULL, NULL) == 0;
        _exit(ok && write(ends[1], &pid, sizeof pid) == sizeof pid ? 0 : 1);
    }
    close(ends[1]);
    close(life[1]);
    int status;
    pid_t grandchild;
    waitpid(middle, &status, 0);
    assert_int_equal(status, 0);
    assert_int_equal(read(ends[0], &grandchild, sizeof grandchild), sizeof grandchild);
    // The pipe reads as ended when its last holder is gone.
    struct pollfd watch = {.fd = life[0], .events = POLLIN};
    assert_int_equal(poll(&watch, 1, 20000), 1);
    char byte;
    assert_int_equal(read(life[0], &byte, 1), 0);
    close(life[0]);
    close(ends[0]);
}

static void statuses(void **state)
{
    (void)state;
    char out[64];
    int status;
    free(run_to_end(
        (struct proc_spec){.argv = (const char *const[]){"sh", "-c", "exit 3", NULL}, .fd_in = -1},
        &status));
    assert_string_equal(proc_status_text(status, out, sizeof out), "exit 3");
    free(
        run_to_end((struct proc_spec){.argv = (const char *const[]){"sh", "-c", "kill -9 $$", NULL},
                                      .fd_in = -1},
                   &status));
    assert_string_equal(proc_status_text(status, out, sizeof out), "signal 9 (SIGKILL)");
    assert_string_equal(proc_status_text(SIGRTMIN + 1, out, sizeof out), "signal 35");
    assert_string_equal(proc_status_text(0x137f, out, sizeof out), "status 0x137f");
}

static void own_folder(void **state)
{
    (void)state;
    char *dir = proc_self_dir(), *self = path_join(dir, "test_proc");
    assert_int_equal(dir[0], '/');
    assert_true(path_exists(self));
    free(self);
    free(dir);
}

// --- preparation in the child --------------------------------------------------------------------

static const char *change_umask(const void *ctx)
{
    umask(*(const mode_t *)ctx);
    return NULL;
}

static const char *fail_to_prepare(const void *ctx)
{
    (void)ctx;
    errno = EPERM;
    return "changing its account";
}

static void child_prepares_itself(void **state)
{
    (void)state;
    const mode_t mask = 0123;
    shell_prints("umask", (struct proc_spec){.prepare = change_umask, .prepare_ctx = &mask},
                 "0123\n");
}

static void failed_preparation_is_reported(void **state)
{
    (void)state;
    pid_t pid;
    struct error e = {0};
    const struct proc_spec spec = {.argv = (const char *const[]){"true", NULL},
                                   .fd_in = -1,
                                   .fd_out = -1,
                                   .fd_err = -1,
                                   .prepare = fail_to_prepare};
    assert_int_equal(proc_spawn(&spec, &pid, NULL, &e), ERR_IO);
    assert_non_null(strstr(e.text, "cannot start true: changing its account: "));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(child_prepares_itself),
        cmocka_unit_test(failed_preparation_is_reported),
        cmocka_unit_test(argv_is_no_shell_string),
        cmocka_unit_test(environment_and_folder),
        cmocka_unit_test(no_input_by_default),
        cmocka_unit_test(no_descriptor_leaks),
        cmocka_unit_test(descriptors_may_change_places),
        cmocka_unit_test(failures_to_start),
        cmocka_unit_test(signals_are_as_new),
        cmocka_unit_test(groups_and_sessions),
        cmocka_unit_test(pidfd_tells_the_end),
        cmocka_unit_test(dies_with_its_parent),
        cmocka_unit_test(statuses),
        cmocka_unit_test(own_folder),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
