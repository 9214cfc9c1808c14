#include "master/views/logs/log_search.h"

#include <pthread.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/text/pattern_cache.h"
#include "master/http/offload.h"
#include "master/views/views.h"

enum {
    SLICE_US = 50 * 1000, // CPU time
    CHECK_BYTES = 4096,   // bytes of lines between two checks of the clock
    SLICE_CHUNKS = 64,    // chunks in a slice, including those that are skipped unread
};

struct log_search {
    struct offload_job job;
    struct service *service;
    pthread_mutex_t lock;  // guards the next three members
    struct stream *stream; // NULL: the caller has left; the worker frees the search
    bool running;
    bool more_requested; // the stream asked for more while a slice was running
    atomic_bool cancelled;

    // Owned by the worker while a slice runs, else by the stream:
    struct json_log_reader *reader;
    struct buf found;
    int step;    // of the last slice: LOG_MORE, LOG_NONE, or an error
    int64_t end; // of the task
    struct error e;
    bool slice_finished;       // a slice has ended, and its lines were not taken yet
    int64_t cpu_used_us;       // CPU time since the end of the log was last reached
    int64_t slice_deadline_us; // CPU time at which this slice ends
    size_t bytes_since_check;  // bytes since the last check of the clock
};

// --- on the worker -------------------------------------------------------------------------------

static bool check_limits(void *ctx, size_t len)
{
    struct log_search *q = ctx;
    q->bytes_since_check += len + 1;
    if (q->bytes_since_check < CHECK_BYTES)
        return false;
    q->bytes_since_check = 0;
    return atomic_load(&q->cancelled) || clock_cpu_us() >= q->slice_deadline_us;
}

static void run_search(struct log_search *q, struct db_reader *db)
{
    const struct json_log_limits limits = {
        .max_chunks = SLICE_CHUNKS, .should_stop = check_limits, .ctx = q};
    const struct pattern *compiled = NULL;
    int64_t start = clock_cpu_us();
    int64_t left = q->service->search_us - q->cpu_used_us;
    q->slice_deadline_us = start + (left < SLICE_US ? left : SLICE_US);
    // Reads the task's end first: the slice then sees all lines committed before that end.
    q->end = q->reader->follows ? json_log_reader_end_time(q->reader, db) : 1;
    q->step = LOG_MORE;
    if (q->reader->filter.pattern)
        compiled = pattern_cache_get(q->service->patterns, q->reader->filter.pattern, &q->e);
    if (q->reader->filter.pattern && !compiled)
        q->step = q->e.code;
    while (q->step > 0) { // at least once, so that every slice makes progress
        q->step = json_log_reader_read(q->reader, db, compiled, &limits, &q->found, &q->e);
        if (!q->reader->remaining || q->found.len >= STREAM_CHUNK || atomic_load(&q->cancelled) ||
            clock_cpu_us() >= q->slice_deadline_us)
            break;
    }
    q->cpu_used_us = q->step == LOG_NONE ? 0 : q->cpu_used_us + clock_cpu_us() - start;
}

static void log_search_destroy(struct log_search *q)
{
    atomic_fetch_sub(&q->service->searches, 1);
    json_log_reader_free(q->reader);
    buf_free(&q->found);
    pthread_mutex_destroy(&q->lock);
    free(q);
}

static void run_slice(struct offload_job *job, struct db_reader *db)
{
    struct log_search *q = (struct log_search *)job;
    if (!atomic_load(&q->cancelled))
        run_search(q, db);
    pthread_mutex_lock(&q->lock);
    bool alone = !q->stream;
    q->running = false;
    q->slice_finished = true;
    if (!alone)
        stream_wake(q->stream);
    pthread_mutex_unlock(&q->lock);
    if (alone)
        log_search_destroy(q);
}

// --- on the stream's side (http threads and the pump) --------------------------------------------

