// The functions of the loop that the other sources of the kernel use.
#ifndef MUSTER_MASTER_KERNEL_LOOP_H
#define MUSTER_MASTER_KERNEL_LOOP_H

#include "master/kernel/core.h"

struct work;

struct db *loop_db(const struct core *c);
void loop_read_clocks(struct core *c); // sets `now` and `wall` of this turn
void loop_free(struct core *c);        // messages and held items that are left
void loop_work_done(struct core *c,
                    struct work *w); // worker thread: hands finished work back to the core thread

#endif
