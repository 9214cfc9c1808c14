// A reader of one log with the filters of a call: gives lines of the log as lines of JSON. It owns
// all its memory, so it may outlive the call. One thread at a time.
#ifndef MUSTER_MASTER_VIEWS_LOGREAD_H
#define MUSTER_MASTER_VIEWS_LOGREAD_H

#include "master/views/logchoice.h"

struct log_read {
    struct arena arena;
    const char *task;
    int64_t trial_id; // 0: asked for by task
    int64_t left;     // lines still to send; -1: all
    bool newest_first, follows;
    struct log_choice choice;
    struct log_reader log;
    struct buf line;
    int64_t time; // of the line that was read last
};

struct log_read_bounds {                   // of one turn
    int chunks;                            // to read, at most
    bool (*enough)(void *ctx, size_t len); // asked before each line of that length; NULL: never
    void *ctx;
};

// From the query parameters. ERR_INVALID, ERR_TOO_LARGE: *out is NULL then.
int log_read_new(struct view *v, int64_t trial_id, const char *task, struct log_read **out,
                 struct error *e);
void log_read_free(struct log_read *r);

// Continues until `out` holds STREAM_CHUNK bytes. LOG_NONE: there are no more lines for now;
// LOG_ON: there may be; negative: an error. `compiled`: the pattern of the choice; NULL: it has
// none.
int log_read_on(struct log_read *r, struct db_reader *db, const struct pattern *compiled,
                const struct log_read_bounds *bounds, struct buf *out, struct error *e);

int64_t log_read_end(const struct log_read *r, struct db_reader *db); // wall time; 0: not yet

#endif
