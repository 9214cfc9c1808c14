// Logs of trials and tasks as streams of lines, with filters, and followed while the task lives.

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/pattern.h"
#include "master/http/follow.h"
#include "master/http/list.h"
#include "master/http/views.h"

enum {
    LOG_PAGE = 1000,         // rows read at a time
    LINGER_US = 2 * 1000000, // after a trial's end, for the last lines of its agents
    CONTAINER_SHOWN = 8,     // digits of a container id in a line
};

enum { // columns of DB_LOG_COLUMNS
    L_ID,
    L_TASK_ID,
    L_ALLOCATION_ID,
    L_AGENT_ID,
    L_CONTAINER_ID,
    L_RANK,
    L_TIME,
    L_LEVEL,
    L_STDTYPE,
    L_SOURCE,
    L_LOG,
};

struct log_stream {
    struct stream stream;
    struct follow *follow;
    struct follower follower;
    bool follows, registered, newest_first;
    int64_t trial_id; // 0: asked for by task
    const char *task_id;
    int64_t place; // the last id that was read
    int64_t left;  // lines still to send; -1: all
    const char *sql;
    struct db_value *values; // task, place, the filters'
    size_t value_count;
    regex_t pattern;
    bool has_pattern;
    struct buf line;
};

// "[time] container [rank=N] || LEVEL: text\n", as det prints it.
static const char *message_of(struct buf *line, struct db_rows *rows, const char *time)
{
    const char *container = db_text(rows, L_CONTAINER_ID), *text = db_text(rows, L_LOG);
    buf_reset(line);
    buf_printf(line, "[%s] ", time);
    if (container && *container)
        buf_printf(line, "%.*s ", CONTAINER_SHOWN, container);
    if (!db_is_null(rows, L_RANK))
        buf_printf(line, "[rank=%lld] ", (long long)db_int(rows, L_RANK));
    buf_printf(line, "|| %s: %s", db_text(rows, L_LEVEL), text);
    if (!line->len || line->data[line->len - 1] != '\n')
        buf_puts(line, "\n");
    return buf_str(line);
}

static void write_log(struct log_stream *l, struct json_writer *w, struct db_rows *rows)
{
    char time[CLOCK_RFC3339_MAX], id[32];
    clock_format(db_int(rows, L_TIME), time);
    snprintf(id, sizeof id, "%lld", (long long)db_int(rows, L_ID));
    jw_object(w);
    jw_key(w, "result");
    jw_object(w);
    jw_kv_string(w, "id", id);
    jw_kv_string(w, "timestamp", time);
    jw_kv_string(w, "level", wire_name(WIRE_LOG_LEVEL, db_text(rows, L_LEVEL)));
    jw_kv_string(w, "message", message_of(&l->line, rows, time));
    if (l->trial_id)
        jw_kv_int(w, "trialId", l->trial_id);
    jw_kv_string(w, "taskId", l->task_id);
    jw_kv_string(w, "allocationId", db_text(rows, L_ALLOCATION_ID));
    jw_kv_string(w, "agentId", db_text(rows, L_AGENT_ID));
    jw_kv_string(w, "containerId", db_text(rows, L_CONTAINER_ID));
    if (!db_is_null(rows, L_RANK))
        jw_kv_int(w, "rankId", db_int(rows, L_RANK));
    jw_kv_string(w, "log", db_text(rows, L_LOG));
    jw_kv_string(w, "source", db_text(rows, L_SOURCE));
    jw_kv_string(w, "stdtype", db_text(rows, L_STDTYPE));
    jw_object_end(w);
    jw_object_end(w);
}

// The newest line of the task. Filters pass over lines that must not be looked at again with every
// commit, so a follower goes on behind this one when there was nothing for it before.
static int64_t newest_log(struct log_stream *l, struct db_reader *db)
{
    struct db_rows *rows = db_query(db, STMT_LOGS_NEWEST, "s", l->task_id);
    int64_t id = db_next(rows) == 1 ? db_int(rows, 0) : 0;
    db_rows_close(rows);
    return id;
}

