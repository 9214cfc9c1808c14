// A search for text in the lines of a log. It may read gigabytes, so a worker of its own runs it in
// slices, and searches take turns. A search whose caller has left ends within a line. The threads
// of the pump copy the lines that were found into the stream.
//
// A search may use LIMIT_LOG_SEARCH_S seconds of CPU time to reach the end of the log. After that
// its last line says where it stopped, and how to continue from there.
//
// An http thread makes the search with its stream; the pump asks it for lines; the thread that
// closes the stream frees it.
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

// Takes `read` over unless it fails. ERR_BUSY: LIMIT_LOG_SEARCHES searches are open.
int log_search_new(struct service *s, struct log_read *read, struct stream *stream,
                   struct log_search **out, struct error *e);
void log_search_free(struct log_search *q); // whether or not a slice is under way

// Appends the lines found so far to `out` and starts the next slice. *end: the wall time of the
// task's end, read before the end of the log was reached; 0: the task still runs.
enum search_turn log_search_turn(struct log_search *q, struct buf *out, int64_t *end);

// Appends a last line that says where the search stood when the master stopped.
void log_search_cut(struct log_search *q, struct buf *out);

#endif
