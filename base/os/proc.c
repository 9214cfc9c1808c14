#include "base/os/proc.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/log.h"

// The step at which the child failed; it sends the step and its errno through the pipe.
enum spawn_step { STEP_PARENT, STEP_FDS, STEP_GROUP, STEP_PREPARE, STEP_CWD, STEP_EXEC };

struct spawn_failure {
    enum spawn_step step;
    int saved_errno;
    const char *prepared; // STEP_PREPARE: a constant of this program, so it is valid in the parent
};

// Between fork and exec only async-signal-safe calls are allowed, because another thread may have
// held malloc's lock. The child_ functions obey this.
_Noreturn static void child_fail(int report, enum spawn_step step)
{
    struct spawn_failure failure = {.step = step, .saved_errno = errno};
    ssize_t ignored = write(report, &failure, sizeof failure);
    (void)ignored;
    _exit(127);
}

static void child_prepare(const struct proc_spec *spec, int report)
{
    struct spawn_failure failure = {.step = STEP_PREPARE};
    failure.prepared = spec->prepare(spec->prepare_ctx);
    if (!failure.prepared)
        return;
    failure.saved_errno = errno;
    ssize_t ignored = write(report, &failure, sizeof failure);
    (void)ignored;
    _exit(127);
}

// A change of the account clears the signal, so this comes after it. A parent in an outer pid
// namespace has the number 0; the first process of the inner one then ends with that parent.
static void child_die_with_parent(pid_t parent, int report)
{
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0)
        child_fail(report, STEP_PARENT);
    if (getppid() != parent && getppid() != 0) // the parent has died before prctl()
        _exit(127);
}

// The descriptors of `spec` may be 0, 1 and 2 in any order, so all are first duplicated above 2.
static void child_set_fds(const struct proc_spec *spec, int report)
{
    int given[3] = {spec->fd_in, spec->fd_out, spec->fd_err}, lifted[3];
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    for (int i = 0; i < 3; i++) {
        lifted[i] = fcntl(given[i] < 0 ? null : given[i], F_DUPFD_CLOEXEC, 3);
        if (lifted[i] < 0)
            child_fail(report, STEP_FDS);
    }
    for (int i = 0; i < 3; i++)
        if (dup2(lifted[i], i) < 0)
            child_fail(report, STEP_FDS);
    // A library may have opened descriptors without close-on-exec. 1 << 2 is CLOSE_RANGE_CLOEXEC:
    // `report` must stay open until exec.
    if (syscall(SYS_close_range, 3u, ~0u, 1u << 2) == 0)
        return;
    for (int fd = 3; fd < 4096; fd++) // kernels before 5.11
        fcntl(fd, F_SETFD, FD_CLOEXEC);
}

// The program starts with default handlers and no blocked signals.
static void child_reset_signals(void)
{
    struct sigaction by_default = {.sa_handler = SIG_DFL};
    for (int number = 1; number < NSIG; number++)
        sigaction(number, &by_default, NULL); // refused for SIGKILL and SIGSTOP
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
}

_Noreturn static void child_run(const struct proc_spec *spec, pid_t parent, int report)
{
    int lifted = fcntl(report, F_DUPFD_CLOEXEC, 3); // above 0, 1 and 2
    if (lifted < 0)
        child_fail(report, STEP_FDS);
    report = lifted;
    child_reset_signals();
    if ((spec->new_session && setsid() < 0) ||
        (spec->new_group && !spec->new_session && setpgid(0, 0) != 0))
        child_fail(report, STEP_GROUP);
    if (spec->prepare)
        child_prepare(spec, report);
    if (spec->die_with_parent)
        child_die_with_parent(parent, report);
    if (spec->cwd && chdir(spec->cwd) != 0)
        child_fail(report, STEP_CWD);
    child_set_fds(spec, report);
    execvpe(spec->argv[0], (char *const *)spec->argv,
            spec->envp ? (char *const *)spec->envp : environ);
    child_fail(report, STEP_EXEC);
}

