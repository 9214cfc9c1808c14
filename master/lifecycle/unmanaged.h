// Unmanaged experiments: their programs run elsewhere and report with a user's token. Their trials
// have no allocation, no slots and no searcher; each says itself that it starts, runs and ends, and
// one that is not heard for LIMIT_UNMANAGED_SILENCE_S ends in error. The experiment's state follows
// from theirs. Core thread alone; owned by their trial or live experiment.
//
// The live part of an ended one stays for LIMIT_UNMANAGED_SILENCE_S, so that all of it is on disk
// when it is dropped; whoever starts a trial of it later has it read from the store again.
#ifndef MUSTER_MASTER_LIFECYCLE_UNMANAGED_H
#define MUSTER_MASTER_LIFECYCLE_UNMANAGED_H

#include "master/kernel/state.h"
#include "master/lifecycle/machines.h"

struct detached { // of a trial
    struct core *core;
    char *external_id;    // its submitter's name for it; NULL: none
    int64_t resume_steps; // of the checkpoint that its run began with; -1: with none
    int64_t heard_at;     // wall
    struct timer silence;
};

void detached_new(struct core *c, struct trial *t, const char *external_id);
void detached_free(struct trial *t);

// After the load of a live experiment with its trials: they are waited for from now on.
void detached_load(struct core *c, struct active_experiment *l);
void detached_forget(struct core *c,
                     struct active_experiment *l); // drops the live part of an ended one

void detached_event(struct core *c, struct trial *t, enum detached_event ev, const char *reason);

// A person's verb. ERR_CONFLICT: what only its programs can do.
int detached_verb(struct core *c, struct experiment *x, enum experiment_event ev, struct error *e);

// ERR_INVALID: of an experiment that the master runs itself.
int detached_refuse(const struct experiment *x, struct error *e);

// Who may report for trial `id`: its own task, and, of an unmanaged experiment, a user who may
// change it; *t has an allocation, or is detached. ERR_FORBIDDEN "allocation has ended",
// ERR_NOT_FOUND. `id` 0: the caller's own.
int core_reporter(struct core *c, struct request *rq, int64_t id, struct trial **t,
                  struct error *e);
int core_reporter_of_trial(struct core *c, struct request *rq, struct trial **t,
                           struct error *e); // of params[0]
int64_t trial_of_task(const char *task_id);  // "7.12": 12; 0: of none

#endif
