#include "agent/supervisor/spawner.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/supervisor/supervisor.h"
#include "agent/tasks/taskdir.h"
#include "base/arena.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/os/file.h"
#include "base/os/proc.h"

enum { LOCK, SOCKET, HANDED }; // what a supervisor gets (supervisor.h)

struct spawner {
    char *program, *folder;
    int fd; // -1: not started
};

// An order is a packet: the task's id, and with it the supervisor's descriptors.
struct order {
    char id[LIMIT_NAME + 1];
    int fds[HANDED];
};

union control {
    struct cmsghdr header;
    char bytes[CMSG_SPACE(sizeof(int[HANDED]))];
};

static void close_all(int fds[HANDED])
{
    for (int i = 0; i < HANDED; i++) {
        if (fds[i] >= 0)
            close(fds[i]);
        fds[i] = -1;
    }
}

// --- in the agent --------------------------------------------------------------------------------

static int start(struct spawner *s, struct error *e)
{
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0)
        return error_set_errno(e, ERR_IO, errno, "cannot make a socket");
    const char *const argv[] = {s->program, s->folder, NULL};
    const struct proc_spec spec = {
        .argv = argv,
        .cwd = "/",
        .fd_in = ends[1],
        .fd_out = -1,
        .fd_err = STDERR_FILENO,
        .new_session = true,
    };
    pid_t pid = 0;
    int rc = proc_spawn(&spec, &pid, NULL, e);
    close(ends[1]);
    if (rc == 0)
        s->fd = ends[0];
    else
        close(ends[0]);
    return rc;
}

int spawner_open(const char *program, const char *folder, struct spawner **out, struct error *e)
{
    struct spawner *s = xcalloc(1, sizeof *s);
    s->program = xstrdup(program);
    s->folder = xstrdup(folder);
    s->fd = -1;
    int rc = start(s, e);
    if (rc == 0)
        *out = s;
    else
        spawner_close(s);
    return rc;
}

void spawner_close(struct spawner *s)
{
    if (!s)
        return;
    if (s->fd >= 0)
        close(s->fd);
    free(s->folder);
    free(s->program);
    free(s);
}

static bool send_order(const struct spawner *s, struct order *order)
{
    union control control = {0};
    struct iovec words = {.iov_base = order->id, .iov_len = strlen(order->id)};
    struct msghdr message = {.msg_iov = &words,
                             .msg_iovlen = 1,
                             .msg_control = control.bytes,
                             .msg_controllen = sizeof control.bytes};
    struct cmsghdr *fds = CMSG_FIRSTHDR(&message);
    fds->cmsg_level = SOL_SOCKET;
    fds->cmsg_type = SCM_RIGHTS;
    fds->cmsg_len = CMSG_LEN(sizeof order->fds);
    memcpy(CMSG_DATA(fds), order->fds, sizeof order->fds);
    return s->fd >= 0 && sendmsg(s->fd, &message, MSG_NOSIGNAL) >= 0;
}

static int give_order(struct spawner *s, struct order *order, struct error *e)
{
    if (send_order(s, order))
        return 0;
    if (s->fd >= 0)
        close(s->fd); // it is gone; once more with another
    s->fd = -1;
    int rc = start(s, e);
    if (rc == 0 && !send_order(s, order))
        rc = error_set_errno(e, ERR_IO, errno, "cannot hand a task to the process that starts it");
    return rc;
}

int spawner_supervise(struct spawner *s, const char *id, struct error *e)
{
    struct order order = {.fds = {-1, -1}};
    char *dir = path_join(s->folder, id);
    snprintf(order.id, sizeof order.id, "%s", id);
    int rc = taskdir_lock(dir, &order.fds[LOCK], e);
    if (rc == 0)
        rc = taskdir_listen(dir, &order.fds[SOCKET], e);
    if (rc == 0)
        rc = give_order(s, &order, e);
    close_all(order.fds);
    free(dir);
    return rc;
}

// --- in the spawner ------------------------------------------------------------------------------

// False: the agent is gone.
static bool receive_order(int from, struct order *order)
{
    ssize_t n;
    union control control;
    *order = (struct order){.fds = {-1, -1}};
    struct iovec words = {.iov_base = order->id, .iov_len = sizeof order->id - 1};
    struct msghdr message = {.msg_iov = &words,
                             .msg_iovlen = 1,
                             .msg_control = control.bytes,
                             .msg_controllen = sizeof control.bytes};
    do
        n = recvmsg(from, &message, MSG_CMSG_CLOEXEC);
    while (n < 0 && errno == EINTR);
    const struct cmsghdr *fds = n > 0 ? CMSG_FIRSTHDR(&message) : NULL;
    if (fds && fds->cmsg_type == SCM_RIGHTS && fds->cmsg_len == CMSG_LEN(sizeof order->fds))
        memcpy(order->fds, CMSG_DATA(fds), sizeof order->fds);
    return n > 0;
}

static int supervise(const char *folder, struct order *order, struct error *e)
{
    signal(SIGCHLD, SIG_DFL); // so that ranks leave their exit codes
    bool placed = setsid() >= 0 && dup2(order->fds[LOCK], STDIN_FILENO) >= 0 &&
                  dup2(order->fds[SOCKET], STDOUT_FILENO) >= 0;
    close_all(order->fds);
    char *dir = path_join(folder, order->id);
    int rc = placed ? supervisor_run(dir, e)
                    : error_set_errno(e, ERR_IO, errno, "cannot place its descriptors");
    free(dir);
    return rc;
}

int spawner_run(const char *folder, struct error *e)
{
    int type = 0;
    socklen_t len = sizeof type;
    if (getsockopt(STDIN_FILENO, SOL_SOCKET, SO_TYPE, &type, &len) != 0 || type != SOCK_SEQPACKET)
        return error_set(e, ERR_INVALID, "muster-agent starts it; start that");
    int orders = fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3);
    if (orders < 0)
        return error_set_errno(e, ERR_IO, errno, "cannot place a descriptor");
    signal(SIGCHLD, SIG_IGN); // supervisors leave nothing to be waited for
    struct order order;
    while (receive_order(orders, &order)) {
        pid_t child = order.fds[LOCK] < 0 ? -1 : fork();
        if (child == 0) {
            close(orders);
            return supervise(folder, &order, e);
        }
        if (child < 0)
            log_error("a supervisor cannot be started", "alloc=%s err=\"%s\"", order.id,
                      strerrordesc_np(errno));
        close_all(order.fds);
    }
    close(orders);
    return 0;
}
