#include "base/os/systemd.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/log.h"

enum { FIRST_PASSED = 3 }; // the first descriptor that systemd passes, see sd_listen_fds(3)

#define KEPT_NAME "listener"

static int notify_fd = -1, kept_fd = -1;
static int64_t watchdog_us;

// The socket with that name: a path, or "@" and the name of an abstract socket. -1: errno is set.
static int connect_socket(const char *name)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    size_t len = strlen(name);
    if (len < 2 || len >= sizeof address.sun_path || !strchr("/@", *name)) {
        errno = EINVAL;
        return -1;
    }
    memcpy(address.sun_path, name, len);
    if (*name == '@')
        address.sun_path[0] = '\0';
    socklen_t size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + len);
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd >= 0 && connect(fd, (const struct sockaddr *)&address, size)) {
        int failed = errno;
        close(fd);
        errno = failed;
        return -1;
    }
    return fd;
}

// 0: none, or that of another process.
static int64_t read_watchdog(void)
{
    const char *interval = getenv("WATCHDOG_USEC"), *pid = getenv("WATCHDOG_PID");
    if (!interval || (pid && strtoll(pid, NULL, 10) != getpid()))
        return 0;
    long long us = strtoll(interval, NULL, 10);
    return us > 1 ? us / 2 : 0;
}

// The socket that an earlier process of this service gave to systemd; -1: none. A socket of another
// name is that of a socket unit.
static int read_kept(void)
{
    const char *count = getenv("LISTEN_FDS"), *pid = getenv("LISTEN_PID");
    const char *names = getenv("LISTEN_FDNAMES");
    bool ours = count && pid && names && strtoll(pid, NULL, 10) == getpid() &&
                !strcmp(count, "1") && !strcmp(names, KEPT_NAME);
    return ours && fcntl(FIRST_PASSED, F_SETFD, FD_CLOEXEC) == 0 ? FIRST_PASSED : -1;
}

void systemd_open(void)
{
    const char *name = getenv("NOTIFY_SOCKET");
    char quoted[256];
    if (notify_fd >= 0)
        close(notify_fd);
    notify_fd = name ? connect_socket(name) : -1;
    if (name && notify_fd < 0)
        log_warn("cannot reach systemd", "socket=%s err=\"%s\"",
                 log_quote(quoted, sizeof quoted, name), strerror(errno));
    watchdog_us = notify_fd >= 0 ? read_watchdog() : 0;
    kept_fd = read_kept();
    unsetenv("LISTEN_FDS");
    unsetenv("LISTEN_PID");
    unsetenv("LISTEN_FDNAMES");
    unsetenv("NOTIFY_SOCKET");
    unsetenv("WATCHDOG_USEC");
    unsetenv("WATCHDOG_PID");
}

void systemd_notify(const char *lines)
{
    size_t len = strlen(lines);
    if (notify_fd >= 0 && send(notify_fd, lines, len, MSG_NOSIGNAL | MSG_DONTWAIT) < 0)
        log_warn("systemd did not get a message", "message=\"%.32s\" err=\"%s\"", lines,
                 strerror(errno));
}

int systemd_take_socket(void)
{
    int fd = kept_fd;
    kept_fd = -1;
    return fd;
}

void systemd_keep_socket(int fd)
{
    char lines[] = "FDSTORE=1\nFDNAME=" KEPT_NAME;
    union {
        struct cmsghdr header;
        char bytes[CMSG_SPACE(sizeof(int))];
    } control = {0};
    struct iovec text = {.iov_base = lines, .iov_len = sizeof lines - 1};
    struct msghdr message = {.msg_iov = &text,
                             .msg_iovlen = 1,
                             .msg_control = control.bytes,
                             .msg_controllen = sizeof control.bytes};
    struct cmsghdr *sent = CMSG_FIRSTHDR(&message);
    sent->cmsg_level = SOL_SOCKET;
    sent->cmsg_type = SCM_RIGHTS;
    sent->cmsg_len = CMSG_LEN(sizeof fd);
    memcpy(CMSG_DATA(sent), &fd, sizeof fd);
    // The store has room for one socket: the one before, of another address, must go first.
    systemd_notify("FDSTOREREMOVE=1\nFDNAME=" KEPT_NAME);
    if (notify_fd >= 0 && sendmsg(notify_fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT) < 0)
        log_warn("systemd does not keep the socket over a restart", "err=\"%s\"", strerror(errno));
}

int64_t systemd_watchdog_us(void)
{
    return watchdog_us;
}
