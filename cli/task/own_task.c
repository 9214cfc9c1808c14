#include "cli/task/own_task.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/os/unix_socket.h"
#include "base/text/json_reader.h"

enum {
    PATIENCE_S = 60, // for a machine without room, or a supervisor that does not answer
    PAUSE_US = 100 * 1000,
    ANSWERS_MAX = 64 * 1024,
};

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

// `line` is NUL-terminated and changes.
static int check_answer(char *line, size_t len, struct error *e)
{
    struct json_reader r;
    char *key, *refusal = NULL;
    bool stored = false, again = false;
    jr_init(&r, line, len, "answer", NULL);
    for (jr_enter(&r, '{'); jr_member(&r, &key);) {
        if (strcmp(key, "error") == 0) {
            refusal = jr_string(&r, NULL);
            continue;
        }
        stored |= strcmp(key, "sequence") == 0;
        again |= strcmp(key, "retry") == 0 && jr_peek(&r) == 't';
        jr_skip(&r);
    }
    if (jr_end(&r) != 0 || (!stored && !refusal))
        return error_set(e, ERR_UNAVAILABLE, "the supervisor of this task gave no proper answer");
    return stored ? 0 : error_set(e, again ? ERR_BUSY : ERR_INVALID, "%s", refusal);
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
        char *stop;
        while (count > 0 && !err && in.len > 0 && (stop = memchr(in.data, '\n', in.len))) {
            size_t len = (size_t)(stop - in.data);
            *stop = '\0';
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
