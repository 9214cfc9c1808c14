#include "master/http/offload.h"

#include <pthread.h>
#include <stdlib.h>

#include "base/arena.h"
#include "base/log.h"
#include "base/os/mailbox.h"

struct worker {
    pthread_t thread;
    struct offload *all;
    struct db_reader *db;
    bool running;
};

struct offload {
    struct mailbox *jobs;
    // A mailbox has one receiver, so the workers receive in turn.
    pthread_mutex_t turn;
    struct worker each[OFFLOAD_THREADS];
};

static void *worker_main(void *arg)
{
    struct worker *w = arg;
    for (;;) {
        void *job = NULL;
        pthread_mutex_lock(&w->all->turn);
        size_t n = mailbox_receive(w->all->jobs, &job, 1, INT64_MAX);
        pthread_mutex_unlock(&w->all->turn);
        if (!n)
            return NULL;
        ((struct offload_job *)job)->run(job, w->db);
    }
}

int offload_new(struct db *db, int threads, struct offload **out, struct error *e)
{
    struct offload *all = xcalloc(1, sizeof *all);
    all->jobs = mailbox_new(OFFLOAD_QUEUE);
    pthread_mutex_init(&all->turn, NULL);
    must(threads <= OFFLOAD_THREADS);
    for (int i = 0; i < threads; i++) {
        struct worker *w = &all->each[i];
        w->all = all;
        int rc = db_reader_open(db, &w->db, e);
        if (!rc) {
            int err = pthread_create(&w->thread, NULL, worker_main, w);
            w->running = !err;
            if (err)
                rc = error_set_errno(e, ERR_INTERNAL, err, "cannot start a thread");
        }
        if (rc) {
            offload_free(all);
            return rc;
        }
    }
    *out = all;
    return 0;
}

void offload_free(struct offload *all)
{
    if (!all)
        return;
    mailbox_close(all->jobs);
    for (int i = 0; i < OFFLOAD_THREADS; i++) {
        if (all->each[i].running)
            pthread_join(all->each[i].thread, NULL);
        if (all->each[i].db)
            db_reader_close(all->each[i].db);
    }
    mailbox_free(all->jobs);
    pthread_mutex_destroy(&all->turn);
    free(all);
}

int offload_submit(struct offload *w, struct offload_job *j, struct error *e)
{
    int rc = mailbox_send(w->jobs, j);
    if (rc == ERR_BUSY)
        return error_set(e, rc, "%d requests wait for a worker already; try again in a second",
                         OFFLOAD_QUEUE);
    if (rc)
        return error_set(e, rc, "the master is stopping; try again in a moment");
    return 0;
}
