// Changing the place of a live experiment: priority, weight, most slots, pool, and before or behind
// which other it stands (steer.c). Core thread alone.
#ifndef MUSTER_MASTER_CALLS_QUEUE_MOVES_H
#define MUSTER_MASTER_CALLS_QUEUE_MOVES_H

#include "master/kernel/state.h"

struct steer { // -1, NULL: stays as it is
    int64_t priority, max_slots;
    double weight;
    struct pool *pool;
};

// From {"priority", "weight", "maxSlots", "resourcePool"}, found at `path` of the body, for an
// experiment that the caller may change. Refuses what could never run.
int steer_read(struct core *c, const struct experiment *x, const json_t *from, const char *path,
               struct steer *out, struct error *e);
bool steer_is_empty(const struct steer *s);

// Whether the caller may move the job there. ERR_FORBIDDEN names the role that may, and what the
// caller may do instead (master/teams/precedence.h). Changes nothing.
int steer_check(struct core *c, const struct request *rq, struct active_experiment *l,
                const struct steer *s, const char *path, struct error *e);

// The same check for a new submission, or for an experiment that is continued.
struct workspace;
int steer_check_config(struct core *c, const struct request *rq, const struct workspace *ws,
                       const json_t *config, struct error *e);

// Puts a job that is continued behind all others of its pool, and stores its place.
void steer_requeue(struct core *c, struct active_experiment *l);

// Its configuration and its place in the queue; the caller stores priority and configuration.
void steer_apply(struct core *c, struct active_experiment *l, const struct steer *s);

#endif
