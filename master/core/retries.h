// When a trial starts again that has failed: after a wait that doubles with every failure in a row.
// The slots are free meanwhile. A lost machine is no failure, and a person who activates the trial
// ends the wait. Core thread alone.
//
// A program that fails in the same way again and again right after its start is started again all
// the same, for it may wait for something outside of the cluster; that it does so is told at once.
#ifndef MUSTER_MASTER_CORE_RETRIES_H
#define MUSTER_MASTER_CORE_RETRIES_H

#include "base/buf.h"
#include "master/core/state.h"

// Counts this failure of an allocation. Call it before trial_set_reason().
void retry_judge(struct core *c, const struct allocation *a);

// False: it starts again at once.
bool retry_wait(struct core *c, struct trial *t);
bool retry_resume(struct core *c, struct trial *t); // goes on to wait after a start of the master
void retry_clear(struct core *c, struct trial *t);  // it waits no longer
void retry_give_up(struct core *c, struct trial *t);

// "starts again in 4 s (restart 2 of 5) after ..", of a trial that waits for it.
void retry_say(const struct core *c, const struct trial *t, struct buf *out);

#endif
