// Garbage collection of checkpoints: deletes those that the policy of their experiment does not
// keep, and removes the files of deleted checkpoints, also across restarts of the master.
//
// The store holds the work to do (table gc_due, column checkpoints.removal). A sweep on a worker
// does a part of it; there is one sweep at a time, and it starts after the commit of the turn that
// requested it. A row becomes DELETED or PARTIALLY_DELETED before its first file is removed.
#ifndef MUSTER_MASTER_RETENTION_GC_H
#define MUSTER_MASTER_RETENTION_GC_H

#include "master/kernel/state.h"
#include "master/retention/checkpoint_policy.h"

// Core thread: applies the policy of an experiment, after the commit of this turn.
void gc_collect_experiment(struct core *c, struct experiment *x);
void gc_request(struct core *c); // rows of this turn hold new work
void gc_resume(struct core *c);  // continues the work of an earlier start

// Checkpoints that were deleted, fully or in part, by turns that are not committed yet. Check here
// before a trial starts from a checkpoint that the store still has.
struct gc_deletion {
    char uuid[UUID_TEXT];
    bool whole;     // all files; else a part
    uint64_t batch; // the batch that stores it
};
void gc_record_deletion(struct core *c, const char *uuid, bool whole);
// NULL: the store knows.
const struct gc_deletion *gc_find_deletion(const struct core *c, const char *uuid);
bool gc_is_deleted(struct core *c, const char *uuid); // files of it at least

// Sets a trial's checkpoint to its newest existing one with fewer steps than `below`, or to none.
// The caller stores it.
void gc_use_older_checkpoint(struct core *c, struct trial *t, int64_t below);

// missing_checkpoints.c, core thread: before a trial restarts after a failure. If the files of its
// checkpoint have disappeared, it continues from the newest checkpoint whose files exist, or starts
// over and says so in its log.
void missing_checkpoints_check(struct core *c, struct trial *t);

// Live experiments that start from a checkpoint of another one, and live trials that start from a
// checkpoint of another trial, while they have none of their own.
struct gc_forks {
    struct gc_fork {
        const char *source; // borrowed from the live configuration or trial
        int64_t experiment;
        int64_t trial; // 0: any of the experiment
    } * items;
    size_t count;
};
struct gc_forks gc_forks_of(const struct core *c); // free(items); valid during this turn

// Whether a live trial or experiment would start from the checkpoint; `who` then names it.
bool gc_is_needed(struct core *c, const struct gc_forks *forks, int64_t trial_id, const char *uuid,
                  char who[64]);

// --- any thread with a reader --------------------------------------------------------------------

// The COMPLETED checkpoints of an experiment, with the reasons to keep them by its own policy;
// non-negative numbers in `given` replace those of the policy. The caller frees *rows.
// ERR_NOT_FOUND.
int gc_choose(struct db_reader *db, const struct storage *storage, int64_t experiment,
              const struct checkpoint_policy *given, struct checkpoint_candidate **rows,
              size_t *count, struct error *e);

// On a worker: removes the files of a checkpoint in the storage `at` (JSON) that match one of the
// patterns (a JSON list). *resources: JSON of the remaining files; NULL: none is left. A missing
// folder is no error; ERR_UNAVAILABLE: the storage is missing.
int gc_remove_files(const struct storage *storage, const char *uuid, const char *at,
                    const char *patterns, char **resources, struct error *e);

#endif
