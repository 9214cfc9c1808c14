// Threads for slow work: two for password hashing, parsing of large bodies and waiting for commits;
// one for searches in logs. Jobs run in the order of a bounded mailbox. Each worker has a reader of
// the store.
#ifndef MUSTER_MASTER_HTTP_OFFLOAD_H
#define MUSTER_MASTER_HTTP_OFFLOAD_H

#include "db/db.h"

enum { OFFLOAD_THREADS = 2, OFFLOAD_QUEUE = 256 };

struct offload; // opaque

struct offload_job { // part of the request that it serves
    void (*run)(struct offload_job *j, struct db_reader *db);
};

int offload_new(struct db *db, int threads, struct offload **out, struct error *e);
void offload_free(struct offload *w); // runs the queued jobs, then ends the threads

int offload_submit(struct offload *w, struct offload_job *j,
                   struct error *e); // ERR_BUSY, ERR_UNAVAILABLE

#endif
