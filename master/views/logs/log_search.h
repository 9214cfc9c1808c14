// A search for text in the lines of a log. A search may read gigabytes, so a separate worker runs
// it in slices, and searches take turns. A search ends soon after its caller disconnects. The
// threads of the pump copy the matching lines into the stream.
//
// A search may use LIMIT_LOG_SEARCH_S seconds of CPU time to reach the end of the log. After that
// its last line says where it stopped, and how to continue from there.
//
// An http thread creates the search with its stream; the pump polls it; the thread that closes the
// stream frees it.
#ifndef MUSTER_MASTER_VIEWS_LOGS_LOG_SEARCH_H
#define MUSTER_MASTER_VIEWS_LOGS_LOG_SEARCH_H

#include "master/http/stream.h"
#include "master/views/logs/json_log_reader.h"

struct log_search;

enum log_search_state {
    LOG_SEARCH_RUNNING, // a slice runs; it wakes the stream when it ends
    LOG_SEARCH_AT_END,  // no more lines for now
    LOG_SEARCH_BUSY,    // no slice can begin now: poll again soon
    LOG_SEARCH_DONE,
};

// Takes ownership of `reader` on success. ERR_BUSY: LIMIT_LOG_SEARCHES searches are open.
int log_search_new(struct service *s, struct json_log_reader *reader, struct stream *stream,
                   struct log_search **out, struct error *e);
void log_search_free(struct log_search *q); // also while a slice runs

// Appends the lines found so far to `out` and starts the next slice. *end: the wall time of the
// task's end, read before the end of the log was reached; 0: the task still runs.
enum log_search_state log_search_poll(struct log_search *q, struct buf *out, int64_t *end);

// Appends a last line that says where the search stood when the master stopped.
void log_search_interrupt(struct log_search *q, struct buf *out);

#endif
