// Reads the committed log of a task line by line, in either direction. A reader keeps the number of
// its last line, so that it continues there after new lines have arrived or chunks were merged. One
// thread at a time.
#ifndef MUSTER_DB_LOGS_LOGS_H
#define MUSTER_DB_LOGS_LOGS_H

#include "db/db.h"
#include "db/logs/loglines.h"

struct log_query {         // the lines to return; chunks without such lines are skipped
    int64_t after, before; // times, exclusive
    bool (*origin)(const void *ctx, const struct log_origin *o); // NULL: all origins
    const void *ctx;
};

extern const struct log_query log_query_all;

struct log_reader {
    const char *task; // the caller's
    bool newest_first;
    struct log_query wanted;
    int64_t position; // number of the last line that was passed

    // The current chunk:
    struct log_chunk chunk;
    bool *origin_wanted; // for each origin: its lines are wanted
    int64_t first_id;
    size_t at, left; // the next line, and the number of lines left
};

enum log_step {
    LOG_NONE, // no further line for now
    LOG_LINE,
    LOG_MORE, // no line found yet: call again
};

void log_reader_init(struct log_reader *r, const char *task, bool newest_first,
                     const struct log_query *wanted);
void log_reader_free(struct log_reader *r);

// Returns LOG_LINE with the next line, its origin and its number, which are valid until the next
// call; LOG_NONE or LOG_MORE; or a negative error: the store cannot be read, or is damaged.
int log_reader_next(struct log_reader *r, struct db_reader *db, const struct log_line **line,
                    const struct log_origin **origin, int64_t *id, struct error *e);

// Calls each() with the origins of every chunk of a task, in order. A result other than 0 ends the
// loop and is returned.
int logs_each_origin(struct db_reader *db, const char *task,
                     int (*each)(void *ctx, const struct log_origin *o), void *ctx,
                     struct error *e);

#endif
