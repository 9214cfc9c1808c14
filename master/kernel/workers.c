#include "master/kernel/workers.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>

#include "base/arena.h"
#include "base/log.h"
#include "db/db.h"
#include "master/kernel/loop.h"

enum {
    WORK_LIMIT = 4096,
    WORK_SHARE = WORK_LIMIT / 8, // of one user
};

struct workers {
    struct core *core;
    atomic_bool stopping;
    struct core_worker {
        struct workers *all;
        struct db_reader *db;
        pthread_t thread;
        bool started;
        pthread_mutex_t lock; // protects the fields below
        pthread_cond_t arrived;
        struct fair_queue waiting;
        bool closed; // no more work comes
    } each[WORK_KINDS];
};

int workers_new(struct core *c, struct workers **out, struct error *e)
{
    struct workers *w = xcalloc(1, sizeof *w);
    int err = 0;
    w->core = c;
    *out = w;
    for (int i = 0; i < WORK_KINDS; i++) {
        w->each[i].all = w;
        pthread_mutex_init(&w->each[i].lock, NULL);
        pthread_cond_init(&w->each[i].arrived, NULL);
        if (!err)
            err = db_reader_open(loop_db(c), &w->each[i].db, e);
    }
    return err;
}

// Returns NULL when nothing waits; if `waits`, only when nothing will come any more.
static struct work *worker_next(struct core_worker *self, bool waits)
{
    pthread_mutex_lock(&self->lock);
    while (waits && !self->waiting.count && !self->closed)
        pthread_cond_wait(&self->arrived, &self->lock);
    struct work *work = (struct work *)fair_queue_pop(&self->waiting);
    pthread_mutex_unlock(&self->lock);
    return work;
}

static void *worker_main(void *arg)
{
    struct core_worker *self = arg;
    struct work *work;
    while ((work = worker_next(self, true))) {
        work->run(work, self->db);
        loop_work_done(self->all->core, work);
    }
    return NULL;
}

static bool worker_has_work(const struct core_worker *self)
{
    struct core_worker *locked = (struct core_worker *)self;
    pthread_mutex_lock(&locked->lock);
    bool has = self->waiting.count;
    pthread_mutex_unlock(&locked->lock);
    return has;
}

bool workers_wait(const struct workers *w)
{
    for (int i = 0; i < WORK_KINDS; i++)
        if (!w->each[i].started && worker_has_work(&w->each[i]))
            return true;
    return false;
}

void workers_run(struct workers *w)
{
    struct work *work;
    for (int i = 0; i < WORK_KINDS; i++)
        while ((work = worker_next(&w->each[i], false))) {
            work->run(work, w->each[i].db);
            loop_work_done(w->core, work);
        }
}

int workers_start(struct workers *w, struct error *e)
{
    for (int i = 0; i < WORK_KINDS; i++) {
        int err = pthread_create(&w->each[i].thread, NULL, worker_main, &w->each[i]);
        if (err)
            return error_set_errno(e, ERR_UNAVAILABLE, err, "cannot start a worker thread");
        w->each[i].started = true;
    }
    return 0;
}

int workers_send(struct workers *w, struct work *work, enum work_kind kind, struct error *e)
{
    struct core_worker *to = &w->each[kind];
    int64_t user = work->turn.user;
    pthread_mutex_lock(&to->lock);
    bool takes = !to->closed && to->waiting.count < WORK_LIMIT &&
                 (!user || fair_queue_count_of(&to->waiting, user) < WORK_SHARE);
    if (takes) {
        fair_queue_push(&to->waiting, &work->turn);
        pthread_cond_signal(&to->arrived);
    }
    pthread_mutex_unlock(&to->lock);
    return takes ? 0
                 : error_set(e, ERR_BUSY,
                             "the master has too much work waiting; try again in a moment");
}

bool workers_stopping(const struct workers *w)
{
    return atomic_load(&w->stopping);
}

void workers_stop(struct workers *w)
{
    atomic_store(&w->stopping, true);
    for (int i = 0; i < WORK_KINDS; i++) {
        struct core_worker *one = &w->each[i];
        pthread_mutex_lock(&one->lock);
        one->closed = true;
        pthread_cond_signal(&one->arrived);
        pthread_mutex_unlock(&one->lock);
        if (one->started)
            pthread_join(one->thread, NULL);
        one->started = false;
    }
}

void workers_free(struct workers *w)
{
    struct work *work;
    if (!w)
        return;
    for (int i = 0; i < WORK_KINDS; i++) {
        while ((work = worker_next(&w->each[i], false)))
            work->drop(work);
        if (w->each[i].db)
            db_reader_close(w->each[i].db);
        pthread_cond_destroy(&w->each[i].arrived);
        pthread_mutex_destroy(&w->each[i].lock);
    }
    free(w);
}
