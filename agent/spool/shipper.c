#include "agent/spool/shipper.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/spool/spool.h"
#include "agent/tasks/taskdir.h"
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

struct spool_feed { // the spool of one task
    char *id;
    json_t *spec;
    char *spool_path, *cursor_path;
    int fd; // -1: the spool does not exist yet
    struct spool_cursor cursor;
    int64_t released;   // offset up to which disk space was released
    int64_t backoff_us; // 0: the master accepts the lines
    int64_t retry_at;   // monotonic
    int64_t refused;    // what the master has refused, as `send` counts it
    int64_t failing_since;
    bool finish;
    struct spool_feed *next;
};

enum ship_result {
    SHIPPED_ALL, // nothing was left to ship
    SHIPPED_SOME,
    SHIPPED_NOT, // the master did not accept the lines; try again later
};

struct shipper {
    const struct shipper_kind *kind;
    const struct master_endpoint *master;
    struct inbox *inbox;
    struct mailbox *commands;
    struct client *client;
    struct spool_feed *feeds;
    char *scratch;
    bool warned; // that the master does not accept lines
    atomic_bool stop;
    pthread_t thread;
};

static void feed_free(struct spool_feed *f)
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
    struct spool_feed *f = xcalloc(1, sizeof *f);
    f->fd = -1;
    f->spool_path = path_join(dir, s->kind->spool);
    f->cursor_path = path_join(dir, s->kind->cursor);
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
        for (struct spool_feed *f = s->feeds; f && !command->dir; f = f->next)
            f->finish |= strcmp(f->id, command->id) == 0;
        free(command->dir);
        free(command->id);
        free(command);
        until = 0;
    }
}

static void feed_back_off(struct shipper *s, struct spool_feed *f, const struct error *e)
{
    char quoted[ERROR_TEXT_MAX];
    if (!s->warned && !atomic_load(&s->stop)) {
        char *text =
            xasprintf("the master does not accept %s; they stay in the spool", s->kind->noun);
        log_warn(text, "alloc=%s err=%s", f->id, log_quote(quoted, sizeof quoted, e->text));
        free(text);
    }
    s->warned = true;
    int64_t first = e->code == ERR_BUSY ? BACKOFF_BUSY_US : BACKOFF_FIRST_US;
    f->backoff_us = f->backoff_us == 0 ? first : f->backoff_us * 2;
    if (f->backoff_us > BACKOFF_MAX_US)
        f->backoff_us = BACKOFF_MAX_US;
    f->retry_at = clock_mono_us() + f->backoff_us;
}

static struct shipment feed_shipment(const struct shipper *s, struct spool_feed *f,
                                     const json_t *lines)
{
    return (struct shipment){
        .client = s->client,
        .master = s->master,
        .id = f->id,
        .spec = f->spec,
        .lines = lines,
        .refused = &f->refused,
        .failing_since = &f->failing_since,
    };
}

// `f` is free afterwards.
static void feed_finish(struct shipper *s, struct spool_feed *f)
{
    const struct shipment shipment = feed_shipment(s, f, NULL);
    if (s->kind->finish)
        s->kind->finish(&shipment);
    inbox_send(s->inbox, s->kind->shipped, f->id, NULL);
    feed_free(f);
}

static enum ship_result ship_lines(struct shipper *s, struct spool_feed *f, const json_t *lines)
{
    struct error e = {0};
    const struct shipment shipment = feed_shipment(s, f, lines);
    if (json_array_size(lines) > 0 && s->kind->send(&shipment, &e) != 0) {
        feed_back_off(s, f, &e);
        return SHIPPED_NOT;
    }
    f->backoff_us = f->retry_at = 0;
    return SHIPPED_SOME;
}

static void feed_advance(struct spool_feed *f, const struct spool_cursor *next)
{
    struct error e = {0};
    char quoted[ERROR_TEXT_MAX];
    f->cursor = *next;
    if (spool_cursor_save(f->cursor_path, next, &e) != 0)
        log_debug("cannot write a cursor", "alloc=%s err=%s", f->id,
                  log_quote(quoted, sizeof quoted, e.text));
    else if (next->offset - f->released >= RELEASE_EVERY) {
        spool_release(f->fd, next);
        f->released = next->offset;
    }
}

static enum ship_result ship_batch(struct shipper *s, struct spool_feed *f)
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
    for (struct spool_feed **at = &s->feeds; *at && !atomic_load(&s->stop);) {
        struct spool_feed *f = *at;
        enum ship_result shipped = ship_batch(s, f);
        more |= shipped == SHIPPED_SOME;
        refused |= shipped == SHIPPED_NOT;
        if (shipped == SHIPPED_ALL && f->finish) {
            *at = f->next;
            feed_finish(s, f);
        } else {
            at = &f->next;
        }
    }
    if (s->warned && more && !refused) {
        char *text = xasprintf("the master accepts %s again", s->kind->noun);
        log_info(text, "url=%s", s->master->url);
        free(text);
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

int shipper_start(const struct shipper_kind *kind, const struct master_endpoint *master,
                  struct inbox *inbox, struct shipper **out, struct error *e)
{
    struct shipper *s = xcalloc(1, sizeof *s);
    s->kind = kind;
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
        struct spool_feed *f = s->feeds;
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
