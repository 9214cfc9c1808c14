// Turns the history of a cluster into a trace: the slots that its trials requested, how long they
// ran, and the agents of the cluster. It reads a store, which a master may be writing at the same
// time, and changes nothing. One thread.
#ifndef MUSTER_SIMULATE_HISTORY_H
#define MUSTER_SIMULATE_HISTORY_H

#include "simulate/trace.h"

struct db_reader;

struct cluster_history {
    struct trace trace;          // each trial is a job; teams are workspaces and users
    struct simulate_node *nodes; // the enabled agents of the pool
    size_t node_count;
    size_t unfinished; // jobs that still run; their length is their runtime so far
    size_t unstarted;  // trials that were left out because they never ran
};

// `path`: the folder or the file of the store. `pool`: NULL if the store has only one pool. A job
// is submitted when its trial first requested slots; its length is the total time for which its
// allocations held slots. Only jobs submitted in [from, to) count, in microseconds since the first
// submission.
int history_read(const char *path, const char *pool, int64_t from, int64_t to,
                 struct cluster_history *out, struct error *e);
// The same for a store that is open.
int history_of(struct db_reader *r, const char *pool, int64_t from, int64_t to,
               struct cluster_history *out, struct error *e);
int history_usual_slots(
    const struct cluster_history *h); // the most common size; 0: there is no node
void history_add_nodes(struct cluster_history *h, size_t count, int slots);
void history_free(struct cluster_history *h);

#endif
