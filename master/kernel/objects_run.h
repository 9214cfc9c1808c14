// What the core keeps of what runs: allocations with their parts, agents, pools. Core thread alone.
// Owners: objects.h.
#ifndef MUSTER_MASTER_KERNEL_OBJECTS_RUN_H
#define MUSTER_MASTER_KERNEL_OBJECTS_RUN_H

#include <jansson.h>
#include <stdint.h>

#include "base/rng.h"
#include "master/kernel/states.h"
#include "master/kernel/timers.h"
#include "master/sched/explain.h"

enum { TASK_ID = 64, ALLOCATION_ID = 88 }; // bytes of their texts: "7.12", "7.12.3"

enum outcome { // how an allocation ends; the first cause counts
    OUTCOME_NONE,
    OUTCOME_COMPLETED,
    OUTCOME_PREEMPTED, // also: has acknowledged the drain
    OUTCOME_FAILED,    // error of the program
    OUTCOME_PEER,      // native ranks lost their peers: what became of these counts, if it is heard
    OUTCOME_LOST,      // error of the cluster
    OUTCOME_KILLED,    // by the master
    OUTCOMES
};

enum part_state { PART_ASSIGNED, PART_STARTING, PART_RUNNING, PART_EXITED };

struct part { // of an allocation, on one agent
    struct allocation *allocation;
    struct agent *agent;
    enum part_state state;
    bool reported; // in the sync that is being read
    bool daemon;   // serves the others: ended with the last of them
    bool idle;     // it has ended, and none of its ranks had been started
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
    int slots; // wanted while it is queued, then held
    struct part *parts;
    int part_count, world_size;
    bool launched_here; // by this process, which has heard all of its ranks
    char token[65];
    bool draining;
    char *leave; // by the scheduler's will: the sentence that says why; NULL: not
    enum outcome outcome;
    char *reason;                  // of the outcome, for people
    char *words;                   // .. the last lines of the rank that failed; NULL: none
    bool lost_peer;                // .. which failed after a peer: another rank is the cause
    int64_t queued_at, started_at; // wall
    int64_t runs_since;            // wall: when all its machines were seen to run; 0: never
    char resume[UUID_TEXT];        // checkpoint it starts from; "": none
    int64_t resume_steps;
    int64_t measured_at; // monotonic: since then its progress has gone on from `measured`
    double measured;
    struct timer drain_timer;
    struct parked *drain_waiters, *rendezvous_waiters;
    struct gather *gathers;
};

struct agent {
    char *id, *address, *hostname, *version, *master_url, *session, *old_session;
    char *instance; // which of those of this id it is; "": it did not say
    enum agent_state state;
    struct pool *pool;
    bool enabled, draining; // what an operator set; draining: disabled, but what runs may end
    json_t *slots;          // as reported
    enum slot_use { SLOT_USED, SLOT_DISABLED, SLOT_DRAINING } * slot_use; // as an operator set it
    int use_count; // of slot_use: not less than slot_count
    int slot_count;
    json_t *overruled;                     // of each slot: the fault an operator overruled, or null
    json_t *use;                           // {slots: [{name: value}]}: newest; NULL: not told
    int64_t used_at;                       // wall, of the agent
    char *rack;                            // "": not known
    int handle, handle_slots, handle_rack; // of the scheduler; SCHED_NONE: none yet
    struct pool *handle_pool;
    json_t *handle_near; // the slots of which it knows the groups
    int strangers;       // tasks it still runs that must not be: its slots are not free
    struct part *parts;
    int64_t desired;     // version of what should run there
    int64_t applied;     // newest version its reports knew of
    struct parked *poll; // its parked sync
    bool answer_due;
    struct agent *due_next;
    struct timer silence, grace;
    int64_t registered_at, heard_at; // wall
    int64_t connected_at;            // wall: since then without a break
    int64_t lost_at;                 // wall: when it was given up; 0: it was not
    json_t *ran;                     // .. and what ran there; NULL: nothing
};

struct pool {
    char *name;
    int handle; // of the scheduler
    enum sched_policy policy;
    bool configured;             // it is there without agents
    int max_user_priority;       // the highest (smallest) that users may give
    struct sched_pool_view told; // to those who follow its queue
};

#endif
