// Reads one log with the filter of a call and writes its lines as JSON. A reader owns all its
// memory, so it may outlive the call. One thread at a time.
#ifndef MUSTER_MASTER_VIEWS_LOGS_JSON_LOG_READER_H
#define MUSTER_MASTER_VIEWS_LOGS_JSON_LOG_READER_H

#include "master/views/logs/log_filter.h"

struct json_log_reader {
    struct arena arena;
    const char *task;     // as the lines show it
    const char *log_task; // the name of the log: the first task of the trial
    int64_t first, last;  // lines of the task: after the first; up to the last, if `followed`
    bool followed;        // the trial was continued since, which is another task
    int64_t trial_id;     // 0: the call names the task
    int64_t remaining;    // lines still to send; -1: all
    bool newest_first, follows;
    struct log_filter filter;
    struct log_reader log;
    struct buf line;
    int64_t time; // of the last line that was read
};

struct json_log_limits { // of one turn
    int max_chunks;      // to read at most
    // asked before each line with its length; NULL: never
    bool (*should_stop)(void *ctx, size_t len);
    void *ctx;
};

// Reads the query parameters. On ERR_INVALID and ERR_TOO_LARGE *out is NULL.
int json_log_reader_new(struct view *v, int64_t trial_id, const char *task,
                        struct json_log_reader **out, struct error *e);
void json_log_reader_free(struct json_log_reader *r);

// Continues until `out` holds STREAM_CHUNK bytes. LOG_NONE: no more lines for now; LOG_MORE: there
// may be more; negative: an error. `compiled`: the compiled pattern of the filter; NULL if the
// filter has none.
int json_log_reader_read(struct json_log_reader *r, struct db_reader *db,
                         const struct pattern *compiled, const struct json_log_limits *limits,
                         struct buf *out, struct error *e);

// The wall time of the task's end; 0: the task has not ended.
int64_t json_log_reader_end_time(const struct json_log_reader *r, struct db_reader *db);

#endif
