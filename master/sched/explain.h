// The scheduler's explanations: why a gang waits, the entitlement of a team, the state of a pool.
// These functions read the state of the last pass and change no decision. The caller makes texts of
// the numbers.
#ifndef MUSTER_MASTER_SCHED_EXPLAIN_H
#define MUSTER_MASTER_SCHED_EXPLAIN_H

#include "master/sched/sched.h"

enum sched_reason_code {
    SCHED_PLACED,         // it does not wait
    SCHED_NOT_CONSIDERED, // it was added after the last pass
    // It can never run as the cluster and its limits are:
    SCHED_NO_AGENTS,    // the pool has no usable agent
    SCHED_OVER_AGENT,   // it needs one agent, and no agent that it may use has enough slots
    SCHED_OVER_POOL,    // all agents that it may use have too few slots together
    SCHED_OVER_MAXIMUM, // its team, or a team above it, may never hold so many slots
    // It waits for its own job or team:
    SCHED_OVER_LIMIT, // its job may hold no more slots at the same time
    SCHED_TEAM_FULL,  // its team, or a team above it, holds its maximum
    // It waits for others:
    SCHED_BUSY,       // too few slots are free, and their holders have as good a claim
    SCHED_FRAGMENTED, // enough slots are free, but not on one agent
    SCHED_BEHIND,     // the slots that it could use are reserved for a gang before it
    SCHED_DRAINING,   // other gangs are leaving for it
    SCHED_REASON_COUNT
};

struct sched_reason {
    enum sched_reason_code code;
    int needs;                     // slots with which it could start
    int free;                      // free slots of the pool
    int largest_free;              // most free slots on one agent
    int largest;                   // most slots of one agent, busy or not
    int total;                     // slots of the pool, busy or not
    int ahead;                     // waiting gangs before it in the order of decision
    int64_t behind;                // BEHIND: tag of the gang with the reservation
    int64_t job_used, job_limit;   // slots
    int team;                      // TEAM_FULL, OVER_MAXIMUM: the team with the maximum
    int64_t team_used, team_limit; // slots of that team
    int leaving;                   // DRAINING: gangs that have not left yet
    int would_fit; // BUSY, FRAGMENTED: a smaller number of slots that would start now; 0: none
    int64_t start; // estimated start if no other work arrives; 0: unknown
};
void sched_explain_gang(struct sched *s, int gang, int64_t now, struct sched_reason *out);

// Writes the tags of at most `cap` waiting gangs of a pool in the order of decision; returns how
// many gangs wait.
size_t sched_waiting_gangs(struct sched *s, int pool, int64_t now, int64_t *tags, size_t cap);

struct sched_share {  // of a team in a pool
    int64_t used;     // slots that it holds
    int64_t wanted;   // slots that it holds or waits for, up to its maximum
    int64_t entitled; // slots that it should have
    int64_t usage;    // slot-seconds consumed in all pools, decayed
    int64_t debt;     // slot-seconds that it was owed and did not get in all pools, decayed
};
void sched_team_share(struct sched *s, int team, int pool, int64_t now, struct sched_share *out);

struct sched_pool_view {
    int agents; // usable ones
    int slots, free;
    int waiting, running; // gangs
};
void sched_pool_inspect(const struct sched *s, int pool, struct sched_pool_view *out);
int64_t sched_slot_gang(const struct sched *s, int agent, int slot); // tag; SCHED_NONE: it is free

#endif
