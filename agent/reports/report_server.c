#include "agent/reports/report_server.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "agent/reports/report_check.h"
#include "agent/spool/spool.h"
#include "agent/tasks/taskdir.h"
#include "base/arena.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/hash.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/os/file.h"
#include "base/os/unix_socket.h"
#include "base/text/json.h"

enum {
    CHUNK = 64 * 1024,           // bytes of one read
    READS_PER_TURN = 16,         // of one connection, so that the others and the log have a turn
    ANSWERS_WAITING = 64 * 1024, // bytes; a client that does not read its answers is not read
    EVENTS_PER_TURN = 64,
    BACKLOG = 4096,
    ENVELOPE = 128,                       // bytes of a record around the line
    ANSWER_MAX = 6 * ERROR_TEXT_MAX + 64, // bytes; JSON escapes a byte with up to six
};

struct report_client {
    int fd;
    struct buf in, out;
    bool skipping;     // a line that is too long, up to its end
    bool waits;        // with whole lines, for the client to read its answers
    bool blocked;      // by answers that it does not read
    bool deaf;         // it has closed its end; its lines still count
    bool owes;         // a line that is to be sent again; no later report comes before it
    uint64_t owed;     // hash64() of this line
    int64_t active_us; // monotonic time of the last bytes from it or to it
    struct report_client *next, **at;
};

struct report_server {
    struct report_server_options o;
    int epoll_fd, listen_fd;
    struct report_client *clients;
    size_t count;
    bool paused; // no further connection is accepted
    struct spool spool;
    bool spool_open;
    struct buf record;
};

// --- answers -------------------------------------------------------------------------------------

static void watch(struct report_server *s, int operation, int fd, unsigned events, void *what)
{
    struct epoll_event event = {.events = events, .data.ptr = what};
    if (epoll_ctl(s->epoll_fd, operation, fd, &event) != 0)
        log_warn("cannot watch a connection", "err=\"%s\"", strerrordesc_np(errno));
}

static void answer_line(struct report_server *s, struct report_client *c, int err,
                        const struct error *e)
{
    struct json_writer w;
    jw_init(&w, &c->out);
    jw_object(&w);
    if (!err) {
        jw_kv_int(&w, "sequence", s->spool.sequence);
    } else {
        jw_kv_string(&w, "error", e->text);
        if (err == ERR_BUSY || err == ERR_FULL || err == ERR_IO)
            jw_kv_bool(&w, "retry", true);
    }
    jw_object_end(&w);
    buf_puts(&c->out, "\n");
}

// A long line does not leave its memory behind.
static void drop_front(struct buf *b, size_t bytes)
{
    buf_drop_front(b, bytes);
    if (b->len == 0 && b->cap > CHUNK)
        buf_free(b);
}

static void send_answers(struct report_server *s, struct report_client *c)
{
    size_t sent = 0;
    while (sent < c->out.len && !c->deaf) {
        ssize_t n = send(c->fd, c->out.data + sent, c->out.len - sent, MSG_NOSIGNAL);
        if (n < 0 && errno == EAGAIN)
            break;
        c->deaf = n < 0 && errno != EINTR;
        sent += n > 0 ? (size_t)n : 0;
    }
    c->active_us = sent > 0 ? clock_mono_us() : c->active_us;
    drop_front(&c->out, c->deaf ? c->out.len : sent);
    bool blocked = c->out.len > 0 || c->waits;
    if (blocked != c->blocked)
        watch(s, EPOLL_CTL_MOD, c->fd, blocked ? EPOLLIN | EPOLLOUT : EPOLLIN, c);
    c->blocked = blocked;
    if (c->out.len > ANSWERS_WAITING)
        watch(s, EPOLL_CTL_MOD, c->fd, EPOLLOUT, c);
}

// --- lines ---------------------------------------------------------------------------------------

static int open_spool(struct report_server *s, struct error *e)
{
    if (s->spool_open)
        return 0;
    char *path = path_join(s->o.dir, TASKDIR_REPORT_SPOOL);
    int err = spool_open(&s->spool, path, 0, s->o.disk_max, e);
    s->spool_open = !err;
    free(path);
    return err;
}

// The line is stored as the program wrote it.
static int store_line(struct report_server *s, const char *line, size_t len, struct error *e)
{
    int err = open_spool(s, e);
    if (err)
        return err;
    buf_reset(&s->record);
    buf_printf(&s->record, "{\"sequence\":%" PRId64 ",\"report\":", s->spool.sequence + 1);
    buf_append(&s->record, line, len);
    must(buf_puts(&s->record, "}\n") == 0);
    err = spool_write(&s->spool, s->record.data, s->record.len, e);
    return err ? error_prefix(e, "the report cannot be stored on this machine; try again later")
               : 0;
}

