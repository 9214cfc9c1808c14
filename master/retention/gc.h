// Collecting checkpoints: what the policy of an experiment leaves out is deleted, and what is to be
// deleted goes from the disk, also over an end of the master.
//
// The store says what is to be done (table gc_due, column checkpoints.removal); a sweep on a worker
// does a part of it at a time, one sweep at once, each after the commit of what asked for it. A row
// says DELETED or PARTIALLY_DELETED before the first of its files goes.
#ifndef MUSTER_MASTER_RETENTION_GC_H
#define MUSTER_MASTER_RETENTION_GC_H

#include "master/kernel/state.h"
#include "master/retention/checkpoint_policy.h"

// Core thread: chooses among the checkpoints of an experiment, after the commit of this turn.
void gc_experiment(struct core *c, struct experiment *x);
void gc_ask(struct core *c);    // rows of this turn say what is to be removed
void gc_resume(struct core *c); // what the end of the master had interrupted

// What has been taken away, fully or in part, by a turn that is not on disk yet: whoever is about
// to start from a checkpoint that the store still has asks here.
struct gc_taken {
    char uuid[UUID_TEXT];
    bool whole;     // it is deleted
    uint64_t batch; // that says so
};
void gc_take(struct core *c, const char *uuid, bool whole);
const struct gc_taken *gc_taken(const struct core *c, const char *uuid); // NULL: the store knows

// Makes a trial go on from its newest checkpoint that is there, of one with fewer steps than
// `below`. The caller stores it.
void gc_step_back(struct core *c, struct trial *t, int64_t below);

// Core thread (missing_checkpoints.c): a trial starts again after a failure. If the files of its
// checkpoint have disappeared, it goes on from the newest whose files are there, or begins anew and
// says so.
void gc_look_for_vanished(struct core *c, struct trial *t);

// Experiments that live and start from a checkpoint, for their trials that have none of their own.
struct gc_forks {
    struct gc_fork {
        const char *source; // of the live configuration
        int64_t experiment;
    } * items;
    size_t count;
};
struct gc_forks gc_forks_of(const struct core *c); // free(items); good for this turn

// Whether, by the live state, a trial would start from it. `who` says who that is.
bool gc_is_needed(struct core *c, const struct gc_forks *forks, int64_t trial_id, const char *uuid,
                  char who[64]);

// --- any thread with a reader --------------------------------------------------------------------

// The COMPLETED checkpoints of an experiment with their verdict, by its own policy; `given`
// replaces what is not negative in it. *rows is the caller's. ERR_NOT_FOUND.
int gc_choose(struct db_reader *db, const struct storage *storage, int64_t experiment,
              const struct keep_policy *given, struct keep_row **rows, size_t *count,
              struct error *e);

// A worker: removes the files of a checkpoint in the storage `at` (JSON) that the patterns (a JSON
// list) match. *resources: JSON of what is left, NULL where all of it went. An absent folder is
// fine; ERR_UNAVAILABLE: the storage is not there at all.
int gc_remove_files(const struct storage *storage, const char *uuid, const char *at,
                    const char *patterns, char **resources, struct error *e);

#endif
