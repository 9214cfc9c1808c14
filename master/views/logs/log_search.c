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
    LOOK_BYTES = 4096,    // bytes of lines between two looks at the clock
    SLICE_CHUNKS = 64,    // chunks in a slice, with those that are skipped unread
};

struct log_search {
    struct offload_job job;
    struct service *service;
    pthread_mutex_t lock;  // guards the next three
    struct stream *stream; // NULL: the caller has left, the worker frees the search
    bool running;
    bool asked; // the stream asked for more while a slice was running
    atomic_bool cancelled;

    // The worker owns these while a slice runs, else the stream's side:
    struct json_log_reader *read;
    struct buf found;
    int step;    // of the last slice: LOG_ON, LOG_NONE, or an error
    int64_t end; // of the task
    struct error e;
    bool fresh;         // a slice was done, and not yet taken
    int64_t used;       // CPU time since the last end of the log
    int64_t until;      // when this slice ends, in processor time
    size_t passed_over; // bytes since the last look at the clock
};

// --- on the worker -------------------------------------------------------------------------------

static bool is_enough(void *ctx, size_t len)
{
    struct log_search *q = ctx;
    q->passed_over += len + 1;
    if (q->passed_over < LOOK_BYTES)
        return false;
    q->passed_over = 0;
    return atomic_load(&q->cancelled) || clock_cpu_us() >= q->until;
}

static void search(struct log_search *q, struct db_reader *db)
{
    const struct json_log_limits bounds = {.chunks = SLICE_CHUNKS, .enough = is_enough, .ctx = q};
    const struct pattern *compiled = NULL;
    int64_t start = clock_cpu_us();
    int64_t left = q->service->search_us - q->used;
    q->until = start + (left < SLICE_US ? left : SLICE_US);
    // Reads the task's end first: the slice then sees all lines committed before that end.
    q->end = q->read->follows ? json_log_reader_end_time(q->read, db) : 1;
    q->step = LOG_ON;
    if (q->read->choice.pattern)
        compiled = pattern_cache_get(q->service->patterns, q->read->choice.pattern, &q->e);
    if (q->read->choice.pattern && !compiled)
        q->step = q->e.code;
    while (q->step > 0) { // at least once, so that every slice makes progress
        q->step = json_log_reader_read(q->read, db, compiled, &bounds, &q->found, &q->e);
        if (!q->read->left || q->found.len >= STREAM_CHUNK || atomic_load(&q->cancelled) ||
            clock_cpu_us() >= q->until)
            break;
    }
    q->used = q->step == LOG_NONE ? 0 : q->used + clock_cpu_us() - start;
}

static void destroy(struct log_search *q)
{
    atomic_fetch_sub(&q->service->searches, 1);
    json_log_reader_free(q->read);
    buf_free(&q->found);
    pthread_mutex_destroy(&q->lock);
    free(q);
}

static void run_slice(struct offload_job *job, struct db_reader *db)
{
    struct log_search *q = (struct log_search *)job;
    if (!atomic_load(&q->cancelled))
        search(q, db);
    pthread_mutex_lock(&q->lock);
    bool alone = !q->stream;
    q->running = false;
    q->fresh = true;
    if (!alone)
        stream_wake(q->stream);
    pthread_mutex_unlock(&q->lock);
    if (alone)
        destroy(q);
}

// --- on the stream's side (http threads and the pump) --------------------------------------------

int log_search_new(struct service *s, struct json_log_reader *read, struct stream *stream,
                   struct log_search **out, struct error *e)
{
    if (atomic_fetch_add(&s->searches, 1) >= LIMIT_LOG_SEARCHES) {
        atomic_fetch_sub(&s->searches, 1);
        return error_set(e, ERR_BUSY,
                         "%d searches in logs are open already; try again when one has ended",
                         LIMIT_LOG_SEARCHES);
    }
    struct log_search *q = xcalloc(1, sizeof *q);
    q->job.run = run_slice;
    q->service = s;
    q->read = read;
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
        destroy(q);
}

static bool begin_slice(struct log_search *q)
{
    q->running = true; // no other thread reads it before the job is submitted
    q->asked = q->fresh = false;
    if (!offload_submit(q->service->searcher, &q->job, NULL))
        return true;
    q->running = false;
    return false;
}

// Says where the search stopped, and how to continue.
static void say_cut(const struct log_search *q, struct buf *out, enum err code, const char *why)
{
    char time[CLOCK_RFC3339_MAX];
    const struct json_log_reader *r = q->read;
    char *text = xasprintf("%s at line %lld of the log, so that lines may be missing; go on with "
                           "%s=%lld (muster: %s %s)",
                           why, (long long)r->log.place, r->newest_first ? "before" : "after",
                           (long long)r->log.place, r->newest_first ? "--until" : "--since",
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
        wire_write_stream_error(out, ERR_UNAVAILABLE,
                                "the master stops, and so does this search; repeat it soon");
    else if (q->step || q->found.len)
        say_cut(q, out, ERR_UNAVAILABLE, "the master stops, and so does this search,");
}

static enum log_search_state take_slice(struct log_search *q, struct buf *out, int64_t *end)
{
    char quoted[ERROR_TEXT_MAX];
    q->fresh = false;
    buf_append(out, q->found.data, q->found.len);
    buf_reset(&q->found);
    *end = q->end;
    if (q->step < 0) {
        log_error("a log cannot be read", "err=%s", log_quote(quoted, sizeof quoted, q->e.text));
        wire_write_stream_error(out, ERR_INTERNAL, q->e.text);
        return LOG_SEARCH_DONE;
    }
    if (!q->read->left)
        return LOG_SEARCH_DONE;
    if (q->step > 0 && q->used >= q->service->search_us) {
        say_cut(q, out, ERR_TOO_LARGE, "this search has used up its processor time");
        return LOG_SEARCH_DONE;
    }
    if (q->step == LOG_NONE && !q->asked)
        return LOG_SEARCH_AT_END;
    return begin_slice(q) ? LOG_SEARCH_RUNNING : LOG_SEARCH_BUSY;
}

enum log_search_state log_search_poll(struct log_search *q, struct buf *out, int64_t *end)
{
    pthread_mutex_lock(&q->lock);
    bool running = q->running;
    q->asked |= running;
    pthread_mutex_unlock(&q->lock);
    if (running)
        return LOG_SEARCH_RUNNING;
    if (q->fresh)
        return take_slice(q, out, end);
    return begin_slice(q) ? LOG_SEARCH_RUNNING : LOG_SEARCH_BUSY;
}