// A program may have sent more lines before it reads that one is to be sent again. They may not
// overtake it, though there may be room by now.
static int store_in_order(struct report_server *s, struct report_client *c, const char *line,
                          size_t len, struct error *e)
{
    if (c->owes && hash64(line, len) != c->owed)
        return error_set(e, ERR_BUSY,
                         "send the line again that was answered with retry, and then this one");
    int err = store_line(s, line, len, e);
    c->owes = err != 0;
    c->owed = err ? hash64(line, len) : 0;
    return err;
}

static int take_line(struct report_server *s, struct report_client *c, const char *line, size_t len,
                     struct error *e)
{
    enum report_kind kind;
    json_t *report = NULL;
    int err = json_parse(line, len, "report", &report, e);
    if (!err)
        err = report_check(report, &kind, e);
    if (!err && kind == REPORT_FAILURE) {
        if (s->o.on_failure)
            s->o.on_failure(s->o.ctx, report);
    } else if (!err && s->o.refusal) {
        err = error_set(e, ERR_INVALID, "%s", s->o.refusal);
    } else if (!err) {
        err = store_in_order(s, c, line, len, e);
    }
    json_decref(report);
    return err;
}

static void handle_line(struct report_server *s, struct report_client *c, const char *line,
                        size_t len)
{
    struct error e = {0};
    int err = len > LIMIT_REPORT_LINE || c->skipping
                  ? error_set(&e, ERR_TOO_LARGE,
                              "the line is longer than %d bytes; divide it into several",
                              LIMIT_REPORT_LINE)
                  : take_line(s, c, line, len, &e);
    c->skipping = false;
    answer_line(s, c, err, &e);
}

static bool has_room(struct report_server *s, struct report_client *c)
{
    if (c->out.len > ANSWERS_WAITING)
        send_answers(s, c);
    return c->out.len <= ANSWERS_WAITING;
}

// Lines wait while the client does not read its answers.
static void handle_lines(struct report_server *s, struct report_client *c)
{
    size_t used = 0;
    const char *stop;
    while (!(c->waits = !has_room(s, c)) && used < c->in.len &&
           (stop = memchr(c->in.data + used, '\n', c->in.len - used))) {
        handle_line(s, c, c->in.data + used, (size_t)(stop - c->in.data) - used);
        used = (size_t)(stop - c->in.data) + 1;
    }
    drop_front(&c->in, used);
    if (!c->waits && c->in.len > LIMIT_REPORT_LINE) {
        c->skipping = true;
        buf_free(&c->in);
    }
}

// --- connections ---------------------------------------------------------------------------------

static void close_client(struct report_server *s, struct report_client *c)
{
    *c->at = c->next;
    if (c->next)
        c->next->at = c->at;
    close(c->fd);
    buf_free(&c->in);
    buf_free(&c->out);
    free(c);
    if (s->count-- == LIMIT_REPORT_CLIENTS && s->listen_fd >= 0) {
        s->paused = false;
        watch(s, EPOLL_CTL_MOD, s->listen_fd, EPOLLIN, NULL);
    }
}

// Returns 1: there may be more; 0: not now; -1: the connection has ended.
static int read_client(struct report_server *s, struct report_client *c)
{
    char chunk[CHUNK];
    handle_lines(s, c); // those that wait
    send_answers(s, c);
    if (c->waits)
        return 0;
    ssize_t n = recv(c->fd, chunk, sizeof chunk, 0);
    if (n < 0)
        return errno == EINTR ? 1 : errno == EAGAIN ? 0 : -1;
    c->active_us = clock_mono_us();
    if (n > 0)
        must(buf_append(&c->in, chunk, (size_t)n) == 0);
    else if (c->in.len > 0 || c->skipping)
        must(buf_puts(&c->in, "\n") == 0); // the last line may lack its end
    handle_lines(s, c);
    send_answers(s, c);
    return n > 0 ? 1 : -1;
}

static void handle_client(struct report_server *s, struct report_client *c)
{
    int more = 1;
    for (int i = 0; i < READS_PER_TURN && more > 0; i++)
        more = read_client(s, c);
    if (more < 0)
        close_client(s, c);
}

// Reads what is there and closes the connection. After the shutdown the client can send no more, so
// each of its lines is answered, or the client knows that it was not sent; and a client that writes
// for ever does not keep this busy.
static void finish_client(struct report_server *s, struct report_client *c)
{
    shutdown(c->fd, SHUT_RD);
    while (read_client(s, c) > 0)
        ;
    close_client(s, c);
}

