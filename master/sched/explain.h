// What the scheduler can say about itself: why a gang waits, what a team is entitled to, what a
// pool has. Readers of the state as of the last pass; they change nothing that a pass decides by.
// The texts made of these numbers are the caller's.
#ifndef MUSTER_MASTER_SCHED_EXPLAIN_H
#define MUSTER_MASTER_SCHED_EXPLAIN_H

#include "master/sched/sched.h"

enum sched_reason_code {
    SCHED_PLACED,         // it does not wait
    SCHED_NOT_CONSIDERED, // came after the last pass
    // It cannot run however long it waits:
    SCHED_NO_AGENTS,    // the pool has no usable agent
    SCHED_OVER_AGENT,   // must be on one agent and none that it may use has so many slots
    SCHED_OVER_POOL,    // the agents that it may use have fewer slots in all
    SCHED_OVER_MAXIMUM, // its team, or one above it, may never hold so many
    // It waits for its own side:
    SCHED_OVER_LIMIT, // its job may hold no more slots at a time
    SCHED_TEAM_FULL,  // its team, or one above it, holds its maximum
    // It waits for others:
    SCHED_BUSY,       // too few slots are free, and those who hold them have as good a claim
    SCHED_FRAGMENTED, // enough are free, but not on one agent
    SCHED_BEHIND,     // the slots it could use are kept for a gang before it
    SCHED_DRAINING,   // its slots are being handed over
    SCHED_REASON_COUNT
};

struct sched_reason {
    enum sched_reason_code code;
    int needs;        // slots it is content with
    int free;         // slots free in the pool
    int largest_free; // most slots free on one agent
    int largest;      // most slots an agent has, busy or not
    int total;        // slots of the pool, busy or not
    int ahead;        // gangs that wait before it in the order of decision
    int64_t behind;   // BEHIND: tag of the gang the slots are kept for
    int64_t job_used, job_limit;
    int team;                      // TEAM_FULL, OVER_MAXIMUM: whose maximum it is
    int64_t team_used, team_limit; // of that team
    int leaving;                   // DRAINING: gangs that are still to leave for it
    int could; // BUSY, SPREAD: slots, fewer than it needs, with which it would start now; 0: none
    int64_t start; // about when it starts, if nothing new comes; 0: cannot be said
};
void sched_explain_gang(struct sched *s, int gang, int64_t now, struct sched_reason *out);

// Those that wait in a pool in the order of decision, as tags; returns how many there are in all
// and writes at most `cap`.
size_t sched_queue(struct sched *s, int pool, int64_t now, int64_t *tags, size_t cap);

struct sched_share {  // of a team in a pool
    int64_t used;     // slots it holds
    int64_t wanted;   // slots it holds or waits for, at most its maximum
    int64_t entitled; // slots it should have by the tree: of what it wants
    int64_t usage;    // slot-seconds it has had, decayed; over all pools
    int64_t debt;     // slot-seconds it was entitled to, wanted and did not get, decayed; all pools
};
void sched_team_share(struct sched *s, int team, int pool, int64_t now, struct sched_share *out);

struct sched_pool_view {
    int agents; // usable
    int slots, free;
    int waiting, running; // gangs
};
void sched_pool_inspect(const struct sched *s, int pool, struct sched_pool_view *out);
int64_t sched_slot_gang(const struct sched *s, int agent, int slot); // tag, or SCHED_NONE if free

#endif
