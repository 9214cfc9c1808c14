#include "agent/tasks/taskdir.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/os/file.h"
#include "base/text/json.h"

enum { SOCKET_BACKLOG = 4 };

bool taskdir_id_valid(const char *id)
{
    static const char allowed[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";
    size_t len = strlen(id);
    return len > 0 && len <= LIMIT_NAME && strspn(id, allowed) == len && strcmp(id, ".") != 0 &&
           strcmp(id, "..") != 0;
}

int taskdir_make(const char *dir, const json_t *spec, struct error *e)
{
    char *path = path_join(dir, TASKDIR_TASK), *text = spec ? json_text(spec) : xstrdup("");
    char *line = xasprintf("%s\n", text);
    int rc = dir_make(dir, 0700, e), fd = -1;
    if (rc != 0)
        goto out;
    fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd < 0 || file_write_all(fd, line, strlen(line)) != 0)
        rc = error_set_errno(e, ERR_IO, errno, "cannot write %s", path);
out:
    if (fd >= 0)
        close(fd);
    free(line);
    free(text);
    free(path);
    return rc;
}

// The file, and in it the place of the status; NULL: its first line is not whole.
static int read_task(const char *path, char **text, char **status, struct error *e)
{
    size_t len = 0;
    int fd = -1, rc = file_open_regular(AT_FDCWD, path, path, &fd, e); // the task may write there
    *text = NULL;
    if (rc == 0)
        rc = file_read_fd(fd, path, 2 * (size_t)LIMIT_BODY, text, &len, e);
    if (fd >= 0)
        close(fd);
    char *end = rc == 0 ? memchr(*text, '\n', len) : NULL;
    *status = end ? end + 1 : NULL;
    return rc;
}

static int parse(const char *path, const char *text, size_t len, json_t **out, struct error *e)
{
    return len > 0 ? json_parse(text, len, path, out, e)
                   : error_set(e, ERR_NOT_FOUND, "%s does not say", path);
}

int taskdir_read_spec(const char *dir, json_t **out, struct error *e)
{
    char *path = path_join(dir, TASKDIR_TASK), *text = NULL, *status = NULL;
    int rc = read_task(path, &text, &status, e);
    if (rc == 0)
        rc = parse(path, text, status ? (size_t)(status - text) - 1 : strlen(text), out, e);
    free(text);
    free(path);
    return rc;
}

int taskdir_read_status(const char *dir, json_t **out, struct error *e)
{
    char *path = path_join(dir, TASKDIR_TASK), *text = NULL, *status = NULL;
    int rc = read_task(path, &text, &status, e);
    if (rc == 0)
        rc = parse(path, status, status ? strlen(status) : 0, out, e);
    free(text);
    free(path);
    return rc;
}

// With blanks over what is left of a longer one.
static int put(const char *path, int64_t at, size_t old, const char *text, int sync)
{
    char *padded = xasprintf("%-*s", (int)old, text);
    size_t len = strlen(padded);
    int fd = open(path, O_WRONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC), rc = 0;
    if (fd < 0 || pwrite(fd, padded, len, (off_t)at) != (ssize_t)len || (sync && fsync(fd) != 0))
        rc = ERR_IO;
    if (fd >= 0)
        close(fd);
    free(padded);
    return rc;
}

int taskdir_write_status(const char *dir, const json_t *status, bool durable, struct error *e)
{
    char *path = path_join(dir, TASKDIR_TASK), *text = NULL, *old = NULL, *new = json_text(status);
    int rc = read_task(path, &text, &old, e);
    if (rc == 0 && !old)
        rc = error_set(e, ERR_CORRUPT, "%s is torn", path);
    if (rc == 0 && put(path, old - text, strlen(old), new, durable) != 0)
        rc = error_set_errno(e, ERR_IO, errno, "cannot write %s", path);
    if (rc == 0 && durable)
        rc = file_sync_dir(dir, e);
    free(new);
    free(text);
    free(path);
    return rc;
}

// Up to the first byte that is not UTF-8: a sentence that was cut may end within a character.
static json_t *readable(const char *text)
{
    size_t len = strlen(text);
    json_t *value = NULL;
    while (!(value = json_stringn(text, len)))
        len--;
    return value;
}

json_t *taskdir_status(const char *id, const char *state, json_t *ranks, const char *reason)
{
    json_t *status = json_pack("{s:s, s:s, s:o, s:o}", "allocationId", id, "state", state, "ranks",
                               ranks ? ranks : json_array(), "reason", readable(reason));
    must(status);
    return status;
}

bool taskdir_status_is(const json_t *status, const char *state)
{
    return strcmp(jget_string(status, "state", ""), state) == 0;
}

int taskdir_lock(const char *dir, int *fd, struct error *e)
{
    char *path = path_join(dir, TASKDIR_TASK);
    int rc = 0;
    *fd = open(path, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (*fd < 0) {
        rc = error_set_errno(e, ERR_IO, errno, "cannot open %s", path);
    } else if (flock(*fd, LOCK_EX | LOCK_NB) != 0) {
        rc = errno == EWOULDBLOCK ? error_set(e, ERR_CONFLICT, "%s is held", path)
                                  : error_set_errno(e, ERR_IO, errno, "cannot lock %s", path);
        close(*fd);
        *fd = -1;
    }
    free(path);
    return rc;
}

bool taskdir_supervised(const char *dir)
{
    int fd = -1;
    int rc = taskdir_lock(dir, &fd, NULL);
    if (fd >= 0)
        close(fd);
    return rc == ERR_CONFLICT;
}

typedef int socket_use(int fd, const struct sockaddr *address, socklen_t len);

static int bind_and_listen(int fd, const struct sockaddr *address, socklen_t len)
{
    unlink(((const struct sockaddr_un *)address)->sun_path);
    return bind(fd, address, len) == 0 ? listen(fd, SOCKET_BACKLOG) : -1;
}

// Socket addresses hold 107 bytes, work folders may lie deeper: the address goes by way of an open
// descriptor of the folder.
static int use_socket(const char *dir, socket_use *use, int *fd, struct error *e)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int rc = 0, dir_fd = open(dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
    *fd = dir_fd < 0 ? -1 : socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    snprintf(address.sun_path, sizeof address.sun_path, "/proc/self/fd/%d/sock", dir_fd);
    if (*fd < 0 || use(*fd, (const struct sockaddr *)&address, sizeof address) != 0)
        rc = error_set_errno(e, ERR_UNAVAILABLE, errno, "cannot use the socket in %s", dir);
    if (rc != 0 && *fd >= 0) {
        close(*fd);
        *fd = -1;
    }
    if (dir_fd >= 0)
        close(dir_fd);
    return rc;
}

int taskdir_listen(const char *dir, int *fd, struct error *e)
{
    return use_socket(dir, bind_and_listen, fd, e);
}

int taskdir_connect(const char *dir, int *fd, struct error *e)
{
    return use_socket(dir, connect, fd, e);
}

char *taskdir_marker(const char *dir)
{
    return xasprintf("MUSTER_RUN_DIR=%s", dir);
}
