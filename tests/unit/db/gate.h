// A gate that stops the writer between two groups, so that a test decides which batches share a
// group.
#ifndef MUSTER_TESTS_UNIT_DB_GATE_H
#define MUSTER_TESTS_UNIT_DB_GATE_H

#include <semaphore.h>

#include "db/db.h"

struct gate {
    sem_t held, open;
};

static inline void gate_hold(void *ctx, int err)
{
    struct gate *g = ctx;
    (void)err;
    sem_post(&g->held);
    sem_wait(&g->open);
}

// Returns when the writer has stopped, after a group of its own. Batches that are committed from
// now on wait in the queue until gate_open().
static inline void gate_close(struct gate *g, struct db *db)
{
    sem_init(&g->held, 0, 0);
    sem_init(&g->open, 0, 0);
    db_commit(db, db_batch_new(), gate_hold, g);
    sem_wait(&g->held);
}

static inline void gate_open(struct gate *g)
{
    sem_post(&g->open);
}

#endif
