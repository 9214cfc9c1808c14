// The simulator's future: a binary heap of events by time. Inside of this folder.
#ifndef MUSTER_SIMULATE_EVENTS_H
#define MUSTER_SIMULATE_EVENTS_H

#include <stddef.h>
#include <stdint.h>

enum event_kind {
    EVENT_WORKS, // a gang has paid for its preemptions
    EVENT_ENDS,  // its work is done
    EVENT_LEAVES // its drain is over
};

struct event {
    int64_t at;
    size_t job;
    uint32_t run; // of the job; another number than its present one: overtaken
    enum event_kind kind;
};

struct events {
    struct event *heap;
    size_t count, cap;
};

void events_add(struct events *all, struct event event);
struct event events_take(struct events *all); // the first; there is one
void events_free(struct events *all);

#endif
