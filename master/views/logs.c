// Logs of trials and tasks as streams of lines, with filters, and followed while the task lives.
// The pump's threads read a log that is filtered by its columns (rank, level, time ..); a worker of
// its own searches the text of lines (logsearch.h).

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/limits.h"
#include "base/log.h"
#include "master/notify/log_followers.h"
#include "master/views/logsearch.h"
#include "master/views/views.h"

enum {
    CHUNKS_IN_A_TURN = 8,    // chunks read before another stream has its turn
    LINGER_US = 2 * 1000000, // after a trial's end, for the last lines of its agents
    BUSY_US = 200 * 1000,    // until a search that found no room for its turn asks again
};

struct log_stream {
    struct stream stream;
    struct log_followers *log_followers;
    struct log_follower follower;
    bool registered;
    struct log_read *read;     // NULL: the search has it
    struct log_search *search; // NULL: none
    bool follows;
    bool holds; // an unpacked chunk, until the next part
    atomic_int *holders;
};

// A stream whose caller does not read keeps its unpacked chunk in memory. Beyond
// LIMIT_LOG_CHUNKS_OPEN such streams the chunk is freed, and unpacked again later.
static void hold_chunk(struct log_stream *l)
{
    bool holds = l->read && l->read->log.left > 0;
    if (holds && !l->holds && atomic_load(l->holders) >= LIMIT_LOG_CHUNKS_OPEN) {
        log_reader_free(&l->read->log);
        holds = false;
    }
    atomic_fetch_add(l->holders, holds - l->holds);
    l->holds = holds;
}

// The stream has no more lines for now. `end`: the task's end, read before the lines.
static enum stream_turn at_end(struct log_stream *l, int64_t end, const struct buf *out)
{
    if (out->len)
        return STREAM_MORE;
    int64_t left = end ? end + LINGER_US - clock_wall_us() : 0;
    if (end && left <= 0)
        return STREAM_END;
    l->stream.wait_until = end ? clock_mono_us() + left : 0;
    return STREAM_WAIT;
}

static enum stream_turn fill_plain(struct log_stream *l, struct db_reader *db, struct buf *out)
{
    static const struct log_read_bounds bounds = {.chunks = CHUNKS_IN_A_TURN};
    struct error e = {0};
    // Reads the task's end first: the turn then sees all lines committed before that end.
    int64_t end = l->follows ? log_read_end(l->read, db) : 1;
    int step = log_read_on(l->read, db, NULL, &bounds, out, &e);
    hold_chunk(l);
    if (step < 0) {
        char quoted[ERROR_TEXT_MAX];
        log_error("a log cannot be read", "err=%s", log_quote(quoted, sizeof quoted, e.text));
        wire_write_stream_error(out, ERR_INTERNAL, e.text);
        return STREAM_END;
    }
    if (!l->read->left || atomic_load(&l->stream.ending))
        return STREAM_END;
    return step == LOG_NONE ? at_end(l, end, out) : STREAM_MORE;
}

static enum stream_turn fill_search(struct log_stream *l, struct buf *out)
{
    int64_t end = 0;
    if (atomic_load(&l->stream.ending)) {
        log_search_cut(l->search, out);
        return STREAM_END;
    }
    l->stream.wait_until = 0;
    switch (log_search_turn(l->search, out, &end)) {
    case SEARCH_OVER:
        return STREAM_END;
    case SEARCH_AT_END:
        return at_end(l, end, out);
    case SEARCH_BUSY:
        l->stream.wait_until = clock_mono_us() + BUSY_US;
        break;
    case SEARCH_RUNS:
        break;
    }
    return out->len ? STREAM_MORE : STREAM_WAIT;
}

static enum stream_turn fill_logs(struct stream *s, struct db_reader *db, struct buf *out)
{
    struct log_stream *l = (struct log_stream *)s;
    // Before the first look, so that nothing is missed; a search, so that a stop ends it.
    if ((l->follows || l->search) && !l->registered) {
        l->follower.stream = s;
        log_followers_add(l->log_followers, &l->follower);
        l->registered = true;
    }
    return l->search ? fill_search(l, out) : fill_plain(l, db, out);
}

static void close_logs(struct stream *s)
{
    struct log_stream *l = (struct log_stream *)s;
    if (l->registered)
        log_followers_remove(l->log_followers, &l->follower);
    if (l->search)
        log_search_free(l->search);
    atomic_fetch_sub(l->holders, l->holds);
    if (l->read)
        log_read_free(l->read);
}

static int open_logs(struct view *v, int64_t trial_id, const char *task_id, struct stream **out,
                     struct error *e)
{
    struct log_stream *l = arena_alloc(&v->rq->arena, sizeof *l);
    *l = (struct log_stream){.stream = {.fill = fill_logs, .close = close_logs},
                             .log_followers = v->service->log_followers,
                             .holders = &v->service->log_chunks,
                             .follower = {.task_id = task_id}};
    int rc = log_read_new(v, trial_id, task_id, &l->read, e);
    if (rc)
        return rc;
    l->follows = l->read->follows;
    if (log_choice_searches(&l->read->choice)) {
        rc = log_search_new(v->service, l->read, &l->stream, &l->search, e);
        if (rc)
            log_read_free(l->read);
        l->read = NULL;
    }
    *out = &l->stream;
    return rc;
}

