// Memory of finished answers that their callers have not taken yet: an account of all of them, with
// a share for each user, so that callers who do not read cannot fill the master. Any thread.
#ifndef MUSTER_MASTER_HTTP_LIMITS_ANSWERS_H
#define MUSTER_MASTER_HTTP_LIMITS_ANSWERS_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"

enum {
    ANSWER_SMALL = 64 * 1024, // smaller ones are free
    READERS = 1024,           // users are told apart by a hash of so many values
    READS_BURST_US = 50000,   // that a user's reads may take of the http threads at once, and
    READS_COST = 4,           // a quarter of one thread in the long run
};

struct answer_hold { // part of what is answered; zeroed: it holds nothing
    int64_t user;
    size_t bytes;
    struct answer_hold *next, **link;
};

struct answers { // zeroed is good
    pthread_mutex_t lock;
    struct answer_hold *first;
    size_t held;
    atomic_int_least64_t paid[READERS]; // monotonic time by which a user's reads are paid for
};

// How many bytes an answer for the user may have now; at least ANSWER_SMALL.
size_t answers_room(struct answers *a, int64_t user);

// ERR_UNAVAILABLE: the user's share is used up. This is for calls that change something, before
// they do.
int answers_check(struct answers *a, int64_t user, struct error *e);

// ERR_UNAVAILABLE: there is no room for the answer. `done`: its call has changed something, so that
// the answer is held in any case.
int answers_hold(struct answers *a, struct answer_hold *h, int64_t user, size_t bytes, bool done,
                 struct error *e);
int answers_refuse(struct error *e);                            // always ERR_UNAVAILABLE
void answers_release(struct answers *a, struct answer_hold *h); // does nothing when nothing is held

// answers_took: a read of the user has taken an http thread for so long. answers_is_heavy: the
// user's reads took more than their part, so the next ones take turns on the readers' threads.
void answers_took(struct answers *a, int64_t user, int64_t now, int64_t us);
bool answers_is_heavy(struct answers *a, int64_t user, int64_t now);

#endif
