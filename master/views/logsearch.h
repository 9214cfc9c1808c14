// A search in a log, for what its lines say. It may go through gigabytes, so a worker of its own
// does it, slice by slice: searches take turns, one that nobody waits for any more ends within a
// line, and the http threads only pass on what was found.
//
// A search may use LIMIT_LOG_SEARCH_S of a processor until it has come to the end of the log. One
// that has used them up says where it stopped, and how to go on from there.
//
// Made, asked and freed by the http thread of its stream.
#ifndef MUSTER_MASTER_VIEWS_LOGSEARCH_H
#define MUSTER_MASTER_VIEWS_LOGSEARCH_H

#include "master/http/stream.h"
#include "master/views/logread.h"

struct log_search; // opaque

enum search_turn {
    SEARCH_RUNS,   // a slice is under way; its stream is woken after it
    SEARCH_AT_END, // there is no more for now
    SEARCH_BUSY,   // no slice can begin now: ask again soon
    SEARCH_OVER,
};

// Takes `read`; but not with an error. ERR_BUSY: LIMIT_LOG_SEARCHES are open.
int log_search_new(struct service *s, struct log_read *read, struct stream *stream,
                   struct log_search **out, struct error *e);
void log_search_free(struct log_search *q); // whether or not a slice is under way

// Adds what was found to `out`, and has the next slice done. *end: the task's, as it was before
// the log's end was reached; 0: it goes on.
enum search_turn log_search_turn(struct log_search *q, struct buf *out, int64_t *end);

// The master stops: says where the search was.
void log_search_cut(struct log_search *q, struct buf *out);

#endif
