// The core's loop, for its own sources: what the threads beside it hand in, and the hooks that a
// turn calls in the other sources.
#ifndef MUSTER_MASTER_KERNEL_LOOP_H
#define MUSTER_MASTER_KERNEL_LOOP_H

#include "master/kernel/core.h"

struct work;

struct db *loop_db(const struct core *c);
void loop_read_clocks(struct core *c);               // now and wall of this turn
void loop_forget(struct core *c);                    // messages and answers that are left
void loop_work_done(struct core *c, struct work *w); // worker thread: back to the core thread

// The end of a turn, in this order (allocations.c, agents.c, latest.c, experiments.c).
void allocations_schedule(struct core *c);
void agents_answer_due(struct core *c);
void metrics_flush(struct core *c);
void experiments_free_ended(struct core *c);

void removals_resume(struct core *c); // deletions that the end of the master had interrupted

#endif
