// The scheduler's state, shared by its sources alone: arrays with integer handles. Handles of
// removed agents, teams, jobs and gangs are used again through lists of the free ones, in a fixed
// order.
#ifndef MUSTER_MASTER_SCHED_STATE_H
#define MUSTER_MASTER_SCHED_STATE_H

#include "master/sched/nearness.h"
#include "master/sched/rank.h"
#include "master/sched/rules.h"
#include "master/sched/sched.h"

struct slot {
    bool enabled;
    int gang;                  // SCHED_NONE: free
    int next_agent, next_slot; // the gang's next slot
};

struct agent { // one line of the cache
    bool used; // the handle is in use
    bool usable;
    int16_t zero_slot_gangs;
    int pool, rack;
    int slot_count;
    int enabled, free; // slots enabled; slots enabled and free; whether the agent is usable or not
    struct slot *slots;
    struct spot *spots; // as many; NULL: they are all alike
    // Of a pass: what is left for the gangs not considered yet.
    int open;  // free slots
    int later; // slots that leaving gangs hand over
    int gain;  // of a search for victims: slots that they have here
    int mark;  // of a search: it has taken this one already
    int kept;  // gang that it is being cleared for; SCHED_NONE: none
};

enum { TEAM_DEPTH = 4 }; // most levels of the tree

struct team {
    bool used;
    struct sched_team_spec spec;
    int parent, first_child, next_sibling; // children in the order of their adding; SCHED_NONE
    int depth;                             // of the root: 0
    int jobs;
    int64_t held;  // slots, over all pools
    int64_t usage; // slot-milliseconds, decayed to `counted_at`
    int64_t debt;  // the same in thousandths
    int64_t counted_at;
};

struct job {
    bool used;
    struct sched_job_spec spec;
    int64_t held; // slots of its running gangs
    int gangs;
    int64_t service; // slot-microseconds up to `counted_at`
    int64_t counted_at;
};

struct gang { // what a pass reads of all of them comes first, in one line of the cache
    bool used;
    bool placed;     // it runs
    bool leaving;    // .. and was asked to go
    bool moves;      // .. to run elsewhere
    bool overdue;    // it has waited for so long that it goes first
    bool considered; // there was a pass since it came
    int team;        // whose queue it is in: the root's unless the pool shares fairly
    int slots;       // that it has
    int min_slots;   // .. that it is content with
    int64_t since;   // placed: start; else: begin of the wait
    struct rank rank;

    struct sched_gang_spec spec;
    int pool;                    // where it waits or runs
    int first_agent, first_slot; // its places, through slot.next_*; a gang of no slots: the agent
    int running_at;              // index in the pool's list of those that run
    int64_t sequence;            // age among the gangs of a job
    struct item key;             // of its place in the queue
    int64_t saved;               // its work up to here is in a checkpoint
    int64_t expected;            // placed: its end; else: how long it will take; 0: unknown
    int keeps;                   // leaving: of its slots, how many it will want again at once
    int leaves_for;     // leaving: gang that gets the slots; SCHED_NONE; may have gone meanwhile
    int clears;         // agent that is being cleared for it; SCHED_NONE: none
    int64_t cleared_at; // when others were last moved for it; 0: never
    int64_t promised;   // the pass that has promised it slots
    int64_t start;      // of the last estimate
};

struct list {
    int *items;
    size_t count, cap;
};

struct pool {
    enum sched_policy policy;
    struct list agents;   // handles, ascending
    struct list running;  // gangs with slots, in any order
    struct list marked;   // gangs that were covered by more than their team's own entitlement
    struct list slotless; // waiting gangs of no slots, oldest first
    struct share *shares; // by team; `share_cap` of them
    int share_cap;
    int waiting_count, running_count; // gangs, those of no slots too
    int64_t next;                     // when something changes though nothing happens
    int64_t capacity;                 // as of the last pass: slots of usable agents
    int largest, usable;              // .. of one agent; such agents
    int64_t typical;                  // how long a gang runs here
    int64_t beyond; // of a pass: thousandths that overdue gangs take beyond their team's share
    int64_t aside;  // of a pass: those, and what the fast lane takes, as assumed
    int64_t aside_tried, aside_at;          // the first assumption of all passes of a moment
    int64_t fast_saved, fast_used, fast_at; // fast lane: thousandths x ms left; of the last pass
    int64_t overdue; // slots of the gangs that were given the first place for their wait
    int64_t passes;
    int keeper;        // of the last pass: gang that free slots are kept for; SCHED_NONE
    int64_t estimated; // pass of the newest estimates
    int64_t estimated_at;
};

struct piece {
    int agent, count; // slots
};

struct handles { // of one array
    int *free;
    int free_count, count, cap;
};

struct sched {
    struct pool *pools;
    int pool_count;
    struct agent *agents;
    struct team *teams;
    struct job *jobs;
    struct gang *gangs;
    struct handles agent_handles, team_handles, job_handles, gang_handles;
    int64_t sequence;
    int64_t slot_count; // of all agents
    int64_t now;        // of the newest event or pass
    struct sched_command *commands;
    struct sched_place *places; // of this pass's commands
    struct item *scratch;       // for sorting, as many as there are gangs
    struct item *victims;       // of a search, the least valuable first
    struct ranked *heap;        // waiting gangs, the first first, of a pass
    size_t command_cap, command_count, place_cap, place_count;
    size_t heap_cap, heap_count;
    struct sched_rules rules;
    struct piece *pieces; // of a gang to be placed; as many as there are agents
    int64_t *rack_slots;  // of a search, by rack
    int rack_count;
    struct tally all, ripe; // of a pass; ripe: run for long enough to be preempted
};

#endif
