// A bounded ring of the newest events as they are sent, with growing numbers, and the filter of a
// follower. Pure and without a lock: the hub (hub.h) guards it.
//
// Events are reference-counted: the ring holds one reference, and each reader that sends the event
// another.
#ifndef MUSTER_MASTER_NOTIFY_EVENT_RING_H
#define MUSTER_MASTER_NOTIFY_EVENT_RING_H

#include <stdatomic.h>
#include <stdbool.h>

#include "base/error.h"
#include "master/kernel/changes.h"

struct event {
    uint64_t number;
    enum event_topic topic;
    int64_t experiment_id, trial_id, workspace_id; // 0: none
    atomic_int references;
    size_t len;
    char text[]; // "id: N\nevent: trial\ndata: {..}\n\n"
};

// The event's name ("experiment") and the topic's name in filters ("experiments").
extern const char *const event_names[EVENT_TOPICS];
extern const char *const event_topics[EVENT_TOPICS];

struct event *event_new(uint64_t number, const struct change *what, const char *data);
void event_release(struct event *ev);

// An event passes if its topic is requested and, where the filter has ids and the event belongs to
// an experiment, its experiment or trial is among them. The ids are borrowed.
struct event_filter {
    unsigned topics; // bits, 1 << enum event_topic
    const int64_t *experiments, *trials;
    size_t experiment_count, trial_count;
};
bool event_passes(const struct event_filter *f, const struct event *ev);

// Parses "experiments,trials" into bits; ERR_INVALID names the known topics.
int event_read_topics(const char *text, unsigned *bits, struct error *e);

struct event_ring; // opaque

// The first event gets the number `last` + 1. Holds at most `most` events of `bytes` together.
struct event_ring *event_ring_new(uint64_t last, size_t most, size_t bytes);
void event_ring_free(struct event_ring *r);
uint64_t event_ring_last(const struct event_ring *r);
size_t event_ring_count(const struct event_ring *r);

// Takes ownership of the event, whose number is event_ring_last() + 1.
void event_ring_add(struct event_ring *r, struct event *ev);
// Drops all events and skips a number, so that followers notice that events are missing.
void event_ring_lose(struct event_ring *r);

// Returns at most `most` events after *place that pass, with a reference each, and advances *place.
// -1: events after *place are missing, or *place belongs to another ring.
int event_ring_read(struct event_ring *r, uint64_t *place, const struct event_filter *f,
                    struct event **out, int most);

#endif
