// Worker threads of the core for long work, one for each kind, so that a large upload does not
// delay small ones. Within a kind, users take turns: one user's costly patterns delay another
// user's logs by at most one post.
//
// run() executes on a worker thread; then done() receives the work on the core thread and frees
// it. In a core without threads, run() executes inside the next turn.
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
    WORK_SLOW,     // packing many files, decoding imported ones, deleting checkpoints, merging logs
    WORK_STORAGE,  // reading checkpoint storage, which may hang
    WORK_MATCHING, // matching patterns with log lines
    WORK_KINDS
};

struct work {
    struct fair_queue_item
        turn; // first member. Users take turns; user 0: the work belongs to nobody
    void (*run)(struct work *w, struct db_reader *db); // worker thread; its own reader
    void (*done)(struct core *c, struct work *w);      // core thread; frees it
    void (*drop)(struct work *w); // called instead of done() when the core has ended; frees it
};

int workers_new(struct core *c, struct workers **out, struct error *e);
int workers_start(struct workers *w, struct error *e);
// Core thread. ERR_BUSY: too much work waits, in all or of that user; the caller keeps the work.
int workers_send(struct workers *w, struct work *work, enum work_kind kind, struct error *e);
bool workers_stopping(
    const struct workers *w);               // any thread; work that can be repeated may stop early
bool workers_wait(const struct workers *w); // whether work waits and no thread runs
void workers_run(struct workers *w);        // runs waiting work on this thread
void workers_stop(
    struct workers *w); // runs waiting work and joins the threads; done() of all work follows
void workers_free(struct workers *w);

#endif