int log_search_new(struct service *s, struct json_log_reader *reader, struct stream *stream,
                   struct log_search **out, struct error *e)
{
    if (atomic_fetch_add(&s->searches, 1) >= LIMIT_LOG_SEARCHES) {
        atomic_fetch_sub(&s->searches, 1);
        return error_set(e, ERR_BUSY,
                         "%d log searches are open already; try again when one of them has ended",
                         LIMIT_LOG_SEARCHES);
    }
    struct log_search *q = xcalloc(1, sizeof *q);
    q->job.run = run_slice;
    q->service = s;
    q->reader = reader;
    q->stream = stream;
    pthread_mutex_init(&q->lock, NULL);
    buf_init(&q->found, 8 << 20); // a turn ends soon after STREAM_CHUNK
    *out = q;
    return 0;
}

void log_search_free(struct log_search *q)
{
    atomic_store(&q->cancelled, true);
    pthread_mutex_lock(&q->lock);
    bool alone = !q->running;
    q->stream = NULL;
    pthread_mutex_unlock(&q->lock);
    if (alone)
        log_search_destroy(q);
}

static bool begin_slice(struct log_search *q)
{
    q->running = true; // no other thread reads it before the job is submitted
    q->more_requested = q->slice_finished = false;
    if (!offload_submit(q->service->searcher, &q->job, NULL))
        return true;
    q->running = false;
    return false;
}

// Writes where the search stopped and how to continue.
static void write_stop_line(const struct log_search *q, struct buf *out, enum err code,
                            const char *why)
{
    char time[CLOCK_RFC3339_MAX];
    const struct json_log_reader *r = q->reader;
    char *text =
        xasprintf("%s at line %lld of the log, so matching lines may be missing; continue with "
                  "%s=%lld (muster: %s %s)",
                  why, (long long)r->log.position, r->newest_first ? "before" : "after",
                  (long long)r->log.position, r->newest_first ? "--until" : "--since",
                  clock_format(r->time + (r->newest_first ? 1 : -1), time));
    wire_write_stream_error(out, code, text);
    free(text);
}

void log_search_interrupt(struct log_search *q, struct buf *out)
{
    pthread_mutex_lock(&q->lock);
    bool running = q->running;
    pthread_mutex_unlock(&q->lock);
    if (running)
        wire_write_stream_error(
            out, ERR_UNAVAILABLE,
            "the master is shutting down and ended this search; repeat it later");
    else if (q->step || q->found.len)
        write_stop_line(q, out, ERR_UNAVAILABLE,
                        "the master is shutting down and ended this search");
}

static enum log_search_state finish_slice(struct log_search *q, struct buf *out, int64_t *end)
{
    char quoted[ERROR_TEXT_MAX];
    q->slice_finished = false;
    buf_append(out, q->found.data, q->found.len);
    buf_reset(&q->found);
    *end = q->end;
    if (q->step < 0) {
        log_error("a log cannot be read", "err=%s", log_quote(quoted, sizeof quoted, q->e.text));
        wire_write_stream_error(out, ERR_INTERNAL, q->e.text);
        return LOG_SEARCH_DONE;
    }
    if (!q->reader->remaining)
        return LOG_SEARCH_DONE;
    if (q->step > 0 && q->cpu_used_us >= q->service->search_us) {
        write_stop_line(q, out, ERR_TOO_LARGE, "this search used all its CPU time and stopped");
        return LOG_SEARCH_DONE;
    }
    if (q->step == LOG_NONE && !q->more_requested)
        return LOG_SEARCH_AT_END;
    return begin_slice(q) ? LOG_SEARCH_RUNNING : LOG_SEARCH_BUSY;
}

enum log_search_state log_search_poll(struct log_search *q, struct buf *out, int64_t *end)
{
    pthread_mutex_lock(&q->lock);
    bool running = q->running;
    q->more_requested |= running;
    pthread_mutex_unlock(&q->lock);
    if (running)
        return LOG_SEARCH_RUNNING;
    if (q->slice_finished)
        return finish_slice(q, out, end);
    return begin_slice(q) ? LOG_SEARCH_RUNNING : LOG_SEARCH_BUSY;
}
