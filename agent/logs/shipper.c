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
    ORDERS_MAX = 65536,
    LOOK_EVERY_US = 200 * 1000,
    BACKOFF_FIRST_US = 200 * 1000,
    BACKOFF_BUSY_US = 1000 * 1000, // 429: what the master asks for (Retry-After)
    BACKOFF_MOST_US = 5000 * 1000,
    RELEASE_EVERY = 16 << 20, // bytes of spool
    POST_TIMEOUT_S = 30,
};

struct order {
    char *dir; // add; NULL: finish
    char *id;
};

struct feed { // one task's log
    char *id;
    json_t *spec;
    char *spool_path, *cursor_path;
    int fd; // -1: the spool is not there yet
    struct spool_cursor cursor;
    int64_t released;   // offset up to which the spool's room was given back
    int64_t backoff_us; // 0: the master takes what it is sent
    int64_t retry_at;   // monotonic
    bool finish;
    struct feed *next;
};

enum shipped {
    SHIPPED_ALL, // nothing was left to ship
    SHIPPED_SOME,
    SHIPPED_NOT, // the master did not take it; again later
};

struct shipper {
    const struct master_link *master;
    struct notes *notes;
    struct mailbox *orders;
    struct client *client;
    struct feed *feeds;
    char *scratch;
    bool told; // that the master takes no lines
    atomic_bool stop;
    pthread_t thread;
};

static void free_feed(struct feed *f)
{
    if (f->fd >= 0)
        close(f->fd);
    json_decref(f->spec);
    free(f->spool_path);
    free(f->cursor_path);
    free(f->id);
    free(f);
}

