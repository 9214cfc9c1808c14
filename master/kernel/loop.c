// The core thread: receives, decides, commits, and lets answers go after the commit.
//
// The writer thread tells each commit by a counter; a wake message follows it unless one is under
// way already or the inbox is full, in which case the core has a turn anyway. So the writer never
// waits for the core, and the core may wait for the writer (a full queue) without a deadlock.
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

struct message {
    enum { MESSAGE_REQUEST, MESSAGE_GONE, MESSAGE_WORK, MESSAGE_WAKE } kind;
    core_handler *handler;
    struct request *rq;
    struct work *work;
};

struct outgoing { // one of them
    struct request *rq;
    char *log_task;
    struct notes *notes;
    uint64_t after; // commit it waits for
};

static const struct message wake = {.kind = MESSAGE_WAKE};

// --- from other threads --------------------------------------------------------------------------

static int send(struct core *c, const struct message *m, struct error *e)
{
    int err = mailbox_send(c->inbox, (void *)m);
    if (err == ERR_BUSY)
        return error_set(e, ERR_BUSY, "the master has %d requests waiting; try again in a moment",
                         LIMIT_CORE_QUEUE);
    return err ? error_set(e, ERR_UNAVAILABLE, "the master is stopping; try again soon") : 0;
}

int core_submit(struct core *c, core_handler *handler, struct request *rq, struct error *e)
{
    struct message *m = arena_alloc(&rq->arena, sizeof *m);
    *m = (struct message){.kind = MESSAGE_REQUEST, .handler = handler, .rq = rq};
    return send(c, m, e);
}

// The request may be completed and gone before the message is read; it is only compared then.
void core_client_gone(struct core *c, struct request *rq)
{
    struct message *m = xcalloc(1, sizeof *m);
    *m = (struct message){.kind = MESSAGE_GONE, .rq = rq};
    if (send(c, m, NULL))
        free(m); // it ends by its deadline
}

struct db *loop_db(const struct core *c)
{
    return c->db;
}

void loop_work_done(struct core *c, struct work *w)
{
    struct message *m = xcalloc(1, sizeof *m);
    *m = (struct message){.kind = MESSAGE_WORK, .work = w};
    must(!mailbox_send_wait(c->inbox, m)); // workers stop before the inbox closes
}

static void committed(void *ctx, int err)
{
    struct core *c = ctx;
    if (err) {
        log_error("the store cannot be written; the master ends, tasks go on", "err=\"%s\"",
                  err_name(err));
        _exit(EXIT_FAILURE);
    }
    atomic_fetch_add(&c->committed, 1);
    if (!atomic_exchange(&c->wake_sent, true) && mailbox_send(c->inbox, (void *)&wake))
        atomic_store(&c->wake_sent, false);
}

// --- answers -------------------------------------------------------------------------------------

static void outbox_add(struct core *c, struct outgoing out)
{
    struct outbox *o = &c->outbox;
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
        core_event(c, EVENT_AUDIT, 0, 0, subject);
    }
    outbox_add(c, (struct outgoing){.rq = rq});
}

void core_refuse(struct core *c, struct request *rq, const struct error *e)
{
    request_fail(rq, e);
    core_complete(c, rq);
}

void core_tell_log(struct core *c, const char *task_id)
{
    core_event(c, EVENT_LOGS, 0, 0, task_id);
    if (!c->options.logs_committed)
        return;
    for (size_t i = c->outbox.tagged; i < c->outbox.count; i++)
        if (c->outbox.items[i].log_task && !strcmp(c->outbox.items[i].log_task, task_id))
            return;
    outbox_add(c, (struct outgoing){.log_task = xstrdup(task_id)});
}

