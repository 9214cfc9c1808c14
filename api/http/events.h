// Follows changes at the master (GET /api/v1/events) on its own connection, which reconnects by
// itself and continues where it was. One thread at a time.
#ifndef MUSTER_API_EVENTS_H
#define MUSTER_API_EVENTS_H

#include "api/http/client.h"

struct event_stream; // opaque

// `name`: the kind of event ("trial", "metrics", ..); "start": a connection is established;
// "reset": events were missed, read the objects again; "away": the connection was lost and is being
// retried (reported once).
struct events_item { // valid until the next call
    const char *name, *id;
    const json_t *data; // an object; NULL for "away"
};

// `path` with its query ("/api/v1/events?topics=trials"). Of the timeouts in the options only
// silence_s counts.
int events_open(const struct client_options *options, const char *path, struct event_stream **out,
                struct error *e);
void events_close(struct event_stream *s); // NULL is allowed

// Waits for the next event until the monotonic time `deadline` (microseconds; in the past: does not
// wait). 1: an event; 0: none, or cancelled; negative: refused for good.
int events_next(struct event_stream *s, int64_t deadline, struct events_item *out, struct error *e);

#endif
