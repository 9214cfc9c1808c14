#include "agent/tasks/taskdir.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/os/file.h"
#include "base/os/unix_socket.h"
#include "base/text/json.h"

enum { SOCKET_BACKLOG = 4, AUTHORITY_MAX = 1 << 20 };

static const char socket_name[] = "sock";

bool taskdir_id_valid(const char *id)
{
    static const char allowed[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";
    size_t len = strlen(id);
    return len > 0 && len <= LIMIT_NAME && strspn(id, allowed) == len && strcmp(id, ".") != 0 &&
           strcmp(id, "..") != 0;
}

char *taskdir_work_dir(const char *dir)
{
    const char *end = strrchr(dir, '/');
    char *work = xasprintf("%.*s", (int)(end - dir), dir); // WORK-DIR/tasks
    *strrchr(work, '/') = '\0';
    return work;
}

int taskdir_make(const char *dir, const json_t *spec, struct error *e)
{
    char *path = path_join(dir, TASKDIR_TASK), *text = spec ? json_text(spec) : xstrdup("");
    char *line = xasprintf("%s\n", text);
    int err = dir_make(dir, 0700, e), fd = -1;
    if (err)
        goto out;
    fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd < 0 || file_write_all(fd, line, strlen(line)) != 0)
        err = error_set_errno(e, ERR_IO, errno, "cannot write %s", path);
out:
    if (fd >= 0)
        close(fd);
    free(line);
    free(text);
    free(path);
    return err;
}

int taskdir_copy_authority(const char *dir, const char *ca_file, struct error *e)
{
    char *path = path_join(dir, TASKDIR_AUTHORITY), *text = NULL;
    size_t len = 0;
    int fd = -1, err = dir_make(dir, 0700, e);
    if (!err)
        err = file_read(ca_file, AUTHORITY_MAX, &text, &len, e);
    if (!err) {
        fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
        // The account of the task reads it, whatever the agent's umask.
        if (fd < 0 || fchmod(fd, 0644) != 0 || file_write_all(fd, text, len) != 0)
            err = error_set_errno(e, ERR_IO, errno, "cannot write %s", path);
    }
    if (fd >= 0)
        close(fd);
    free(text);
    free(path);
    return err;
}

// Reads task.json. *status points to the status in *text; NULL: the first line is incomplete.
static int read_task_file(const char *path, char **text, char **status, struct error *e)
{
    size_t len = 0;
    int fd = -1,
        err = file_open_regular(AT_FDCWD, path, path, &fd, e); // safe if the task writes there
    *text = NULL;
    if (!err)
        err = file_read_fd(fd, path, 2 * (size_t)LIMIT_BODY, text, &len, e);
    if (fd >= 0)
        close(fd);
    char *end = err ? NULL : memchr(*text, '\n', len);
    *status = end ? end + 1 : NULL;
    return err;
}

static int parse_part(const char *path, const char *text, size_t len, json_t **out, struct error *e)
{
    return len > 0 ? json_parse(text, len, path, out, e)
                   : error_set(e, ERR_NOT_FOUND, "%s has no such part", path);
}

int taskdir_read_spec(const char *dir, json_t **out, struct error *e)
{
    char *path = path_join(dir, TASKDIR_TASK), *text = NULL, *status = NULL;
    int err = read_task_file(path, &text, &status, e);
    if (!err)
        err = parse_part(path, text, status ? (size_t)(status - text) - 1 : strlen(text), out, e);
    free(text);
    free(path);
    return err;
}

int taskdir_read_status(const char *dir, json_t **out, struct error *e)
{
    char *path = path_join(dir, TASKDIR_TASK), *text = NULL, *status = NULL;
    int err = read_task_file(path, &text, &status, e);
    if (!err)
        err = parse_part(path, status, status ? strlen(status) : 0, out, e);
    free(text);
    free(path);
    return err;
}

// Overwrites the status at offset `at`; blanks replace the rest of a longer one of `old` bytes.
static int overwrite_status(const char *path, int64_t at, size_t old, const char *text, int sync)
{
    char *padded = xasprintf("%-*s", (int)old, text);
    size_t len = strlen(padded);
    int fd = open(path, O_WRONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC), err = 0;
    if (fd < 0 || pwrite(fd, padded, len, (off_t)at) != (ssize_t)len || (sync && fsync(fd) != 0))
        err = ERR_IO;
    if (fd >= 0)
        close(fd);
    free(padded);
    return err;
}

int taskdir_write_status(const char *dir, const json_t *status, bool durable, struct error *e)
{
    char *path = path_join(dir, TASKDIR_TASK), *text = NULL, *old = NULL, *new = json_text(status);
    int err = read_task_file(path, &text, &old, e);
    if (!err && !old)
        err = error_set(e, ERR_CORRUPT, "the first line of %s is incomplete", path);
    if (!err && overwrite_status(path, old - text, strlen(old), new, durable) != 0)
        err = error_set_errno(e, ERR_IO, errno, "cannot write %s", path);
    if (!err && durable)
        err = file_sync_dir(dir, e);
    free(new);
    free(text);
    free(path);
    return err;
}

// Makes a string of the valid start of `text`; a text that was cut may end within a character.
static json_t *valid_utf8_prefix(const char *text)
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
                               ranks ? ranks : json_array(), "reason", valid_utf8_prefix(reason));
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
    int err = 0;
    *fd = open(path, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (*fd < 0) {
        err = error_set_errno(e, ERR_IO, errno, "cannot open %s", path);
    } else if (flock(*fd, LOCK_EX | LOCK_NB) != 0) {
        err = errno == EWOULDBLOCK ? error_set(e, ERR_CONFLICT, "%s is locked", path)
                                   : error_set_errno(e, ERR_IO, errno, "cannot lock %s", path);
        close(*fd);
        *fd = -1;
    }
    free(path);
    return err;
}

bool taskdir_supervised(const char *dir)
{
    int fd = -1;
    int err = taskdir_lock(dir, &fd, NULL);
    if (fd >= 0)
        close(fd);
    return err == ERR_CONFLICT;
}

int taskdir_listen(const char *dir, int *fd, struct error *e)
{
    return unix_socket_listen(dir, socket_name, SOCKET_BACKLOG, fd, e);
}

int taskdir_connect(const char *dir, int *fd, struct error *e)
{
    return unix_socket_connect(dir, socket_name, fd, e);
}

char *taskdir_marker(const char *dir)
{
    return xasprintf("MUSTER_RUN_DIR=%s", dir);
}
