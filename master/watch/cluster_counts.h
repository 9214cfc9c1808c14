// The cluster in numbers, for GET /metrics. The core thread counts; any thread may read the result.
#ifndef MUSTER_MASTER_WATCH_CLUSTER_COUNTS_H
#define MUSTER_MASTER_WATCH_CLUSTER_COUNTS_H

#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "master/kernel/states.h"
#include "master/watch/alerts.h"

struct core;

enum slot_count { // the state of a slot; the first that fits
    SLOTS_ALLOCATED,
    SLOTS_UNREACHABLE, // their agent is not connected
    SLOTS_FAULTY,
    SLOTS_DISABLED, // or draining
    SLOTS_FREE,
    SLOT_COUNTS
};
enum job_count { JOBS_QUEUED, JOBS_RUNNING, JOBS_PAUSED, JOBS_STOPPING, JOB_COUNTS };
// Words of the label `state`: "allocated", "queued", "connected".
extern const char *const slot_count_words[SLOT_COUNTS];
extern const char *const job_count_words[JOB_COUNTS];
extern const char *const agent_count_words[AGENT_STATES];

struct pool_counts {
    const char *name;
    int64_t slots[SLOT_COUNTS], jobs[JOB_COUNTS], agents[AGENT_STATES];
    int64_t waiting_gangs;
};

struct cluster_counts {
    const struct pool_counts *pools;
    size_t pool_count;
    int64_t alerts[ALERT_KINDS]; // open ones
};

// Counts on the core thread, into the arena.
const struct cluster_counts *cluster_count(struct core *c, struct arena *arena);

// Copies the counts into the arena.
void cluster_counts_copy(const struct cluster_counts *from, struct arena *arena,
                         struct cluster_counts *out);

#endif
