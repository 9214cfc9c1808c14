// A cluster's own history as a trace: what its trials asked for, how long they ran, and the agents
// it has. Reads a store that a master may be writing at the same time; changes nothing. One thread.
#ifndef MUSTER_SIMULATE_HISTORY_H
#define MUSTER_SIMULATE_HISTORY_H

#include "simulate/trace.h"

struct db_reader;

struct history {
    struct trace trace;          // a trial is one job, of team workspace and user
    struct simulate_node *nodes; // its agents of the pool that are enabled
    size_t node_count;
    size_t unfinished; // jobs that still run: as long as they have run so far
    size_t unstarted;  // trials left out: nobody knows how long they would run
};

// `path`: the store's folder or its file. `pool`: NULL when the store has one pool alone. A job's
// time of submission is its trial's first request for slots, its length the time its allocations
// held slots, summed. Only jobs submitted in [from, to), microseconds after the first of them all.
int history_read(const char *path, const char *pool, int64_t from, int64_t to, struct history *out,
                 struct error *e);
// The same of a store that is open.
int history_of(struct db_reader *r, const char *pool, int64_t from, int64_t to, struct history *out,
               struct error *e);
int history_usual_slots(const struct history *h); // of a node; 0: it has none
void history_add_nodes(struct history *h, size_t count, int slots);
void history_free(struct history *h);

#endif
