// The link of a rank that an agent started: HTTP calls to the master.
//
// Rank 0 has two threads of its own: the reporter sends the queue of reports in order and repeats
// each for up to 30 minutes while training goes on; the listener waits for the wish to drain. Any
// answer "allocation has ended" (another start of the trial has taken over) ends the process at
// once with exit code LINK_FENCED.
#ifndef MUSTER_TRAINER_LINK_CLUSTER_H
#define MUSTER_TRAINER_LINK_CLUSTER_H

#include "trainer/link.h"

enum { LINK_FENCED = 80 };

// All borrowed.
struct link_cluster_config {
    const char *master, *token, *ca_file; // ca_file may be NULL
    const char *allocation, *task;
    int64_t trial, run; // run: which start of the trial
    int rank, world;
};

struct link_cluster; // opaque

int link_cluster_open(const struct link_cluster_config *config, struct link_cluster **out,
                      struct error *e);
// Sends what is still queued, but tries for no more than five seconds. NULL is fine.
void link_cluster_close(struct link_cluster *l);
struct link link_cluster_link(struct link_cluster *l);

// Uuids of the trial's completed checkpoints, newest first; heap array of heap strings.
int link_cluster_checkpoints(struct link_cluster *l, char ***uuids, int *count, struct error *e);

#endif
