// What the core keeps of experiments and trials while they live; of what runs: objects_run.h. Core
// thread alone. Owners: core -> experiment -> live -> trials -> allocation -> parts; core ->
// agents.
#ifndef MUSTER_MASTER_KERNEL_OBJECTS_H
#define MUSTER_MASTER_KERNEL_OBJECTS_H

#include <jansson.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/rng.h"
#include "master/common/kinds.h"
#include "master/kernel/objects_run.h"
#include "master/search/search.h"

enum { ORDER_STEP = 1 << 20 }; // experiments stand so far apart in the queue, one after the other

struct experiment { // every one there is; kept small, there may be 100,000
    int64_t id, user_id, project_id;
    enum experiment_state state;
    enum kind kind;
    bool archived;
    uint64_t ended_in; // batch that stores its end; 0: it ended before this start of the master
    struct external_id *external_id;  // that its submitter gave; NULL: none
    struct active_experiment *active; // NULL once it is terminal; unmanaged: for a while longer
};

struct active_experiment { // what an experiment needs until it is terminal
    struct experiment *experiment;
    json_t *config;
    char *config_text; // as its tasks get it
    char *storage;     // checkpoint_storage of it, JSON
    char *owner, *job_id;
    int64_t seed, submitted_at;
    struct search *search;
    struct policies *policies;          // NULL: none that does anything
    struct trial *trials, **trials_end; // oldest first
    int active_trials;                  // that are not terminal
    int ended_trials, collected;        // of those at the last collection of their checkpoints
    bool collect_all;                   // a person has asked for one: also of those that run
    struct pool *pool;
    int job;          // of the scheduler
    int least, slots; // of a trial: it runs with any number between them
    int priority;     // among those of its team
    int64_t order;    // and its place among equals, in steps of ORDER_STEP
    double weight;    // of what it has had
    double service;   // slot-seconds that ended allocations of it had
    bool one_agent, native, per_slot;
    bool no_files;     // comes without any; not known again after a restart
    bool unmanaged;    // its programs run elsewhere: no job, no search; see detached.h
    char *ancestors;   // of a generic task: the tasks above it, "/" before each; NULL: none
    bool no_pause;     // .. that is never asked to leave
    struct timer rest; // unmanaged: since its last trial ended
    int64_t max_slots, max_restarts, preemption_timeout_us;
    double progress;
    bool has_best;
    double best; // of the searcher's metric
    struct active_experiment *ended_next;
    int64_t listing; // the list of the queue that has it already
};

struct ring {                 // a doubly linked list and its members
    struct ring *prev, *next; // NULL: in none
};

struct report { // the last of a group
    bool there;
    int64_t run, steps;
    char *text; // JSON as in the store; of training: what was stored last
};

struct trial {
    int64_t id;
    struct active_experiment *active;
    struct trial *next;
    enum trial_state state;
    char request_id[SEARCH_REQUEST_ID], task_id[TASK_ID];
    json_t *hparams;
    int64_t seed, restarts, run;                // run: epoch of the newest allocation
    int64_t waited;                             // for the slots it had so far, microseconds
    bool exited_early;                          // the program has said how it ends
    bool invalid;                               // .. that no restart can help
    bool no_retries;                            // by a log policy: an error of its program ends it
    struct agent *excluded[SCHED_EXCLUDED_MAX]; // .. it is not placed there
    int excluded_count;
    char *exit_reason;    // why it ended or started again last; NULL: it did not
    struct retry {        // retries.h
        int64_t failures; // in a row, without a checkpoint or a long run between them
        // How many of the last failures came right after a start with the same reason.
        int64_t alike;
        int64_t at; // wall: the trial starts again then; 0: it does not wait for a restart
        struct timer timer;
    } retry;
    char checkpoint[UUID_TEXT]; // newest completed; "": none
    int64_t checkpoint_steps;
    int64_t steps;
    double progress;
    struct report training, validation;
    char *best_text;
    bool has_best;
    double best;
    int64_t told_steps; // the searcher knows validations up to here; -1: none
    bool untimed;       // its log says that its reports lack searcher.time_metric
    struct summary *summary;
    struct buf training_block; // the newest report, not yet as text; empty: there is none
    unsigned dirty;            // DIRTY_ bits of latest.c, written at the end of the turn
    struct timer metrics_timer;
    int64_t metrics_flushed;       // monotonic; 0: never
    size_t new_reports, new_bytes; // that were not folded, about
    bool has_reports;
    struct trial *dirty_next;
    struct ring due;               // listing.h
    struct allocation *allocation; // the live one
    struct detached *detached;     // of an unmanaged experiment; else NULL
};

#endif
