// One pass over one pool, shared by the sources that take part in it.
#ifndef MUSTER_MASTER_SCHED_PASS_H
#define MUSTER_MASTER_SCHED_PASS_H

#include "master/sched/internal.h"

enum { RESERVATIONS_MAX = 1 }; // gangs for which a pass reserves free slots

struct sched_pass {
    struct sched *s;
    struct sched_pool *pool;
    int64_t available,
        incoming;            // slots left for later gangs: free ones, and ones being handed over
    int64_t spare;           // slots that elastic gangs hold beyond their minimum
    int64_t spare_protected; // those of them that have not run for min_runtime
    int64_t first_order, last_order;                  // of the running gangs
    struct ranked_gang near_misses[RESERVATIONS_MAX]; // first gangs that wait for min_runtime alone
    size_t near_miss_count;
    int reservations;   // made in this pass
    int reserving_gang; // the latest gang with a reservation or promise; SCHED_NONE
    int preemptions;
    bool blocked;          // FIFO and EASY: a gang waits, so later ones may not start
    int64_t shadow, extra; // EASY: start time of the blocked gang, and slots it leaves free then
};

// pass.c
void pass_drain(struct sched_pass *ps, int gang, enum sched_cause cause, int beneficiary,
                int retained);
void pass_claim(struct sched_pass *ps, const struct placement_piece *pieces, size_t count);
void pass_wake(struct sched_pass *ps, int64_t when); // requests another pass at that time

// reach.c counts the running slots by rank and finds the few waiting gangs that could start or be
// promised slots. The rest of a long queue is not looked at.
void reach_count(struct sched_pass *ps);
void reach_hand_over(struct sched_pass *ps, const struct sched_gang *g); // slots of a leaving gang
void reach_collect(struct sched_pass *ps);                               // fills the heap
int reach_next(struct sched_pass *ps); // the next gang from the heap; SCHED_NONE: the heap is empty
void reach_forget(struct sched_pass *ps, const struct sched_gang *g); // its slots are unavailable

// preempt.c and move.c drain or move other gangs so that `gang` can have `needs` slots, which are
// then claimed for it. They return false where that is impossible now; *until is lowered to the
// time when it could become possible.
bool preempt(struct sched_pass *ps, int gang, int needs, int64_t *until);
bool clear_agent(struct sched_pass *ps, int gang, int needs, int64_t *until);

// elastic.c gives the slots that are left after all gangs were considered to elastic gangs.
void elastic_fill(struct sched_pass *ps, size_t first); // gangs started by commands from `first` on
void elastic_grow(struct sched_pass *ps);               // running gangs, which restart for it

// easy.c
void easy_block(struct sched_pass *ps, int gang); // the first gang that has to wait
bool easy_allows(struct sched_pass *ps, const struct sched_gang *g);

#endif
