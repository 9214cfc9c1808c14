// Logs of trials and tasks as streams of lines, with filters; a stream can follow the log while the
// task runs. The pump's threads read a log that is filtered by columns (rank, level, time ..); a
// separate worker searches the text of lines (log_search.h).

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/limits.h"
#include "base/log.h"
#include "master/notify/log_followers.h"
#include "master/views/logs/log_search.h"
#include "master/views/views.h"

enum {
    CHUNKS_PER_TURN = 8,     // chunks read before another stream has its turn
    LINGER_US = 2 * 1000000, // after a trial's end, for late lines of its agents
    BUSY_US = 200 * 1000,    // until a search polls again after LOG_SEARCH_BUSY
};

struct log_stream {
    struct stream stream;
    struct log_followers *log_followers;
    struct log_follower follower;
    bool registered;
    struct json_log_reader *reader; // NULL: the search owns it
    struct log_search *search;      // NULL: none
    bool follows;
    bool holds_chunk; // an unpacked chunk stays in memory until the next turn
    atomic_int *open_chunks;
};

// A stream whose client does not read keeps its unpacked chunk in memory. Beyond
// LIMIT_LOG_CHUNKS_OPEN such streams the chunk is freed, and unpacked again later.
static void limit_open_chunks(struct log_stream *l)
{
    bool holds_chunk = l->reader && l->reader->log.left > 0;
    if (holds_chunk && !l->holds_chunk && atomic_load(l->open_chunks) >= LIMIT_LOG_CHUNKS_OPEN) {
        log_reader_free(&l->reader->log);
        holds_chunk = false;
    }
    atomic_fetch_add(l->open_chunks, holds_chunk - l->holds_chunk);
    l->holds_chunk = holds_chunk;
}

// Called when the stream has no more lines for now. `end`: the task's end, read before the lines.
static enum stream_turn wait_or_end(struct log_stream *l, int64_t end, const struct buf *out)
{
    if (out->len)
        return STREAM_MORE;
    int64_t left = end ? end + LINGER_US - clock_wall_us() : 0;
    if (end && left <= 0)
        return STREAM_END;
    l->stream.wait_until = end ? clock_mono_us() + left : 0;
    return STREAM_WAIT;
}

static enum stream_turn fill_from_reader(struct log_stream *l, struct db_reader *db,
                                         struct buf *out)
{
    static const struct json_log_limits limits = {.max_chunks = CHUNKS_PER_TURN};
    struct error e = {0};
    // Reads the task's end first: the turn then sees all lines committed before that end.
    int64_t end = l->follows ? json_log_reader_end_time(l->reader, db) : 1;
    int step = json_log_reader_read(l->reader, db, NULL, &limits, out, &e);
    limit_open_chunks(l);
    if (step < 0) {
        char quoted[ERROR_TEXT_MAX];
        log_error("a log cannot be read", "err=%s", log_quote(quoted, sizeof quoted, e.text));
        wire_write_stream_error(out, ERR_INTERNAL, e.text);
        return STREAM_END;
    }
    if (!l->reader->remaining || atomic_load(&l->stream.ending))
        return STREAM_END;
    return step == LOG_NONE ? wait_or_end(l, end, out) : STREAM_MORE;
}

static enum stream_turn fill_from_search(struct log_stream *l, struct buf *out)
{
    int64_t end = 0;
    if (atomic_load(&l->stream.ending)) {
        log_search_interrupt(l->search, out);
        return STREAM_END;
    }
    l->stream.wait_until = 0;
    switch (log_search_poll(l->search, out, &end)) {
    case LOG_SEARCH_DONE:
        return STREAM_END;
    case LOG_SEARCH_AT_END:
        return wait_or_end(l, end, out);
    case LOG_SEARCH_BUSY:
        l->stream.wait_until = clock_mono_us() + BUSY_US;
        break;
    case LOG_SEARCH_RUNNING:
        break;
    }
    return out->len ? STREAM_MORE : STREAM_WAIT;
}

static enum stream_turn fill_logs(struct stream *s, struct db_reader *db, struct buf *out)
{
    struct log_stream *l = (struct log_stream *)s;
    // Registers before the first read, so that no line is missed. A search registers, too, so that
    // the end of the server ends it.
    if ((l->follows || l->search) && !l->registered) {
        l->follower.stream = s;
        log_followers_add(l->log_followers, &l->follower);
        l->registered = true;
    }
    return l->search ? fill_from_search(l, out) : fill_from_reader(l, db, out);
}

static void close_logs(struct stream *s)
{
    struct log_stream *l = (struct log_stream *)s;
    if (l->registered)
        log_followers_remove(l->log_followers, &l->follower);
    if (l->search)
        log_search_free(l->search);
    atomic_fetch_sub(l->open_chunks, l->holds_chunk);
    if (l->reader)
        json_log_reader_free(l->reader);
}

static int open_logs(struct view *v, int64_t trial_id, const char *task_id, struct stream **out,
                     struct error *e)
{
    struct log_stream *l = arena_alloc(&v->rq->arena, sizeof *l);
    *l = (struct log_stream){.stream = {.fill = fill_logs, .close = close_logs},
                             .log_followers = v->service->log_followers,
                             .open_chunks = &v->service->log_chunks};
    int rc = json_log_reader_new(v, trial_id, task_id, &l->reader, e);
    if (rc)
        return rc;
    l->follower.task_id = l->reader->log_task;
    l->follows = l->reader->follows;
    if (log_filter_needs_text(&l->reader->filter)) {
        rc = log_search_new(v->service, l->reader, &l->stream, &l->search, e);
        if (rc)
            json_log_reader_free(l->reader);
        l->reader = NULL;
    }
    *out = &l->stream;
    return rc;
}

int stream_trial_logs(struct view *v, struct stream **out, struct error *e)
{
    int64_t trial;
    const char *task;
    int rc = find_task_of_trial(v, &trial, &task, e);
    return rc ? rc : open_logs(v, trial, task, out, e);
}

int stream_task_logs(struct view *v, struct stream **out, struct error *e)
{
    return open_logs(v, 0, v->rq->params[0], out, e);
}
