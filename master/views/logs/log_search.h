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
#include "master/views/logs/json_log_reader.h"

struct log_search; // opaque

enum log_search_state {
    LOG_SEARCH_RUNNING, // a slice is under way; its stream is woken after it
    LOG_SEARCH_AT_END,  // there is no more for now
    LOG_SEARCH_BUSY,    // no slice can begin now: ask again soon
    LOG_SEARCH_DONE,
};

// Takes `read` over unless it fails. ERR_BUSY: LIMIT_LOG_SEARCHES searches are open.
int log_search_new(struct service *s, struct json_log_reader *read, struct stream *stream,
                   struct log_search **out, struct error *e);
void log_search_free(struct log_search *q); // whether or not a slice is under way

// Appends the lines found so far to `out` and starts the next slice. *end: the wall time of the
// task's end, read before the end of the log was reached; 0: the task still runs.
enum log_search_state log_search_poll(struct log_search *q, struct buf *out, int64_t *end);

// Appends a last line that says where the search stood when the master stopped.
void log_search_interrupt(struct log_search *q, struct buf *out);

#endif
