// Lanes: a queue in which users take turns. Each user's items stay in order, and one user's many
// items are no reason for another's single item to wait. One thread, or under its owner's lock.
#ifndef MUSTER_BASE_LANES_H
#define MUSTER_BASE_LANES_H

#include <stddef.h>
#include <stdint.h>

struct lane; // opaque: the items of one user

struct lane_item { // part of what waits
    int64_t user;
    struct lane_item *next; // the lanes' own
};

struct lanes {                 // zeroed at first
    struct lane *first, *last; // the next user in turn is the first
    size_t count;              // items
};

void lanes_put(struct lanes *l, struct lane_item *item);
struct lane_item *lanes_take(struct lanes *l);        // NULL: nothing waits
size_t lanes_of(const struct lanes *l, int64_t user); // items of that user

#endif
