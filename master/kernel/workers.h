// Threads of the core for long work, one for each kind, so that a large upload does not hold up
// small ones. Work of one kind that names its users is done in turns: costly patterns of one user
// hold up the watched logs of others by one post each time.
//
// A work is run on a worker, then handed back to the core thread by done(), which frees it. In a
// core without threads it is run inside the next turn.
#ifndef MUSTER_MASTER_KERNEL_WORKERS_H
#define MUSTER_MASTER_KERNEL_WORKERS_H

#include <stdbool.h>

#include "base/error.h"
#include "base/fair_queue.h"

struct core;
struct db_reader;
struct workers; // opaque

enum work_kind {
    WORK_QUICK,    // reading a configuration, packing a few files
    WORK_SLOW,     // packing many, deleting checkpoints, merging logs
    WORK_STORAGE,  // looking into checkpoint storage, which may hang
    WORK_MATCHING, // patterns over lines of logs
    WORK_KINDS
};

struct work {
    struct fair_queue_item turn; // the first. Users take turns; 0: the work is nobody's
    void (*run)(struct work *w, struct db_reader *db); // worker thread; its own reader
    void (*done)(struct core *c, struct work *w);      // core thread; frees it
    void (*drop)(struct work *w);                      // instead, when the core has ended; frees it
};

int workers_new(struct core *c, struct workers **out, struct error *e);
int workers_start(struct workers *w, struct error *e);
// Core thread. ERR_BUSY: too much waits, of all or of its user; the work is the caller's again.
int workers_send(struct workers *w, struct work *work, enum work_kind kind, struct error *e);
bool workers_stopping(const struct workers *w); // any thread; work that can be repeated may stop
bool workers_wait(const struct workers *w);     // whether work waits and no thread runs
void workers_run(struct workers *w);            // runs that work on this thread
void workers_stop(struct workers *w);           // runs waiting work, joins; all work is handed back
void workers_free(struct workers *w);

#endif
