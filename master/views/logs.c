// Logs of trials and tasks as streams of lines, with filters, and followed while the task lives.

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "master/live/follow.h"
#include "master/views/logchoice.h"
#include "master/views/views.h"

enum {
    CHUNKS_IN_A_TURN = 8,    // that are looked through before other connections have theirs
    LINGER_US = 2 * 1000000, // after a trial's end, for the last lines of its agents
    CONTAINER_SHOWN = 8,     // digits of a container id in a line
};

struct log_stream {
    struct stream stream;
    struct follow *follow;
    struct follower follower;
    bool follows, registered;
    int64_t trial_id; // 0: asked for by task
    int64_t left;     // lines still to send; -1: all
    int64_t after;    // oldest first: only lines behind the one of this number; 0: all
    int64_t before;   // newest first: only lines before it; 0: all
    struct log_choice choice;
    struct log_reader log;
    struct buf line;
};

// "[time] container [rank=N] || LEVEL: text\n", as det prints it.
static const char *message_of(struct buf *out, const struct log_line *line,
                              const struct log_origin *o, const char *time)
{
    buf_reset(out);
    buf_printf(out, "[%s] ", time);
    if (*o->text[LOG_CONTAINER])
        buf_printf(out, "%.*s ", CONTAINER_SHOWN, o->text[LOG_CONTAINER]);
    if (o->rank >= 0)
        buf_printf(out, "[rank=%lld] ", (long long)o->rank);
    buf_printf(out, "|| %s: ", o->text[LOG_LEVEL]);
    buf_append(out, line->text, line->len);
    if (!line->len || line->text[line->len - 1] != '\n')
        buf_puts(out, "\n");
    return buf_str(out);
}

static void write_log(struct log_stream *l, struct json_writer *w, int64_t number,
                      const struct log_line *line, const struct log_origin *o)
{
    char time[CLOCK_RFC3339_MAX], id[32];
    clock_format(line->time, time);
    snprintf(id, sizeof id, "%lld", (long long)number);
    jw_object(w);
    jw_key(w, "result");
    jw_object(w);
    jw_kv_string(w, "id", id);
    jw_kv_string(w, "timestamp", time);
    jw_kv_string(w, "level", wire_name(WIRE_LOG_LEVEL, o->text[LOG_LEVEL]));
    jw_kv_string(w, "message", message_of(&l->line, line, o, time));
    if (l->trial_id)
        jw_kv_int(w, "trialId", l->trial_id);
    jw_kv_string(w, "taskId", l->log.task);
    jw_kv_string(w, "allocationId", o->text[LOG_ALLOCATION]);
    jw_kv_string(w, "agentId", o->text[LOG_AGENT]);
    jw_kv_string(w, "containerId", o->text[LOG_CONTAINER]);
    if (o->rank >= 0)
        jw_kv_int(w, "rankId", o->rank);
    jw_kv_string(w, "log", line->text);
    jw_kv_string(w, "source", o->text[LOG_SOURCE]);
    jw_kv_string(w, "stdtype", o->text[LOG_STDTYPE]);
    jw_object_end(w);
    jw_object_end(w);
}

// Reads on from where it was. LOG_NONE: there is no more for now; LOG_ON; negative.
static int read_logs(struct log_stream *l, struct db_reader *db, struct buf *out, struct error *e)
{
    const struct log_line *line;
    const struct log_origin *origin;
    int64_t id;
    int step = LOG_ON, chunks = 0;
    while (l->left && out->len < STREAM_CHUNK && step > 0 && chunks < CHUNKS_IN_A_TURN) {
        struct json_writer w;
        step = log_reader_next(&l->log, db, &line, &origin, &id, e);
        chunks += step == LOG_ON;
        if (step != LOG_LINE || !log_choice_takes(&l->choice, line->text))
            continue;
        jw_init(&w, out);
        write_log(l, &w, id, line, origin);
        buf_puts(out, "\n");
        l->left -= l->left > 0;
    }
    return step;
}

