// Following what changes at the master (GET /api/v1/events): a connection of its own that comes
// back by itself, and goes on where it was. One thread at a time.
#ifndef MUSTER_API_EVENTS_H
#define MUSTER_API_EVENTS_H

#include "api/http/client.h"

struct events; // opaque

// `name`: what the master calls it ("trial", "metrics", ..); "start" when a connection stands;
// "reset": events were missed, what is shown is to be read anew; "away": the connection is lost and
// tried again, told once.
struct events_item { // valid until the next call
    const char *name, *id;
    const json_t *data; // an object; NULL: of "away"
};

// `path` with its query ("/api/v1/events?topics=trials"); timeouts of the options do not count.
int events_open(const struct client_options *options, const char *path, struct events **out,
                struct error *e);
void events_close(struct events *s); // NULL is fine

// Waits for the next until the monotonic time `deadline` (microseconds; in the past: does not
// wait). 1: there is one; 0: none came, or it was cancelled; negative: refused for good.
int events_next(struct events *s, int64_t deadline, struct events_item *out, struct error *e);

#endif
