// The master itself: its log, its configuration, the message to all users.

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "master/common/free_space.h"
#include "master/common/master_log.h"
#include "master/notify/log_followers.h"
#include "master/views/views.h"

enum {
    MESSAGE_MAX = 250, // bytes of the message, as in Determined
    LOOK_US = 250 * 1000,
    ENTRIES = 64, // of one look
};

// --- the log -------------------------------------------------------------------------------------

struct master_log_stream {
    struct stream stream;
    struct log_follower follower;
    struct log_followers *log_followers;
    struct master_log *master_log;
    int64_t after, left; // left -1: no limit
    bool follows;
};

static void write_entry(struct json_writer *w, const struct master_log_entry *entry)
{
    static const char *const levels[] = {"LOG_LEVEL_DEBUG", "LOG_LEVEL_INFO", "LOG_LEVEL_WARNING",
                                         "LOG_LEVEL_ERROR"};
    jw_object(w);
    jw_key(w, "result");
    jw_object(w);
    jw_key(w, "logEntry");
    jw_object(w);
    jw_kv_int(w, "id", entry->id);
    jw_kv_string(w, "message", entry->text);
    write_time(w, "timestamp", entry->time);
    jw_kv_string(w, "level", levels[entry->level]);
    jw_object_end(w);
    jw_object_end(w);
    jw_object_end(w);
}

static enum stream_turn fill_journal(struct stream *s, struct db_reader *db, struct buf *out)
{
    struct master_log_stream *j = (struct master_log_stream *)s;
    struct master_log_entry entries[ENTRIES];
    struct arena arena = {0};
    (void)db;
    size_t most = j->left < 0 || j->left > ENTRIES ? ENTRIES : (size_t)j->left;
    size_t count = master_log_read(j->master_log, j->after, &arena, entries, most);
    for (size_t i = 0; i < count; i++) {
        struct json_writer w;
        jw_init(&w, out);
        write_entry(&w, &entries[i]);
        buf_puts(out, "\n");
        j->after = entries[i].id;
    }
    arena_free(&arena);
    if (j->left > 0)
        j->left -= (int64_t)count;
    if (!j->left || atomic_load(&s->ending) || (!count && !j->follows))
        return STREAM_END;
    if (count)
        return STREAM_MORE;
    s->wait_until = clock_mono_us() + LOOK_US;
    return STREAM_WAIT;
}

static void close_journal(struct stream *s)
{
    struct master_log_stream *j = (struct master_log_stream *)s;
    log_followers_remove(j->log_followers, &j->follower);
}

// offset: so many are passed over; negative: so many from the end are shown.
int stream_master_logs(struct view *v, struct stream **out, struct error *e)
{
    int64_t offset, limit, before, newest;
    int rc = request_query_int(v->rq, "offset", 0, &offset, e);
    if (!rc)
        rc = request_query_int(v->rq, "limit", 0, &limit, e);
    if (rc)
        return rc;
    master_log_range(v->service->master_log, &before, &newest);
    struct master_log_stream *j = arena_alloc(&v->rq->arena, sizeof *j);
    *j = (struct master_log_stream){.stream = {.fill = fill_journal, .close = close_journal},
                                    .log_followers = v->service->log_followers,
                                    .master_log = v->service->master_log,
                                    .after = offset < 0 ? newest + offset : before + offset,
                                    .left = limit > 0 ? limit : -1,
                                    .follows = query_flag(v->query, "follow")};
    j->follower = (struct log_follower){.task_id = "", .stream = &j->stream};
    log_followers_add(j->log_followers, &j->follower); // so that it ends when the server does
    *out = &j->stream;
    return 0;
}

// --- the configuration ---------------------------------------------------------------------------

static json_t *config_now(struct view *v)
{
    json_t *config = json_loads(v->service->config, 0, NULL);
    json_t *log = json_pack("{s:s, s:b}", "level", log_level_name(log_get_level()), "color", 0);
    must(config && log && !json_object_set_new(config, "log", log));
    return config;
}

int view_master_config(struct view *v, struct error *e)
{
    (void)e;
    json_t *config = config_now(v);
    jw_object(&v->w);
    jw_key(&v->w, "config");
    jw_json(&v->w, config);
    jw_object_end(&v->w);
    json_decref(config);
    return 0;
}

// The level of the log, until the next start; nothing else changes while the master runs.
int master_patch_config(struct view *v, struct error *e)
{
    const json_t *config = jget(v->rq->body, "config");
    const char *name = jget_string(jget(config, "log"), "level", NULL);
    enum log_level level;
    if (!name)
        return error_set(e, ERR_INVALID,
                         "config.log.level: missing; it is all that can be changed while the "
                         "master runs");
    if (log_parse_level(name, &level))
        return error_set(e, ERR_INVALID, "config.log.level: none of debug, info, warn, error");
    log_set_level(level);
    log_info("the level of the log is changed", "level=%s user=%s", name,
             v->rq->principal.username);
    int rc = view_commit(v, db_batch_new(), e);
    return rc ? rc : view_master_config(v, e);
}

