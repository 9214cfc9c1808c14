// An answer without a known end: JSON lines, a log that is followed, an archive that is produced
// while it is sent.
//
// A stream lives in its request's arena. The http layer pulls: it calls fill() on a thread of the
// pump (pump.h) whenever the caller has read everything before; stream_wake() from any thread ends
// a wait.
#ifndef MUSTER_MASTER_HTTP_STREAM_H
#define MUSTER_MASTER_HTTP_STREAM_H

#include <stdatomic.h>

#include "master/http/view.h"

enum stream_turn {
    STREAM_MORE, // call again when the content of `out` has been sent
    STREAM_WAIT, // nothing now: call again after stream_wake(), or at `wait_until`
    STREAM_END,
    STREAM_BROKEN, // cut the connection, so that nobody mistakes this for a complete answer
};

enum { STREAM_CHUNK = 32 * 1024 }; // fill() returns soon after this many bytes

struct stream {
    enum stream_turn (*fill)(struct stream *s, struct db_reader *db, struct buf *out);
    void (*close)(
        struct stream *s);    // NULL, or called once to release resources, never during a fill()
    const char *content_type; // NULL: application/json
    const char *file_name;    // NULL, or the name for saving it
    int64_t wait_until;       // monotonic microseconds; 0: no deadline
    int patience;       // seconds in which a part must be read; 0: the limits of connections.h
    atomic_bool ending; // the server stops: end at the next fill

    void (*wake)(struct stream *s); // set by the http layer
    void *http;
};

// Opens the stream of a route (http thread). Nothing has been sent yet, so an error is a complete
// answer.
typedef int stream_handler(struct view *v, struct stream **out, struct error *e);

static inline void stream_wake(struct stream *s)
{
    s->wake(s);
}

#endif
