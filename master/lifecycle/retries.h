// Restarts failed trials after a wait that doubles with every failure in a row. The slots are free
// during the wait. The loss of a machine is no failure, and a person who activates the trial ends
// the wait. Core thread alone.
//
// A program that fails in the same way right after each start is still restarted, since it may
// wait for something outside the cluster; the log of the trial and the page say so at once.
#ifndef MUSTER_MASTER_LIFECYCLE_RETRIES_H
#define MUSTER_MASTER_LIFECYCLE_RETRIES_H

#include "base/buf.h"
#include "master/kernel/state.h"

// Counts this failure of an allocation. Called before trial_set_reason().
void retry_count_failure(struct core *c, const struct allocation *a);

// Makes the trial wait before its restart. False: it restarts at once.
bool retry_wait(struct core *c, struct trial *t);
bool retry_resume(struct core *c,
                  struct trial *t);                // continues the wait after a start of the master
void retry_clear(struct core *c, struct trial *t); // ends the wait
void retry_give_up(struct core *c, struct trial *t);

// Appends "starts again in 4 s (restart 2 of 5) after ..", for a trial that waits for its restart.
void retry_describe(const struct core *c, const struct trial *t, struct buf *out);

#endif
