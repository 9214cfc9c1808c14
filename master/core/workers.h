// Threads of the core for what takes long: reading a configuration and packing files, deleting
// checkpoints. Two of them, so that a large upload does not hold up the small ones.
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

struct work {
    void (*run)(struct work *w, struct db_reader *db); // worker thread; its own reader
    void (*done)(struct core *c, struct work *w);      // core thread; frees it
    void (*drop)(struct work *w);                      // instead, when the core has ended; frees it
};

int workers_new(struct core *c, struct workers **out, struct error *e);
int workers_start(struct workers *w, struct error *e);
// Core thread. ERR_BUSY: too much waits; the work is the caller's again.
int workers_send(struct workers *w, struct work *work, bool slow, struct error *e);
bool workers_wait(const struct workers *w); // whether there is work and no thread to do it
void workers_run(struct workers *w);        // does it here
void workers_stop(struct workers *w);       // runs what is there, joins; all has been handed back
void workers_free(struct workers *w);

#endif
