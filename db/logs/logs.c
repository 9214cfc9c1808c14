#include "db/logs/logs.h"

#include <stdlib.h>

#include "base/arena.h"
#include "base/log.h"

enum { CHUNKS_PER_QUERY = 256 }; // chunks that one query returns

const struct log_query log_query_all = {.after = INT64_MIN, .before = INT64_MAX};

void log_reader_init(struct log_reader *r, const char *task, bool newest_first,
                     const struct log_query *wanted)
{
    *r = (struct log_reader){.task = task,
                             .newest_first = newest_first,
                             .wanted = *wanted,
                             .position = newest_first ? INT64_MAX : 0};
}

static void reader_drop_chunk(struct log_reader *r)
{
    log_chunk_free(&r->chunk);
    free(r->origin_wanted);
    r->origin_wanted = NULL;
    r->left = 0;
}

void log_reader_free(struct log_reader *r)
{
    reader_drop_chunk(r);
}

static int set_read_error(struct error *e)
{
    return error_set(e, ERR_IO, "the store cannot be read");
}

// Decides from the row alone whether the chunk may contain a wanted line.
static int chunk_may_match(struct log_reader *r, struct db_rows *row, bool *wanted, struct error *e)
{
    *wanted = DB_GET(row, LOG_CHUNK, last_time) > r->wanted.after &&
              DB_GET(row, LOG_CHUNK, first_time) < r->wanted.before;
    if (!*wanted)
        return 0;
    struct db_blob origins = DB_GET(row, LOG_CHUNK, origins);
    int err = log_chunk_read_origins(&r->chunk, origins.data, origins.len, e);
    if (err)
        return err;
    r->origin_wanted = xcalloc(r->chunk.origin_count + 1, sizeof *r->origin_wanted);
    *wanted = false;
    for (size_t i = 0; i < r->chunk.origin_count; i++) {
        r->origin_wanted[i] =
            !r->wanted.origin || r->wanted.origin(r->wanted.ctx, &r->chunk.origins[i]);
        *wanted |= r->origin_wanted[i];
    }
    return 0;
}

static int read_lines(struct log_reader *r, struct db_reader *db, int64_t rowid, struct error *e)
{
    struct db_rows *rows = DB_QUERY(db, LOG_CHUNK_DATA, rowid);
    int err = db_next(rows) == 1 ? 0 : set_read_error(e);
    if (!err) {
        struct db_blob data = DB_GET(rows, LOG_CHUNK_DATA, data);
        err = log_chunk_read_lines(&r->chunk, data.data, data.len, e);
    }
    db_rows_close(rows);
    return err;
}

// Skips lines that were returned before: chunks may have been merged since.
static void reader_seek(struct log_reader *r)
{
    int64_t count = (int64_t)r->chunk.line_count, passed = r->position - r->first_id;
    if (r->newest_first) {
        r->left = (size_t)(passed < count ? passed : count);
        r->at = r->left - 1;
    } else {
        r->at = (size_t)(passed < 0 ? 0 : passed + 1);
        r->left = (size_t)count - r->at;
    }
}

// Reads a chunk; *found: it has lines to return.
static int open_chunk(struct log_reader *r, struct db_reader *db, struct db_rows *row, bool *found,
                      struct error *e)
{
    int64_t last = DB_GET(row, LOG_CHUNK, last_id),
            first = last - DB_GET(row, LOG_CHUNK, lines) + 1;
    bool wanted = false;
    *found = false;
    if (r->newest_first && first >= r->position)
        return 0;
    int err = chunk_may_match(r, row, &wanted, e);
    if (!err && wanted)
        err = read_lines(r, db, DB_GET(row, LOG_CHUNK, rowid), e);
    if (!err && wanted && (int64_t)r->chunk.line_count != last - first + 1)
        err = error_set(e, ERR_CORRUPT, "a chunk of log lines is damaged (it has %zu lines)",
                        r->chunk.line_count);
    if (err || !wanted) {
        reader_drop_chunk(r);
        r->position = r->newest_first ? first : last;
        return err ? error_prefix(e, "task %s, lines %lld to %lld", r->task, (long long)first,
                                  (long long)last)
                   : 0;
    }
    r->first_id = first;
    reader_seek(r);
    *found = true;
    return 0;
}

static int find_next_chunk(struct log_reader *r, struct db_reader *db, struct error *e)
{
    int seen = 0, more = 0, err = 0;
    bool found = false;
    reader_drop_chunk(r);
    struct db_rows *rows =
        r->newest_first ? DB_QUERY(db, LOG_CHUNKS_BEFORE, r->task, r->position, CHUNKS_PER_QUERY)
                        : DB_QUERY(db, LOG_CHUNKS_AFTER, r->task, r->position, CHUNKS_PER_QUERY);
    while (!found && !err && (more = db_next(rows)) == 1) {
        seen++;
        err = open_chunk(r, db, rows, &found, e);
    }
    db_rows_close(rows);
    if (err || more < 0)
        return err ? err : set_read_error(e);
    return found || seen == CHUNKS_PER_QUERY ? LOG_MORE : LOG_NONE;
}

int log_reader_next(struct log_reader *r, struct db_reader *db, const struct log_line **line,
                    const struct log_origin **origin, int64_t *id, struct error *e)
{
    while (r->left) {
        const struct log_line *l = &r->chunk.lines[r->at];
        *id = r->position = r->first_id + (int64_t)r->at;
        r->at = r->newest_first ? r->at - 1 : r->at + 1;
        r->left--;
        if (r->origin_wanted[l->origin] && l->time > r->wanted.after &&
            l->time < r->wanted.before) {
            *line = l;
            *origin = &r->chunk.origins[l->origin];
            return LOG_LINE;
        }
    }
    return find_next_chunk(r, db, e);
}

int logs_each_origin(struct db_reader *db, const char *task,
                     int (*each)(void *ctx, const struct log_origin *o), void *ctx, struct error *e)
{
    struct log_chunk chunk;
    int rc = 0, more = 0;
    struct db_rows *rows = DB_QUERY(db, LOG_CHUNKS_AFTER, task, 0, -1);
    while (!rc && (more = db_next(rows)) == 1) {
        struct db_blob origins = DB_GET(rows, LOG_CHUNK, origins);
        rc = log_chunk_read_origins(&chunk, origins.data, origins.len, e);
        for (size_t i = 0; !rc && i < chunk.origin_count; i++)
            rc = each(ctx, &chunk.origins[i]);
        log_chunk_free(&chunk);
    }
    db_rows_close(rows);
    return more < 0 ? set_read_error(e) : rc;
}
