// Settings of the web page, by user: it keeps and reads them, nobody else.

#include "base/limits.h"
#include "base/log.h"
#include "master/views/views.h"

#include <string.h>

enum { VALUE_MAX = 64 * 1024 };

int settings_get(struct view *v, struct error *e)
{
    struct db_rows *rows = db_query(v->db, STMT_USER_SETTINGS, "i", v->rq->principal.user_id);
    int more;
    jw_object(&v->w);
    jw_key(&v->w, "settings");
    jw_array(&v->w);
    while ((more = db_next(rows)) == 1) {
        jw_object(&v->w);
        jw_kv_string(&v->w, "storagePath", db_text(rows, 0));
        jw_kv_string(&v->w, "key", db_text(rows, 1));
        jw_kv_string(&v->w, "value", db_text(rows, 2));
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
    db_batch_add(b, STMT_USER_SETTING_SET, "isss", v->rq->principal.user_id, path, key, value);
    return 0;
}

int settings_set(struct view *v, struct error *e)
{
    const json_t *settings = jget(v->rq->body, "settings");
    size_t i, more = json_array_size(settings);
    json_t *setting;
    struct db_rows *rows = db_query(v->db, STMT_USER_SETTINGS_COUNT, "i", v->rq->principal.user_id);
    int64_t count = db_next(rows) == 1 ? db_int(rows, 0) : 0;
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
    db_batch_add(b, STMT_USER_SETTINGS_DELETE, "i", v->rq->principal.user_id);
    return view_commit(v, b, e);
}
