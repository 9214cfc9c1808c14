// The scheduler's state, shared by its sources alone: arrays with integer handles. Handles of
// removed agents, jobs and gangs are used again through lists of the free ones, in a fixed order.
#ifndef MUSTER_MASTER_SCHED_STATE_H
#define MUSTER_MASTER_SCHED_STATE_H

#include "master/sched/sched.h"

struct slot {
    bool enabled;
    int gang;                  // SCHED_NONE: free
    int next_agent, next_slot; // the gang's next slot
};

struct agent {
    bool used; // the handle is in use
    bool usable;
    int pool;
    int slot_count;
    int enabled, free; // slots enabled; slots enabled and free; whether the agent is usable or not
    int zero_slot_gangs;
    struct slot *slots;
};

struct job {
    bool used;
    struct sched_job spec;
    int64_t held; // slots of its running gangs
    int gangs;
};

struct gang {
    bool used;
    int job;
    int slots;
    bool one_agent;
    bool placed;
    int64_t tag, sequence;       // sequence: age among the gangs of a job
    int first_agent, first_slot; // its places, through slot.next_*; a gang of no slots: the agent
    enum sched_reason_code reason;
    int ahead;      // as of the last pass
    int64_t behind; // tag
};

struct pool {
    int *waiting; // gangs in the order of decision
    size_t waiting_count, waiting_cap;
    int *agents; // handles, ascending
    size_t agent_count, agent_cap;
    int running;
};

struct handles { // of one array
    int *free;
    int free_count, count, cap;
};

struct sched {
    struct pool *pools;
    int pool_count;
    struct agent *agents;
    struct job *jobs;
    struct gang *gangs;
    struct handles agent_handles, job_handles, gang_handles;
    int64_t sequence;
    int64_t slot_count; // of all agents
    struct sched_command *commands;
    struct sched_place *places; // of this pass's commands
    size_t command_cap, place_cap, place_count;
};

// Slots of an agent that count today, busy or not, and the free among them.
static inline int agent_capacity(const struct agent *a)
{
    return a->usable ? a->enabled : 0;
}
static inline int agent_free_slots(const struct agent *a)
{
    return a->usable ? a->free : 0;
}

void gang_take(struct sched *s, int gang, struct sched_place place);
void gang_started(struct sched *s, int gang); // after its places were taken
void waiting_remove(struct sched *s, int gang);

#endif
