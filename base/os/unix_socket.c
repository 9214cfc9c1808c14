#include "base/os/unix_socket.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

static int open_socket(const char *dir, const char *name, int *dir_fd, struct sockaddr_un *address,
                       struct error *e)
{
    *address = (struct sockaddr_un){.sun_family = AF_UNIX};
    *dir_fd = open(dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
    int fd = *dir_fd < 0 ? -1 : socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        error_set_errno(e, ERR_UNAVAILABLE, errno, "cannot use the socket in %s", dir);
    snprintf(address->sun_path, sizeof address->sun_path, "/proc/self/fd/%d/%.64s", *dir_fd, name);
    return fd;
}

// Closes the descriptors as the result `ok` of the last call wants it.
static int finish_socket(const char *dir, bool ok, int dir_fd, int fd, int *out, struct error *e)
{
    int err = fd < 0 ? ERR_UNAVAILABLE : 0;
    if (fd >= 0 && !ok)
        err = error_set_errno(e, ERR_UNAVAILABLE, errno, "cannot use the socket in %s", dir);
    if (err && fd >= 0)
        close(fd);
    if (dir_fd >= 0)
        close(dir_fd);
    *out = err ? -1 : fd;
    return err;
}

int unix_socket_listen(const char *dir, const char *name, int backlog, int *fd, struct error *e)
{
    struct sockaddr_un address;
    int dir_fd, new = open_socket(dir, name, &dir_fd, &address, e);
    bool ok = new >= 0;
    if (ok) {
        unlink(address.sun_path);
        ok = bind(new, (const struct sockaddr *)&address, sizeof address) == 0 &&
             listen(new, backlog) == 0;
    }
    return finish_socket(dir, ok, dir_fd, new, fd, e);
}

int unix_socket_connect(const char *dir, const char *name, int *fd, struct error *e)
{
    struct sockaddr_un address;
    int dir_fd, new = open_socket(dir, name, &dir_fd, &address, e);
    bool ok = new >= 0 && connect(new, (const struct sockaddr *)&address, sizeof address) == 0;
    return finish_socket(dir, ok, dir_fd, new, fd, e);
}
