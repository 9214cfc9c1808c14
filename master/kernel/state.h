// The core's own state, and what its sources use of the loop: the batch of this turn, answers that
// wait for its commit, parked requests. Core thread alone, but for what loop.c marks as atomic.
//
// A turn takes the messages that are there, fires the timers that are due, lets the scheduler
// decide, writes all rows of it in one batch, and lets answers go when that batch is committed. So
// what is on disk is always the state between two turns.
#ifndef MUSTER_MASTER_KERNEL_STATE_H
#define MUSTER_MASTER_KERNEL_STATE_H

#include <pthread.h>
#include <stdatomic.h>

#include "base/log.h"
#include "base/os/mailbox.h"
#include "db/db.h"
#include "master/kernel/by_id.h"
#include "master/kernel/change_events.h"
#include "master/kernel/core.h"
#include "master/kernel/objects.h"
#include "master/kernel/objects_team.h"
#include "master/sched/sched.h"

struct core {
    struct core_options options;
    struct db *db;
    struct db_reader *reader; // at start, and for what is not live
    struct mailbox *inbox;
    struct workers *workers;
    pthread_t thread;
    bool started, by_hand; // by its thread, by core_turn()
    int64_t now, wall;     // of this turn: monotonic, wall clock

    struct sched *sched;
    bool sched_due;
    int64_t listing;                  // of the queue: how many were made
    struct timer sched_timer;         // of the next pass
    int64_t sched_last;               // when the last one was; of c->now
    struct by_id experiments, trials; // trials of live experiments
    struct by_id workspaces, projects;
    struct agent **agents; // by id
    size_t agent_count;
    struct agent **agent_of_handle; // of the scheduler's handles
    size_t handle_count;
    struct agent *due_agents; // to be answered at the end of this turn
    struct pool **pools;
    size_t pool_count;
    char **racks; // by number
    int rack_count;
    int64_t next_experiment, next_trial, next_workspace, next_project, next_archive;
    struct active_experiment *ended; // given back at the end of this turn
    struct notes *notes;             // of this turn, for followers; NULL: none

    // State of the modules above; each makes and frees its own.
    struct metric_ingest *metrics;             // master/ingest/reports.h
    struct folds *folds;                       // .. compaction.c; NULL: nothing was ever folded
    struct logs *logs;                         // .. logs.h
    struct gc *gc;                             // master/retention/gc.c
    struct log_expiry *log_expiry;             // .. log_expiry.c
    struct webhooks *webhooks;                 // master/notify/webhook_internal.h
    struct external_ids *external_ids;         // master/calls/external_ids.c
    struct unowned_archives *unowned_archives; // .. code_archives.c

    struct timers timers;
    struct parked *parked; // all of them
    struct db_batch *batch;
    struct outbox {
        struct outgoing *items;
        size_t first, count, cap, tagged;
    } outbox;
    uint64_t submitted;              // batches
    atomic_uint_least64_t committed; // by the writer thread
    atomic_bool wake_sent;
};

// One row more in this turn's batch: STORE(c, TRIAL_SET_STATE, "PAUSED", id).
#define STORE(c, name, ...) DB_ADD(core_batch(c), name, __VA_ARGS__)
struct db_batch *core_batch(struct core *c);

void core_complete(struct core *c, struct request *rq); // after the commit of this turn
void core_refuse(struct core *c, struct request *rq, const struct error *e);
void core_tell_log(struct core *c, const char *task_id); // to followers, after the commit

// A request that waits. It lies in the request's arena; `list` is the owner's list of them, and
// expire() is called when its time is over or its peer has gone: it must complete the request.
struct parked {
    struct request *rq;
    void (*expire)(struct core *c, struct parked *p);
    void *owner;
    struct timer timer;
    struct parked **list, *next, *prev, *all_next, *all_prev;
};
struct parked *core_park(struct core *c, struct request *rq, struct parked **list, void *owner,
                         int64_t until, void (*expire)(struct core *c, struct parked *p));
struct request *core_unpark(struct core *c, struct parked *p); // gives the request back

// --- finding -------------------------------------------------------------------------------------

struct experiment *core_experiment_find(struct core *c, int64_t id);
struct trial *core_trial_find(struct core *c, int64_t id);
struct trial *core_trial_of_task(struct core *c, const char *id); // or of its allocation; live
struct allocation *core_allocation_find(struct core *c, const char *id); // live ones
struct agent *core_agent_find(struct core *c, const char *id);
struct project *core_project(struct core *c, int64_t id);     // NULL: none
struct workspace *core_workspace(struct core *c, int64_t id); // NULL: none
struct workspace *core_workspace_of(struct core *c, const struct experiment *x);
int pool_default_priority(const struct pool *pool);       // of a job that names none
struct pool *core_pool(struct core *c, const char *name); // made when there is none; "": default
bool core_pool_exists(const struct core *c, const struct pool *pool); // as the next one means it
// One that is the default, in the configuration, or has ever had an agent. ERR_INVALID says which
// there are.
int core_pool_known(struct core *c, const char *name, struct pool **out, struct error *e);
int core_rack(struct core *c, const char *name);            // its number; "": SCHED_NONE
int64_t core_monotonic(const struct core *c, int64_t wall); // when that was, at most now
int64_t core_wall(const struct core *c, int64_t monotonic);

// Of the path: ERR_INVALID, ERR_NOT_FOUND.
int core_param_experiment(struct core *c, struct request *rq, struct experiment **out,
                          struct error *e);
// The caller's own live allocation: ERR_FORBIDDEN "allocation has ended", or not a task.
int core_caller(struct core *c, struct request *rq, struct allocation **out, struct error *e);
// That it is the allocation of params[0] as a trial, or as an allocation.
int core_caller_of_trial(struct core *c, struct request *rq, struct allocation **out,
                         struct error *e);
int core_caller_of_allocation(struct core *c, struct request *rq, struct allocation **out,
                              struct error *e);

#endif
