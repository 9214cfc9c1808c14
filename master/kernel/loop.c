// The core thread: receives messages, decides, commits, and releases answers after the commit.
//
// The writer thread counts each commit and then sends a wake message, unless one is on its way
// already or the inbox is full; in both cases a turn follows anyway. So the writer never waits for
// the core, and the core may wait for the writer (when its queue is full) without a deadlock.
#include "master/kernel/loop.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/clock.h"
#include "base/limits.h"
#include "master/common/audit.h"
#include "master/kernel/module.h"
#include "master/kernel/state.h"
#include "master/kernel/workers.h"

enum { TURN_MESSAGES = 256 };

struct core_message {
    enum { MESSAGE_REQUEST, MESSAGE_GONE, MESSAGE_WORK, MESSAGE_WAKE } kind;
    core_handler *handler;
    struct request *rq;
    struct work *work;
};

struct held_item { // one of these is set
    struct request *rq;
    char *log_task;
    struct changes *changes;
    bool outbox;
    uint64_t after; // the commit it waits for
};

static const struct core_message wake = {.kind = MESSAGE_WAKE};

// --- from other threads --------------------------------------------------------------------------

static int message_send(struct core *c, const struct core_message *m, struct error *e)
{
    int err = mailbox_send(c->inbox, (void *)m);
    if (err == ERR_BUSY)
        return error_set(e, ERR_BUSY, "the master has %d requests waiting; try again in a moment",
                         LIMIT_CORE_QUEUE);
    return err ? error_set(e, ERR_UNAVAILABLE, "the master is stopping; try again soon") : 0;
}

int core_submit(struct core *c, core_handler *handler, struct request *rq, struct error *e)
{
    struct core_message *m = arena_alloc(&rq->arena, sizeof *m);
    *m = (struct core_message){.kind = MESSAGE_REQUEST, .handler = handler, .rq = rq};
    return message_send(c, m, e);
}

size_t core_queue_length(const struct core *c)
{
    return mailbox_length(c->inbox);
}

// The request may be completed and freed before the message is read; its address is only compared.
void core_client_gone(struct core *c, struct request *rq)
{
    struct core_message *m = xcalloc(1, sizeof *m);
    *m = (struct core_message){.kind = MESSAGE_GONE, .rq = rq};
    if (message_send(c, m, NULL))
        free(m); // the request ends by its deadline instead
}

struct db *loop_db(const struct core *c)
{
    return c->db;
}

void loop_work_done(struct core *c, struct work *w)
{
    struct core_message *m = xcalloc(1, sizeof *m);
    *m = (struct core_message){.kind = MESSAGE_WORK, .work = w};
    must(!mailbox_send_wait(c->inbox, m)); // workers stop before the inbox closes
}

static void batch_committed(void *ctx, int err)
{
    struct core *c = ctx;
    if (err) {
        log_error("the store cannot be written; the master ends, and tasks continue", "err=\"%s\"",
                  err_name(err));
        _exit(EXIT_FAILURE);
    }
    atomic_fetch_add(&c->committed, 1);
    if (!atomic_exchange(&c->wake_sent, true) && mailbox_send(c->inbox, (void *)&wake))
        atomic_store(&c->wake_sent, false);
}

// --- answers -------------------------------------------------------------------------------------

static void barrier_hold(struct core *c, struct held_item out)
{
    struct commit_barrier *o = &c->barrier;
    if (o->count == o->cap && o->first > o->cap / 2) {
        o->count -= o->first;
        o->tagged -= o->first;
        memmove(o->items, o->items + o->first, o->count * sizeof *o->items);
        o->first = 0;
    }
    if (o->count == o->cap) {
        o->cap = o->cap ? 2 * o->cap : 64;
        o->items = xrealloc(o->items, o->cap * sizeof *o->items);
    }
    o->items[o->count++] = out;
}

void core_complete(struct core *c, struct request *rq)
{
    int status = rq->status ? rq->status : 200;
    if (audit_wants(rq, status)) {
        char subject[AUDIT_SUBJECT];
        audit_subject(rq->path, subject);
        audit_add(core_batch(c), rq, status, c->wall);
        change_mark(c, EVENT_AUDIT, 0, 0, subject);
    }
    barrier_hold(c, (struct held_item){.rq = rq});
}

void core_refuse(struct core *c, struct request *rq, const struct error *e)
{
    request_fail(rq, e);
    core_complete(c, rq);
}

