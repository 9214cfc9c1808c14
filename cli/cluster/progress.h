// The progress of a cluster's machines, on a terminal: a table on standard error that is drawn
// again and again. Main thread, with the cluster's lock.
#ifndef MUSTER_CLI_CLUSTER_PROGRESS_H
#define MUSTER_CLI_CLUSTER_PROGRESS_H

#include "cli/cluster/cluster.h"

struct cluster_progress {
    struct cluster_work *x;
    bool shown;   // on a terminal
    size_t drawn; // lines above the cursor
    int64_t last_us;
};

void progress_begin(struct cluster_progress *p, struct cluster_work *x);
void progress_draw(struct cluster_progress *p);
void progress_end(struct cluster_progress *p); // deletes the table

#endif
