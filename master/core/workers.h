// Threads of the core for what takes long, one for each kind of work, so that a large upload does
// not hold up the small ones, and costly patterns hold up nothing but logs that are watched.
//
// A work is run on a worker, then handed back to the core thread by done(), which frees it. In a
// core without threads it is run inside the next turn.
#ifndef MUSTER_MASTER_CORE_WORKERS_H
#define MUSTER_MASTER_CORE_WORKERS_H

#include <stdbool.h>

#include "base/error.h"

struct core;
struct db_reader;
struct workers; // opaque

enum work_kind {
    WORK_QUICK,    // reading a configuration, packing a few files
    WORK_SLOW,     // packing many, deleting checkpoints, merging logs
    WORK_MATCHING, // patterns over lines of logs
    WORK_KINDS
};

struct work {
    void (*run)(struct work *w, struct db_reader *db); // worker thread; its own reader
    void (*done)(struct core *c, struct work *w);      // core thread; frees it
    void (*drop)(struct work *w);                      // instead, when the core has ended; frees it
};

int workers_new(struct core *c, struct workers **out, struct error *e);
int workers_start(struct workers *w, struct error *e);
// Core thread. ERR_BUSY: too much waits; the work is the caller's again.
int workers_send(struct workers *w, struct work *work, enum work_kind kind, struct error *e);
bool workers_stopping(const struct workers *w); // any thread: what can be done again, may end
bool workers_wait(const struct workers *w);     // whether there is work and no thread to do it
void workers_run(struct workers *w);            // does it here
void workers_stop(struct workers *w); // runs what is there, joins; all has been handed back
void workers_free(struct workers *w);

#endif
