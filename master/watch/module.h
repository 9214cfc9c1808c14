// The module of the folder watch: the alerts in the core, and the request by which the watch thread
// (watch.h) asks the core about the cluster.
#ifndef MUSTER_MASTER_WATCH_MODULE_H
#define MUSTER_MASTER_WATCH_MODULE_H

#include "master/kernel/module.h"
#include "master/watch/cluster_counts.h"

extern const struct core_module watch_module;

struct watch_input {                // rq->input of core_watch
    const struct trouble *troubles; // that the watch thread sees
    size_t trouble_count;
    bool counts; // rq->result shall be a struct cluster_counts
    bool writes; // a row is written, which proves that the store commits
};

// Adds the trouble that only the core sees, begins and ends alerts, and counts.
core_handler core_watch;

#endif
