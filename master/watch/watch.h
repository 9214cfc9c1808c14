// Watches the cluster's health with a thread of its own. About once a second it looks at the disks,
// the backups and the commits of the store, and asks the core thread (module.h), which compares all
// trouble with the open alerts and counts the cluster. While the core thread or the store does not
// answer, watch_ready() says so.
//
// The main thread makes, starts and stops it; any thread may read it.
#ifndef MUSTER_MASTER_WATCH_WATCH_H
#define MUSTER_MASTER_WATCH_WATCH_H

#include "db/db.h"
#include "master/common/free_space.h"
#include "master/kernel/core.h"
#include "master/watch/cluster_counts.h"

struct watch; // opaque

struct watch_options {
    struct db *db;
    const struct free_space *free_space; // NULL: there is always space
    int64_t store_slow_us;               // a mean commit time that is trouble; 0: never
    int64_t backup_every_us;             // 0: no backups are expected
};

struct watch *watch_new(const struct watch_options *options);
// `newest_backup`: the time of the newest backup in seconds since 1970, or 0; NULL: backups are not
// watched. The core and ctx live until watch_stop().
int watch_start(struct watch *w, struct core *core, int64_t (*newest_backup)(void *ctx), void *ctx,
                struct error *e);
void watch_stop(struct watch *w); // before the core stops; accepts NULL and one that did not start
void watch_free(struct watch *w);

enum { WATCH_READY_S = 5 }; // without an answer for so long, the master is not ready
// Whether the core thread turns and the store commits. ERR_UNAVAILABLE says what does not.
int watch_ready(const struct watch *w, struct error *e);

struct watch_figures {
    struct cluster_counts counts; // at most a few seconds old
    int64_t core_answered_us;     // how long ago the core thread answered last; -1: never
    size_t core_queue;            // messages that wait for the core thread
    int64_t newest_backup;        // seconds since 1970; 0: there is none
};
// Texts go into the arena. False: the cluster was not counted yet.
bool watch_read(struct watch *w, struct arena *arena, struct watch_figures *out);

#endif
