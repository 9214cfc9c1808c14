// Timers of the core thread: a heap of deadlines in monotonic microseconds. A timer is a field of
// the object it belongs to, which clears it before the object is freed. Timers that are due at the
// same time fire in the order in which they were set.
#ifndef MUSTER_MASTER_KERNEL_TIMERS_H
#define MUSTER_MASTER_KERNEL_TIMERS_H

#include <stddef.h>
#include <stdint.h>

struct core;

struct timer {
    void (*fire)(struct core *c, void *arg);
    void *arg;
    int64_t at;
    uint64_t order;
    size_t place; // index in the heap, from 1; 0: not set
};

struct timers {
    struct timer **heap; // indexes start at 1
    size_t count, cap;
    uint64_t order;
};

void timers_free(struct timers *t);
void timer_set(struct timers *t, struct timer *timer, int64_t at); // sets the timer, or moves it
void timer_clear(struct timers *t, struct timer *timer);           // does nothing if it is not set
int64_t timers_next(const struct timers *t);                       // INT64_MAX: none
struct timer *timers_due(struct timers *t,
                         int64_t now); // removes and returns the next due timer, or NULL

#endif
