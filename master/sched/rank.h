// The order of decision: what gangs are sorted by, inside their team and over a pool.
#ifndef MUSTER_MASTER_SCHED_RANK_H
#define MUSTER_MASTER_SCHED_RANK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum entitlement { ENTITLED_FAST, ENTITLED_SELF, ENTITLED_TEAM, ENTITLED_NOT, ENTITLEMENTS };
enum { FINE = 1000 }; // entitlements count in thousandths of a slot
enum { LEVEL_OVERDUE = 0, LEVEL_FIRST = 1, LEVELS_CAP = 8 };

struct rank { // place in the order of decision; the smaller the sooner
    int8_t entitlement, level;
    int32_t place; // among equals
    int64_t order;
};

struct item {       // a gang in its queue, with the key it is sorted by
    int64_t first;  // priority, then level
    int64_t second; // order of the job
    int64_t third;  // age among the gangs of a job
    int gang;
};

struct queue { // the gangs of a team in the order it gives them, those that run and those that wait
    struct item *items;
    size_t count, cap;
    int64_t due; // when a level in it changes next
};

struct cursor { // a place in a queue, and the slots that gangs of the team run behind it
    size_t at;
    int64_t ripe, young;     // for long enough to be preempted, and others
    int64_t priority, lower; // of the gang there; what young gangs of a lower one have of those
};

struct share {             // of a team in a pool; what every pass reads of all teams comes first
    struct queue queue;    // of a leaf
    int64_t held, waiting; // slots of its gangs and of those of the teams below it
    size_t uncovered,
        fresh; // in the queue: nothing before is without cover; and of the first level
    // As of the last pass, in thousandths of a slot:
    int64_t wanted;
    int64_t nominal;    // what it is entitled to
    int64_t counted_at; // its team's debt, here
    int64_t entitled;   // .. of what the fast lane and those who waited too long leave
    int64_t rest;       // what of that covers no gang
    int64_t beyond;     // what covers gangs though it is more than that
    // Of the queue when it was ranked last. That holds until it is `dirty`, time passes `ages_at`,
    // `entitled` shrinks by more than `rest` or grows by `margin`, or the debt leaves its bounds.
    bool dirty;
    bool spends;    // its team runs a gang on its debt, until that is paid
    bool stretched; // a gang has been found that does not fit into the rest
    int64_t ranked_with, margin, ages_at, debt_from, debt_to;
    unsigned waits, unmarked; // a bit for each entitlement of those who do; without pool.marked
    // Slots of other teams that the one of those who lacks least would need: now, and later, when
    // all of its own team that runs behind it has run for long enough.
    int64_t lacks, lacks_later;
    struct rank best[ENTITLEMENTS]; // of each entitlement, nobody who waits has a better one
    struct cursor first;            // the first who waits
    // Of a pass:
    int64_t hopeless; // so many slots cannot be had of others any more
    size_t walked;    // in the queue
    int64_t fast;     // thousandths that the fast lane covers
    struct cursor cursors[ENTITLEMENTS];
};

struct ranked { // a gang that waits
    struct rank rank;
    int gang, team;
};

enum { ORDER_BUCKETS = 64 };
struct tally { // slots that run, by the rank of their gangs: of those and all behind
    int64_t slots[ENTITLEMENTS][LEVELS_CAP][ORDER_BUCKETS];
    int64_t levels[ENTITLEMENTS][LEVELS_CAP + 1];
    int64_t entitlements[ENTITLEMENTS + 1];
};

#endif
