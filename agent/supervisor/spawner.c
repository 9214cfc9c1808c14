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

enum { FD_LOCK, FD_SOCKET, FD_COUNT }; // the descriptors of a supervisor (supervisor.h)

struct spawner {
    char *program, *folder;
    int fd; // -1: not started
};

// A packet with the task's id and the supervisor's descriptors.
struct spawn_request {
    char id[LIMIT_NAME + 1];
    int fds[FD_COUNT];
};

union fd_control {
    struct cmsghdr header;
    char bytes[CMSG_SPACE(sizeof(int[FD_COUNT]))];
};

static void close_fds(int fds[FD_COUNT])
{
    for (int i = 0; i < FD_COUNT; i++) {
        if (fds[i] >= 0)
            close(fds[i]);
        fds[i] = -1;
    }
}

// --- in the agent --------------------------------------------------------------------------------

static int start_spawner(struct spawner *s, struct error *e)
{
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0)
        return error_set_errno(e, ERR_IO, errno, "cannot create a socket pair");
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
    int err = proc_spawn(&spec, &pid, NULL, e);
    close(ends[1]);
    if (!err)
        s->fd = ends[0];
    else
        close(ends[0]);
    return err;
}

int spawner_open(const char *program, const char *folder, struct spawner **out, struct error *e)
{
    struct spawner *s = xcalloc(1, sizeof *s);
    s->program = xstrdup(program);
    s->folder = xstrdup(folder);
    s->fd = -1;
    int err = start_spawner(s, e);
    if (!err)
        *out = s;
    else
        spawner_close(s);
    return err;
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

static bool send_request(const struct spawner *s, struct spawn_request *request)
{
    union fd_control control = {0};
    struct iovec id = {.iov_base = request->id, .iov_len = strlen(request->id)};
    struct msghdr message = {.msg_iov = &id,
                             .msg_iovlen = 1,
                             .msg_control = control.bytes,
                             .msg_controllen = sizeof control.bytes};
    struct cmsghdr *fds = CMSG_FIRSTHDR(&message);
    fds->cmsg_level = SOL_SOCKET;
    fds->cmsg_type = SCM_RIGHTS;
    fds->cmsg_len = CMSG_LEN(sizeof request->fds);
    memcpy(CMSG_DATA(fds), request->fds, sizeof request->fds);
    return s->fd >= 0 && sendmsg(s->fd, &message, MSG_NOSIGNAL) >= 0;
}

static int hand_over_request(struct spawner *s, struct spawn_request *request, struct error *e)
{
    if (send_request(s, request))
        return 0;
    if (s->fd >= 0)
        close(s->fd); // the spawner has died: start another and try again
    s->fd = -1;
    int err = start_spawner(s, e);
    if (!err && !send_request(s, request))
        err = error_set_errno(e, ERR_IO, errno, "cannot send a request to the spawner");
    return err;
}

int spawner_supervise(struct spawner *s, const char *id, struct error *e)
{
    struct spawn_request request = {.fds = {-1, -1}};
    char *dir = path_join(s->folder, id);
    snprintf(request.id, sizeof request.id, "%s", id);
    int err = taskdir_lock(dir, &request.fds[FD_LOCK], e);
    if (!err)
        err = taskdir_listen(dir, &request.fds[FD_SOCKET], e);
    if (!err)
        err = hand_over_request(s, &request, e);
    close_fds(request.fds);
    free(dir);
    return err;
}

// --- in the spawner ------------------------------------------------------------------------------

// False: the agent has ended.
static bool receive_request(int from, struct spawn_request *request)
{
    ssize_t n;
    union fd_control control;
    *request = (struct spawn_request){.fds = {-1, -1}};
    struct iovec id = {.iov_base = request->id, .iov_len = sizeof request->id - 1};
    struct msghdr message = {.msg_iov = &id,
                             .msg_iovlen = 1,
                             .msg_control = control.bytes,
                             .msg_controllen = sizeof control.bytes};
    do
        n = recvmsg(from, &message, MSG_CMSG_CLOEXEC);
    while (n < 0 && errno == EINTR);
    const struct cmsghdr *fds = n > 0 ? CMSG_FIRSTHDR(&message) : NULL;
    if (fds && fds->cmsg_type == SCM_RIGHTS && fds->cmsg_len == CMSG_LEN(sizeof request->fds))
        memcpy(request->fds, CMSG_DATA(fds), sizeof request->fds);
    return n > 0;
}

static int run_supervisor(const char *folder, struct spawn_request *request, struct error *e)
{
    signal(SIGCHLD, SIG_DFL); // so that ranks can be waited for
    bool placed = setsid() >= 0 && dup2(request->fds[FD_LOCK], STDIN_FILENO) >= 0 &&
                  dup2(request->fds[FD_SOCKET], STDOUT_FILENO) >= 0;
    close_fds(request->fds);
    char *dir = path_join(folder, request->id);
    int err = placed ? supervisor_run(dir, e)
                     : error_set_errno(e, ERR_IO, errno, "cannot set the supervisor's descriptors");
    free(dir);
    return err;
}

int spawner_run(const char *folder, struct error *e)
{
    int type = 0;
    socklen_t len = sizeof type;
    if (getsockopt(STDIN_FILENO, SOL_SOCKET, SO_TYPE, &type, &len) != 0 || type != SOCK_SEQPACKET)
        return error_set(e, ERR_INVALID,
                         "only muster-agent starts this program; start muster-agent");
    int requests = fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3);
    if (requests < 0)
        return error_set_errno(e, ERR_IO, errno, "cannot duplicate a descriptor");
    signal(SIGCHLD, SIG_IGN); // supervisors are not waited for
    struct spawn_request request;
    while (receive_request(requests, &request)) {
        pid_t child = request.fds[FD_LOCK] < 0 ? -1 : fork();
        if (child == 0) {
            close(requests);
            return run_supervisor(folder, &request, e);
        }
        if (child < 0)
            log_error("cannot start a supervisor", "alloc=%s err=\"%s\"", request.id,
                      strerrordesc_np(errno));
        close_fds(request.fds);
    }
    close(requests);
    return 0;
}
