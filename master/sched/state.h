// The scheduler's state, private to its sources: arrays that are indexed by handles. A handle of a
// removed agent, team, job or gang is reused; the free lists keep a fixed order.
#ifndef MUSTER_MASTER_SCHED_STATE_H
#define MUSTER_MASTER_SCHED_STATE_H

#include "master/sched/nearness.h"
#include "master/sched/rank.h"
#include "master/sched/rules.h"
#include "master/sched/sched.h"

struct sched_slot {
    bool enabled;
    int gang;                  // SCHED_NONE: free
    int next_agent, next_slot; // the next slot of the same gang
};

struct sched_agent { // fits into one cache line
    bool used;       // the handle is in use
    bool usable;
    int16_t zero_slot_gangs;
    int pool, rack;
    int slot_count;
    int enabled, free; // enabled slots; enabled slots without a gang; also of an unusable agent
    struct sched_slot *slots;
    struct near_slot *near_slots; // slot_count of them; NULL: nearness is unknown
    // During a pass, for gangs that were not considered yet:
    int available;    // free slots
    int incoming;     // slots that leaving gangs hand over
    int gain;         // in a search for victims: slots that the victims hold here
    int skip;         // in a search: this agent is already chosen
    int reserved_for; // the gang for which the agent is being cleared; SCHED_NONE
};

enum { TEAM_DEPTH = 4 }; // limit for the levels of the tree

struct sched_team {
    bool used;
    struct sched_team_spec spec;
    int parent, first_child, next_sibling; // siblings in the order of their creation; SCHED_NONE
    int depth;                             // 0: the root
    int jobs;
    int64_t held;  // slots in all pools
    int64_t usage; // slot-milliseconds, decayed to `counted_at`
    int64_t debt;  // thousandths of slot-milliseconds, decayed to `counted_at`
    int64_t counted_at;
};

struct sched_job {
    bool used;
    struct sched_job_spec spec;
    int64_t held; // slots of its running gangs
    int gangs;
    int64_t service; // slot-microseconds up to `counted_at`
    int64_t counted_at;
};

struct sched_gang { // the fields that a pass reads of every gang fill the first cache line
    bool used;
    bool placed;     // it runs
    bool leaving;    // it runs and was asked to leave
    bool moves;      // it leaves in order to run elsewhere
    bool overdue;    // it goes first because of its long wait
    bool considered; // a pass has happened since it was added
    int team;        // the owner of its queue; the root unless the pool shares fairly
    int slots;       // that it holds
    int min_slots;   // with which it can start
    int64_t since;   // placed: its start; waiting: the begin of the wait
    struct gang_rank rank;

    struct sched_gang_spec spec;
    int pool;                    // in which it waits or runs
    int first_agent, first_slot; // head of its chain of slots; a gang without slots: its agent
    int running_at;              // index in pool.running
    int64_t sequence;            // age among the gangs of its job
    struct queue_item key;       // its sort key in the queue
    int64_t saved;               // the newest checkpoint holds its work up to this time
    int64_t expected;            // placed: expected end; waiting: expected length; 0: unknown
    int resized_min; // running: it was resized to a range without its slots, from this number on; 0
    int retained;    // leaving: how many of its slots it will want again at once
    int beneficiary; // leaving: the gang that gets the slots, which may be gone; SCHED_NONE
    int cleared_agent;  // the agent that is being cleared for it; SCHED_NONE
    int64_t cleared_at; // when gangs were last moved for it; 0: never
    int64_t promised;   // number of the pass that promised it slots
    int64_t start;      // latest estimate
};

struct handle_list {
    int *items;
    size_t count, cap;
};

struct sched_pool {
    enum sched_policy policy;
    struct handle_list agents;   // ascending
    struct handle_list running;  // gangs with slots, in any order
    struct handle_list marked;   // gangs covered by the fast lane or by the rest of a parent team
    struct handle_list slotless; // waiting gangs without slots, oldest first
    struct team_share *shares;   // by team; share_cap of them
    int share_cap;
    int waiting_count, running_count; // gangs, including those without slots
    int64_t next;                     // when a pass is due without any event
    int64_t capacity;                 // slots of usable agents, as of the last pass
    int largest, usable;              // slots of the largest of them; their number
    int64_t typical;                  // average runtime of a gang
    int64_t beyond;    // during a pass: thousandths of a slot that overdue gangs take beyond shares
    int64_t set_aside; // during a pass: assumed size of those and the fast lane together
    int64_t set_aside_tried, set_aside_at;  // the first assumption of all passes at one time
    int64_t fast_saved, fast_used, fast_at; // fast lane: savings (thousandths x ms), use, last pass
    int64_t overdue;                        // slots of overdue gangs
    int64_t passes;                         // number of the current pass
    int reserving_gang;                     // the gang with the last pass's reservation; SCHED_NONE
    int64_t estimated;                      // pass of the newest estimates
    int64_t estimated_at;
};

struct placement_piece {
    int agent, count; // slots
};

struct handle_allocator { // of one array
    int *free;
    int free_count, count, cap;
};

struct sched {
    struct sched_pool *pools;
    int pool_count;
    struct sched_agent *agents;
    struct sched_team *teams;
    struct sched_job *jobs;
    struct sched_gang *gangs;
    struct handle_allocator agent_handles, team_handles, job_handles, gang_handles;
    int64_t sequence;
    int64_t slot_count; // of all agents
    int64_t now;        // of the newest event or pass
    struct sched_command *commands;
    struct sched_place *places; // of the commands of this pass
    struct queue_item *scratch; // for sorting; room for all gangs
    struct queue_item *victims; // of a search, the least valuable first
    struct ranked_gang *heap;   // waiting gangs of a pass, the first on top
    size_t command_cap, command_count, place_cap, place_count;
    size_t heap_cap, heap_count;
    struct sched_rules rules;
    struct placement_piece *pieces; // of the gang that is placed; room for all agents
    int64_t *rack_slots;            // of a search, by rack
    int rack_count;
    struct slot_tally all, preemptible; // of a pass: all running slots, and those past min_runtime
};

#endif
