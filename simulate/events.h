// The simulator's future events: a binary heap by time. Private to this folder.
#ifndef MUSTER_SIMULATE_EVENTS_H
#define MUSTER_SIMULATE_EVENTS_H

#include <stddef.h>
#include <stdint.h>

enum event_kind {
    EVENT_WORKS, // a gang has paid the cost of its preemptions
    EVENT_ENDS,  // the work of a gang is done
    EVENT_LEAVES // the drain of a gang is over
};

struct event {
    int64_t at;
    size_t job;
    uint32_t run; // of the job; an event of an older run is obsolete
    enum event_kind kind;
};

struct events {
    struct event *heap;
    size_t count, cap;
};

void events_add(struct events *all, struct event event);
struct event events_take(struct events *all); // the first event; there must be one
void events_free(struct events *all);

#endif