static bool accept_client(struct report_server *s)
{
    int fd = accept4(s->listen_fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd < 0)
        return false;
    struct report_client *c = xcalloc(1, sizeof *c);
    c->fd = fd;
    c->active_us = clock_mono_us();
    c->next = s->clients;
    c->at = &s->clients;
    if (c->next)
        c->next->at = &c->next;
    s->clients = c;
    s->count++;
    buf_init(&c->in, LIMIT_REPORT_LINE + CHUNK + 1);
    buf_init(&c->out, ANSWERS_WAITING + ANSWER_MAX);
    watch(s, EPOLL_CTL_ADD, fd, EPOLLIN, c);
    return true;
}

// --- limits of all connections -------------------------------------------------------------------

static size_t memory_of(const struct report_client *c)
{
    return sizeof *c + c->in.cap + c->out.cap;
}

// Half lines and answers that are not read hold memory. If all connections together hold too much,
// the one that is idle for longest is closed, of those that hold more than their share: at least
// one does. Its line may be sent again on a new connection.
static bool give_up_client(struct report_server *s)
{
    size_t held = 0;
    struct report_client *idle = NULL;
    for (struct report_client *c = s->clients; c; c = c->next) {
        bool large = memory_of(c) > LIMIT_REPORT_MEMORY / LIMIT_REPORT_CLIENTS;
        held += memory_of(c);
        if (large && (!idle || c->active_us < idle->active_us))
            idle = c;
    }
    if (held <= LIMIT_REPORT_MEMORY)
        return false;
    struct error e = {0};
    int err = error_set(&e, ERR_BUSY,
                        "the connections of this task hold more than %d MiB of lines without an "
                        "end; this one is closed, connect and send the line again",
                        LIMIT_REPORT_MEMORY >> 20);
    if (has_room(s, idle))
        answer_line(s, idle, err, &e);
    send_answers(s, idle);
    close_client(s, idle);
    return true;
}

static bool has_waiting(const struct report_server *s)
{
    struct pollfd waiting = {.fd = s->listen_fd, .events = POLLIN};
    return poll(&waiting, 1, 0) > 0;
}

// The longest idle connection loses its place, unless it was used a moment ago.
static bool free_place(struct report_server *s)
{
    struct report_client *idle = s->clients;
    for (struct report_client *c = idle->next; c; c = c->next)
        if (c->active_us < idle->active_us)
            idle = c;
    if (clock_mono_us() - idle->active_us < s->o.idle_us)
        return false;
    finish_client(s, idle);
    return true;
}

static void accept_clients(struct report_server *s)
{
    bool room = true;
    while (room && has_waiting(s)) {
        room = s->count < LIMIT_REPORT_CLIENTS || free_place(s);
        if (room && !accept_client(s))
            return;
    }
    if (!room && !s->paused) {
        s->paused = true;
        watch(s, EPOLL_CTL_MOD, s->listen_fd, 0, NULL);
    }
}

// --- the server ----------------------------------------------------------------------------------

int report_server_open(const struct report_server_options *options, struct report_server **out,
                       struct error *e)
{
    struct report_server *s = xcalloc(1, sizeof *s);
    s->o = *options;
    s->spool.fd = s->listen_fd = -1;
    buf_init(&s->record, LIMIT_REPORT_LINE + ENVELOPE);
    s->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    int err = s->epoll_fd < 0 ? error_set_errno(e, ERR_IO, errno, "cannot create an epoll") : 0;
    if (!err)
        err = unix_socket_listen(s->o.dir, TASKDIR_REPORT_SOCKET, BACKLOG, &s->listen_fd, e);
    if (!err)
        watch(s, EPOLL_CTL_ADD, s->listen_fd, EPOLLIN, NULL);
    if (err)
        report_server_close(s);
    else
        *out = s;
    return err;
}

int report_server_fd(const struct report_server *s)
{
    return s->epoll_fd;
}

void report_server_handle(struct report_server *s)
{
    struct epoll_event events[EVENTS_PER_TURN];
    int count = epoll_wait(s->epoll_fd, events, EVENTS_PER_TURN, 0);
    bool full = false;
    for (int i = 0; i < count && !full; i++)
        if (events[i].data.ptr) {
            handle_client(s, events[i].data.ptr);
            full = give_up_client(s); // it may be one of the events
        }
    for (int i = 0; i < count; i++)
        if (!events[i].data.ptr)
            accept_clients(s);
}

void report_server_check(struct report_server *s)
{
    if (s->paused)
        accept_clients(s);
}

void report_server_drain(struct report_server *s)
{
    shutdown(s->listen_fd, SHUT_RD); // refuses further connections; those that wait can be accepted
    while (s->clients || accept_client(s))
        finish_client(s, s->clients);
}

void report_server_close(struct report_server *s)
{
    if (!s)
        return;
    while (s->clients)
        close_client(s, s->clients);
    if (s->listen_fd >= 0)
        close(s->listen_fd);
    if (s->epoll_fd >= 0)
        close(s->epoll_fd);
    if (s->spool_open)
        spool_close(&s->spool);
    buf_free(&s->record);
    free(s);
}
