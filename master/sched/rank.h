// The order of decision: what gangs are sorted by, inside their team and over a pool.
#ifndef MUSTER_MASTER_SCHED_RANK_H
#define MUSTER_MASTER_SCHED_RANK_H

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