// Reads on from l->place; returns the rows looked at, or negative.
static int read_logs(struct log_stream *l, struct db_reader *db, struct buf *out)
{
    int count = 0, more = 1;
    int64_t newest = l->follows ? newest_log(l, db) : 0;
    l->values[1].i = l->place;
    struct db_rows *rows = db_query_sql(db, l->sql, l->values, l->value_count);
    while (l->left && out->len < STREAM_CHUNK && (more = db_next(rows)) == 1) {
        struct json_writer w;
        count++;
        l->place = db_int(rows, L_ID);
        if (l->has_pattern && regexec(&l->pattern, db_text(rows, L_LOG), 0, NULL, 0))
            continue;
        jw_init(&w, out);
        write_log(l, &w, rows);
        buf_puts(out, "\n");
        l->left -= l->left > 0;
    }
    db_rows_close(rows);
    if (!count && newest > l->place)
        l->place = newest;
    return more < 0 ? more : count;
}

// When the task's trial ended (wall time); 0 while it has not.
static int64_t end_of(struct log_stream *l, struct db_reader *db)
{
    struct db_rows *rows = db_query(db, STMT_TASK_END, "s", l->task_id);
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
    if (l->follows && !l->registered) { // before the first look, so that nothing is missed
        l->follower = (struct follower){.task_id = l->task_id, .stream = s};
        follow_add(l->follow, &l->follower);
        l->registered = true;
    }
    // The end is looked at first: what was committed before it is then read below.
    int64_t end = l->follows ? end_of(l, db) : 1;
    int count = read_logs(l, db, out);
    if (count < 0) {
        wire_write_stream_error(out, ERR_INTERNAL, "the store cannot be read");
        return STREAM_END;
    }
    if (!l->left || atomic_load(&s->ending))
        return STREAM_END;
    if (count)
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
    if (l->has_pattern)
        regfree(&l->pattern);
    buf_free(&l->line);
}

static int compile_pattern(struct log_stream *l, const char *text, struct error *e)
{
    int err = pattern_compile(text, "searchText", &l->pattern, e);
    l->has_pattern = !err;
    return err;
}

static int filter_time(struct list *f, const char *name, const char *condition, struct error *e)
{
    const char *text = query_get(f->v->query, name);
    int64_t at;
    if (!text || !*text)
        return 0;
    if (clock_parse(text, &at))
        return error_set(e, ERR_INVALID,
                         "query parameter %s: \"%.64s\" is not a time like 2026-11-21T09:00:00Z",
                         name, text);
    list_and(f, condition);
    list_bind_int(f, at);
    return 0;
}

static int filter_logs(struct log_stream *l, struct list *f, struct error *e)
{
    const char *text = query_get(f->v->query, "searchText");
    list_filter_texts(f, "agentIds", "agent_id");
    list_filter_texts(f, "allocationIds", "allocation_id");
    list_filter_texts(f, "containerIds", "container_id");
    list_filter_ints(f, "rankIds", "coalesce(rank, -1)");
    list_filter_texts(f, "sources", "source");
    list_filter_texts(f, "stdtypes", "stdtype");
    list_filter_words(f, "levels", "level", WIRE_LOG_LEVEL);
    int rc = filter_time(f, "timestampBefore", "time < ?", e);
    if (!rc)
        rc = filter_time(f, "timestampAfter", "time > ?", e);
    if (!rc && text && *text && query_flag(f->v->query, "enableRegex"))
        rc = compile_pattern(l, text, e);
    else
        list_filter_part(f, "searchText", "log");
    if (!rc && f->error.code) {
        *e = f->error;
        rc = e->code;
    }
    return rc;
}

