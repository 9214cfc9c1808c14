// The times of a request: counters for GET /metrics, and the log of slow requests.
//
// A request takes from its last header to the beginning of its answer, without the arrival of its
// body and without the time for which a long poll was parked: both depend on the caller. This time
// is work (handlers and views) and waiting (queues, other requests, workers of the core, the
// commit). A stream counts until it is opened.
#ifndef MUSTER_MASTER_HTTP_TIMING_H
#define MUSTER_MASTER_HTTP_TIMING_H

#include <stdint.h>

struct exchange;

struct timing {       // monotonic microseconds
    int64_t begun;    // the headers have arrived
    int64_t checked;  // the headers were checked
    int64_t received; // the body has arrived; 0: the request was refused before
};

// The answer with this status begins now. http thread.
void timing_answered(struct exchange *x, int status, int64_t now);

#endif
