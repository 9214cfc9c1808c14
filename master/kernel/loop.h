// The core's loop, for its own sources: what the threads beside it hand in.
#ifndef MUSTER_MASTER_KERNEL_LOOP_H
#define MUSTER_MASTER_KERNEL_LOOP_H

#include "master/kernel/core.h"

struct work;

struct db *loop_db(const struct core *c);
void loop_read_clocks(struct core *c);               // now and wall of this turn
void loop_forget(struct core *c);                    // messages and answers that are left
void loop_work_done(struct core *c, struct work *w); // worker thread: back to the core thread

#endif
