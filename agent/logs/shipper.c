#include "agent/logs/shipper.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/logs/spool.h"
#include "agent/tasks/taskdir.h"
#include "api/wire.h"
#include "base/arena.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/os/file.h"
#include "base/text/json.h"

enum {
    COMMANDS_MAX = 65536,
    POLL_EVERY_US = 200 * 1000,
    BACKOFF_FIRST_US = 200 * 1000,
    BACKOFF_BUSY_US = 1000 * 1000, // after 429: the Retry-After of the master
    BACKOFF_MAX_US = 5000 * 1000,
    RELEASE_EVERY = 16 << 20, // bytes of spool
    POST_TIMEOUT_S = 30,
};

struct shipper_command {
    char *dir; // add this folder; NULL: finish `id`
    char *id;
};

struct log_feed { // one task's log
    char *id;
    json_t *spec;
    char *spool_path, *cursor_path;
    int fd; // -1: the spool does not exist yet
    struct spool_cursor cursor;
    int64_t released;   // offset up to which disk space was released
    int64_t backoff_us; // 0: the master accepts the lines
    int64_t retry_at;   // monotonic
    bool finish;
    struct log_feed *next;
};

enum ship_result {
    SHIPPED_ALL, // nothing was left to ship
    SHIPPED_SOME,
    SHIPPED_NOT, // the master did not accept the lines; try again later
};

struct shipper {
    const struct master_endpoint *master;
    struct inbox *inbox;
    struct mailbox *commands;
    struct client *client;
    struct log_feed *feeds;
    char *scratch;
    bool warned; // that the master does not accept lines
    atomic_bool stop;
    pthread_t thread;
};

static void feed_free(struct log_feed *f)
{
    if (f->fd >= 0)
        close(f->fd);
    json_decref(f->spec);
    free(f->spool_path);
    free(f->cursor_path);
    free(f->id);
    free(f);
}

static void feed_add(struct shipper *s, const char *dir)
{
    struct log_feed *f = xcalloc(1, sizeof *f);
    f->fd = -1;
    f->spool_path = path_join(dir, TASKDIR_SPOOL);
    f->cursor_path = path_join(dir, TASKDIR_CURSOR);
    spool_cursor_load(f->cursor_path, &f->cursor);
    if (taskdir_read_spec(dir, &f->spec, NULL) != 0)
        f->spec = json_object();
    f->id = xstrdup(strrchr(dir, '/') + 1);
    f->next = s->feeds;
    s->feeds = f;
}

static void handle_commands(struct shipper *s, int64_t until)
{
    void *message = NULL;
    while (mailbox_receive(s->commands, &message, 1, until) == 1) {
        struct shipper_command *command = message;
        if (command->dir)
            feed_add(s, command->dir);
        for (struct log_feed *f = s->feeds; f && !command->dir; f = f->next)
            f->finish |= strcmp(f->id, command->id) == 0;
        free(command->dir);
        free(command->id);
        free(command);
        until = 0;
    }
}

static json_t *request_line(const json_t *line)
{
    const char *rank_id = jget(line, "rank") ? "rankId" : NULL;
    json_t *out = json_pack("{s:O, s:s, s:O, s:O, s:O, s:O}", "timestamp", jget(line, "timestamp"),
                            "level", wire_name(WIRE_LOG_LEVEL, jget_string(line, "level", "INFO")),
                            "stdtype", jget(line, "stdtype"), "source", jget(line, "source"), "log",
                            jget(line, "log"), "sequence", jget(line, "sequence"));
    if (out && rank_id)
        json_object_set(out, rank_id, jget(line, "rank"));
    return out;
}

// Sends the fields that all lines share once.
static int post_lines(struct shipper *s, const struct log_feed *f, const json_t *lines,
                      struct error *e)
{
    json_t *logs = json_array();
    size_t i;
    json_t *line;
    json_array_foreach(lines, i, line)
    {
        json_t *one = request_line(line); // NULL: a damaged line
        if (one)
            json_array_append_new(logs, one);
    }
    json_t *body =
        json_pack("{s:s, s:s, s:s, s:s, s:o}", "taskId", jget_string(f->spec, "taskId", ""),
                  "allocationId", f->id, "agentId", jget_string(f->spec, "agentId", ""),
                  "containerId", jget_string(f->spec, "containerId", f->id), "logs", logs);
    int err = client_call(s->client, "POST", "/api/v1/task/logs", body, NULL, e);
    json_decref(body);
    return err;
}

static bool is_permanent(int code)
{
    return code == ERR_INVALID || code == ERR_NOT_FOUND || code == ERR_CONFLICT ||
           code == ERR_TOO_LARGE;
}

static void feed_back_off(struct shipper *s, struct log_feed *f, const struct error *e)
{
    char quoted[ERROR_TEXT_MAX];
    if (!s->warned && !atomic_load(&s->stop))
        log_warn("the master does not accept log lines; they stay in the spool", "alloc=%s err=%s",
                 f->id, log_quote(quoted, sizeof quoted, e->text));
    s->warned = true;
    int64_t first = e->code == ERR_BUSY ? BACKOFF_BUSY_US : BACKOFF_FIRST_US;
    f->backoff_us = f->backoff_us == 0 ? first : f->backoff_us * 2;
    if (f->backoff_us > BACKOFF_MAX_US)
        f->backoff_us = BACKOFF_MAX_US;
    f->retry_at = clock_mono_us() + f->backoff_us;
}

