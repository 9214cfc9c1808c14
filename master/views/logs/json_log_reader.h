// A reader of one log with the filters of a call: gives lines of the log as lines of JSON. It owns
// all its memory, so it may outlive the call. One thread at a time.
#ifndef MUSTER_MASTER_VIEWS_LOGREAD_H
#define MUSTER_MASTER_VIEWS_LOGREAD_H

#include "master/views/logs/log_filter.h"

struct json_log_reader {
    struct arena arena;
    const char *task;
    int64_t trial_id; // 0: asked for by task
    int64_t left;     // lines still to send; -1: all
    bool newest_first, follows;
    struct log_filter choice;
    struct log_reader log;
    struct buf line;
    int64_t time; // of the line that was read last
};

struct json_log_limits {                   // of one turn
    int chunks;                            // to read, at most
    bool (*enough)(void *ctx, size_t len); // asked before each line of that length; NULL: never
    void *ctx;
};

// From the query parameters. ERR_INVALID, ERR_TOO_LARGE: *out is NULL then.
int json_log_reader_new(struct view *v, int64_t trial_id, const char *task,
                        struct json_log_reader **out, struct error *e);
void json_log_reader_free(struct json_log_reader *r);

// Continues until `out` holds STREAM_CHUNK bytes. LOG_NONE: there are no more lines for now;
// LOG_ON: there may be; negative: an error. `compiled`: the pattern of the choice; NULL: it has
// none.
int json_log_reader_read(struct json_log_reader *r, struct db_reader *db,
                         const struct pattern *compiled, const struct json_log_limits *bounds,
                         struct buf *out, struct error *e);

int64_t json_log_reader_end_time(const struct json_log_reader *r,
                                 struct db_reader *db); // wall time; 0: not yet

#endif
