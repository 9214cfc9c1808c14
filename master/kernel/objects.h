// The live objects: experiments and trials. objects_run.h: allocations, agents, pools. Core thread
// alone. Owners: core -> experiment -> active_experiment -> trial -> allocation -> part; core ->
// agent.
#ifndef MUSTER_MASTER_KERNEL_OBJECTS_H
#define MUSTER_MASTER_KERNEL_OBJECTS_H

#include <jansson.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/rng.h"
#include "master/common/kinds.h"
#include "master/kernel/objects_run.h"
#include "master/search/search.h"

enum { ORDER_STEP = 1 << 20 }; // distance between the queue positions of consecutive experiments

struct experiment { // every experiment of the store; kept small, there may be 100,000
    int64_t id, user_id, project_id;
    enum experiment_state state;
    enum kind kind;
    bool archived;
    uint64_t ended_in; // the batch that stores its end; 0: it ended before this start of the master
    struct external_id *external_id; // NULL: none
    struct active_experiment
        *active; // NULL once it is terminal; an unmanaged one keeps it for a while longer
};

struct active_experiment { // the state that an experiment needs until it is terminal
    struct experiment *experiment;
    json_t *config;
    char *config_text; // as its tasks get it
    char *storage;     // its checkpoint_storage, JSON
    char *owner, *job_id;
    int64_t seed, submitted_at;
    struct search *search;
    struct log_policies *log_policies;  // its log policies; NULL: none has an action
    struct trial *trials, **trials_end; // oldest first
    int active_trials;                  // trials that are not terminal
    int ended_trials,
        collected_trials; // ended trials: now, and at the last collection of checkpoints
    bool collect_all;     // a person asked for a collection, which includes running trials
    struct pool *pool;
    int job;                        // of the scheduler
    int min_slots, slots_per_trial; // a trial runs with any number of slots between them
    int priority;                   // within its team
    int64_t order;                  // place among jobs of equal priority, in steps of ORDER_STEP
    double weight;                  // factor on the service it has had
    double service;                 // slot-seconds of its ended allocations
    bool one_agent, native, per_slot;
    bool no_files;  // submitted without files; false after a restart of the master
    bool unmanaged; // its programs run elsewhere: no job, no searcher; see unmanaged.h
    char
        *ancestors; // of a generic task: the ids of the tasks above it, "/" before each; NULL: none
    bool no_pause;  // of a generic task: it is never preempted
    struct timer unload; // unmanaged: fires some time after its last trial ended
    int64_t max_slots, max_restarts;
    int64_t preemption_timeout_us; // 0: that of the pool; a task that is no experiment has none
    double progress;
    bool has_best;
    double best; // best value of the searcher's metric
    struct active_experiment *ended_next;
    int64_t queue_listing; // the queue listing that contains it already
};

struct list_node {                 // a doubly linked list, and a member of it
    struct list_node *prev, *next; // NULL: in no list
};

struct latest_report { // the latest report of a metric group
    bool present;
    int64_t run, steps;
    char *text; // JSON as in the store; of training: as stored last
};

struct trial {
    int64_t id;
    struct active_experiment *active;
    struct trial *next;
    enum trial_state state;
    char request_id[SEARCH_REQUEST_ID];
    char task_id[TASK_ID], first_task_id[TASK_ID]; // the first one is the name of its log
    int64_t continued;                             // how often it was continued after its end
    json_t *hparams;
    int64_t seed, restarts, run; // run: the epoch of the newest allocation
    int64_t waited;              // for its slots so far, in microseconds
    bool exited_early;           // the program has reported how it ends
    bool invalid;                // the program has reported that no restart can help
    bool no_retries;             // a log policy: an error of the program ends the trial
    struct agent *excluded[SCHED_EXCLUDED_MAX]; // log policies: agents where it is not placed again
    int excluded_count;
    char *exit_reason;    // why it ended, or was restarted last; NULL: neither happened
    struct retry {        // retries.h
        int64_t failures; // in a row, without a checkpoint or a long run between them
        // The number of failures in a row that came right after a start and had the same reason.
        int64_t same_failures;
        int64_t at; // wall: time of the restart; 0: it does not wait for a restart
        struct timer timer;
    } retry;
    char checkpoint[UUID_TEXT]; // newest completed one; "": none
    int64_t checkpoint_steps;
    int64_t source;                    // the trial whose training it continues; 0: none
    char source_checkpoint[UUID_TEXT]; // .. from this checkpoint; "": that trial had none
    int64_t source_steps;
    int64_t steps;
    double progress;
    struct latest_report training, validation;
    char *best_text;
    bool has_best;
    double best;
    int64_t searcher_steps; // the searcher knows the validations up to this step; -1: none
    bool untimed;           // the log already says that its reports lack searcher.time_metric
    struct summary *summary;
    struct buf training_block; // the newest training report, not yet rendered; empty: there is none
    unsigned unsaved;          // UNSAVED_ bits of trial_metrics.c, written at the end of the turn
    struct timer metrics_timer;
    int64_t metrics_flushed;       // monotonic; 0: never
    size_t new_reports, new_bytes; // about how many were not compacted yet
    bool has_reports;
    struct trial *next_unsaved;
    struct list_node due;              // experiment_metrics.h
    struct allocation *allocation;     // the current one; NULL: none
    struct unmanaged_trial *unmanaged; // of an unmanaged experiment; else NULL
};

#endif
