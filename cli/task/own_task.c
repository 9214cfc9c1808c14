#include "cli/task/own_task.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "api/checkpoint/checkpoint.h"
#include "base/clock.h"
#include "base/os/file.h"
#include "base/os/unix_socket.h"
#include "base/text/json.h"

enum {
    PATIENCE_S = 60, // for a machine without room, or a supervisor that does not answer
    PAUSE_US = 100 * 1000,
    ANSWERS_MAX = 64 * 1024,
};

static const char SHARED_FS[] = "/determined_shared_fs";
static const char LATEST[] = "checkpoint.latest"; // in the folder of the task

int own_task_variable(const char *name, const char **value, struct error *e)
{
    *value = getenv(name);
    if (*value && **value)
        return 0;
    return error_set(e, ERR_STATE,
                     "%s is not set: this command works in the program of a trial, which a cluster "
                     "runs (muster experiment create)",
                     name);
}

// --- storage -------------------------------------------------------------------------------------

// Storage of type shared_fs lies elsewhere for the task than for the machine.
static const char *path_in_task(struct cli *c, const json_t *storage, const char *root)
{
    const char *host = jget_string(storage, "host_path", "");
    size_t len = strlen(host);
    while (len > 0 && host[len - 1] == '/')
        len--;
    bool shared = strcmp(jget_string(storage, "type", ""), "shared_fs") == 0 &&
                  path_exists(SHARED_FS) && strncmp(root, host, len) == 0;
    return shared ? arena_printf(&c->arena, "%s%s", SHARED_FS, root + len)
                  : arena_strdup(&c->arena, root);
}

int own_task_storage(struct cli *c, const char **folder, struct error *e)
{
    const char *text;
    json_t *config = NULL;
    char *root = NULL;
    int err = own_task_variable("DET_EXPERIMENT_CONFIG", &text, e);
    err = err ? err : json_parse(text, strlen(text), "DET_EXPERIMENT_CONFIG", &config, e);
    const json_t *storage = jget(config, "checkpoint_storage");
    if (!err && checkpoint_root(storage, &root, e) != 0)
        err = error_prefix(e, "checkpoint_storage");
    if (!err)
        *folder = path_in_task(c, storage, root);
    free(root);
    json_decref(config);
    return err;
}

// --- the newest checkpoint -----------------------------------------------------------------------

static char *latest_file(void)
{
    const char *dir = getenv("MUSTER_RUN_DIR");
    return dir ? path_join(dir, LATEST) : NULL;
}

const char *own_task_latest(struct cli *c)
{
    char *path = latest_file(), *text = NULL, uuid[UUID_TEXT];
    size_t len = 0;
    const char *found = NULL;
    if (path && file_read(path, UUID_TEXT, &text, &len, NULL) == 0 &&
        checkpoint_uuid(text, uuid, NULL) == 0)
        found = arena_strdup(&c->arena, uuid);
    free(text);
    free(path);
    return found ? found : getenv("DET_LATEST_CHECKPOINT");
}

int own_task_set_latest(struct cli *c, const char *uuid, struct error *e)
{
    char *path = latest_file();
    (void)c;
    int err = path ? file_write_durable(path, uuid, strlen(uuid), 0600, e) : 0;
    free(path);
    return err;
}

// --- reports -------------------------------------------------------------------------------------

static int connect_supervisor(int *fd, struct error *e)
{
    const char *dir;
    const struct timeval patience = {.tv_sec = PATIENCE_S};
    int err = own_task_variable("MUSTER_RUN_DIR", &dir, e);
    err = err ? err : unix_socket_connect(dir, "report.sock", fd, e);
    if (err)
        return err == ERR_UNAVAILABLE
                   ? error_prefix(e, "the supervisor of this task does not take reports")
                   : err;
    fcntl(*fd, F_SETFL, 0); // blocking
    setsockopt(*fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    setsockopt(*fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
    return 0;
}

static int send_all(int fd, const struct buf *lines, struct error *e)
{
    for (size_t sent = 0; sent < lines->len;) {
        ssize_t n = send(fd, lines->data + sent, lines->len - sent, MSG_NOSIGNAL);
        if (n < 0 && errno != EINTR)
            return error_set_errno(e, ERR_IO, errno, "cannot send a report to the supervisor");
        sent += n > 0 ? (size_t)n : 0;
    }
    return 0;
}

static int check_answer(const char *line, size_t len, struct error *e)
{
    json_t *answer = json_loadb(line, len, 0, NULL);
    int err = 0;
    if (!jget(answer, "sequence") && !jget(answer, "error"))
        err = error_set(e, ERR_UNAVAILABLE, "the supervisor of this task gave no proper answer");
    else if (!jget(answer, "sequence"))
        err = error_set(e, jget_bool(answer, "retry", false) ? ERR_BUSY : ERR_INVALID, "%s",
                        jget_string(answer, "error", ""));
    json_decref(answer);
    return err;
}

// Reads an answer to each line; the first error counts.
static int read_answers(int fd, size_t count, struct error *e)
{
    struct buf in;
    int err = 0;
    buf_init(&in, ANSWERS_MAX);
    while (count > 0 && !err) {
        char chunk[4096];
        ssize_t n = recv(fd, chunk, sizeof chunk, 0);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0 || buf_append(&in, chunk, (size_t)n) != 0) {
            err = error_set(e, ERR_UNAVAILABLE, "the supervisor of this task gave no answer");
            break;
        }
        const char *stop;
        while (count > 0 && !err && in.len > 0 && (stop = memchr(in.data, '\n', in.len))) {
            size_t len = (size_t)(stop - in.data);
            err = check_answer(in.data, len, e);
            buf_drop_front(&in, len + 1);
            count--;
        }
    }
    buf_free(&in);
    return err;
}

static int try_report(const struct buf *lines, size_t count, struct error *e)
{
    int fd = -1;
    int err = connect_supervisor(&fd, e);
    err = err ? err : send_all(fd, lines, e);
    err = err ? err : read_answers(fd, count, e);
    if (fd >= 0)
        close(fd);
    return err;
}

int own_task_report(const struct buf *lines, size_t count, struct error *e)
{
    int64_t until = clock_mono_us() + PATIENCE_S * INT64_C(1000000);
    int err = try_report(lines, count, e);
    while (err == ERR_BUSY && clock_mono_us() < until) {
        clock_sleep_us(PAUSE_US);
        err = try_report(lines, count, e);
    }
    return err;
}
