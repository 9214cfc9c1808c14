// The newest events, as they are sent: a bounded ring with growing numbers, and the filter by which
// a follower picks his. Pure, without a lock of its own; the hub (hub.h) owns the only one.
//
// An event is counted: the ring has one reference, every reader that is writing it out another.
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

// "experiment" of EVENT_EXPERIMENT: the event's name; "experiments": the topic's, in filters.
extern const char *const event_names[EVENT_TOPICS];
extern const char *const event_topics[EVENT_TOPICS];

struct event *event_new(uint64_t number, const struct change *what, const char *data);
void event_release(struct event *ev);

// An event passes when its topic is asked for and, where it belongs to an experiment and there are
// ids, when one of them is its own. `ids` are borrowed.
struct event_filter {
    unsigned topics; // bits, 1 << enum event_topic
    const int64_t *experiments, *trials;
    size_t experiment_count, trial_count;
};
bool event_passes(const struct event_filter *f, const struct event *ev);

// "experiments,trials" into bits; ERR_INVALID names the topics there are.
int event_read_topics(const char *text, unsigned *bits, struct error *e);

struct ring; // opaque

// The first event gets the number `last` + 1. Holds at most `most` events of `bytes` together.
struct ring *ring_new(uint64_t last, size_t most, size_t bytes);
void ring_free(struct ring *r);
uint64_t ring_last(const struct ring *r);
size_t ring_count(const struct ring *r);

void ring_add(struct ring *r, struct event *ev); // takes it; of the number ring_last() + 1
void ring_lose(struct ring *r); // something was not kept: who resumes, or is behind, has missed it

// At most `most` events after *place that pass, with a reference each; *place moves on over what
// was looked at. -1: what came after *place is not all there, or *place is of another ring.
int ring_read(struct ring *r, uint64_t *place, const struct event_filter *f, struct event **out,
              int most);

#endif