void core_notify_log(struct core *c, const char *task_id)
{
    change_mark(c, EVENT_LOGS, 0, 0, task_id);
    if (!c->options.logs_committed)
        return;
    for (size_t i = c->barrier.tagged; i < c->barrier.count; i++)
        if (c->barrier.items[i].log_task && !strcmp(c->barrier.items[i].log_task, task_id))
            return;
    barrier_hold(c, (struct held_item){.log_task = xstrdup(task_id)});
}

void core_notify_outbox(struct core *c)
{
    if (c->options.outbox_committed)
        barrier_hold(c, (struct held_item){.outbox = true});
}

static void barrier_release(struct core *c)
{
    struct commit_barrier *o = &c->barrier;
    uint64_t done = atomic_load(&c->committed);
    while (o->first < o->tagged && o->items[o->first].after <= done) {
        struct held_item *out = &o->items[o->first++];
        if (out->rq) {
            out->rq->complete(out->rq);
        } else if (out->changes) {
            c->options.events_committed(c->options.events_ctx, out->changes);
        } else if (out->outbox) {
            c->options.outbox_committed(c->options.outbox_ctx);
        } else {
            c->options.logs_committed(c->options.logs_ctx, out->log_task);
            free(out->log_task);
        }
    }
    if (o->first == o->count)
        o->first = o->count = o->tagged = 0;
}

struct db_batch *core_batch(struct core *c)
{
    if (!c->batch)
        c->batch = db_batch_new();
    return c->batch;
}

// --- parked requests -----------------------------------------------------------------------------

static void parked_expire(struct core *c, void *arg)
{
    struct parked_request *p = arg;
    p->expire(c, p);
}

struct parked_request *core_park(struct core *c, struct request *rq, struct parked_request **list,
                                 void *owner, int64_t until,
                                 void (*expire)(struct core *c, struct parked_request *p))
{
    struct parked_request *p = arena_alloc(&rq->arena, sizeof *p);
    *p = (struct parked_request){
        .rq = rq, .expire = expire, .owner = owner, .since = c->now, .list = list};
    p->timer.fire = parked_expire;
    p->timer.arg = p;
    p->next = *list;
    if (p->next)
        p->next->prev = p;
    *list = p;
    p->all_next = c->parked;
    if (p->all_next)
        p->all_next->all_prev = p;
    c->parked = p;
    timer_set(&c->timers, &p->timer, until);
    return p;
}

struct request *core_unpark(struct core *c, struct parked_request *p)
{
    timer_clear(&c->timers, &p->timer);
    p->rq->parked_us += c->now - p->since;
    if (p->next)
        p->next->prev = p->prev;
    *(p->prev ? &p->prev->next : p->list) = p->next;
    if (p->all_next)
        p->all_next->all_prev = p->all_prev;
    *(p->all_prev ? &p->all_prev->all_next : &c->parked) = p->all_next;
    return p->rq;
}

static void client_gone_handle(struct core *c, const struct request *rq)
{
    for (struct parked_request *p = c->parked; p; p = p->all_next)
        if (p->rq == rq) {
            if (atomic_load(
                    &p->rq->client_gone)) // else another request was allocated at that address
                p->expire(c, p);
            return;
        }
}

// --- turns ---------------------------------------------------------------------------------------

static void request_handle(struct core *c, core_handler *handler, struct request *rq)
{
    struct error e = {0};
    int64_t begun = clock_mono_us();
    int rc = handler(c, rq, &e);
    rq->worked_us += clock_mono_us() - begun;
    if (rc == 0)
        core_complete(c, rq);
    else if (rc < 0)
        core_refuse(c, rq, &e);
}

static void message_handle(struct core *c, struct core_message *m)
{
    switch (m->kind) {
    case MESSAGE_REQUEST:
        request_handle(c, m->handler, m->rq);
        return;
    case MESSAGE_GONE:
        client_gone_handle(c, m->rq);
        free(m);
        return;
    case MESSAGE_WORK:
        m->work->done(c, m->work);
        free(m);
        return;
    case MESSAGE_WAKE:
        atomic_store(&c->wake_sent, false);
        return;
    }
}

void loop_read_clocks(struct core *c)
{
    c->now = c->options.mono_us();
    c->wall = c->options.wall_us();
}

static void turn_end(struct core *c)
{
    struct timer *due;
    while ((due = timers_due(&c->timers, c->now)))
        due->fire(c, due->arg);
    CORE_DISPATCH(c, decide, c);
    CORE_DISPATCH(c, flush, c);
    CORE_DISPATCH(c, reap, c);
    if (c->batch && !db_batch_empty(c->batch)) {
        c->submitted++;
        db_commit(c->db, c->batch, batch_committed, c);
        c->batch = NULL;
    }
    if (c->changes) {
        CORE_DISPATCH(c, describe, c, c->changes);
        barrier_hold(c, (struct held_item){.changes = c->changes});
        c->changes = NULL;
    }
    for (; c->barrier.tagged < c->barrier.count; c->barrier.tagged++)
        c->barrier.items[c->barrier.tagged].after = c->submitted;
}

