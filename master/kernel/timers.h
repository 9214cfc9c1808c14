// Timers of the core thread: a heap of deadlines in monotonic microseconds. A timer is part of the
// object it belongs to, which clears it before it goes. Timers of one instant fire in the order in
// which they were set.
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
    size_t place; // in the heap, from 1; 0: not set
};

struct timers {
    struct timer **heap; // from 1
    size_t count, cap;
    uint64_t order;
};

void timers_free(struct timers *t);
void timer_set(struct timers *t, struct timer *timer, int64_t at); // or moves it
void timer_clear(struct timers *t, struct timer *timer);           // not set is fine
int64_t timers_next(const struct timers *t);                       // INT64_MAX: none
struct timer *timers_due(struct timers *t, int64_t now); // takes out the next due one, or NULL

#endif
