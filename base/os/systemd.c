#include "base/os/systemd.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/log.h"

static int notify_fd = -1;
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

int64_t systemd_watchdog_us(void)
{
    return watchdog_us;
}