static void add_feed(struct shipper *s, const char *dir)
{
    struct feed *f = xcalloc(1, sizeof *f);
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

static void take_orders(struct shipper *s, int64_t until)
{
    void *message = NULL;
    while (mailbox_receive(s->orders, &message, 1, until) == 1) {
        struct order *order = message;
        if (order->dir)
            add_feed(s, order->dir);
        for (struct feed *f = s->feeds; f && !order->dir; f = f->next)
            f->finish |= strcmp(f->id, order->id) == 0;
        free(order->dir);
        free(order->id);
        free(order);
        until = 0;
    }
}

static json_t *wire_line(const json_t *line)
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

// What all lines share is said once, before them.
static int post(struct shipper *s, const struct feed *f, const json_t *lines, struct error *e)
{
    json_t *logs = json_array();
    size_t i;
    json_t *line;
    json_array_foreach(lines, i, line)
    {
        json_t *one = wire_line(line); // NULL: a damaged line without one of the fields
        if (one)
            json_array_append_new(logs, one);
    }
    json_t *body =
        json_pack("{s:s, s:s, s:s, s:s, s:o}", "taskId", jget_string(f->spec, "taskId", ""),
                  "allocationId", f->id, "agentId", jget_string(f->spec, "agentId", ""),
                  "containerId", jget_string(f->spec, "containerId", f->id), "logs", logs);
    int rc = client_call(s->client, "POST", "/api/v1/task/logs", body, NULL, e);
    json_decref(body);
    return rc;
}

static bool is_for_good(int code)
{
    return code == ERR_INVALID || code == ERR_NOT_FOUND || code == ERR_CONFLICT ||
           code == ERR_TOO_LARGE;
}

static void wait_before_next_try(struct shipper *s, struct feed *f, const struct error *e)
{
    char quoted[ERROR_TEXT_MAX];
    if (!s->told && !atomic_load(&s->stop))
        log_warn("the master does not take log lines; they wait", "alloc=%s err=%s", f->id,
                 log_quote(quoted, sizeof quoted, e->text));
    s->told = true;
    int64_t first = e->code == ERR_BUSY ? BACKOFF_BUSY_US : BACKOFF_FIRST_US;
    f->backoff_us = f->backoff_us == 0 ? first : f->backoff_us * 2;
    if (f->backoff_us > BACKOFF_MOST_US)
        f->backoff_us = BACKOFF_MOST_US;
    f->retry_at = clock_mono_us() + f->backoff_us;
}

static enum shipped deliver(struct shipper *s, struct feed *f, const json_t *lines)
{
    struct error e = {0};
    char quoted[ERROR_TEXT_MAX];
    int rc = json_array_size(lines) > 0 ? post(s, f, lines, &e) : 0;
    if (is_for_good(rc)) {
        log_warn("the master refuses log lines; they are left out", "alloc=%s lines=%zu err=%s",
                 f->id, json_array_size(lines), log_quote(quoted, sizeof quoted, e.text));
    } else if (rc != 0) {
        wait_before_next_try(s, f, &e);
        return SHIPPED_NOT;
    }
    f->backoff_us = f->retry_at = 0;
    return SHIPPED_SOME;
}

static void advance(struct feed *f, const struct spool_cursor *next)
{
    struct error e = {0};
    char quoted[ERROR_TEXT_MAX];
    f->cursor = *next;
    if (spool_cursor_save(f->cursor_path, next, &e) != 0)
        log_debug("a log cursor could not be written", "alloc=%s err=%s", f->id,
                  log_quote(quoted, sizeof quoted, e.text));
    else if (next->offset - f->released >= RELEASE_EVERY) {
        spool_release(f->fd, next);
        f->released = next->offset;
    }
}

static enum shipped ship_batch(struct shipper *s, struct feed *f)
{
    json_t *lines = NULL;
    struct spool_cursor next;
    enum shipped shipped = SHIPPED_ALL;
    if (clock_mono_us() < f->retry_at)
        return SHIPPED_NOT;
    if (f->fd < 0)
        f->fd = open(f->spool_path, O_RDWR | O_NOFOLLOW | O_CLOEXEC);
    if (f->fd >= 0 && spool_read(f->fd, &f->cursor, s->scratch, &lines, &next, NULL) == 0 &&
        next.offset > f->cursor.offset)
        shipped = deliver(s, f, lines);
    if (shipped == SHIPPED_SOME)
        advance(f, &next);
    json_decref(lines);
    return shipped;
}

// Ships a batch of each feed in turn, so that a loud task does not silence the others. true: there
// may be more.
static bool ship_round(struct shipper *s)
{
    bool more = false, refused = false;
    for (struct feed **at = &s->feeds; *at && !atomic_load(&s->stop);) {
        struct feed *f = *at;
        enum shipped shipped = ship_batch(s, f);
        more |= shipped == SHIPPED_SOME;
        refused |= shipped == SHIPPED_NOT;
        if (shipped == SHIPPED_ALL && f->finish) {
            *at = f->next;
            notes_send(s->notes, NOTE_SHIPPED, f->id, NULL);
            free_feed(f);
        } else {
            at = &f->next;
        }
    }
    if (s->told && more && !refused) {
        log_info("the master takes log lines again", "url=%s", s->master->url);
        s->told = false;
    }
    return more;
}

static void *ship(void *arg)
{
    struct shipper *s = arg;
    bool more = false;
    while (!atomic_load(&s->stop)) {
        take_orders(s, more ? 0 : s->feeds ? clock_mono_us() + LOOK_EVERY_US : INT64_MAX);
        more = ship_round(s);
    }
    return NULL;
}

int shipper_start(const struct master_link *master, struct notes *notes, struct shipper **out,
                  struct error *e)
{
    struct shipper *s = xcalloc(1, sizeof *s);
    s->master = master;
    s->notes = notes;
    s->orders = mailbox_new(ORDERS_MAX);
    s->scratch = xcalloc(SPOOL_BYTES_PER_BATCH, 1);
    int rc = link_open(master, POST_TIMEOUT_S, &s->stop, &s->client, e);
    int err = rc == 0 ? pthread_create(&s->thread, NULL, ship, s) : 0;
    if (err)
        rc = error_set_errno(e, ERR_INTERNAL, err, "cannot start a thread");
    if (rc == 0) {
        *out = s;
        return 0;
    }
    client_close(s->client);
    mailbox_free(s->orders);
    free(s->scratch);
    free(s);
    return rc;
}

void shipper_stop(struct shipper *s)
{
    if (!s)
        return;
    atomic_store(&s->stop, true);
    mailbox_close(s->orders);
    pthread_join(s->thread, NULL);
    take_orders(s, 0);
    while (s->feeds) {
        struct feed *f = s->feeds;
        s->feeds = f->next;
        free_feed(f);
    }
    mailbox_free(s->orders);
    client_close(s->client);
    free(s->scratch);
    free(s);
}

static void send_order(struct shipper *s, const char *dir, const char *id)
{
    struct order *order = xcalloc(1, sizeof *order);
    order->dir = xstrdup(dir);
    order->id = xstrdup(id);
    must(mailbox_send(s->orders, order) == 0); // a machine has not that many tasks
}

void shipper_add(struct shipper *s, const char *dir)
{
    send_order(s, dir, NULL);
}

void shipper_finish(struct shipper *s, const char *id)
{
    send_order(s, NULL, id);
}