static enum ship_result ship_lines(struct shipper *s, struct log_feed *f, const json_t *lines)
{
    struct error e = {0};
    char quoted[ERROR_TEXT_MAX];
    int err = json_array_size(lines) > 0 ? post_lines(s, f, lines, &e) : 0;
    if (is_permanent(err)) {
        log_warn("the master refuses log lines; skipping them", "alloc=%s lines=%zu err=%s", f->id,
                 json_array_size(lines), log_quote(quoted, sizeof quoted, e.text));
    } else if (err) {
        feed_back_off(s, f, &e);
        return SHIPPED_NOT;
    }
    f->backoff_us = f->retry_at = 0;
    return SHIPPED_SOME;
}

static void feed_advance(struct log_feed *f, const struct spool_cursor *next)
{
    struct error e = {0};
    char quoted[ERROR_TEXT_MAX];
    f->cursor = *next;
    if (spool_cursor_save(f->cursor_path, next, &e) != 0)
        log_debug("cannot write a log cursor", "alloc=%s err=%s", f->id,
                  log_quote(quoted, sizeof quoted, e.text));
    else if (next->offset - f->released >= RELEASE_EVERY) {
        spool_release(f->fd, next);
        f->released = next->offset;
    }
}

static enum ship_result ship_batch(struct shipper *s, struct log_feed *f)
{
    json_t *lines = NULL;
    struct spool_cursor next;
    enum ship_result shipped = SHIPPED_ALL;
    if (clock_mono_us() < f->retry_at)
        return SHIPPED_NOT;
    if (f->fd < 0)
        f->fd = open(f->spool_path, O_RDWR | O_NOFOLLOW | O_CLOEXEC);
    if (f->fd >= 0 && spool_read(f->fd, &f->cursor, s->scratch, &lines, &next, NULL) == 0 &&
        next.offset > f->cursor.offset)
        shipped = ship_lines(s, f, lines);
    if (shipped == SHIPPED_SOME)
        feed_advance(f, &next);
    json_decref(lines);
    return shipped;
}

// Ships a batch of each feed, so that a task with much output does not delay the others. True:
// there may be more.
static bool ship_round(struct shipper *s)
{
    bool more = false, refused = false;
    for (struct log_feed **at = &s->feeds; *at && !atomic_load(&s->stop);) {
        struct log_feed *f = *at;
        enum ship_result shipped = ship_batch(s, f);
        more |= shipped == SHIPPED_SOME;
        refused |= shipped == SHIPPED_NOT;
        if (shipped == SHIPPED_ALL && f->finish) {
            *at = f->next;
            inbox_send(s->inbox, INBOX_SHIPPED, f->id, NULL);
            feed_free(f);
        } else {
            at = &f->next;
        }
    }
    if (s->warned && more && !refused) {
        log_info("the master accepts log lines again", "url=%s", s->master->url);
        s->warned = false;
    }
    return more;
}

static void *shipper_thread(void *arg)
{
    struct shipper *s = arg;
    bool more = false;
    while (!atomic_load(&s->stop)) {
        handle_commands(s, more ? 0 : s->feeds ? clock_mono_us() + POLL_EVERY_US : INT64_MAX);
        more = ship_round(s);
    }
    return NULL;
}

int shipper_start(const struct master_endpoint *master, struct inbox *inbox, struct shipper **out,
                  struct error *e)
{
    struct shipper *s = xcalloc(1, sizeof *s);
    s->master = master;
    s->inbox = inbox;
    s->commands = mailbox_new(COMMANDS_MAX);
    s->scratch = xcalloc(SPOOL_BYTES_PER_BATCH, 1);
    int err = master_client_open(master, POST_TIMEOUT_S, &s->stop, &s->client, e);
    int code = err ? 0 : pthread_create(&s->thread, NULL, shipper_thread, s);
    if (code)
        err = error_set_errno(e, ERR_INTERNAL, code, "cannot start a thread");
    if (!err) {
        *out = s;
        return 0;
    }
    client_close(s->client);
    mailbox_free(s->commands);
    free(s->scratch);
    free(s);
    return err;
}

void shipper_stop(struct shipper *s)
{
    if (!s)
        return;
    atomic_store(&s->stop, true);
    mailbox_close(s->commands);
    pthread_join(s->thread, NULL);
    handle_commands(s, 0);
    while (s->feeds) {
        struct log_feed *f = s->feeds;
        s->feeds = f->next;
        feed_free(f);
    }
    mailbox_free(s->commands);
    client_close(s->client);
    free(s->scratch);
    free(s);
}

static void send_command(struct shipper *s, const char *dir, const char *id)
{
    struct shipper_command *command = xcalloc(1, sizeof *command);
    command->dir = xstrdup(dir);
    command->id = xstrdup(id);
    must(mailbox_send(s->commands, command) == 0); // no machine has so many tasks
}

void shipper_add(struct shipper *s, const char *dir)
{
    send_command(s, dir, NULL);
}

void shipper_finish(struct shipper *s, const char *id)
{
    send_command(s, NULL, id);
}
