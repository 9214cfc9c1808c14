#include "master/http/pump.h"

#include <pthread.h>
#include <stdlib.h>
#include <sys/resource.h>

#include "base/arena.h"
#include "base/log.h"

enum { NICE = 5 }; // lower priority than the threads that answer calls

struct pump_thread {
    struct pump *all;
    struct db_reader *db;
    pthread_t thread;
    bool running;
};

struct pump {
    pthread_mutex_t lock;
    pthread_cond_t work;
    struct fair_queue queued;
    bool stopping;
    struct pump_thread each[PUMP_THREADS];
};

// All following functions need the lock.
static void enqueue(struct pump *k, struct pumped *p)
{
    p->state = PUMP_QUEUED;
    p->woken = false;
    fair_queue_push(&k->queued, &p->turn);
    pthread_cond_signal(&k->work);
}

static struct pumped *dequeue(struct pump *k)
{
    struct pumped *p = (struct pumped *)fair_queue_pop(&k->queued);
    p->state = PUMP_FILLING;
    return p;
}

// Moves a stream to its next state after a fill. True: its owner has it again.
static bool settle(struct pump *k, struct pumped *p, enum pump_turn turn)
{
    if (turn == PUMP_READY || p->gone)
        p->state = PUMP_DONE;
    else if (turn == PUMP_AGAIN || p->woken)
        enqueue(k, p);
    else
        p->state = PUMP_WAITING;
    return p->state == PUMP_DONE;
}

static void *pump_main(void *arg)
{
    struct pump_thread *self = arg;
    struct pump *k = self->all;
    setpriority(PRIO_PROCESS, 0, NICE); // of this thread only
    pthread_mutex_lock(&k->lock);
    for (;;) {
        while (!k->queued.count && !k->stopping)
            pthread_cond_wait(&k->work, &k->lock);
        if (!k->queued.count)
            break;
        struct pumped *p = dequeue(k);
        pthread_mutex_unlock(&k->lock);
        enum pump_turn turn = p->fill(p, self->db);
        pthread_mutex_lock(&k->lock);
        if (!settle(k, p, turn))
            continue;
        pthread_mutex_unlock(&k->lock);
        p->ready(p);
        pthread_mutex_lock(&k->lock);
    }
    pthread_mutex_unlock(&k->lock);
    return NULL;
}

int pump_new(struct db *db, struct pump **out, struct error *e)
{
    struct pump *k = xcalloc(1, sizeof *k);
    pthread_mutex_init(&k->lock, NULL);
    pthread_cond_init(&k->work, NULL);
    int rc = 0;
    for (int i = 0; !rc && i < PUMP_THREADS; i++) {
        struct pump_thread *t = &k->each[i];
        t->all = k;
        rc = db_reader_open(db, &t->db, e);
        int err = rc ? 0 : pthread_create(&t->thread, NULL, pump_main, t);
        t->running = !rc && !err;
        if (err)
            rc = error_set_errno(e, ERR_INTERNAL, err, "cannot start a thread");
    }
    if (rc)
        pump_free(k);
    else
        *out = k;
    return rc;
}

void pump_free(struct pump *k)
{
    if (!k)
        return;
    pthread_mutex_lock(&k->lock);
    k->stopping = true;
    pthread_cond_broadcast(&k->work);
    pthread_mutex_unlock(&k->lock);
    for (int i = 0; i < PUMP_THREADS; i++) {
        if (k->each[i].running)
            pthread_join(k->each[i].thread, NULL);
        if (k->each[i].db)
            db_reader_close(k->each[i].db);
    }
    must(!k->queued.count);
    pthread_cond_destroy(&k->work);
    pthread_mutex_destroy(&k->lock);
    free(k);
}

void pump_queue(struct pump *k, struct pumped *p)
{
    pthread_mutex_lock(&k->lock);
    must(p->state == PUMP_IDLE);
    enqueue(k, p);
    pthread_mutex_unlock(&k->lock);
}

void pump_take(struct pump *k, struct pumped *p)
{
    pthread_mutex_lock(&k->lock);
    must(p->state == PUMP_IDLE || p->state == PUMP_DONE);
    p->state = PUMP_IDLE;
    pthread_mutex_unlock(&k->lock);
}

void pump_wake(struct pump *k, struct pumped *p)
{
    pthread_mutex_lock(&k->lock);
    if (p->state == PUMP_WAITING)
        enqueue(k, p);
    else
        p->woken = true;
    pthread_mutex_unlock(&k->lock);
}

bool pump_gone(struct pump *k, struct pumped *p)
{
    pthread_mutex_lock(&k->lock);
    bool here = p->state == PUMP_QUEUED || p->state == PUMP_FILLING || p->state == PUMP_DONE;
    p->gone = true;
    if (!here)
        p->state = PUMP_IDLE;
    pthread_mutex_unlock(&k->lock);
    return !here;
}
