// Settings of the whole cluster: the level of the master's log, the message to all users.

#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "master/registry/registry.h"

enum { MESSAGE_MAX = 250 }; // bytes of the message, as in Determined

// Sets the level of the log until the next start. Nothing else can be changed while the master
// runs.
int master_patch_config(struct view *v, struct error *e)
{
    const json_t *config = jget(v->rq->body, "config");
    const char *name = jget_string(jget(config, "log"), "level", NULL);
    enum log_level level;
    if (!name)
        return error_set(e, ERR_INVALID,
                         "config.log.level: missing; only this setting can be changed while the "
                         "master runs");
    if (log_parse_level(name, &level))
        return error_set(e, ERR_INVALID, "config.log.level: must be debug, info, warn or error");
    log_set_level(level);
    log_info("the log level was changed", "level=%s user=%s", name, v->rq->principal.username);
    int rc = view_commit(v, db_batch_new(), e);
    return rc ? rc : view_master_config(v, e);
}

// Reads an RFC 3339 time of the body; `fallback` if the key is missing.
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
            return error_set(e, ERR_INVALID, "duration: not a duration like 90m or 24h");
        *out = start + lasts;
    }
    if (!rc && *out && (*out <= start || *out <= clock_wall_us()))
        rc = error_set(e, ERR_INVALID, "endTime: must be later than startTime and later than now");
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
