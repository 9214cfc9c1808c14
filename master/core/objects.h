// What the core keeps of experiments, trials, allocations and agents while they live. Core thread
// alone. Owners: core -> experiment -> live -> trials -> allocation -> parts; core -> agents.
#ifndef MUSTER_MASTER_CORE_OBJECTS_H
#define MUSTER_MASTER_CORE_OBJECTS_H

#include <jansson.h>
#include <stdint.h>

#include "base/rng.h"
#include "master/core/machines_run.h"
#include "master/core/timers.h"
#include "master/sched/explain.h"
#include "master/search/search.h"

enum { ORDER_STEP = 1 << 20 }; // experiments stand so far apart in the queue, one after the other

enum { TASK_ID = 48, ALLOCATION_ID = 72 }; // bytes of their texts: "7.12", "7.12.3"

struct experiment { // every one there is; kept small, there may be 100,000
    int64_t id, user_id, project_id;
    enum experiment_state state;
    bool archived;
    struct live *live; // NULL once it is terminal
};

struct live { // what an experiment needs until it is terminal
    struct experiment *experiment;
    json_t *config;
    char *config_text; // as its tasks get it
    char *storage;     // checkpoint_storage of it, JSON
    char *owner, *job_id;
    int64_t seed, submitted_at;
    struct search *search;
    struct policies *policies;          // NULL: none that does anything
    struct trial *trials, **trials_end; // oldest first
    int live_trials;                    // that are not terminal
    struct pool *pool;
    int job;          // of the scheduler
    int least, slots; // of a trial: it runs with any number between them
    int priority;     // among those of its team
    int64_t order;    // and its place among equals, in steps of ORDER_STEP
    double weight;    // of what it has had
    double service;   // slot-seconds that ended allocations of it had
    bool one_agent, native, per_slot;
    bool no_files; // comes without any; not known again after a restart
    int64_t max_slots, max_restarts, preemption_timeout_us;
    double progress;
    bool has_best;
    double best; // of the searcher's metric
    struct live *ended_next;
    int64_t listing; // the list of the queue that has it already
};

struct report { // the last of a group
    int64_t run, steps;
    char *text; // JSON as in the store; NULL: none yet
};

struct trial {
    int64_t id;
    struct live *live;
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
    char *exit_reason;          // why it ended or started again last; NULL: it did not
    char checkpoint[UUID_TEXT]; // newest completed; "": none
    int64_t checkpoint_steps;
    int64_t steps;
    double progress;
    struct report training, validation;
    char *best_text;
    bool has_best;
    double best;
    int64_t told_steps; // the searcher knows validations up to here; -1: none
    json_t *summary;
    unsigned dirty; // DIRTY_ bits of metrics.c, written at the end of the turn
    struct trial *dirty_next;
    struct allocation *allocation; // the live one
};

enum outcome { // how an allocation ends; the first cause counts
    OUTCOME_NONE,
    OUTCOME_COMPLETED,
    OUTCOME_PREEMPTED, // also: has acknowledged the drain
    OUTCOME_FAILED,    // error of the program
    OUTCOME_PEER,      // native ranks lost their peers: what became of these counts, if it is heard
    OUTCOME_LOST,      // error of the cluster
    OUTCOME_KILLED,    // by the master
    OUTCOMES
};

enum part_state { PART_ASSIGNED, PART_STARTING, PART_RUNNING, PART_EXITED };

struct part { // of an allocation, on one agent
    struct allocation *allocation;
    struct agent *agent;
    enum part_state state;
    bool reported; // in the sync that is being read
    int *slots;
    int slot_count;
    int first_rank, rank_count;
    struct part *next_on_agent;
};

struct allocation {
    char id[ALLOCATION_ID];
    struct trial *trial;
    int64_t epoch;
    enum allocation_state state;
    int gang; // of the scheduler
    struct pool *pool;
    int slots; // wanted while it is queued, then held
    struct part *parts;
    int part_count, world_size;
    bool launched_here; // by this process, which has heard all of its ranks
    char token[65];
    bool draining;
    char *leave; // by the scheduler's will: the sentence that says why; NULL: not
    enum outcome outcome;
    char *reason;                  // of the outcome, for people
    int64_t queued_at, started_at; // wall
    char resume[UUID_TEXT];        // checkpoint it starts from; "": none
    int64_t resume_steps;
    int64_t measured_at; // monotonic: since then its progress has gone on from `measured`
    double measured;
    struct timer drain_timer;
    struct parked *drain_waiters, *rendezvous_waiters;
    struct gather *gathers;
};

struct agent {
    char *id, *address, *hostname, *version, *master_url, *session, *old_session;
    enum agent_state state;
    struct pool *pool;
    bool enabled, draining; // what an operator set; draining: disabled, but what runs may end
    json_t *slots;          // as reported
    enum slot_use { SLOT_USED, SLOT_DISABLED, SLOT_DRAINING } * slot_use; // as an operator set it
    int slot_count;
    char *rack;                            // "": not known
    int handle, handle_slots, handle_rack; // of the scheduler; SCHED_NONE: none yet
    struct pool *handle_pool;
    int strangers; // tasks it still runs that must not be: its slots are not free
    struct part *parts;
    int64_t desired;     // version of what should run there
    int64_t applied;     // newest version its reports knew of
    struct parked *poll; // its parked sync
    bool answer_due;
    struct agent *due_next;
    struct timer silence, grace;
    int64_t registered_at; // wall
};

struct pool {
    char *name;
    int handle; // of the scheduler
    enum sched_policy policy;
    bool configured; // it is there without agents
};

#endif
