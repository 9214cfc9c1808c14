// The numbers that the scheduler decides by. README.md says what they mean and how they were found.
#ifndef MUSTER_MASTER_SCHED_RULES_H
#define MUSTER_MASTER_SCHED_RULES_H

#include <stdint.h>

enum { SCHED_LEVELS = 4 };

struct sched_rules { // times in microseconds
    // A job whose service has passed the first n of these (slot-microseconds, over its weight) is
    // of level n: the less a job has had, the sooner it runs.
    int64_t levels[SCHED_LEVELS - 1];
    int64_t shortest;      // what runs is preempted by its equals in priority only after so long
    int64_t overdue_large; // a gang larger than any agent that has waited so long in all goes first
    int64_t overdue;       // .. any other
    int overdue_percent;   // but all of these together hold at most so much of a pool
    int fast_percent;      // of a pool, for jobs of level 0 beyond the share of their team
    int64_t
        debt_quantum;   // a team's gang that is larger than its share runs for so long on its debt
    int64_t grow_after; // an elastic gang runs at least so long before it is made larger
};
extern const struct sched_rules sched_rules_default;

#endif