static int report_failure(const struct proc_spec *spec, struct spawn_failure failure,
                          struct error *e)
{
    int code = failure.saved_errno == ENOENT ? ERR_NOT_FOUND : ERR_IO;
    switch (failure.step) {
    case STEP_CWD:
        return error_set_errno(e, code, failure.saved_errno, "cannot start %s in folder %s",
                               spec->argv[0], spec->cwd);
    case STEP_FDS:
        return error_set_errno(e, ERR_IO, failure.saved_errno,
                               "cannot start %s: setting its input and output", spec->argv[0]);
    case STEP_PREPARE:
        return error_set_errno(e, ERR_IO, failure.saved_errno, "cannot start %s: %s", spec->argv[0],
                               failure.prepared);
    case STEP_GROUP:
    case STEP_PARENT:
        return error_set_errno(e, ERR_IO, failure.saved_errno,
                               "cannot start %s: setting its process group", spec->argv[0]);
    case STEP_EXEC:
        break;
    }
    return error_set_errno(e, code, failure.saved_errno, "cannot start %s", spec->argv[0]);
}

// Forks with all signals blocked, so that no signal handler of this process runs in the child.
static pid_t fork_child(const struct proc_spec *spec, int report)
{
    sigset_t all, old;
    sigfillset(&all);
    must(pthread_sigmask(SIG_SETMASK, &all, &old) == 0);
    pid_t parent = getpid();
    pid_t child = fork();
    if (child == 0)
        child_run(spec, parent, report);
    int saved = errno;
    must(pthread_sigmask(SIG_SETMASK, &old, NULL) == 0);
    errno = saved;
    return child;
}

// Waits until the child has executed its program (the pipe closes: false) or has failed (true).
static bool child_failed(int report, struct spawn_failure *failure)
{
    ssize_t n;
    do
        n = read(report, failure, sizeof *failure);
    while (n < 0 && errno == EINTR);
    return n > 0;
}

static void reap_child(pid_t child)
{
    while (waitpid(child, NULL, 0) < 0 && errno == EINTR)
        ;
}

int proc_spawn(const struct proc_spec *spec, pid_t *pid, int *pidfd, struct error *e)
{
    int report[2];
    if (pipe2(report, O_CLOEXEC) != 0)
        return error_set_errno(e, ERR_IO, errno, "cannot start %s: cannot create a pipe",
                               spec->argv[0]);
    pid_t child = fork_child(spec, report[1]);
    int saved = errno;
    close(report[1]);
    struct spawn_failure failure;
    if (child < 0) {
        close(report[0]);
        return error_set_errno(e, ERR_BUSY, saved, "cannot start %s", spec->argv[0]);
    }
    bool failed = child_failed(report[0], &failure);
    close(report[0]);
    if (failed) {
        reap_child(child);
        return report_failure(spec, failure, e);
    }
    if (pidfd && (*pidfd = (int)syscall(SYS_pidfd_open, child, 0)) < 0) {
        saved = errno;
        kill(child, SIGKILL);
        reap_child(child);
        return error_set_errno(e, ERR_IO, saved, "cannot watch %s", spec->argv[0]);
    }
    *pid = child;
    return 0;
}

const char *proc_status_text(int wait_status, char *out, size_t cap)
{
    if (WIFEXITED(wait_status)) {
        snprintf(out, cap, "exit %d", WEXITSTATUS(wait_status));
    } else if (WIFSIGNALED(wait_status)) {
        int number = WTERMSIG(wait_status);
        const char *name = sigabbrev_np(number);
        snprintf(out, cap, name ? "signal %d (SIG%s)" : "signal %d", number, name);
    } else {
        snprintf(out, cap, "status 0x%x", (unsigned)wait_status);
    }
    return out;
}

char *proc_self_dir(void)
{
    char path[4096];
    ssize_t len = readlink("/proc/self/exe", path, sizeof path - 1);
    must(len > 0);
    path[len] = '\0';
    char *slash = strrchr(path, '/');
    must(slash);
    slash[slash == path] = '\0';
    return xstrdup(path);
}
