// One pass over one pool, for the sources that take part in it.
#ifndef MUSTER_MASTER_SCHED_PASS_H
#define MUSTER_MASTER_SCHED_PASS_H

#include "master/sched/internal.h"

enum { HOLDS = 1 }; // gangs that free slots are kept for in a pass

struct pass {
    struct sched *s;
    struct pool *pool;
    int64_t open, later; // slots left for those not considered yet: free, and being handed over
    int64_t spare;       // slots that elastic gangs hold beyond what they are content with
    int64_t spare_later; // .. those of them that have not run for long enough
    int64_t first_order, last_order; // of the gangs that run
    struct ranked close[HOLDS];      // the first who wait for others to have run for long enough
    size_t close_count;
    int held;   // gangs that free slots were kept for
    int keeper; // gang that free slots were kept for last; SCHED_NONE
    int preemptions;
    bool blocked;          // FIFO and EASY: somebody waits already
    int64_t shadow, extra; // EASY: when the first who waits can start, and what is free then beside
};

// pass.c
void pass_drain(struct pass *ps, int gang, enum sched_cause cause, int beneficiary, int keeps);
void pass_claim(struct pass *ps, const struct piece *pieces, size_t count);
void pass_wake(struct pass *ps, int64_t when); // another pass then

// reach.c: what runs, and who of those that wait could start or be promised anything at all. The
// rest, nearly all of a long queue, is not looked at.
void reach_count(struct pass *ps);
void reach_hand_over(struct pass *ps, const struct gang *g); // of one that leaves
void reach_collect(struct pass *ps);                         // into the heap
int reach_next(struct pass *ps);                             // from it; SCHED_NONE: nobody is left
void reach_forget(struct pass *ps, const struct gang *g);    // its slots cannot be had any more

// preempt.c, move.c: make others leave, or go elsewhere, so that the gang can have `needs` slots,
// which are claimed for it. False: it cannot be; *until becomes smaller when it could be then.
bool preempt(struct pass *ps, int gang, int needs, int64_t *until);
bool clear_agent(struct pass *ps, int gang, int needs, int64_t *until);

// elastic.c: after everybody was considered, gives elastic gangs what is left.
void elastic_fill(struct pass *ps, size_t first); // those that commands from `first` on start
void elastic_grow(struct pass *ps);               // those that run: by starting them anew

// easy.c
void easy_block(struct pass *ps, int gang); // the first that waits
bool easy_allows(struct pass *ps, const struct gang *g);

#endif
