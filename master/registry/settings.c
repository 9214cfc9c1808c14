// Settings of the web page, by user; only the page uses them.

#include "base/limits.h"
#include "base/log.h"
#include "master/registry/registry.h"

#include <string.h>

enum { VALUE_MAX = 64 * 1024 };

int settings_get(struct view *v, struct error *e)
{
    struct db_rows *rows = DB_QUERY(v->db, USER_SETTINGS, v->rq->principal.user_id);
    int more;
    jw_object(&v->w);
    jw_key(&v->w, "settings");
    jw_array(&v->w);
    while ((more = db_next(rows)) == 1) {
        jw_object(&v->w);
        jw_kv_string(&v->w, "storagePath", DB_GET(rows, USER_SETTINGS, path));
        jw_kv_string(&v->w, "key", DB_GET(rows, USER_SETTINGS, key));
        jw_kv_string(&v->w, "value", DB_GET(rows, USER_SETTINGS, value));
        jw_object_end(&v->w);
    }
    jw_array_end(&v->w);
    jw_object_end(&v->w);
    db_rows_close(rows);
    return more < 0 ? store_failed(e) : 0;
}

static int add_setting(struct view *v, struct db_batch *b, const json_t *setting, size_t index,
                       struct error *e)
{
    const char *path = jget_string(setting, "storagePath", "");
    const char *key = jget_string(setting, "key", ""), *value = jget_string(setting, "value", "");
    if (!*key || strlen(key) > LIMIT_NAME || strlen(path) > LIMIT_NAME || strlen(value) > VALUE_MAX)
        return error_set(e, ERR_INVALID,
                         "settings.%zu: a key and a storagePath of at most %d bytes, a value of at "
                         "most %d",
                         index, LIMIT_NAME, VALUE_MAX);
    DB_ADD(b, USER_SETTING_SET, v->rq->principal.user_id, path, key, value);
    return 0;
}

int settings_set(struct view *v, struct error *e)
{
    const json_t *settings = jget(v->rq->body, "settings");
    size_t i, more = json_array_size(settings);
    json_t *setting;
    struct db_rows *rows = DB_QUERY(v->db, USER_SETTINGS_COUNT, v->rq->principal.user_id);
    int64_t count = db_next(rows) == 1 ? DB_GET(rows, USER_SETTINGS_COUNT, count) : 0;
    db_rows_close(rows);
    if (!json_is_array(settings))
        return error_set(e, ERR_INVALID, "settings: not a list");
    if (count + (int64_t)more > LIMIT_SETTINGS)
        return error_set(e, ERR_TOO_LARGE, "settings: more than %d of one user", LIMIT_SETTINGS);
    struct db_batch *b = db_batch_new();
    json_array_foreach(settings, i, setting)
    {
        int rc = add_setting(v, b, setting, i, e);
        if (rc) {
            db_batch_free(b);
            return rc;
        }
    }
    return view_commit(v, b, e);
}

int settings_reset(struct view *v, struct error *e)
{
    struct db_batch *b = db_batch_new();
    DB_ADD(b, USER_SETTINGS_DELETE, v->rq->principal.user_id);
    return view_commit(v, b, e);
}
