// Why an experiment waits, for the calls that say so (why.c). Core thread alone; reads the state
// and the scheduler's last pass, changes nothing.
#ifndef MUSTER_MASTER_CALLS_WAIT_REASON_H
#define MUSTER_MASTER_CALLS_WAIT_REASON_H

#include "master/kernel/state.h"

const char *why_code(const struct sched_reason *r); // BUSY, ..
// A sentence without its subject and its full stop: "needs 4 slots; 1 of 8 in resource pool ..".
void why_say(struct core *c, const struct active_experiment *l, const struct sched_reason *r,
             struct buf *out);

bool why_waits(const struct trial *t);
void why_count_slots(const struct active_experiment *l, int64_t *wanted, int64_t *held);
// Of its first trial that waits. False: none does.
bool why_of_live(struct core *c, const struct active_experiment *l, struct sched_reason *out);
// Why it waits, else why it is about to leave its slots, else that it is paused, or starts again
// soon; else nothing.
void why_say_live(struct core *c, const struct active_experiment *l, struct buf *out);

// The same, in the arena of the request; "" for nothing.
const char *why_text(struct core *c, struct request *rq, const struct active_experiment *l);
int64_t why_start(const struct core *c, const struct sched_reason *r); // wall; 0: not known

#endif
