// Reads the log of a task line by line, in either direction, from what is committed. A reader keeps
// its place as the number of a line, so it goes on where it was when new lines have come, and when
// chunks were merged meanwhile. One thread at a time.
#ifndef MUSTER_DB_LOGS_H
#define MUSTER_DB_LOGS_H

#include "db/db.h"
#include "db/logs/loglines.h"

struct log_wanted {        // what of a log; chunks without it are passed over unread
    int64_t after, before; // times, not these themselves
    bool (*origin)(const void *ctx, const struct log_origin *o); // NULL: from anywhere
    const void *ctx;
};

extern const struct log_wanted log_wanted_all;

struct log_reader {
    const char *task; // the caller's
    bool newest_first;
    struct log_wanted wanted;
    int64_t place; // the line that was passed last

    // The chunk at hand:
    struct log_chunk chunk;
    bool *passes; // by origin
    int64_t first_id;
    size_t at, left; // the next line, and how many
};

enum log_step {
    LOG_NONE, // no more for now
    LOG_LINE,
    LOG_ON, // nothing yet, after some work: call again
};

void log_reader_init(struct log_reader *r, const char *task, bool newest_first,
                     const struct log_wanted *wanted);
void log_reader_free(struct log_reader *r);

// The next line that is wanted: *id is its number, *origin where it is from; all of it until the
// next call. LOG_NONE, LOG_ON, or negative: the store cannot be read, or is damaged.
int log_reader_next(struct log_reader *r, struct db_reader *db, const struct log_line **line,
                    const struct log_origin **origin, int64_t *id, struct error *e);

// Calls each() with the origins of every chunk of a task, in order; not 0 ends it and is returned.
int logs_each_origin(struct db_reader *db, const char *task,
                     int (*each)(void *ctx, const struct log_origin *o), void *ctx,
                     struct error *e);

#endif
