// Positions in the job queue, and the reasons why jobs wait in it. Core thread alone.
#ifndef MUSTER_MASTER_CALLS_QUEUE_H
#define MUSTER_MASTER_CALLS_QUEUE_H

#include "master/kernel/state.h"

// --- moves (queue_moves.c) -----------------------------------------------------------------------

struct queue_move {              // of a job
    int64_t priority, max_slots; // -1: unchanged
    double weight;               // -1: unchanged
    struct pool *pool;           // NULL: unchanged
};

// Reads {"priority", "weight", "maxSlots", "resourcePool"}, which is found at `path` of the body.
// ERR_INVALID: a value is out of range, or no trial of the experiment could ever start with it.
int queue_move_read(struct core *c, const struct experiment *x, const json_t *from,
                    const char *path, struct queue_move *out, struct error *e);
bool queue_move_is_empty(const struct queue_move *move);

// Checks that the caller may move the job there. ERR_FORBIDDEN names the role that may, and what
// the caller may do instead (master/teams/precedence.h). Changes nothing.
int queue_move_check(struct core *c, const struct request *rq, struct active_experiment *active,
                     const struct queue_move *move, const char *path, struct error *e);

// Changes the job's position and its configuration, and stores the position. The caller stores
// priority and configuration.
void queue_move_apply(struct core *c, struct active_experiment *active,
                      const struct queue_move *move);

// Puts a job that is continued behind all others of its pool, and stores its position.
void queue_move_to_end(struct core *c, struct active_experiment *active);

// Checks that the caller may give the priority and the weight of a configuration to a new job of
// the workspace, or to one that is continued. Errors as queue_move_check().
int queue_check_submission(struct core *c, const struct request *rq, const struct workspace *ws,
                           const json_t *config, struct error *e);

// --- wait reasons --------------------------------------------------------------------------------

// wait_reason.c. These functions read the state and the scheduler's last pass.

bool trial_waits(const struct trial *t); // for its slots
// Counts the slots that the trials of an experiment want and the slots that they hold.
void experiment_count_slots(const struct active_experiment *active, int64_t *wanted, int64_t *held);

// The reason of the first trial that waits. False: no trial waits.
bool wait_reason_find(struct core *c, const struct active_experiment *active,
                      struct sched_reason *out);
const char *wait_reason_code(const struct sched_reason *r);                    // "BUSY", ..; static
int64_t wait_reason_start(const struct core *c, const struct sched_reason *r); // 0: not known

// Explains why the experiment waits, why it will leave its slots, or that it is paused or will
// start again. Returns a sentence without its subject and full stop, in the arena of the request;
// "" if the experiment runs undisturbed.
const char *wait_reason_text(struct core *c, struct request *rq,
                             const struct active_experiment *active);

#endif
