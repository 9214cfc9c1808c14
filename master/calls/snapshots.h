// Snapshots: plain copies of live state that core handlers make for their callers, and that
// master/views/live_state writes as JSON on an http thread. A snapshot lies in the arena of its
// request and points to nothing of the core: texts and JSON values are copied. Times are
// microseconds of the wall clock; an estimated start of 0 is not known.
#ifndef MUSTER_MASTER_CALLS_SNAPSHOTS_H
#define MUSTER_MASTER_CALLS_SNAPSHOTS_H

#include "master/common/kinds.h"
#include "master/common/request.h"
#include "master/kernel/objects_run.h"
#include "master/sched/sched.h"

struct page_snapshot {                   // the part of a list that the caller asked for
    int64_t offset, limit, shown, total; // limit 0: all
};

// --- agents (agents.c) ---------------------------------------------------------------------------

struct container_snapshot { // the part of an allocation on one agent
    const char *id, *task_id, *allocation_id, *agent_id;
    enum part_state state;
    const json_t *const *devices; // as the agent reports them, one for each slot that it holds
    const int *slots;             // their numbers
    int slot_count;
};

struct agent_snapshot {
    const char *id, *pool, *address, *version, *hostname, *rack;
    int64_t registered_at, heard_at;
    bool enabled, draining, connected, lost;
    const json_t *devices;   // one for each slot, as the agent reports it
    const json_t *use, *ran; // use of the slots; what ran when it was lost; NULL: none known
    const json_t *protections, *limits; // of its tasks, as it reports them; NULL: not asked for
    const struct slot_snapshot {
        bool enabled, draining, fault_overruled;
        const struct container_snapshot *container; // NULL: the slot is free
    } * slots;
    int slot_count;
    const struct container_snapshot *containers;
    int container_count;
};

struct agents_snapshot { // core_slot: one item, whose slot is number rq->id
    struct page_snapshot page;
    const struct agent_snapshot *items; // page.shown of them
};

// --- pools and shares (pools.c) ------------------------------------------------------------------

struct pool_snapshot {
    const char *name;
    const char *device_type; // "CUDA"; "CPU" where no agent is known
    enum sched_policy policy;
    int default_priority, max_user_priority;
    int64_t agents_away;
    struct sched_pool_view load;
};

struct pools_snapshot {
    struct page_snapshot page;
    const struct pool_snapshot *items; // page.shown of them
};

struct share_snapshot {                // of a workspace, or of one user in it, in one pool
    const struct share_snapshot *next; // the result is the empty head of this list
    const char *pool, *workspace;      // workspace "": the caller may not see it
    int64_t workspace_id, user_id;     // user_id 0: of the workspace itself
    double weight;
    int64_t guaranteed, maximum; // slots
    struct sched_share use;
    int64_t waiting, running; // experiments
};

// --- the queue (queue.c, wait_reason.c) ----------------------------------------------------------

struct job_snapshot {
    const char *username, *name; // "": the caller may not see them
    const char *pool, *entity_id, *job_id, *reason_code, *reason;
    enum kind kind;
    int64_t position; // in its pool, from 0
    int64_t user_id, workspace_id, submitted_at, estimated_start, wanted, held;
    int priority;
    double weight, progress;
    bool scheduled, preemptible;
};

struct jobs_snapshot {
    struct page_snapshot page;
    const struct job_snapshot *items; // page.shown of them
};

struct allocations_snapshot {
    const struct allocation_snapshot *items;
    size_t count;
};

struct allocation_snapshot {
    const char *id, *task_id, *pool;
    const char *name, *job_name; // "": the caller may not see its experiment
    enum allocation_state state;
    enum sched_policy policy;
    int slots, priority;
    int64_t queued_at;
    const struct container_snapshot *containers;
    int container_count;
};

struct trial_wait { // why a trial waits for its slots
    int64_t trial_id;
    const char *allocation_id, *code, *reason, *resource, *team;
    struct sched_reason numbers;
    int64_t estimated_start;
    int64_t behind; // an experiment id; of SCHED_BEHIND only
};

struct experiment_wait { // why an experiment waits
    int64_t experiment_id;
    const char *reason; // "": it does not wait
    const char *pool; // NULL: the experiment has ended or is unmanaged; the other fields are empty
    int priority;
    int64_t wanted, held; // slots
    const struct trial_wait *trials;
    size_t trial_count;
};

// --- submissions and verbs (submit.c, bulk.c) ----------------------------------------------------

struct experiment_preview { // of a submission that is validated only
    const char *config_text;
    const json_t *config; // complete
    int64_t project_id, user_id, submitted_at;
};

struct action_results { // of one verb on many experiments
    const struct action_result {
        int64_t id;
        const char *error; // "": done
    } * items;
    size_t count;
};

// --- for the handlers of this folder; core thread ------------------------------------------------

// The query parameters offset and limit of a list of `total` items.
int page_read(struct request *rq, int64_t total, struct page_snapshot *out, struct error *e);
// `devices`: the copied devices of the agent; NULL: its own are copied.
void container_copy(struct request *rq, const struct part *p, const json_t *devices,
                    struct container_snapshot *out);

#endif
