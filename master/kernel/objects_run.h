// The live objects that run: allocations with their parts, agents, pools. Core thread alone.
// objects.h says who owns them.
#ifndef MUSTER_MASTER_KERNEL_OBJECTS_RUN_H
#define MUSTER_MASTER_KERNEL_OBJECTS_RUN_H

#include <jansson.h>
#include <stdint.h>

#include "base/rng.h"
#include "master/common/task_id.h"
#include "master/kernel/states.h"
#include "master/kernel/timers.h"
#include "master/sched/explain.h"

enum { ALLOCATION_TOKEN = 65 }; // 64 hexadecimal digits

enum outcome { // how an allocation ends; the first cause decides
    OUTCOME_NONE,
    OUTCOME_COMPLETED,
    OUTCOME_PREEMPTED, // or it has acknowledged a drain
    OUTCOME_FAILED,    // an error of the program
    OUTCOME_PEER,   // native ranks lost their peers; the failure of the peer replaces this outcome
                    // when it is reported
    OUTCOME_LOST,   // an error of the cluster
    OUTCOME_KILLED, // by the master
    OUTCOMES
};

enum part_state { PART_ASSIGNED, PART_STARTING, PART_RUNNING, PART_EXITED };

struct part { // the share of an allocation on one agent
    struct allocation *allocation;
    struct agent *agent;
    enum part_state state;
    bool reported;      // by the poll that is being read
    bool daemon;        // it only serves the other parts, and ends with the last of them
    bool never_started; // it has exited, and none of its ranks was ever started
    int *slots;
    int slot_count;
    int first_rank, rank_count;
    struct part *next_on_agent;
};

struct allocation {
    char id[ALLOCATION_ID];
    struct trial *trial;
    int64_t epoch;
    enum allocation_state state;
    int gang; // of the scheduler
    struct pool *pool;
    int slots; // requested while it is queued, then held
    struct part *parts;
    int part_count, world_size;
    bool launched_here;           // by this process of the master, which has heard all of its ranks
    char token[ALLOCATION_TOKEN]; // of the allocation; "": not known
    char user_token[ALLOCATION_TOKEN]; // of its owner, valid as long
    bool draining;
    bool polls; // the program has asked whether it should leave, so it gets time to save its work
    char *preempt_reason; // the sentence why the scheduler preempts it; NULL: it does not
    enum outcome outcome;
    char *reason;      // of the outcome, for people
    char *last_output; // of the rank that failed; NULL: none
    bool lost_peer;    // that rank failed because it lost a peer: another rank is the cause
    int64_t queued_at, started_at; // wall
    int64_t runs_since;            // wall: when all machines were first seen to run it; 0: never
    char resume[UUID_TEXT];        // the checkpoint it starts from; "": none
    int64_t resume_steps;
    int64_t measured_at; // monotonic: when the trial's progress was `measured`
    double measured;
    struct timer drain_timer;
    struct parked_request *drain_waiters, *rendezvous_waiters;
    struct gather_round *gathers;
};

struct agent {
    char *id, *address, *hostname, *version, *master_url, *session, *old_session;
    char *instance; // distinguishes agents that use the same id; "": not reported
    enum agent_state state;
    struct pool *pool;
    bool unreachable;       // the connection of its poll has broken, and it has not called since
    bool enabled, draining; // set by an operator; draining: disabled, but running tasks may end
    json_t *slots;          // as the agent reports them
    enum slot_setting {
        SLOT_ENABLED,
        SLOT_DISABLED,
        SLOT_DRAINING
    } *
        slot_setting;       // set by an operator
    int slot_setting_count; // length of slot_setting, at least slot_count
    int slot_count;
    json_t *overruled;            // for each slot the fault that an operator overruled, or null
    json_t *utilization;          // newest {slots: [{name: value}]}; NULL: not reported
    int64_t utilization_at;       // wall clock of the agent
    char *rack;                   // "": not known
    char *mount_fault;            // why its tasks cannot have mounts of their own; "": they can
    json_t *protections, *limits; // of its tasks, as it reports them; NULL: not reported
    int handle, handle_slots, handle_rack; // in the scheduler; SCHED_NONE: none yet
    struct pool *handle_pool;
    json_t *handle_near; // the slots whose groups the scheduler knows
    int stray_tasks;     // tasks that it still runs and must not run: its slots are not free
    struct part *parts;
    int64_t desired;             // version of the desired tasks
    int64_t applied;             // newest version that its reports were based on
    struct parked_request *poll; // its parked poll
    bool answer_due;
    struct agent *due_next;
    struct timer silence, grace;
    int64_t registered_at, heard_at; // wall
    int64_t connected_at;            // wall: connected without a break since then
    int64_t lost_at;                 // wall: when it was given up; 0: it was not
    json_t *lost_runs;               // the tasks that it ran then; NULL: none
};

struct pool {
    char *name;
    int handle; // in the scheduler
    enum sched_policy policy;
    bool configured;                  // it exists even without agents
    int64_t preemption_timeout_us;    // for experiments that do not say it
    int max_user_priority;            // the highest priority (smallest number) that users may give
    struct sched_pool_view last_view; // the state of its queue that was last marked as changed
};

#endif
