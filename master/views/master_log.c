// The master's own log as a stream of lines.

#include "master/common/master_log.h"
#include "base/clock.h"
#include "master/notify/log_followers.h"
#include "master/views/views.h"

enum {
    POLL_US = 250 * 1000,
    ENTRIES_PER_TURN = 64, // read at a time
};

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

static enum stream_turn fill_master_log(struct stream *s, struct db_reader *db, struct buf *out)
{
    struct master_log_stream *j = (struct master_log_stream *)s;
    struct master_log_entry entries[ENTRIES_PER_TURN];
    struct arena arena = {0};
    (void)db;
    size_t most = j->left < 0 || j->left > ENTRIES_PER_TURN ? ENTRIES_PER_TURN : (size_t)j->left;
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
    s->wait_until = clock_mono_us() + POLL_US;
    return STREAM_WAIT;
}

static void close_master_log(struct stream *s)
{
    struct master_log_stream *j = (struct master_log_stream *)s;
    log_followers_remove(j->log_followers, &j->follower);
}

// offset: the number of lines to skip; negative: the number of last lines to show.
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
    *j = (struct master_log_stream){.stream = {.fill = fill_master_log, .close = close_master_log},
                                    .log_followers = v->service->log_followers,
                                    .master_log = v->service->master_log,
                                    .after = offset < 0 ? newest + offset : before + offset,
                                    .left = limit > 0 ? limit : -1,
                                    .follows = query_flag(v->query, "follow")};
    j->follower = (struct log_follower){.task_id = "", .stream = &j->stream};
    log_followers_add(j->log_followers,
                      &j->follower); // so that the stream ends when the server stops
    *out = &j->stream;
    return 0;
}
