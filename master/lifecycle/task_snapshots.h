// Snapshots for running tasks and their agents: plain copies of live state in the arena of a
// request, which master/views/live_state writes as JSON on an http thread.
#ifndef MUSTER_MASTER_LIFECYCLE_TASK_SNAPSHOTS_H
#define MUSTER_MASTER_LIFECYCLE_TASK_SNAPSHOTS_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct rendezvous_snapshot { // one address and number of slots for each machine
    const char *const *addresses;
    const int *slots;
    int count;
    int64_t rank; // of this machine
};

struct task_snapshot { // the part of an allocation that should run on the agent
    const char *allocation_id, *task_id;
    int64_t trial_id, experiment_id, epoch, grace_s;
    bool kill;               // it must end; the fields below are not set
    const char *context_url; // of its files; NULL: it has none
    const json_t *argv;
    bool native;
    const json_t *env; // NULL: the task has begun, and only needs to know that it should go on
    const struct rendezvous_snapshot *rendezvous; // if env is set
    const json_t *hang;    // if env is set: limits in seconds; NULL: the task may do nothing
    const json_t *mounts;  // if env is set; api/config/mounts.h
    const json_t *account; // if env is set: {uid, gid, user, group}; NULL: the agent's choice
    const int *slots;
    int slot_count, first_rank, rank_count;
};

struct poll_snapshot { // the answer to an agent's poll
    int64_t version;
    const struct task_snapshot *items;
    size_t count;
    const char *const *forget; // allocations that the agent need not report any more
    size_t forget_count;
};

struct gather_snapshot { // the values of all peers, as JSON texts, by rank
    const char *const *values;
    int count;
};

#endif
