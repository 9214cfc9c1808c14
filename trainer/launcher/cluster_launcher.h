// The launcher of a rank that an agent started: HTTP calls to the master.
//
// Rank 0 has two additional threads. The reporter sends the queue of reports in order and retries
// each report for up to 30 minutes while training continues. The listener waits for a preemption
// request. If the master answers that the allocation has ended, because another start of the trial
// took over, the process exits at once with CLUSTER_LAUNCHER_FENCED.
#ifndef MUSTER_TRAINER_LAUNCHER_CLUSTER_LAUNCHER_H
#define MUSTER_TRAINER_LAUNCHER_CLUSTER_LAUNCHER_H

#include "trainer/launcher/launcher.h"

enum { CLUSTER_LAUNCHER_FENCED = 80 };

// All pointers are borrowed.
struct cluster_launcher_config {
    const char *master, *token, *ca_file; // ca_file may be NULL
    const char *allocation, *task;
    int64_t trial, run; // run: the number of this start of the trial
    int rank, world;
};

struct cluster_launcher; // opaque

int cluster_launcher_open(const struct cluster_launcher_config *config,
                          struct cluster_launcher **out, struct error *e);
// Sends the remaining queue for at most five seconds. NULL is fine.
void cluster_launcher_close(struct cluster_launcher *l);
struct launcher cluster_launcher_base(struct cluster_launcher *l);

// UUIDs of the completed checkpoints of the trial, newest first: a heap array of heap strings.
int cluster_launcher_checkpoints(struct cluster_launcher *l, char ***uuids, int *count,
                                 struct error *e);

#endif
