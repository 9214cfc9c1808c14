// Two threads for what is slow: password hashing, parsing of large bodies, waiting for a commit.
// Jobs are taken in order from a bounded mailbox. Each worker has a reader of the store.
#ifndef MUSTER_MASTER_HTTP_WORKERS_H
#define MUSTER_MASTER_HTTP_WORKERS_H

#include "db/db.h"

enum { WORKERS = 2, WORKERS_QUEUE = 256 };

struct workers; // opaque

struct job { // part of the request it is for
    void (*run)(struct job *j, struct db_reader *db);
};

int workers_new(struct db *db, struct workers **out, struct error *e);
void workers_free(struct workers *w); // runs what is queued, ends the threads

int workers_submit(struct workers *w, struct job *j, struct error *e); // ERR_BUSY, ERR_UNAVAILABLE

#endif
