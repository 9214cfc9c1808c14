#include "base/proc.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/arena.h"

extern char **environ;

// What failed in the child before exec, sent through the pipe.
struct child_failure {
    int saved_errno;
    char step[16];
};

_Noreturn static void child_fail(int report, const char *step)
{
    struct child_failure f = {.saved_errno = errno};
    strncpy(f.step, step, sizeof(f.step) - 1);
    ssize_t n = write(report, &f, sizeof(f));
    (void)n;
    _exit(127);
}

static void child_descriptor(int from, int to, int report)
{
    if (from < 0) {
        from = open("/dev/null", to == 0 ? O_RDONLY : O_WRONLY);
    }
    if (from < 0 || (from != to && dup2(from, to) < 0) ||
        (from == to && fcntl(to, F_SETFD, 0) < 0)) {
        child_fail(report, "descriptor");
    }
}

// Lifts a descriptor over 2, so that placing one of 0, 1, 2 cannot close another's source.
static int above_standard(int fd, int report)
{
    if (fd < 0 || fd > 2) {
        return fd;
    }
    int lifted = fcntl(fd, F_DUPFD_CLOEXEC, 3);
    if (lifted < 0) {
        child_fail(report, "descriptor");
    }
    return lifted;
}

static void child_signals(void)
{
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    for (int s = 1; s < SIGRTMIN; s++) {
        signal(s, SIG_DFL);
    }
}

_Noreturn static void child_run(const struct proc_spec *spec, int report, pid_t parent)
{
    if (spec->new_session && setsid() < 0) {
        child_fail(report, "setsid");
    }
    if (spec->new_group && !spec->new_session && setpgid(0, 0) != 0) {
        child_fail(report, "setpgid");
    }
    if (spec->die_with_parent) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != parent) { // it died before the prctl
            _exit(127);
        }
    }
    if (spec->cwd != NULL && chdir(spec->cwd) != 0) {
        child_fail(report, "cwd");
    }
    int in = above_standard(spec->fd_in, report), out = above_standard(spec->fd_out, report);
    int err = above_standard(spec->fd_err, report);
    child_descriptor(in, 0, report);
    child_descriptor(out, 1, report);
    child_descriptor(err, 2, report);
    child_signals();
    if (spec->envp != NULL) {
        environ = (char **)spec->envp; // execvp searches the child's own PATH
    }
    execvp(spec->argv[0], (char *const *)spec->argv);
    child_fail(report, "exec");
}

static int failure_text(const struct proc_spec *spec, const struct child_failure *f,
                        struct error *e)
{
    if (strcmp(f->step, "cwd") == 0) {
        return error_set_errno(e, ERR_NOT_FOUND, f->saved_errno, "%s: cannot enter the folder",
                               spec->cwd);
    }
    int code = f->saved_errno == ENOENT ? ERR_NOT_FOUND : ERR_IO;
    return error_set_errno(e, code, f->saved_errno, "%s: cannot start (%s)", spec->argv[0],
                           f->step);
}

int proc_spawn(const struct proc_spec *spec, pid_t *pid, int *pidfd, struct error *e)
{
    int pipe_fds[2];
    if (pipe2(pipe_fds, O_CLOEXEC) != 0) {
        return error_set_errno(e, ERR_IO, errno, "cannot make a pipe");
    }
    pid_t parent = getpid();
    pid_t child = fork();
    if (child == 0) {
        close(pipe_fds[0]);
        child_run(spec, above_standard(pipe_fds[1], pipe_fds[1]), parent);
    }
    int saved = errno;
    close(pipe_fds[1]);
    if (child < 0) {
        close(pipe_fds[0]);
        return error_set_errno(e, ERR_IO, saved, "cannot fork");
    }
    struct child_failure failure;
    ssize_t n;
    do {
        n = read(pipe_fds[0], &failure, sizeof(failure));
    } while (n < 0 && errno == EINTR);
    close(pipe_fds[0]);
    if (n == (ssize_t)sizeof(failure)) {
        waitpid(child, NULL, 0);
        return failure_text(spec, &failure, e);
    }
    *pid = child;
    if (pidfd != NULL) {
        *pidfd = (int)syscall(SYS_pidfd_open, child, 0); // close-on-exec by definition
        if (*pidfd < 0) {
            saved = errno;
            kill(child, SIGKILL);
            waitpid(child, NULL, 0);
            return error_set_errno(e, ERR_IO, saved, "cannot open a pidfd");
        }
    }
    return 0;
}

const char *proc_status_text(int wait_status, char *out, size_t cap)
{
    if (WIFSIGNALED(wait_status)) {
        const char *name = sigabbrev_np(WTERMSIG(wait_status));
        snprintf(out, cap, "signal %d (SIG%s)", WTERMSIG(wait_status), name != NULL ? name : "?");
    } else {
        snprintf(out, cap, "exit %d", WEXITSTATUS(wait_status));
    }
    return out;
}

char *proc_self_dir(void)
{
    char path[PATH_MAX];
    ssize_t n = readlink("/proc/self/exe", path, sizeof(path) - 1);
    if (n <= 0) {
        return xstrdup(".");
    }
    path[n] = '\0';
    char *slash = strrchr(path, '/');
    *(slash == path ? slash + 1 : slash) = '\0';
    return xstrdup(path);
}