static void build_query(struct log_stream *l, struct arena *arena, const struct list *f)
{
    l->sql = arena_printf(arena,
                          "SELECT " DB_LOG_COLUMNS
                          " FROM logs WHERE task_id = ? AND id %s ?%s ORDER BY id %s"
                          " LIMIT %d",
                          l->newest_first ? "<" : ">", buf_str(&f->where),
                          l->newest_first ? "DESC" : "ASC", LOG_PAGE);
    l->value_count = f->value_count + 2;
    l->values = arena_alloc(arena, l->value_count * sizeof *l->values);
    l->values[0] = (struct db_value){.type = 's', .p = l->task_id, .len = strlen(l->task_id)};
    l->values[1] = (struct db_value){.type = 'i'};
    memcpy(l->values + 2, f->values, f->value_count * sizeof *f->values);
    l->place = l->newest_first ? INT64_MAX : 0;
}

static int read_options(struct view *v, struct log_stream *l, struct error *e)
{
    const char *order = query_get(v->query, "orderBy");
    l->newest_first = order && !strcmp(order, "ORDER_BY_DESC");
    l->follows = query_flag(v->query, "follow");
    if (l->follows && l->newest_first)
        return error_set(e, ERR_INVALID, "follow goes with ORDER_BY_ASC only");
    int rc = request_query_int(v->rq, "limit", 0, &l->left, e);
    if (!rc && l->left < 0)
        rc = error_set(e, ERR_INVALID, "query parameter limit: at least 0 (0: all)");
    if (!l->left)
        l->left = -1;
    return rc;
}

static int open_logs(struct view *v, int64_t trial_id, const char *task_id, struct stream **out,
                     struct error *e)
{
    struct arena *arena = &v->rq->arena;
    struct log_stream *l = arena_alloc(arena, sizeof *l);
    struct list filters;
    l->stream.fill = fill_logs;
    l->stream.close = close_logs;
    l->follow = v->service->follow;
    l->trial_id = trial_id;
    l->task_id = task_id;
    buf_init(&l->line, 1 << 20);
    list_init(&filters, v);
    int rc = read_options(v, l, e);
    if (!rc)
        rc = filter_logs(l, &filters, e);
    if (!rc)
        build_query(l, arena, &filters);
    buf_free(&filters.where);
    if (rc) {
        close_logs(&l->stream);
        return rc;
    }
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

// What there is to filter by: one line, then the end.
struct fields_stream {
    struct stream stream;
    const char *task_id;
};

static void write_values(struct json_writer *w, struct db_reader *db, const char *key,
                         const char *sql, const char *task_id)
{
    const struct db_value task = {.type = 's', .p = task_id, .len = strlen(task_id)};
    struct db_rows *rows = db_query_sql(db, sql, &task, 1);
    jw_key(w, key);
    jw_array(w);
    while (db_next(rows) == 1) {
        if (!strcmp(key, "rankIds"))
            jw_int(w, db_int(rows, 0));
        else
            jw_string(w, db_text(rows, 0));
    }
    jw_array_end(w);
    db_rows_close(rows);
}

#define DISTINCT(column)                                                                           \
    "SELECT DISTINCT " column " FROM logs WHERE task_id = ? AND " column " <> '' ORDER BY 1"

static enum stream_turn fill_fields(struct stream *s, struct db_reader *db, struct buf *out)
{
    static const struct {
        const char *key, *sql;
    } fields[] = {{"agentIds", DISTINCT("agent_id")},
                  {"allocationIds", DISTINCT("allocation_id")},
                  {"containerIds", DISTINCT("container_id")},
                  {"rankIds", DISTINCT("rank")},
                  {"sources", DISTINCT("source")},
                  {"stdtypes", DISTINCT("stdtype")}};
    const char *task = ((struct fields_stream *)s)->task_id;
    struct json_writer w;
    jw_init(&w, out);
    jw_object(&w);
    jw_key(&w, "result");
    jw_object(&w);
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++)
        write_values(&w, db, fields[i].key, fields[i].sql, task);
    jw_object_end(&w);
    jw_object_end(&w);
    buf_puts(out, "\n");
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
