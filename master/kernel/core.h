// The core: one thread that owns all live state (experiments, trials, allocations, agents, queue),
// its state machines, the scheduler and the searchers.
//
// The http threads send requests together with their handler, the writer thread sends commit
// notices, and timers belong to the core. A handler validates a request against the live state,
// changes that state, and adds rows to the current batch. No answer to a caller or an agent leaves
// the core before every batch that it made up to then is committed (rule 2: commit before acting).
// If the store cannot be written, the process ends: trainers go on, and the next start continues
// from the store.
#ifndef MUSTER_MASTER_KERNEL_CORE_H
#define MUSTER_MASTER_KERNEL_CORE_H

#include "base/error.h"
#include "db/db.h"
#include "master/common/free_space.h"
#include "master/common/meters.h"
#include "master/common/request.h"
#include "master/common/storage.h"
#include "master/kernel/changes.h"
#include "master/sched/sched.h"

struct core;        // opaque outside the folders of the core
struct core_module; // module.h

struct core_pool_option {
    const char *name;
    enum sched_policy policy;
    bool as_default;               // the policy is that of pools without an option
    int max_user_priority;         // 0: as for pools without an option
    int64_t preemption_timeout_us; // 0: as for pools without an option
};

struct core_options {
    const struct core_module *const *modules; // ends with NULL; master/modules.h
    const char *cluster_id, *cluster_name;    // kept in the store's table `meta`
    const char *master_url;   // as agents and tasks reach the master; "": as each agent reaches it
    const char *external_url; // as browsers reach the master, for links in messages; "": unknown
    const struct storage *storage; // where checkpoints may be stored; outlives the core
    const struct free_space
        *free_space;               // watches the free space; outlives the core; NULL: no limit
    struct meters *meters;         // counts; outlives the core; NULL: nothing is counted
    int64_t alert_calm_us;         // an alert ends when its trouble has been over for so long
    bool mail_alerts;              // alerts are put into the outbox of e-mails, too
    int64_t agent_silence_us;      // 10 s
    int64_t agent_reconnect_us;    // 30 s until the allocations of a lost agent are given up
    int64_t kill_grace_us;         // from SIGTERM to SIGKILL, 10 s
    int64_t preemption_timeout_us; // 600 s unless the experiment or its pool says otherwise
    int64_t restart_backoff_us;    // from the first failure to the restart; 0: at once
    int64_t log_days; // how long logs are kept after the end of their task, where the experiment
                      // does not say; 0: for ever
    int64_t schedule_gap_us;     // least time between scheduling passes; 0: a pass each turn
    enum sched_policy scheduler; // of pools without an option
    int max_user_priority;       // of pools without an option; 0: SCHED_PRIORITY_DEFAULT
    const struct core_pool_option *pools; // only core_new() reads them
    size_t pool_count;
    const struct sched_rules *rules; // NULL: the scheduler's defaults; only core_new() reads them
    int64_t (*mono_us)(void);        // NULL: clock_mono_us; tests move time
    int64_t (*wall_us)(void);        // NULL: clock_wall_us

    // Called after the commit of new log rows of a task, and after the commit that ends its trial;
    // wakes the followers of the log. Any thread; must return at once. NULL: there are no
    // followers.
    void (*logs_committed)(void *ctx, const char *task_id);
    void *logs_ctx;

    // Called after a commit that has put something into the outbox of webhooks. Any thread; must
    // return at once. NULL: nothing is sent.
    void (*outbox_committed)(void *ctx);
    void *outbox_ctx;

    // Called with the changes of a turn after its commit; takes them. Core thread; must return at
    // once. NULL: there are no followers.
    void (*events_committed)(void *ctx, struct changes *changes);
    void *events_ctx;

    // The core thread calls it every alive_us, and does not while a turn hangs. NULL: never.
    void (*alive)(void);
    int64_t alive_us;
};

// Loads the live state from the store. Active experiments go on; allocations that agents still run
// continue when the agents report.
int core_new(struct db *db, const struct core_options *options, struct core **out, struct error *e);
int core_start(struct core *c, struct error *e); // starts the thread
void core_stop(struct core *c); // refuses parked requests with 503, joins the thread
void core_free(struct core *c); // without core_stop(): like a kill of the process

// Without threads (simulations): instead of calling core_start() the owner runs turns itself, from
// one thread, whenever it has sent a message, its store has committed a batch, or core_next_turn()
// is due. Work for workers is done in the turn that follows. The store comes from db_open_memory().
void core_turn(struct core *c);
int64_t core_next_turn(const struct core *c); // monotonic time of the next turn; 0: at once;
                                              // INT64_MAX: when a message comes

// A handler runs on the core thread. It returns 0: the answer is in rq (or is rendered later from
// rq->id); REQUEST_PARKED: the core completes the request later; negative: *e is the answer.
typedef int core_handler(struct core *c, struct request *rq, struct error *e);

// ERR_BUSY when LIMIT_CORE_QUEUE messages wait. On success the core owns rq until rq->complete().
int core_submit(struct core *c, core_handler *handler, struct request *rq, struct error *e);

size_t core_queue_length(const struct core *c); // messages that wait; any thread

// The client of a parked request has gone (rq->client_gone is set); the core completes the request
// soon.
void core_client_gone(struct core *c, struct request *rq);

#endif