// --- the message to all users --------------------------------------------------------------------

// Writes the notice that a disk is nearly full; false if none is.
static bool write_room_message(struct view *v)
{
    const struct free_space *free_space = v->service->free_space;
    char text[FREE_SPACE_TEXT];
    enum free_space_place place =
        free_space_is_low(free_space, FREE_SPACE_DATA) ? FREE_SPACE_DATA : FREE_SPACE_CHECKPOINTS;
    if (!free_space_is_low(free_space, place))
        return false;
    int64_t since = free_space_low_since(free_space, place);
    jw_key(&v->w, "clusterMessage");
    jw_object(&v->w);
    jw_kv_string(&v->w, "message",
                 v->rq->principal.kind == PRINCIPAL_NONE
                     ? free_space_describe_public(place)
                     : free_space_describe(free_space, place, text));
    write_time(&v->w, "startTime", since);
    write_time(&v->w, "endTime", 0);
    write_time(&v->w, "createdTime", since);
    jw_object_end(&v->w);
    return true;
}

void write_cluster_message(struct view *v, bool also_later)
{
    if (write_room_message(v))
        return; // it comes before the administrators' own
    struct db_rows *rows = DB_QUERY(v->db, CLUSTER_MESSAGE);
    int64_t now = clock_wall_us();
    bool there = db_next(rows) == 1 &&
                 (DB_IS_NULL(rows, CLUSTER_MESSAGE, end_at) ||
                  DB_GET(rows, CLUSTER_MESSAGE, end_at) > now) &&
                 (also_later || DB_GET(rows, CLUSTER_MESSAGE, start_at) <= now);
    jw_key(&v->w, "clusterMessage");
    if (!there) {
        jw_null(&v->w);
    } else {
        jw_object(&v->w);
        jw_kv_string(&v->w, "message", DB_GET(rows, CLUSTER_MESSAGE, message));
        write_time(&v->w, "startTime", DB_GET(rows, CLUSTER_MESSAGE, start_at));
        write_time(&v->w, "endTime", DB_GET(rows, CLUSTER_MESSAGE, end_at));
        write_time(&v->w, "createdTime", DB_GET(rows, CLUSTER_MESSAGE, created_at));
        jw_object_end(&v->w);
    }
    db_rows_close(rows);
}

// Administrators see one that has yet to begin.
int view_cluster_message(struct view *v, struct error *e)
{
    (void)e;
    jw_object(&v->w);
    write_cluster_message(v, v->rq->principal.admin);
    jw_object_end(&v->w);
    return 0;
}

// An RFC 3339 time of the body; `fallback` when there is none.
static int read_time(const json_t *body, const char *key, int64_t fallback, int64_t *out,
                     struct error *e)
{
    const char *text = jget_string(body, key, NULL);
    *out = fallback;
    if (text && clock_parse(text, out))
        return error_set(e, ERR_INVALID, "%s: not a time like 2026-11-21T09:00:00Z", key);
    return 0;
}

static int read_end(const json_t *body, int64_t start, int64_t *out, struct error *e)
{
    const char *duration = jget_string(body, "duration", NULL);
    int64_t lasts = 0;
    int rc = read_time(body, "endTime", 0, out, e);
    if (!rc && duration && *out)
        rc = error_set(e, ERR_INVALID, "give endTime or duration, not both");
    if (!rc && duration) {
        rc = duration_parse(duration, &lasts);
        if (rc || lasts <= 0)
            return error_set(e, ERR_INVALID, "duration: not a length of time like 90m or 24h");
        *out = start + lasts;
    }
    if (!rc && *out && (*out <= start || *out <= clock_wall_us()))
        rc = error_set(e, ERR_INVALID, "endTime: it ends before it begins, or has ended already");
    return rc;
}

int master_set_message(struct view *v, struct error *e)
{
    const char *message = jget_string(v->rq->body, "message", "");
    int64_t now = clock_wall_us(), start, end;
    if (!*message || strlen(message) > MESSAGE_MAX)
        return error_set(e, ERR_INVALID, "message: give 1 to %d bytes", MESSAGE_MAX);
    int rc = read_time(v->rq->body, "startTime", now, &start, e);
    if (!rc)
        rc = read_end(v->rq->body, start, &end, e);
    if (rc)
        return rc;
    struct db_batch *b = db_batch_new();
    DB_ADD(b, CLUSTER_MESSAGES_DELETE);
    DB_ADD(b, CLUSTER_MESSAGE_INSERT, message, v->rq->principal.user_id, start, end, now);
    return view_commit(v, b, e);
}

int master_delete_message(struct view *v, struct error *e)
{
    struct db_batch *b = db_batch_new();
    DB_ADD(b, CLUSTER_MESSAGES_DELETE);
    return view_commit(v, b, e);
}

int view_telemetry(struct view *v, struct error *e)
{
    (void)e;
    jw_object(&v->w);
    jw_kv_bool(&v->w, "enabled", false);
    jw_kv_string(&v->w, "segmentKey", "");
    jw_object_end(&v->w);
    return 0;
}