// Returns false when the inbox is closed and nothing was left to do. Waits for messages until
// `deadline`, by the machine's clock.
static bool turn_run(struct core *c, int64_t deadline)
{
    void *messages[TURN_MESSAGES];
    size_t count = mailbox_receive(c->inbox, messages, TURN_MESSAGES, deadline);
    loop_read_clocks(c);
    for (size_t i = 0; i < count; i++)
        message_handle(c, messages[i]);
    turn_end(c);
    barrier_release(c);
    CORE_DISPATCH(c, after_turn, c);
    return count || !mailbox_closed(c->inbox);
}

static void parked_refuse_all(struct core *c)
{
    struct error e = {0};
    error_set(&e, ERR_UNAVAILABLE, "the master is stopping; try again soon");
    while (c->parked)
        core_refuse(c, core_unpark(c, c->parked), &e);
}

// Batches commit in order: when one more batch is on disk, all are.
static void barrier_flush(struct core *c)
{
    char when[CLOCK_RFC3339_MAX], quoted[ERROR_TEXT_MAX];
    struct error e = {0};
    STORE(c, META_SET, "stopped_at", clock_format(c->wall, when));
    if (db_commit_wait(c->db, c->batch, &e))
        log_error("the store cannot be written", "err=%s",
                  log_quote(quoted, sizeof quoted, e.text));
    c->batch = NULL;
    c->barrier.tagged = c->barrier.count;
    barrier_release(c);
}

static int64_t turn_deadline(struct core *c)
{
    int64_t next = timers_next(&c->timers);
    return next == INT64_MAX ? INT64_MAX : clock_mono_us() + next - c->options.mono_us();
}

static void core_end(struct core *c)
{
    parked_refuse_all(c);
    turn_end(c);
    barrier_flush(c);
}

static void alive_tell(struct core *c, void *unused)
{
    (void)unused;
    c->options.alive();
    timer_set(&c->timers, &c->alive, c->now + c->options.alive_us);
}

static void *core_run(void *arg)
{
    struct core *c = arg;
    c->alive.fire = alive_tell;
    if (c->options.alive)
        timer_set(&c->timers, &c->alive, c->now);
    turn_end(c); // commits what the load has changed
    while (turn_run(c, turn_deadline(c)))
        ;
    core_end(c);
    return NULL;
}

int core_start(struct core *c, struct error *e)
{
    CORE_DISPATCH(c, start, c);
    int err = workers_start(c->workers, e);
    if (err)
        return err;
    err = pthread_create(&c->thread, NULL, core_run, c);
    if (err)
        return error_set_errno(e, ERR_UNAVAILABLE, err, "cannot start the core thread");
    c->started = true;
    return 0;
}

void core_stop(struct core *c)
{
    workers_stop(c->workers);
    if (c->manual)
        core_turn(c);
    mailbox_close(c->inbox);
    if (c->started)
        pthread_join(c->thread, NULL);
    if (c->manual)
        core_end(c);
    c->started = c->manual = false;
}

void core_turn(struct core *c)
{
    must(!c->started);
    if (!c->manual)
        CORE_DISPATCH(c, start, c);
    c->manual = true;
    workers_run(c->workers);
    turn_run(c, 0);
}

int64_t core_next_turn(const struct core *c)
{
    bool now = !c->manual || mailbox_length(c->inbox) || workers_wait(c->workers);
    return now ? 0 : timers_next(&c->timers);
}

// Frees messages and held items that are left. Requests belong to their senders.
void loop_free(struct core *c)
{
    void *messages[TURN_MESSAGES];
    size_t count;
    while (mailbox_length(c->inbox) &&
           (count = mailbox_receive(c->inbox, messages, TURN_MESSAGES, 0)))
        for (size_t i = 0; i < count; i++) {
            struct core_message *m = messages[i];
            if (m->kind == MESSAGE_WORK)
                m->work->drop(m->work);
            if (m->kind == MESSAGE_GONE || m->kind == MESSAGE_WORK)
                free(m);
        }
    for (size_t i = c->barrier.first; i < c->barrier.count; i++) {
        free(c->barrier.items[i].log_task);
        changes_free(c->barrier.items[i].changes);
    }
    changes_free(c->changes);
    free(c->barrier.items);
}
