// The parser of server-sent events (text/event-stream; HTML Living Standard, section 9.2). Pure:
// takes bytes, cut anywhere, and gives events. One owner.
#ifndef MUSTER_API_SSE_H
#define MUSTER_API_SSE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/error.h"

enum { SSE_ID_MAX = 256 };

struct sse_event {
    const char *name; // "message" if the event has none
    const char *data; // several lines are joined by newlines
    const char *id;   // id of the newest event that had one; "": none yet
};

// The event is valid during the call. Returns 0 to continue; any other value ends sse_feed() with
// it.
typedef int sse_on_event(void *ctx, const struct sse_event *event, struct error *e);

struct sse { // zeroed fields and sse_init()
    struct buf line, data;
    char name[64], id[SSE_ID_MAX], new_id[SSE_ID_MAX];
    bool begun, after_cr, has_data;
    int64_t retry_ms; // time to wait before the next connection; 0: not given
};

void sse_init(struct sse *s,
              size_t data_max); // limit for the data of one event and for one line, bytes
void sse_free(struct sse *s);
void sse_begin(struct sse *s); // a new connection: drops a half-read event, keeps the id

// ERR_TOO_LARGE: a line or an event is longer than allowed.
int sse_feed(struct sse *s, const char *bytes, size_t len, sse_on_event *on_event, void *ctx,
             struct error *e);

#endif
