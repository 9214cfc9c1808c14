#include "master/views/logs/json_log_reader.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "master/common/task_id.h"
#include "master/http/stream.h"
#include "master/views/views.h"

enum { CONTAINER_SHOWN = 8 }; // digits of a container id in a line

// "[time] container [rank=N] || LEVEL: text\n", as Determined's CLI prints it.
static const char *format_message(struct buf *out, const struct log_line *line,
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

static void write_log_line(struct json_log_reader *r, struct json_writer *w, int64_t number,
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
    jw_kv_string(w, "message", format_message(&r->line, line, o, time));
    if (r->trial_id)
        jw_kv_int(w, "trialId", r->trial_id);
    jw_kv_string(w, "taskId", r->task);
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

// Returns the last line to the log reader; the next turn begins with it.
static void unread_line(struct json_log_reader *r, int64_t id)
{
    r->log.position = r->newest_first ? id + 1 : id - 1;
    r->log.left++;
    r->log.at = r->newest_first ? r->log.at + 1 : r->log.at - 1;
}

int json_log_reader_read(struct json_log_reader *r, struct db_reader *db,
                         const struct pattern *compiled, const struct json_log_limits *limits,
                         struct buf *out, struct error *e)
{
    const struct log_line *line;
    const struct log_origin *origin;
    int64_t id;
    int step = LOG_MORE, chunks = 0;
    while (r->remaining && out->len < STREAM_CHUNK && step > 0 && chunks < limits->max_chunks) {
        struct json_writer w;
        step = log_reader_next(&r->log, db, &line, &origin, &id, e);
        chunks += step == LOG_MORE;
        if (step != LOG_LINE)
            continue;
        if (limits->should_stop && limits->should_stop(limits->ctx, line->len)) {
            unread_line(r, id);
            return LOG_MORE;
        }
        if (r->newest_first ? id <= r->first : r->followed && id > r->last) {
            r->remaining = 0; // a line of another task
            return LOG_NONE;
        }
        r->time = line->time;
        if (!log_filter_matches_text(&r->filter, compiled, line))
            continue;
        jw_init(&w, out);
        write_log_line(r, &w, id, line, origin);
        buf_puts(out, "\n");
        r->remaining -= r->remaining > 0;
    }
    return step;
}

int64_t json_log_reader_end_time(const struct json_log_reader *r, struct db_reader *db)
{
    struct db_rows *rows = DB_QUERY(db, TASK_END, r->log_task);
    bool there = db_next(rows) == 1;
    int64_t end = !there || r->followed ? 1 // the task was deleted, or has ended long ago
                  : wire_state_is_terminal(DB_GET(rows, TASK_END, state))
                      ? DB_GET(rows, TASK_END, ended_at)
                      : 0;
    db_rows_close(rows);
    return end;
}

// `after`: oldest first, lines behind this number; `before`: newest first, lines before this
// number; 0: all lines.
static int read_options(struct view *v, struct json_log_reader *r, int64_t *passed, struct error *e)
{
    const char *order = query_get(v->query, "orderBy");
    int64_t after = 0, before = 0;
    r->newest_first = order && !strcmp(order, "ORDER_BY_DESC");
    r->follows = query_flag(v->query, "follow");
    if (r->follows && r->newest_first)
        return error_set(e, ERR_INVALID, "query parameter follow: requires ORDER_BY_ASC");
    int rc = request_query_int(v->rq, "limit", 0, &r->remaining, e);
    if (!rc && r->remaining < 0)
        rc = error_set(e, ERR_INVALID, "query parameter limit: at least 0 (0: all)");
    if (!r->remaining)
        r->remaining = -1;
    if (!rc)
        rc = request_query_int(v->rq, "after", 0, &after, e);
    if (!rc)
        rc = request_query_int(v->rq, "before", 0, &before, e);
    *passed = r->newest_first ? before : after;
    return rc;
}

// Finds the part of the trial's log that belongs to the task.
static int read_part(struct view *v, struct json_log_reader *r, struct error *e)
{
    struct task_id id;
    char first[TASK_ID];
    r->log_task = arena_strdup(&r->arena, task_id_first(r->task, first));
    if (r->trial_id || !task_id_read(r->task, &id))
        return 0;
    struct db_rows *rows = DB_QUERY(v->db, TASK_LOG, r->log_task, id.number);
    int found = db_next(rows);
    if (found == 1) {
        r->first = DB_GET(rows, TASK_LOG, after_line);
        r->last = DB_GET(rows, TASK_LOG, until_line);
        r->followed = DB_GET(rows, TASK_LOG, followed);
    }
    db_rows_close(rows);
    return found < 0 ? store_failed(e) : found ? 0 : error_not_found(e, "task", "%.128s", r->task);
}

int json_log_reader_new(struct view *v, int64_t trial_id, const char *task,
                        struct json_log_reader **out, struct error *e)
{
    struct json_log_reader *r = xcalloc(1, sizeof *r);
    int64_t passed = 0;
    r->task = arena_strdup(&r->arena, task);
    r->trial_id = trial_id;
    buf_init(&r->line, 1 << 20);
    int rc = read_options(v, r, &passed, e);
    if (!rc)
        rc = log_filter_read(v, &r->arena, &r->filter, e);
    const struct log_query wanted = log_filter_columns(&r->filter);
    if (!rc)
        rc = read_part(v, r, e);
    log_reader_init(&r->log, r->log_task, r->newest_first, &wanted);
    if (passed > 0)
        r->log.position = passed;
    if (!r->newest_first && r->log.position < r->first)
        r->log.position = r->first;
    if (r->newest_first && r->followed && (!passed || passed > r->last))
        r->log.position = r->last + 1;
    if (rc)
        json_log_reader_free(r);
    *out = rc ? NULL : r;
    return rc;
}

void json_log_reader_free(struct json_log_reader *r)
{
    log_reader_free(&r->log);
    buf_free(&r->line);
    arena_free(&r->arena);
    free(r);
}
