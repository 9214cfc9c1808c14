// Unmanaged experiments: their programs run elsewhere and report with a user's token. Their trials
// have no allocation, no slots and no searcher; each program reports that its trial starts, runs
// and ends, and a trial that is silent for LIMIT_UNMANAGED_SILENCE_S ends in error. The state of
// the experiment follows from its trials. Core thread alone; owned by the trial or the active
// experiment.
//
// The active part of an ended one stays in memory for LIMIT_UNMANAGED_SILENCE_S, so that all of
// it is on disk when it is freed; a later start of one of its trials loads it from the store again.
#ifndef MUSTER_MASTER_LIFECYCLE_UNMANAGED_H
#define MUSTER_MASTER_LIFECYCLE_UNMANAGED_H

#include "master/kernel/state.h"
#include "master/lifecycle/machines.h"

struct unmanaged_trial {
    struct core *core;
    char *external_id;    // its submitter's name for it; NULL: none
    int64_t resume_steps; // steps of the checkpoint that its run began with; -1: none
    int64_t heard_at;     // wall
    struct timer silence;
};

void unmanaged_new(struct core *c, struct trial *t, const char *external_id);
void unmanaged_free(struct trial *t);

// After the load of an active experiment with its trials: their programs must report from now on.
void unmanaged_load(struct core *c, struct active_experiment *l);
void unmanaged_forget(struct core *c,
                      struct active_experiment *l); // frees the active part of an ended one

void unmanaged_event(struct core *c, struct trial *t, enum unmanaged_event ev, const char *reason);

// A person's request. ERR_STATE: only its programs can do that.
int unmanaged_verb(struct core *c, struct experiment *x, enum experiment_event ev, struct error *e);

// Finds the trial `id` if the caller may report for it: its own task or, if the experiment is
// unmanaged, a user who may change it. *t has an allocation or is unmanaged. ERR_FORBIDDEN: the
// allocation has ended; ERR_NOT_FOUND. `id` 0: the caller's own trial.
int core_reporter(struct core *c, struct request *rq, int64_t id, struct trial **t,
                  struct error *e);
int core_reporter_of_trial(struct core *c, struct request *rq, struct trial **t,
                           struct error *e); // of params[0]
// The same for metrics of params[0], which users who may change a trial that this master runs
// report too. *t is valid until the end of this turn.
int core_metric_reporter(struct core *c, struct request *rq, struct trial **t, struct error *e);

#endif
