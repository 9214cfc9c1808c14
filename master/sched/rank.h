// The order of decision: the keys by which gangs are sorted within their team and within a pool.
#ifndef MUSTER_MASTER_SCHED_RANK_H
#define MUSTER_MASTER_SCHED_RANK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum entitlement { ENTITLED_FAST, ENTITLED_SELF, ENTITLED_TEAM, ENTITLED_NOT, ENTITLEMENTS };
enum { MILLISLOTS = 1000 }; // entitlements count in thousandths of a slot
enum { LEVEL_OVERDUE = 0, LEVEL_FIRST = 1, LEVELS_CAP = 8 };

struct gang_rank { // position in the order of decision; lower values come first
    int8_t entitlement, level;
    int32_t place; // in the team's queue
    int64_t order;
};

struct queue_item { // a gang in its queue, with its sort key
    int64_t first;  // priority, then level
    int64_t second; // order of the job
    int64_t third;  // age among the gangs of the job
    int gang;
};

struct sched_queue { // all gangs of a team, running and waiting, in the team's own order
    struct queue_item *items;
    size_t count, cap;
    int64_t due; // when the level of a gang changes next
};

struct queue_cursor { // a position in a queue, and the slots of running gangs behind it
    size_t at;
    int64_t preemptible, protected; // gangs that have run for min_runtime; others
    int64_t priority;               // of the gang at the position
    int64_t lower_protected;        // protected slots of gangs with a lower priority
};

struct team_share {           // of a team in a pool; every pass reads the first fields of all teams
    struct sched_queue queue; // of a leaf
    int64_t held, waiting;    // slots of its gangs and of the teams below it
    size_t uncovered;         // index of the first gang that is not covered
    size_t first_level;       // index of the first such gang of the first level
    // As of the last pass, in thousandths of a slot:
    int64_t wanted;
    int64_t nominal;    // its entitlement
    int64_t counted_at; // when its debt in this pool was counted
    int64_t entitled;   // its entitlement without the fast lane and the overdue gangs
    int64_t rest;       // the part of it that covers no gang
    int64_t beyond;     // slots of covered gangs beyond it
    // As of the last ranking of the queue. The ranking holds until the share is dirty, the time
    // reaches ages_at, `entitled` shrinks by more than `rest` or grows by `margin`, or the debt
    // leaves its bounds.
    bool dirty;
    bool uses_debt; // a gang of the team runs on the team's debt until the debt is paid
    bool exceeded;  // a gang was found that does not fit into the rest
    int64_t ranked_with, margin, ages_at, debt_from, debt_to;
    unsigned waits;    // a bit for each entitlement that a waiting gang has
    unsigned unmarked; // the same without the gangs in pool.marked
    // The fewest slots of other teams that any waiting gang of this team lacks: now, and once the
    // running gangs of its own team behind it have run for min_runtime.
    int64_t lacks, lacks_later;
    struct gang_rank best[ENTITLEMENTS]; // the best rank of a waiting gang, by entitlement
    struct queue_cursor first;           // the first waiting gang
    // During a pass:
    int64_t unattainable; // this many slots of other gangs can no longer be had
    size_t walked;        // position in the queue
    int64_t fast;         // thousandths of a slot that the fast lane covers
    struct queue_cursor cursors[ENTITLEMENTS];
};

struct ranked_gang { // a waiting gang
    struct gang_rank rank;
    int gang, team;
};

enum { ORDER_BUCKETS = 64 };
struct slot_tally { // running slots by the rank of their gangs: of that rank and all behind it
    int64_t slots[ENTITLEMENTS][LEVELS_CAP][ORDER_BUCKETS];
    int64_t levels[ENTITLEMENTS][LEVELS_CAP + 1];
    int64_t entitlements[ENTITLEMENTS + 1];
};

#endif
