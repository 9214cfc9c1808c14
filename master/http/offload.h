// Threads for what is slow: two for password hashing, parsing of large bodies, waiting for a
// commit; one for searches in logs. Jobs are taken in order from a bounded mailbox. Each worker has
// a reader of the store.
#ifndef MUSTER_MASTER_HTTP_OFFLOAD_H
#define MUSTER_MASTER_HTTP_OFFLOAD_H

#include "db/db.h"

enum { OFFLOAD_THREADS = 2, OFFLOAD_QUEUE = 256 };

struct offload; // opaque

struct job { // part of the request it is for
    void (*run)(struct job *j, struct db_reader *db);
};

int offload_new(struct db *db, int threads, struct offload **out, struct error *e);
void offload_free(struct offload *w); // runs what is queued, ends the threads

int offload_submit(struct offload *w, struct job *j, struct error *e); // ERR_BUSY, ERR_UNAVAILABLE

#endif
