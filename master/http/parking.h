// Connections that wait: suspended in libmicrohttpd until somebody wakes them.
//
// A suspended connection has no timeout there and does not see its peer leave. A thread of this
// module looks at all of them five times a second: peers that have closed are told through gone(),
// waits whose deadline has passed end. One lock guards the list; nothing blocks under it.
#ifndef MUSTER_MASTER_HTTP_PARKING_H
#define MUSTER_MASTER_HTTP_PARKING_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"

struct MHD_Connection;
struct parking; // opaque

struct parked { // part of what waits; zeroed at first
    struct MHD_Connection *connection;
    int fd;
    int bell; // eventfd of the connection's thread: rung when it is resumed
    // The peer has closed; called at most once a wait, under the lock: must not come back here.
    // True: wake it; false: somebody else will, soon.
    bool (*gone)(struct parked *p);

    // NULL, or called under the lock when it sleeps, and when its deadline has come, which then
    // does not wake it.
    void (*asleep)(struct parked *p), (*due)(struct parked *p);

    int64_t until;  // monotonic microseconds; 0: no deadline
    bool suspended; // the rest is the parking's own
    bool woken;     // before it slept
    bool told;      // gone() was called
    struct parked *next, **link;
};

int parking_new(struct parking **out, struct error *e);
void parking_free(struct parking *k); // nothing waits any more; ends the thread

// In libmicrohttpd's callback for the connection. True: it sleeps now, return from the callback;
// false: it was woken already, go on.
bool parking_wait(struct parking *k, struct parked *p);

void parking_set_until(struct parking *k, struct parked *p, int64_t until); // of one that sleeps

void parking_wake(struct parking *k, struct parked *p); // any thread

// For the stop: treats every peer as gone, now and from here on, and returns when nothing waits.
void parking_close(struct parking *k);

#endif
