// A queue with a FIFO for each user, served round robin: items of one user stay in order, and many
// items of one user do not delay a single item of another. One thread, or the lock of its owner.
#ifndef MUSTER_BASE_FAIR_QUEUE_H
#define MUSTER_BASE_FAIR_QUEUE_H

#include <stddef.h>
#include <stdint.h>

struct user_queue; // opaque: the items of one user

struct fair_queue_item { // embedded in the objects that wait
    int64_t user;
    struct fair_queue_item *next; // set by the queue
};

struct fair_queue {                  // starts zeroed
    struct user_queue *first, *last; // the user at `first` is served next
    size_t count;                    // items of all users
};

void fair_queue_push(struct fair_queue *q, struct fair_queue_item *item);
struct fair_queue_item *fair_queue_pop(struct fair_queue *q); // NULL when it is empty
size_t fair_queue_count_of(const struct fair_queue *q, int64_t user);

#endif
