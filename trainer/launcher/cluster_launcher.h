// The link of a rank that an agent started: HTTP calls to the master.
//
// Rank 0 has two threads of its own: the reporter sends the queue of reports in order and repeats
// each for up to 30 minutes while training goes on; the listener waits for the wish to drain. Any
// answer "allocation has ended" (another start of the trial has taken over) ends the process at
// once with exit code CLUSTER_LAUNCHER_FENCED.
#ifndef MUSTER_TRAINER_LAUNCHER_CLUSTER_LAUNCHER_H
#define MUSTER_TRAINER_LAUNCHER_CLUSTER_LAUNCHER_H

#include "trainer/launcher/launcher.h"

enum { CLUSTER_LAUNCHER_FENCED = 80 };

// All borrowed.
struct cluster_launcher_config {
    const char *master, *token, *ca_file; // ca_file may be NULL
    const char *allocation, *task;
    int64_t trial, run; // run: which start of the trial
    int rank, world;
};

struct cluster_launcher; // opaque

int cluster_launcher_open(const struct cluster_launcher_config *config,
                          struct cluster_launcher **out, struct error *e);
// Sends what is still queued, but tries for no more than five seconds. NULL is fine.
void cluster_launcher_close(struct cluster_launcher *l);
struct launcher cluster_launcher_base(struct cluster_launcher *l);

// Uuids of the trial's completed checkpoints, newest first; heap array of heap strings.
int cluster_launcher_checkpoints(struct cluster_launcher *l, char ***uuids, int *count,
                                 struct error *e);

#endif
