// The master's own log as a stream of lines. Administrators see all of it. Other users do not see
// lines about experiments that they may not see, and of the other lines only the fields that name
// nobody's objects.

#include "master/common/master_log.h"

#include <string.h>

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
    int64_t after, left;  // left -1: no limit
    struct principal who; // the caller
    bool follows;
};

// --- the part that a user may see ----------------------------------------------------------------

struct log_field {
    const char *text; // "key=value"; the value may be quoted
    size_t len;
};

// Reads the field at *at and moves behind it; false: there is none.
static bool next_field(const char **at, struct log_field *out)
{
    const char *c = *at + strspn(*at, " ");
    bool quoted = false;
    out->text = c;
    for (; *c && (quoted || *c != ' '); c++) {
        if (*c == '\\' && c[1])
            c++;
        else if (*c == '"')
            quoted = !quoted;
    }
    out->len = (size_t)(c - out->text);
    *at = c;
    return out->len;
}

static bool has_key(const struct log_field *f, const char *key)
{
    size_t len = strlen(key);
    return f->len > len && f->text[len] == '=' && !memcmp(f->text, key, len);
}

// Says nothing about the objects of any team.
static bool is_public(const struct log_field *f)
{
    static const char *const keys[] = {"msg",   "version",     "agent", "slots", "level",
                                       "bytes", "connections", "slow",  "open",  "signal"};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        if (has_key(f, keys[i]))
            return true;
    return false;
}

enum log_owner { OF_CLUSTER, OF_CALLER, OF_OTHERS };

static enum log_owner find_owner(const struct principal *who, struct db_reader *db,
                                 const char *text)
{
    struct log_field f;
    char id[24];
    while (next_field(&text, &f)) {
        if (!has_key(&f, "exp"))
            continue;
        snprintf(id, sizeof id, "%.*s", (int)(f.len - strlen("exp=")), f.text + strlen("exp="));
        return authz_check(db, who, AUTHZ_EXPERIMENT, id, NULL) ? OF_OTHERS : OF_CALLER;
    }
    return OF_CLUSTER;
}

// Returns the text that the caller may see; NULL: the line is not shown.
static const char *text_for(const struct principal *who, struct db_reader *db, const char *text,
                            struct arena *arena)
{
    enum log_owner owner = who->admin ? OF_CALLER : find_owner(who, db, text);
    if (owner != OF_CLUSTER)
        return owner == OF_CALLER ? text : NULL;
    char *out = arena_alloc(arena, strlen(text) + 1);
    size_t len = 0;
    for (struct log_field f; next_field(&text, &f);) {
        if (!is_public(&f))
            continue;
        if (len)
            out[len++] = ' ';
        memcpy(out + len, f.text, f.len);
        len += f.len;
    }
    out[len] = '\0';
    return out;
}

// --- the stream ----------------------------------------------------------------------------------

static void write_entry(struct json_writer *w, const struct master_log_entry *entry,
                        const char *text)
{
    static const char *const levels[] = {"LOG_LEVEL_DEBUG", "LOG_LEVEL_INFO", "LOG_LEVEL_WARNING",
                                         "LOG_LEVEL_ERROR"};
    jw_object(w);
    jw_key(w, "result");
    jw_object(w);
    jw_key(w, "logEntry");
    jw_object(w);
    jw_kv_int(w, "id", entry->id);
    jw_kv_string(w, "message", text);
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
    size_t most = j->left < 0 || j->left > ENTRIES_PER_TURN ? ENTRIES_PER_TURN : (size_t)j->left;
    size_t count = master_log_read(j->master_log, j->after, &arena, entries, most);
    for (size_t i = 0; i < count; i++) {
        const char *text = text_for(&j->who, db, entries[i].text, &arena);
        struct json_writer w;
        j->after = entries[i].id;
        if (!text)
            continue;
        jw_init(&w, out);
        write_entry(&w, &entries[i], text);
        buf_puts(out, "\n");
        j->left -= j->left > 0;
    }
    arena_free(&arena);
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
                                    .who = v->rq->principal,
                                    .follows = query_flag(v->query, "follow")};
    j->follower = (struct log_follower){.task_id = "", .stream = &j->stream};
    log_followers_add(j->log_followers,
                      &j->follower); // so that the stream ends when the server stops
    *out = &j->stream;
    return 0;
}