static void release(struct core *c)
{
    struct outbox *o = &c->outbox;
    uint64_t done = atomic_load(&c->committed);
    while (o->first < o->tagged && o->items[o->first].after <= done) {
        struct outgoing *out = &o->items[o->first++];
        if (out->rq) {
            out->rq->complete(out->rq);
        } else if (out->notes) {
            c->options.events_committed(c->options.events_ctx, out->notes);
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

static void parked_due(struct core *c, void *arg)
{
    struct parked *p = arg;
    p->expire(c, p);
}

struct parked *core_park(struct core *c, struct request *rq, struct parked **list, void *owner,
                         int64_t until, void (*expire)(struct core *c, struct parked *p))
{
    struct parked *p = arena_alloc(&rq->arena, sizeof *p);
    *p = (struct parked){.rq = rq, .expire = expire, .owner = owner, .list = list};
    p->timer.fire = parked_due;
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

struct request *core_unpark(struct core *c, struct parked *p)
{
    timer_clear(&c->timers, &p->timer);
    if (p->next)
        p->next->prev = p->prev;
    *(p->prev ? &p->prev->next : p->list) = p->next;
    if (p->all_next)
        p->all_next->all_prev = p->all_prev;
    *(p->all_prev ? &p->all_prev->all_next : &c->parked) = p->all_next;
    return p->rq;
}

static void handle_gone(struct core *c, const struct request *rq)
{
    for (struct parked *p = c->parked; p; p = p->all_next)
        if (p->rq == rq) {
            if (atomic_load(&p->rq->client_gone)) // else another request at the same address
                p->expire(c, p);
            return;
        }
}

// --- turns ---------------------------------------------------------------------------------------

static void handle_request(struct core *c, core_handler *handler, struct request *rq)
{
    struct error e = {0};
    int rc = handler(c, rq, &e);
    if (rc == 0)
        core_complete(c, rq);
    else if (rc < 0)
        core_refuse(c, rq, &e);
}

static void handle(struct core *c, struct message *m)
{
    switch (m->kind) {
    case MESSAGE_REQUEST:
        handle_request(c, m->handler, m->rq);
        return;
    case MESSAGE_GONE:
        handle_gone(c, m->rq);
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

static void end_turn(struct core *c)
{
    struct timer *due;
    while ((due = timers_due(&c->timers, c->now)))
        due->fire(c, due->arg);
    CORE_DISPATCH(c, decide, c);
    CORE_DISPATCH(c, flush, c);
    CORE_DISPATCH(c, reap, c);
    if (c->batch && !db_batch_empty(c->batch)) {
        c->submitted++;
        db_commit(c->db, c->batch, committed, c);
        c->batch = NULL;
    }
    if (c->notes) {
        CORE_DISPATCH(c, describe, c, c->notes);
        outbox_add(c, (struct outgoing){.notes = c->notes});
        c->notes = NULL;
    }
    for (; c->outbox.tagged < c->outbox.count; c->outbox.tagged++)
        c->outbox.items[c->outbox.tagged].after = c->submitted;
}

// Whether there was anything to do, or time passed. Messages are waited for until `deadline`, by
// the machine's clock.
static bool turn(struct core *c, int64_t deadline)
{
    void *messages[TURN_MESSAGES];
    size_t count = mailbox_receive(c->inbox, messages, TURN_MESSAGES, deadline);
    loop_read_clocks(c);
    for (size_t i = 0; i < count; i++)
        handle(c, messages[i]);
    end_turn(c);
    release(c);
    CORE_DISPATCH(c, after_turn, c);
    return count || !mailbox_closed(c->inbox);
}

static void refuse_parked(struct core *c)
{
    struct error e = {0};
    error_set(&e, ERR_UNAVAILABLE, "the master is stopping; try again soon");
    while (c->parked)
        core_refuse(c, core_unpark(c, c->parked), &e);
}

// Batches commit in order: when one more is on disk, all are.
static void wait_for_commits(struct core *c)
{
    char when[CLOCK_RFC3339_MAX], quoted[ERROR_TEXT_MAX];
    struct error e = {0};
    STORE(c, META_SET, "stopped_at", clock_format(c->wall, when));
    if (db_commit_wait(c->db, c->batch, &e))
        log_error("the store cannot be written", "err=%s",
                  log_quote(quoted, sizeof quoted, e.text));
    c->batch = NULL;
    c->outbox.tagged = c->outbox.count;
    release(c);
}

static int64_t deadline_of_turn(struct core *c)
{
    int64_t next = timers_next(&c->timers);
    return next == INT64_MAX ? INT64_MAX : clock_mono_us() + next - c->options.mono_us();
}

static void end(struct core *c)
{
    refuse_parked(c);
    end_turn(c);
    wait_for_commits(c);
}

static void *run(void *arg)
{
    struct core *c = arg;
    end_turn(c); // what followed from loading
    while (turn(c, deadline_of_turn(c)))
        ;
    end(c);
    return NULL;
}

int core_start(struct core *c, struct error *e)
{
    CORE_DISPATCH(c, start, c);
    int err = workers_start(c->workers, e);
    if (err)
        return err;
    err = pthread_create(&c->thread, NULL, run, c);
    if (err)
        return error_set_errno(e, ERR_UNAVAILABLE, err, "cannot start the core thread");
    c->started = true;
    return 0;
}

void core_stop(struct core *c)
{
    workers_stop(c->workers);
    if (c->by_hand)
        core_turn(c);
    mailbox_close(c->inbox);
    if (c->started)
        pthread_join(c->thread, NULL);
    if (c->by_hand)
        end(c);
    c->started = c->by_hand = false;
}

void core_turn(struct core *c)
{
    must(!c->started);
    if (!c->by_hand)
        CORE_DISPATCH(c, start, c);
    c->by_hand = true;
    workers_run(c->workers);
    turn(c, 0);
}

int64_t core_next(const struct core *c)
{
    bool now = !c->by_hand || mailbox_length(c->inbox) || workers_wait(c->workers);
    return now ? 0 : timers_next(&c->timers);
}

// What nobody waits for any more. Requests are their senders'.
void loop_forget(struct core *c)
{
    void *messages[TURN_MESSAGES];
    size_t count;
    while (mailbox_length(c->inbox) &&
           (count = mailbox_receive(c->inbox, messages, TURN_MESSAGES, 0)))
        for (size_t i = 0; i < count; i++) {
            struct message *m = messages[i];
            if (m->kind == MESSAGE_WORK)
                m->work->drop(m->work);
            if (m->kind == MESSAGE_GONE || m->kind == MESSAGE_WORK)
                free(m);
        }
    for (size_t i = c->outbox.first; i < c->outbox.count; i++) {
        free(c->outbox.items[i].log_task);
        notes_free(c->outbox.items[i].notes);
    }
    notes_free(c->notes);
    free(c->outbox.items);
}
