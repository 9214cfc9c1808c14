// Threads that make the parts of streams, so that the http threads stay free. A stream is filled
// only after its caller has read the part before: a caller who does not read costs no thread.
//
// A stream without bytes is queued here, and its connection is suspended meanwhile. Users take
// turns: a user with hundreds of streams gets no more of the threads than a user with one. Each
// thread has a reader of the store. Any thread may call; one lock, which is not held while a stream
// is filled.
#ifndef MUSTER_MASTER_HTTP_PUMP_H
#define MUSTER_MASTER_HTTP_PUMP_H

#include <stdbool.h>

#include "base/fair_queue.h"
#include "db/db.h"

enum { PUMP_THREADS = 2 };

struct pump; // opaque

enum pump_turn {
    PUMP_AGAIN, // nothing yet; call fill() again after the other streams
    PUMP_WAIT,  // nothing to send until pump_wake()
    PUMP_READY, // there are bytes to send, or the stream ends
};

struct pumped {                  // part of what is filled; zeroed at first
    struct fair_queue_item turn; // the first; its user is the owner's to set
    enum pump_turn (*fill)(struct pumped *p, struct db_reader *db); // on a thread of the pump
    void (*ready)(struct pumped *p); // after PUMP_READY, or when the peer is gone: resume it

    enum { PUMP_IDLE, PUMP_QUEUED, PUMP_FILLING, PUMP_WAITING, PUMP_DONE } state; // the pump's own
    bool woken;                                                                   // while it filled
    bool gone;
};

int pump_new(struct db *db, struct pump **out, struct error *e);
void pump_free(struct pump *k); // nothing is queued any more; ends the threads

// Queues a stream. Its owner does not touch it again before ready().
void pump_queue(struct pump *k, struct pumped *p);
void pump_take(struct pump *k, struct pumped *p); // by the owner, after ready()

void pump_wake(struct pump *k, struct pumped *p); // there is news, or a deadline has come

// The peer has closed. True: the stream is neither queued nor being filled, and its owner resumes
// it. False: ready() will be called soon.
bool pump_gone(struct pump *k, struct pumped *p);

#endif
