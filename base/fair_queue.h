// Lanes: a queue in which users take turns. Each user's items stay in order, and one user's many
// items are no reason for another's single item to wait. One thread, or under its owner's lock.
#ifndef MUSTER_BASE_FAIR_QUEUE_H
#define MUSTER_BASE_FAIR_QUEUE_H

#include <stddef.h>
#include <stdint.h>

struct lane; // opaque: the items of one user

struct fair_queue_item { // part of what waits
    int64_t user;
    struct fair_queue_item *next; // the lanes' own
};

struct fair_queue {            // zeroed at first
    struct lane *first, *last; // the next user in turn is the first
    size_t count;              // items
};

void fair_queue_push(struct fair_queue *l, struct fair_queue_item *item);
struct fair_queue_item *fair_queue_pop(struct fair_queue *l);         // NULL: nothing waits
size_t fair_queue_count_of(const struct fair_queue *l, int64_t user); // items of that user

#endif