// The task of the trial in params[0].
static int task_of(struct view *v, int64_t *trial, const char **task, struct error *e)
{
    int rc = request_param_int(v->rq, 0, trial, e);
    if (rc)
        return rc;
    struct db_rows *rows = DB_QUERY(v->db, TRIAL_TASK, *trial);
    int found = db_next(rows);
    *task = found == 1 ? arena_strdup(&v->rq->arena, DB_GET(rows, TRIAL_TASK, task_id)) : NULL;
    db_rows_close(rows);
    return found < 0 ? store_failed(e) : found == 0 ? no_trial(*trial, e) : 0;
}

int stream_trial_logs(struct view *v, struct stream **out, struct error *e)
{
    int64_t trial;
    const char *task;
    int rc = task_of(v, &trial, &task, e);
    return rc ? rc : open_logs(v, trial, task, out, e);
}

int stream_task_logs(struct view *v, struct stream **out, struct error *e)
{
    return open_logs(v, 0, v->rq->params[0], out, e);
}

// --- what there is to filter by: one line, then the end ------------------------------------------

struct fields_stream {
    struct stream stream;
    const char *task_id;
};

enum { FIELD_VALUES_MAX = 10000 }; // of one field; further ones are left out

struct values { // sorted, each once
    char **texts;
    size_t count;
};

struct found {
    struct values of[LOG_FIELDS];
    int64_t *ranks;
    size_t rank_count;
};

static void add_value(struct values *v, const char *text)
{
    size_t low = 0, high = v->count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        int order = strcmp(v->texts[middle], text);
        if (!order)
            return;
        if (order < 0)
            low = middle + 1;
        else
            high = middle;
    }
    if (!*text || v->count == FIELD_VALUES_MAX)
        return;
    v->texts = xrealloc(v->texts, (v->count + 1) * sizeof *v->texts);
    memmove(v->texts + low + 1, v->texts + low, (v->count - low) * sizeof *v->texts);
    v->texts[low] = xstrdup(text);
    v->count++;
}

static void add_rank(struct found *f, int64_t rank)
{
    size_t at = f->rank_count;
    while (at && f->ranks[at - 1] >= rank)
        at--;
    if (rank < 0 || f->rank_count == FIELD_VALUES_MAX ||
        (at < f->rank_count && f->ranks[at] == rank))
        return;
    f->ranks = xrealloc(f->ranks, (f->rank_count + 1) * sizeof *f->ranks);
    memmove(f->ranks + at + 1, f->ranks + at, (f->rank_count - at) * sizeof *f->ranks);
    f->ranks[at] = rank;
    f->rank_count++;
}

static int add_origin(void *ctx, const struct log_origin *o)
{
    struct found *f = ctx;
    for (int i = 0; i < LOG_FIELDS; i++)
        add_value(&f->of[i], o->text[i]);
    add_rank(f, o->rank);
    return 0;
}

static void write_found(const struct found *f, struct buf *out)
{
    static const struct {
        const char *key;
        enum log_field field;
    } keys[] = {{"agentIds", LOG_AGENT},
                {"allocationIds", LOG_ALLOCATION},
                {"containerIds", LOG_CONTAINER},
                {"sources", LOG_SOURCE},
                {"stdtypes", LOG_STDTYPE}};
    struct json_writer w;
    jw_init(&w, out);
    jw_object(&w);
    jw_key(&w, "result");
    jw_object(&w);
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        jw_key(&w, keys[i].key);
        jw_array(&w);
        for (size_t k = 0; k < f->of[keys[i].field].count; k++)
            jw_string(&w, f->of[keys[i].field].texts[k]);
        jw_array_end(&w);
    }
    jw_key(&w, "rankIds");
    jw_array(&w);
    for (size_t i = 0; i < f->rank_count; i++)
        jw_int(&w, f->ranks[i]);
    jw_array_end(&w);
    jw_object_end(&w);
    jw_object_end(&w);
    buf_puts(out, "\n");
}

static enum stream_turn fill_fields(struct stream *s, struct db_reader *db, struct buf *out)
{
    struct found found = {0};
    struct error e = {0};
    if (logs_each_origin(db, ((struct fields_stream *)s)->task_id, add_origin, &found, &e))
        wire_write_stream_error(out, ERR_INTERNAL, e.text);
    else
        write_found(&found, out);
    for (int i = 0; i < LOG_FIELDS; i++) {
        for (size_t k = 0; k < found.of[i].count; k++)
            free(found.of[i].texts[k]);
        free(found.of[i].texts);
    }
    free(found.ranks);
    return STREAM_END;
}

static int open_fields(struct view *v, const char *task, struct stream **out)
{
    struct fields_stream *f = arena_alloc(&v->rq->arena, sizeof *f);
    f->stream.fill = fill_fields;
    f->task_id = task;
    *out = &f->stream;
    return 0;
}

int stream_trial_log_fields(struct view *v, struct stream **out, struct error *e)
{
    int64_t trial;
    const char *task;
    int rc = task_of(v, &trial, &task, e);
    return rc ? rc : open_fields(v, task, out);
}

int stream_task_log_fields(struct view *v, struct stream **out, struct error *e)
{
    (void)e;
    return open_fields(v, v->rq->params[0], out);
}
