#include "agent/isolation/task_init.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/isolation/confine.h"
#include "agent/isolation/sandbox.h"
#include "base/arena.h"
#include "base/os/file.h"

enum { CONTROL_GO = 'g', CONTROL_FINISH = 'f' };

// The first message on the control socket, from the first process to the supervisor.
struct init_message {
    int err;
    struct view_report report;
    struct error error;
};

// --- the first process ---------------------------------------------------------------------------

static void keep_only(int fd)
{
    dup2(fd, STDERR_FILENO + 1);
    int null = open("/dev/null", O_RDWR);
    for (int i = 0; i <= STDERR_FILENO; i++)
        dup2(null, i);
    syscall(SYS_close_range, STDERR_FILENO + 2, ~0u, 0);
}

// Returns whether there are children left.
static bool reap_orphans(void)
{
    pid_t pid;
    while ((pid = waitpid(-1, NULL, WNOHANG)) > 0)
        ;
    return pid == 0;
}

// The end of the control socket means that the supervisor has died. PR_SET_PDEATHSIG alone has a
// gap before prctl(2).
_Noreturn static void watch_over_orphans(int control)
{
    sigset_t set;
    bool finish = false, children;
    struct signalfd_siginfo info;
    sigemptyset(&set);
    sigaddset(&set, SIGCHLD);
    sigprocmask(SIG_BLOCK, &set, NULL);
    int signals = signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC);
    do {
        struct pollfd polls[] = {{.fd = control, .events = POLLIN},
                                 {.fd = signals, .events = POLLIN}};
        poll(polls, 2, -1);
        char command = 0;
        if (polls[0].revents && recv(control, &command, 1, 0) == 0)
            _exit(1);
        finish |= command == CONTROL_FINISH;
        while (read(signals, &info, sizeof info) > 0)
            ;
        children = reap_orphans();
    } while (!finish || children);
    _exit(0);
}

_Noreturn static void run_first_process(const struct task_view *view, int control)
{
    struct init_message message = {0};
    char go;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    prctl(PR_SET_NAME, "muster-init");
    message.err = task_view_build(view, &message.report, &message.error);
    keep_only(control);
    control = STDERR_FILENO + 1;
    bool ready = send(control, &message, sizeof message, MSG_NOSIGNAL) == sizeof message &&
                 !message.err && recv(control, &go, 1, 0) == 1;
    if (!ready || chdir("/") != 0 || !confine_own_process() ||
        send(control, &go, 1, MSG_NOSIGNAL) != 1)
        _exit(1);
    watch_over_orphans(control);
}

// --- the supervisor ------------------------------------------------------------------------------

static int open_namespaces(struct task_init *t, bool processes, struct error *e)
{
    char path[64];
    struct stat st = {0};
    snprintf(path, sizeof path, "/proc/%d/ns/mnt", (int)t->pid);
    t->mount_namespace = open(path, O_RDONLY | O_CLOEXEC);
    snprintf(path, sizeof path, "/proc/%d/ns/pid", (int)t->pid);
    if (t->mount_namespace < 0 || (processes && stat(path, &st) != 0))
        return error_set_errno(e, ERR_FORBIDDEN, errno, "cannot open the namespaces of the task");
    t->pid_namespace = st.st_ino;
    return 0;
}

static int lost_first_process(struct error *e)
{
    return error_set(e, ERR_IO, "the first process of the task has died");
}

// Writes `report` if there is a message of the first process.
static int receive_message(const struct task_init *t, int patience_s, struct view_report *report,
                           struct error *e)
{
    struct init_message message;
    struct pollfd control = {.fd = t->control, .events = POLLIN};
    int ready;
    do
        ready = poll(&control, 1, patience_s * 1000);
    while (ready < 0 && errno == EINTR);
    if (ready == 0)
        return error_set(e, ERR_TIMEOUT,
                         "the task cannot see its files: a file system of this machine does not "
                         "answer within %d s, such as that of checkpoint_storage or bind_mounts",
                         patience_s);
    if (recv(t->control, &message, sizeof message, 0) != (ssize_t)sizeof message)
        return lost_first_process(e);
    *report = message.report;
    if (message.err && e)
        *e = message.error;
    return message.err;
}

static int shake_hands(const struct task_view *view, struct task_init *t,
                       struct view_report *report, struct error *e)
{
    char go = CONTROL_GO;
    report->failed = PROTECTION_COUNT;
    int err = receive_message(t, view->patience_s, report, e);
    err = err ? err : open_namespaces(t, task_view_has(view, PROTECTION_PROCESSES), e);
    if (!err && (send(t->control, &go, 1, MSG_NOSIGNAL) != 1 || recv(t->control, &go, 1, 0) != 1))
        err = lost_first_process(e);
    return err;
}

static int enter_namespaces(const struct task_view *view, struct view_report *report,
                            struct error *e)
{
    bool processes = task_view_has(view, PROTECTION_PROCESSES);
    int flags = (processes ? CLONE_NEWPID : 0) |
                (task_view_has(view, PROTECTION_TEMPORARY) ? CLONE_NEWIPC : 0);
    report->failed = PROTECTION_FILES;
    int err = sandbox_enter_user_namespace(e);
    if (!err && unshare(flags) != 0) {
        report->failed = processes ? PROTECTION_PROCESSES : PROTECTION_TEMPORARY;
        err = error_set_errno(e, ERR_FORBIDDEN, errno, "cannot enter a pid namespace");
    }
    return err;
}

// Without a pid namespace of the task, the first process is not needed for longer than its mounts.
int task_init_start(const struct task_view *view, struct task_init *out, struct view_report *report,
                    struct error *e)
{
    int ends[2];
    *out = (struct task_init){.control = -1, .mount_namespace = -1};
    *report = (struct view_report){.failed = PROTECTION_FILES};
    int err = enter_namespaces(view, report, e);
    if (err)
        return err;
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0)
        return error_set_errno(e, ERR_IO, errno, "cannot create a socket pair");
    out->pid = fork();
    if (out->pid == 0) {
        close(ends[0]);
        run_first_process(view, ends[1]);
    }
    close(ends[1]);
    out->control = ends[0];
    if (out->pid < 0) {
        out->pid = 0;
        return error_set_errno(e, ERR_BUSY, errno, "cannot start the first process of the task");
    }
    err = shake_hands(view, out, report, e);
    if (err || !task_view_has(view, PROTECTION_PROCESSES))
        task_init_kill(out);
    return err;
}

void task_init_finish(struct task_init *t)
{
    char finish = CONTROL_FINISH;
    if (t->control >= 0 && t->pid > 0)
        send(t->control, &finish, 1, MSG_NOSIGNAL);
}

void task_init_kill(const struct task_init *t)
{
    if (t->pid > 0)
        kill(t->pid, SIGKILL);
}

bool task_init_has_children(const struct task_init *t)
{
    char *path = xasprintf("/proc/%d/task/%d/children", (int)t->pid, (int)t->pid), *text = NULL;
    size_t len = 0;
    int err = file_read(path, 64 * 1024, &text, &len, NULL);
    free(text);
    free(path);
    return t->pid > 0 && (err || len > 0);
}

void task_init_close(struct task_init *t)
{
    if (t->control >= 0)
        close(t->control);
    if (t->mount_namespace >= 0)
        close(t->mount_namespace);
    t->control = t->mount_namespace = -1;
}
