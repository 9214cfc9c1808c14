// Threads that produce the parts of streams, so that the http threads stay free. The next part of a
// stream is produced only after its caller has read the previous one, so a caller who does not read
// costs no thread.
//
// A stream without data is queued here while its connection is suspended. Users take turns: a user
// with hundreds of streams gets no more thread time than a user with one. Each thread has a reader
// of the store. Any thread may call; one lock, not held while a part is produced.
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
    PUMP_READY, // there is data to send, or the stream ends
};

struct pumped {                  // part of the stream; zeroed at first
    struct fair_queue_item turn; // must be the first member; the owner sets its user
    enum pump_turn (*fill)(struct pumped *p, struct db_reader *db); // on a thread of the pump
    void (*ready)(
        struct pumped *p); // after PUMP_READY, or when the peer is gone: resume the connection

    enum { PUMP_IDLE, PUMP_QUEUED, PUMP_FILLING, PUMP_WAITING, PUMP_DONE } state; // private
    bool woken;                                                                   // during fill()
    bool gone;
};

int pump_new(struct db *db, struct pump **out, struct error *e);
void pump_free(struct pump *k); // nothing may be queued; ends the threads

// Queues a stream. Its owner must not touch it before ready().
void pump_queue(struct pump *k, struct pumped *p);
void pump_take(struct pump *k, struct pumped *p); // by the owner, after ready()

void pump_wake(struct pump *k, struct pumped *p); // there is new data, or a deadline has passed

// The peer has closed. True: the stream is neither queued nor being filled, and its owner resumes
// the connection. False: ready() will be called soon.
bool pump_gone(struct pump *k, struct pumped *p);

#endif
