// The core's state, and the functions of the loop that folders use: the batch of this turn, answers
// that wait for its commit, parked requests. Core thread alone; loop.c also touches the atomic
// fields from other threads.
//
// A turn takes the waiting messages, fires the timers that are due, lets the scheduler decide,
// writes all rows in one batch, and releases the answers when that batch is committed. So the store
// always holds the state between two turns.
#ifndef MUSTER_MASTER_KERNEL_STATE_H
#define MUSTER_MASTER_KERNEL_STATE_H

#include <pthread.h>
#include <stdatomic.h>

#include "base/log.h"
#include "base/os/mailbox.h"
#include "db/db.h"
#include "master/kernel/change_marks.h"
#include "master/kernel/core.h"
#include "master/kernel/id_map.h"
#include "master/kernel/objects.h"
#include "master/kernel/objects_team.h"
#include "master/sched/sched.h"

struct core {
    struct core_options options;
    struct db *db;
    struct db_reader *reader; // used at the start, and for rows of objects that are not live
    struct mailbox *inbox;
    struct workers *workers;
    pthread_t thread;
    bool started, manual; // by its thread; by core_turn()
    int64_t now, wall;    // of this turn: monotonic, wall clock

    struct sched *sched;
    bool sched_due;
    int64_t queue_listing;             // number of queue listings made so far
    struct timer sched_timer;          // fires at the next scheduling pass
    int64_t sched_last;                // monotonic time of the last pass
    struct id_map experiments, trials; // trials: of active experiments
    struct id_map workspaces, projects;
    struct agent **agents; // by id
    size_t agent_count;
    struct agent **agent_of_handle; // by the scheduler's handle
    size_t handle_count;
    struct agent *due_agents; // their polls are answered at the end of this turn
    struct pool **pools;
    size_t pool_count;
    char **racks; // by number
    int rack_count;
    int64_t next_experiment, next_trial, next_workspace, next_project, next_archive;
    struct active_experiment *ended; // freed at the end of this turn
    struct changes *changes;         // of this turn, for followers; NULL: none

    // The state of the modules; each makes and frees its own.
    struct metric_ingest *metrics;                 // master/ingest/reports.h
    struct compaction_queue *compaction;           // compaction.c; NULL: nothing was ever compacted
    struct logs *logs;                             // logs.h
    struct gc *gc;                                 // master/retention/gc.c
    struct log_expiry *log_expiry;                 // log_expiry.c
    struct webhooks *webhooks;                     // master/notify/webhook_internal.h
    struct external_ids *external_ids;             // master/calls/external_ids.c
    struct unowned_archives *unowned_archives;     // code_archives.c
    struct alerts *alerts;                         // master/watch/alerts.h
    struct workspace_removals *workspace_removals; // master/calls/bulk/workspace_removal.c

    struct timers timers;
    struct timer alive;            // calls options.alive
    struct parked_request *parked; // all of them
    struct db_batch *batch;
    struct commit_barrier {
        struct held_item *items;
        size_t first, count, cap, tagged;
    } barrier;
    uint64_t submitted;              // number of batches
    atomic_uint_least64_t committed; // number of batches; set by the writer thread
    uint64_t imported_in;            // the batch with the newest imported records; 0: none
    atomic_bool wake_sent;
};

// Adds a row to this turn's batch: STORE(c, TRIAL_SET_STATE, "PAUSED", id).
#define STORE(c, name, ...) DB_ADD(core_batch(c), name, __VA_ARGS__)
struct db_batch *core_batch(struct core *c);

// These act after the commit of this turn: they answer a parked request (with its result, with an
// error), or wake the followers of a log.
void core_complete(struct core *c, struct request *rq);
void core_refuse(struct core *c, struct request *rq, const struct error *e);
void core_notify_log(struct core *c, const char *task_id);
void core_notify_outbox(struct core *c); // a webhook is to be sent

// A parked request. It is allocated in the request's arena; `list` is its owner's list. expire() is
// called when its time is over or its client has gone, and must complete the request.
struct parked_request {
    struct request *rq;
    void (*expire)(struct core *c, struct parked_request *p);
    void *owner;
    int64_t since; // monotonic
    struct timer timer;
    struct parked_request **list, *next, *prev, *all_next, *all_prev;
};
// Parks a request until `until` (monotonic) or core_unpark(), which returns the request.
struct parked_request *core_park(struct core *c, struct request *rq, struct parked_request **list,
                                 void *owner, int64_t until,
                                 void (*expire)(struct core *c, struct parked_request *p));
struct request *core_unpark(struct core *c, struct parked_request *p);

// --- lookup --------------------------------------------------------------------------------------

// The functions that find an object return NULL if there is none.
struct experiment *core_experiment_find(struct core *c, int64_t id);
struct trial *core_trial_find(struct core *c, int64_t id);
// Finds the trial of an active experiment by the id of its task or of one of its allocations.
struct trial *core_trial_of_task(struct core *c, const char *id);
struct allocation *core_allocation_find(struct core *c, const char *id);
// Whether the allocation, which may have ended, has a part on the agent of that name.
bool core_allocation_on_agent(struct core *c, const char *allocation, const char *agent);
struct agent *core_agent_find(struct core *c, const char *id);
struct project *core_project(struct core *c, int64_t id);
struct workspace *core_workspace(struct core *c, int64_t id);
struct workspace *core_workspace_of(struct core *c, const struct experiment *x);
// The priority of a job that names none.
int pool_default_priority(const struct pool *pool);
// Finds the pool, or makes it; "": the default pool.
struct pool *core_pool_get(struct core *c, const char *name);
// Whether the pool is the default, is configured, or has an agent that is not forgotten.
bool core_pool_exists(const struct core *c, const struct pool *pool);
// Finds a pool that exists. ERR_INVALID: the message names the pools that do.
int core_pool_require(struct core *c, const char *name, struct pool **out, struct error *e);
// The number of a rack, a new one for a new name; "": SCHED_NONE.
int core_rack_number(struct core *c, const char *name);
// Convert times between the wall clock and the monotonic clock of this turn, in microseconds. A
// wall time in the future becomes `now`.
int64_t core_to_monotonic(const struct core *c, int64_t wall);
int64_t core_to_wall(const struct core *c, int64_t monotonic);

// The experiment that the path names. ERR_INVALID, ERR_NOT_FOUND.
int core_param_experiment(struct core *c, struct request *rq, struct experiment **out,
                          struct error *e);
// The live allocation whose programs make this call, with its own token or with its user's. NULL:
// none.
struct allocation *core_calling_allocation(struct core *c, const struct request *rq);
// The caller's own live allocation. ERR_FORBIDDEN: the allocation has ended, or the caller is no
// task.
int core_caller(struct core *c, struct request *rq, struct allocation **out, struct error *e);
// The same, for a call whose params[0] names the allocation. ERR_FORBIDDEN: it names another one.
int core_caller_of_allocation(struct core *c, struct request *rq, struct allocation **out,
                              struct error *e);

#endif
