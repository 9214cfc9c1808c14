// Waiting connections: suspended in libmicrohttpd until they are woken.
//
// libmicrohttpd gives a suspended connection no timeout and does not notice that its peer left. A
// thread of this module checks all of them five times a second: it reports closed peers through
// gone() and ends waits at their deadlines. One lock guards the list; nothing blocks under it.
#ifndef MUSTER_MASTER_HTTP_PARKING_H
#define MUSTER_MASTER_HTTP_PARKING_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"

struct MHD_Connection;
struct parking; // opaque

struct parked { // part of the waiting object; zeroed at first
    struct MHD_Connection *connection;
    int fd;
    int bell; // eventfd of the connection's thread, rung when the connection is resumed
    // The peer has closed. Called at most once per wait, under the lock; it must not call back.
    // True: wake the connection; false: another thread will do so soon.
    bool (*gone)(struct parked *p);

    // NULL, or called under the lock when the connection begins to wait, and at its deadline, which
    // then does not wake it.
    void (*asleep)(struct parked *p), (*due)(struct parked *p);

    int64_t until;  // monotonic microseconds; 0: no deadline
    bool suspended; // the following fields are private
    bool woken;     // before it began to wait
    bool told;      // gone() was called
    struct parked *next, **link;
};

int parking_new(struct parking **out, struct error *e);
void parking_free(struct parking *k); // nothing may wait; ends the thread

// In libmicrohttpd's callback for the connection. True: it now waits, return from the callback;
// false: it was woken already, continue.
bool parking_wait(struct parking *k, struct parked *p);

void parking_set_until(struct parking *k, struct parked *p,
                       int64_t until); // of a waiting connection

void parking_wake(struct parking *k, struct parked *p); // any thread

// For the stop: treats every peer as gone from now on, and returns when nothing waits.
void parking_close(struct parking *k);

#endif
