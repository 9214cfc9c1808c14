// The numbers of the scheduler's rules. README.md explains them and says how they were found.
#ifndef MUSTER_MASTER_SCHED_RULES_H
#define MUSTER_MASTER_SCHED_RULES_H

#include <stdint.h>

enum { SCHED_LEVELS = 4 };

struct sched_rules { // times in microseconds
    // A job has level n when its service, divided by its weight, exceeds the first n of these
    // thresholds (slot-microseconds). Jobs of lower levels run first.
    int64_t levels[SCHED_LEVELS - 1];
    int64_t min_runtime;   // gangs of the same priority preempt a gang only after this time
    int64_t overdue_large; // a gang larger than any agent is overdue after this total wait
    int64_t overdue;       // any other gang is overdue after this total wait
    int overdue_percent;   // limit for all overdue gangs together, of a pool
    int fast_percent;      // size of the fast lane, of a pool
    int64_t debt_quantum;  // a gang larger than its team's share runs this long on the team's debt
    int64_t grow_after;    // an elastic gang runs at least this long before it is enlarged
};
extern const struct sched_rules sched_default_rules;

#endif
