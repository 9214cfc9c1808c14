// The memory of finished answers that their callers have not read yet: an account of all of them
// with a share for each user, so that callers who do not read cannot fill the master's memory. Any
// thread.
#ifndef MUSTER_MASTER_HTTP_LIMITS_ANSWERS_H
#define MUSTER_MASTER_HTTP_LIMITS_ANSWERS_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"

enum {
    ANSWER_SMALL = 64 * 1024, // smaller answers are not counted
    READERS = 1024,           // users are distinguished by a hash with this many values
    READS_BURST_US = 50000,   // time that a user's reads may take of the http threads at once,
    READS_COST = 4, // and the inverse of the part of a thread that they may take in the long run
};

struct answer_hold { // a part of the account; zeroed: it holds nothing
    int64_t user;
    size_t bytes;
    struct answer_hold *next, **link;
};

struct answer_account { // initialized by zeroing
    pthread_mutex_t lock;
    struct answer_hold *first;
    size_t held;
    atomic_int_least64_t paid[READERS]; // until this monotonic time a user's reads are paid for
};

// The size in bytes that an answer for the user may have now; at least ANSWER_SMALL.
size_t answers_room(struct answer_account *a, int64_t user);

// ERR_UNAVAILABLE: the user's share is used up. Calls that change something check this first.
int answers_check(struct answer_account *a, int64_t user, struct error *e);

// ERR_UNAVAILABLE: there is no memory for the answer. `done`: the call has already changed
// something, so its answer is held in any case.
int answers_hold(struct answer_account *a, struct answer_hold *h, int64_t user, size_t bytes,
                 bool done, struct error *e);
int answers_refuse(struct error *e); // always ERR_UNAVAILABLE
void answers_release(struct answer_account *a,
                     struct answer_hold *h); // does nothing if nothing is held

// answers_took: a read of the user occupied an http thread for this long. answers_is_heavy: the
// user's reads exceed their part, so the next ones run on the reader threads in turn.
void answers_took(struct answer_account *a, int64_t user, int64_t now, int64_t us);
bool answers_is_heavy(struct answer_account *a, int64_t user, int64_t now);

#endif