// When the task's trial ended (wall time); 0 while it has not.
static int64_t end_of(struct log_stream *l, struct db_reader *db)
{
    struct db_rows *rows = db_query(db, STMT_TASK_END, "s", l->log.task);
    bool there = db_next(rows) == 1;
    int64_t end = !there                                     ? 1 // it was deleted
                  : wire_state_is_terminal(db_text(rows, 1)) ? db_int(rows, 2)
                                                             : 0;
    db_rows_close(rows);
    return end;
}

static enum stream_turn fill_logs(struct stream *s, struct db_reader *db, struct buf *out)
{
    struct log_stream *l = (struct log_stream *)s;
    struct error e = {0};
    if (l->follows && !l->registered) { // before the first look, so that nothing is missed
        l->follower = (struct follower){.task_id = l->log.task, .stream = s};
        follow_add(l->follow, &l->follower);
        l->registered = true;
    }
    // The end is looked at first: what was committed before it is then read below.
    int64_t end = l->follows ? end_of(l, db) : 1;
    int step = read_logs(l, db, out, &e);
    if (step < 0) {
        char quoted[ERROR_TEXT_MAX];
        log_error("a log cannot be read", "err=%s", log_quote(quoted, sizeof quoted, e.text));
        wire_write_stream_error(out, ERR_INTERNAL, e.text);
        return STREAM_END;
    }
    if (!l->left || atomic_load(&s->ending))
        return STREAM_END;
    if (step != LOG_NONE || out->len)
        return STREAM_MORE;
    int64_t left = end ? end + LINGER_US - clock_wall_us() : 0;
    if (end && left <= 0)
        return STREAM_END;
    s->wait_until = end ? clock_mono_us() + left : 0;
    return STREAM_WAIT;
}

static void close_logs(struct stream *s)
{
    struct log_stream *l = (struct log_stream *)s;
    if (l->registered)
        follow_remove(l->follow, &l->follower);
    log_reader_free(&l->log);
    log_choice_free(&l->choice);
    buf_free(&l->line);
}

static int read_options(struct view *v, struct log_stream *l, bool *newest_first, struct error *e)
{
    const char *order = query_get(v->query, "orderBy");
    *newest_first = order && !strcmp(order, "ORDER_BY_DESC");
    l->follows = query_flag(v->query, "follow");
    if (l->follows && *newest_first)
        return error_set(e, ERR_INVALID, "follow goes with ORDER_BY_ASC only");
    int rc = request_query_int(v->rq, "limit", 0, &l->left, e);
    if (!rc && l->left < 0)
        rc = error_set(e, ERR_INVALID, "query parameter limit: at least 0 (0: all)");
    if (!l->left)
        l->left = -1;
    if (!rc)
        rc = request_query_int(v->rq, "after", 0, &l->after, e);
    return rc ? rc : request_query_int(v->rq, "before", 0, &l->before, e);
}

static int open_logs(struct view *v, int64_t trial_id, const char *task_id, struct stream **out,
                     struct error *e)
{
    struct log_stream *l = arena_alloc(&v->rq->arena, sizeof *l);
    bool newest_first = false;
    l->stream.fill = fill_logs;
    l->stream.close = close_logs;
    l->follow = v->service->follow;
    l->trial_id = trial_id;
    buf_init(&l->line, 1 << 20);
    int rc = read_options(v, l, &newest_first, e);
    if (!rc)
        rc = log_choice_read(v, &l->choice, e);
    if (rc) {
        close_logs(&l->stream);
        return rc;
    }
    const struct log_wanted wanted = log_choice_wanted(&l->choice);
    log_reader_init(&l->log, task_id, newest_first, &wanted);
    int64_t passed = newest_first ? l->before : l->after;
    if (passed > 0)
        l->log.place = passed;
    *out = &l->stream;
    return 0;
}

// The task of the trial in params[0].
static int task_of(struct view *v, int64_t *trial, const char **task, struct error *e)
{
    int rc = request_param_int(v->rq, 0, trial, e);
    if (rc)
        return rc;
    struct db_rows *rows = db_query(v->db, STMT_TRIAL_TASK, "i", *trial);
    int found = db_next(rows);
    *task = found == 1 ? arena_strdup(&v->rq->arena, db_text(rows, 0)) : NULL;
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

// --- what there is to filter by: one line, then the end -----------------------------------------

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
