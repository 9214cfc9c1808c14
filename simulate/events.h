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

struct simulate_event {
    int64_t at;
    size_t job;
    uint32_t run; // of the job; an event of an older run is obsolete
    enum event_kind kind;
};

struct event_heap {
    struct simulate_event *heap;
    size_t count, cap;
};

void event_heap_push(struct event_heap *all, struct simulate_event event);
struct simulate_event event_heap_pop(struct event_heap *all); // the first event; there must be one
void event_heap_free(struct event_heap *all);

#endif
