#include "master/core/workers.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>

#include "base/arena.h"
#include "base/mailbox.h"
#include "db/db.h"
#include "master/core/loop.h"

enum { WORK_LIMIT = 4096 };

struct workers {
    struct core *core;
    atomic_bool stopping;
    struct worker {
        struct workers *all;
        struct mailbox *inbox;
        struct db_reader *db;
        pthread_t thread;
        bool started;
    } each[WORK_KINDS];
};

int workers_new(struct core *c, struct workers **out, struct error *e)
{
    struct workers *w = xcalloc(1, sizeof *w);
    w->core = c;
    *out = w;
    for (int i = 0; i < WORK_KINDS; i++) {
        w->each[i].all = w;
        w->each[i].inbox = mailbox_new(WORK_LIMIT);
        int err = db_reader_open(loop_db(c), &w->each[i].db, e);
        if (err)
            return err;
    }
    return 0;
}

static void *work_on(void *arg)
{
    struct worker *self = arg;
    void *work;
    while (mailbox_receive(self->inbox, &work, 1, INT64_MAX)) {
        struct work *w = work;
        w->run(w, self->db);
        loop_work_done(self->all->core, w);
    }
    return NULL;
}

bool workers_wait(const struct workers *w)
{
    for (int i = 0; i < WORK_KINDS; i++)
        if (!w->each[i].started && mailbox_length(w->each[i].inbox))
            return true;
    return false;
}

void workers_run(struct workers *w)
{
    for (int i = 0; i < WORK_KINDS; i++)
        while (mailbox_length(w->each[i].inbox)) {
            void *work;
            mailbox_receive(w->each[i].inbox, &work, 1, 0);
            ((struct work *)work)->run(work, w->each[i].db);
            loop_work_done(w->core, work);
        }
}

int workers_start(struct workers *w, struct error *e)
{
    for (int i = 0; i < WORK_KINDS; i++) {
        int err = pthread_create(&w->each[i].thread, NULL, work_on, &w->each[i]);
        if (err)
            return error_set_errno(e, ERR_UNAVAILABLE, err, "cannot start a worker thread");
        w->each[i].started = true;
    }
    return 0;
}

int workers_send(struct workers *w, struct work *work, enum work_kind kind, struct error *e)
{
    if (!mailbox_send(w->each[kind].inbox, work))
        return 0;
    return error_set(e, ERR_BUSY, "the master has too much to do; try again in a moment");
}

bool workers_stopping(const struct workers *w)
{
    return atomic_load(&w->stopping);
}

void workers_stop(struct workers *w)
{
    atomic_store(&w->stopping, true);
    for (int i = 0; i < WORK_KINDS; i++) {
        mailbox_close(w->each[i].inbox);
        if (w->each[i].started)
            pthread_join(w->each[i].thread, NULL);
        w->each[i].started = false;
    }
}

void workers_free(struct workers *w)
{
    if (!w)
        return;
    for (int i = 0; i < WORK_KINDS; i++) {
        struct mailbox *inbox = w->each[i].inbox;
        void *work;
        while (inbox && mailbox_length(inbox) && mailbox_receive(inbox, &work, 1, 0))
            ((struct work *)work)->drop(work);
        if (inbox)
            mailbox_free(inbox);
        if (w->each[i].db)
            db_reader_close(w->each[i].db);
    }
    free(w);
}
