// Where changes become events: the core and the handlers on workers leave notes after their commits
// (hub_notify, hub_note), a thread of the hub reads from the committed store what became of each
// thing, writes it once for all followers, numbers it and wakes those it is for.
//
// Notes wait for each other, HUB_GAP_US, those of metrics, logs and queues alone HUB_LAZY_GAP_US;
// what changes often meanwhile is one event. The thread never takes more than a fifth of a core:
// under a flood events get rarer, not the master slower. While nobody has followed for
// HUB_LINGER_US nothing is written at all.
//
// One lock guards notes, ring and followers. Nothing is read, written or allocated for long under
// it, and the core does no more than hang its notes in.
#ifndef MUSTER_MASTER_NOTIFY_HUB_H
#define MUSTER_MASTER_NOTIFY_HUB_H

#include "db/db.h"
#include "master/http/stream.h"
#include "master/notify/event_ring.h"

enum {
    HUB_GAP_US = 20 * 1000,
    HUB_LAZY_GAP_US = 100 * 1000,
    HUB_LINGER_US = 60 * 1000000,
    HUB_NUMBER_BITS = 30, // of an event's number; above them the start of the master
};

struct hub; // opaque

struct hub_follower { // the stream's own, between hub_add and hub_remove
    struct stream *stream;
    const struct event_filter *filter;
    int64_t user_id;
    bool listens; // the rest is the hub's
    struct hub_follower *next, **link;
};

// Numbers grow over restarts: the store counts the starts (meta 'event_start'), which are also not
// below the minutes since 2026, so that they grow when an older store is put back, too. All fit
// into the 53 bits of a JSON number that any reader takes.
int hub_start(struct db *db, struct hub **out, struct error *e);
void hub_free(struct hub *h); // nobody follows any more; ends the thread. NULL is fine

// core_options.events_committed: ctx is the struct hub.
void hub_notify(void *ctx, struct changes *notes);
// Of what is changed without the core (a model), after its commit; any thread. NULL: nobody
// follows.
void hub_note(struct hub *h, enum event_topic topic, int64_t workspace_id, int64_t id);
void hub_note_audit(struct hub *h, const char *path); // of a call that left its row; any thread

// ERR_BUSY: LIMIT_EVENT_STREAMS of all, or LIMIT_EVENT_STREAMS_USER of one user.
int hub_add(struct hub *h, struct hub_follower *f, struct error *e);
void hub_listen(struct hub *h, struct hub_follower *f); // from now on its stream is woken
void hub_remove(struct hub *h, struct hub_follower *f);

uint64_t hub_last(struct hub *h);
int hub_read(struct hub *h, uint64_t *place, const struct event_filter *f, struct event **out,
             int most);          // as ring_read
void hub_end_all(struct hub *h); // every stream ends; for the stop of the server

// event_text.c: what became of the thing, as JSON; fills in whose it is. False: nothing to tell.
bool event_text(struct db_reader *db, struct change *n, struct buf *out);

#endif
