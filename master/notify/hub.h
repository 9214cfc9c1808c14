// Turns changes into events. The core and handlers on workers add changes after their commits
// (hub_notify, hub_add_change). The hub's thread reads the changed objects from the committed
// store, writes each event once for all followers, numbers it and wakes the followers whose filters
// it passes.
//
// Changes are collected for HUB_GAP_US, or for HUB_LAZY_GAP_US if all of them are metrics, logs,
// queues or audit rows; several changes of one object in that time become one event. The thread
// uses at most a fifth of a CPU core: under heavy load events become rarer and the master stays
// fast. When nobody has followed for HUB_LINGER_US, nothing is written at all.
//
// One lock guards changes, ring and followers. No I/O and no large allocation happens under it, and
// the core only appends its changes.
#ifndef MUSTER_MASTER_NOTIFY_HUB_H
#define MUSTER_MASTER_NOTIFY_HUB_H

#include "db/db.h"
#include "master/http/stream.h"
#include "master/notify/event_ring.h"

enum {
    HUB_GAP_US = 20 * 1000,
    HUB_LAZY_GAP_US = 100 * 1000,
    HUB_LINGER_US = 60 * 1000000,
    HUB_NUMBER_BITS =
        30, // bits of an event's number; the bits above count the starts of the master
};

struct hub; // opaque

struct hub_follower { // owned by the stream, between hub_add_follower and hub_remove_follower
    struct stream *stream;
    const struct event_filter *filter;
    int64_t user_id;
    bool listens; // this and the rest belong to the hub
    struct hub_follower *next, **link;
};

// Event numbers grow across restarts: the store counts the starts (meta 'event_start'). The count
// is at least the minutes since 2026, so that numbers grow even after an older store is restored.
// All numbers fit into the 53 bits of a JSON number that any reader accepts.
int hub_start(struct db *db, struct hub **out, struct error *e);
void hub_free(struct hub *h); // ends the thread; there must be no followers. NULL is fine

// core_options.events_committed: ctx is the struct hub.
void hub_notify(void *ctx, struct changes *changes);
// For changes outside the core (models), after their commit; any thread. NULL: there is no hub.
void hub_add_change(struct hub *h, enum event_topic topic, int64_t workspace_id, int64_t id);
// After a call wrote its audit row; any thread.
void hub_add_audit_change(struct hub *h, const char *path);

// ERR_BUSY: LIMIT_EVENT_STREAMS in all, or LIMIT_EVENT_STREAMS_USER of one user.
int hub_add_follower(struct hub *h, struct hub_follower *f, struct error *e);
void hub_listen(struct hub *h, struct hub_follower *f); // from now on events wake the stream
void hub_remove_follower(struct hub *h, struct hub_follower *f);

uint64_t hub_last(struct hub *h);
int hub_read(struct hub *h, uint64_t *place, const struct event_filter *f, struct event **out,
             int most);          // as event_ring_read
void hub_end_all(struct hub *h); // ends every stream when the server stops

// event_json.c: writes the object's values as JSON and fills in where it belongs. False: there is
// no event to send.
bool event_write_json(struct db_reader *db, struct change *n, struct buf *out);

#endif
