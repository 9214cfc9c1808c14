// Verbs of experiments and tasks, for one call or for many. Core thread alone.
#ifndef MUSTER_MASTER_CALLS_VERBS_H
#define MUSTER_MASTER_CALLS_VERBS_H

#include "master/kernel/state.h"

enum experiment_verb {
    VERB_ACTIVATE,
    VERB_PAUSE,
    VERB_CANCEL,
    VERB_KILL,
    VERB_DELETE,
    VERB_ARCHIVE,
    VERB_UNARCHIVE,
    VERB_MOVE,        // to another project
    VERB_RETAIN_LOGS, // for a number of days
};

// experiment_verbs.c. Checks the caller's role. `argument`: the project of VERB_MOVE, the days of
// VERB_RETAIN_LOGS.
int experiment_verb_apply(struct core *c, const struct request *rq, struct experiment *x,
                          enum experiment_verb verb, int64_t argument, struct error *e);

// resize.c: the number of slots of an experiment's trials.
struct resize {
    int64_t slots, min_slots; // of a trial; min_slots 0: exactly `slots`; both -1: unchanged
};
bool resize_is_empty(const struct resize *r);
// Reads {"slotsPerTrial", "minSlots"}, which is found at `path` of the body.
int resize_read(const struct active_experiment *active, const json_t *from, const char *path,
                struct resize *out, struct error *e);
// ERR_INVALID: a trial of that size could never start.
int resize_check(struct core *c, const struct active_experiment *active, const struct resize *r,
                 const char *path, struct error *e);
// Changes the configuration and the trials; the caller stores the configuration.
void resize_apply(struct core *c, struct active_experiment *active, const struct resize *r);

// task_verbs.c. Finds a task that the caller may change. ERR_NOT_FOUND: no task of that kind has
// the id, or the caller may not see it.
int task_find(struct core *c, const struct request *rq, enum kind kind, const char *id,
              struct experiment **out, struct error *e);

// removal.c. Begins to delete an experiment that has ended. ERR_STATE: it has not ended; or a
// model, or an active experiment, needs one of its checkpoints.
int removal_begin(struct core *c, struct experiment *x, struct error *e);

#endif
