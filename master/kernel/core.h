// The core: one thread that owns all live state (experiments, trials, allocations, agents, queue),
// its state machines, the scheduler and the searchers.
//
// The http threads send requests with their handler; the writer thread sends commit notices; timers
// are the core's own. A handler validates on the live state, changes it, and adds rows to the
// current batch. No answer, and no word to an agent, leaves the core before every batch it had made
// up to then is committed (rule 2: commit before act). A store that cannot be written ends the
// process: trainers go on, and the next start continues from what is on disk.
#ifndef MUSTER_MASTER_KERNEL_CORE_H
#define MUSTER_MASTER_KERNEL_CORE_H

#include "base/error.h"
#include "db/db.h"
#include "master/common/free_space.h"
#include "master/common/request.h"
#include "master/common/storage.h"
#include "master/kernel/changes.h"
#include "master/sched/sched.h"

struct core;        // opaque outside of the rooms of the core
struct core_module; // module.h

struct core_pool_option {
    const char *name;
    enum sched_policy policy;
    bool as_default;       // the policy is that of pools that are not named
    int max_user_priority; // 0: as of pools that are not named
};

struct core_options {
    const struct core_module *const *modules; // ends with NULL; master/modules.h
    const char *cluster_id, *cluster_name;    // kept in the store's meta table
    const char *master_url;        // as agents and tasks reach it; "" : as each agent does
    const struct storage *storage; // where checkpoints may lie; lives as long as the core
    const struct room *room;       // as long, too; NULL: there is room
    int64_t agent_silence_us;      // 10 s
    int64_t agent_reconnect_us;    // 30 s until a lost agent's allocations are given up
    int64_t kill_grace_us;         // SIGTERM -> SIGKILL, 10 s
    int64_t preemption_timeout_us; // 3600 s unless the experiment says otherwise
    int64_t restart_backoff_us;    // from a first failure to the restart; 0: at once
    int64_t log_days; // logs are kept so long after the end of their task, when their experiment
                      // does not say; 0: for ever
    int64_t schedule_gap_us;              // passes of the scheduler are so far apart; 0: each turn
    enum sched_policy scheduler;          // of pools that are not named here
    int max_user_priority;                // of the same; 0: SCHED_PRIORITY_DEFAULT
    const struct core_pool_option *pools; // read by core_new() alone
    size_t pool_count;
    const struct sched_rules *rules; // NULL: the scheduler's own; read by core_new() alone
    int64_t (*mono_us)(void);        // NULL: clock_mono_us; tests move time
    int64_t (*wall_us)(void);        // NULL: clock_wall_us

    // Told after the commit of new log rows of a task, and after the commit that ends its trial:
    // wakes the followers of its log. Any thread; returns at once. NULL: nobody follows.
    void (*logs_committed)(void *ctx, const char *task_id);
    void *logs_ctx;

    // Told what a turn has changed, after its commit; takes the notes. Core thread; returns at
    // once. NULL: nobody follows.
    void (*events_committed)(void *ctx, struct notes *notes);
    void *events_ctx;
};

// Loads the live state from the store (non-terminal experiments go on; allocations that agents
// still run are taken up again when the agents report).
int core_new(struct db *db, const struct core_options *options, struct core **out, struct error *e);
int core_start(struct core *c, struct error *e); // starts the thread
void core_stop(struct core *c);                  // completes parked requests with 503, joins
void core_free(struct core *c);                  // without core_stop(): as if it was killed

// Without threads (simulations): instead of core_start() the owner turns the core by hand, from one
// thread, whenever it has sent something, its store has written, or core_next() has come. What
// workers do happens in the turn that follows. The store is one of db_open_memory().
void core_turn(struct core *c);
int64_t core_next(const struct core *c); // monotonic; 0: at once, INT64_MAX: nothing to wait for

// A handler runs on the core thread. 0: the answer is in rq (or rendered later from rq->id);
// REQUEST_PARKED: the core completes it later; negative: *e is the answer.
typedef int core_handler(struct core *c, struct request *rq, struct error *e);

// ERR_BUSY when LIMIT_CORE_QUEUE messages wait. On success the core owns rq until rq->complete().
int core_submit(struct core *c, core_handler *handler, struct request *rq, struct error *e);

// The peer of a parked request went away (rq->client_gone is set); the core completes it soon.
void core_client_gone(struct core *c, struct request *rq);

#endif
