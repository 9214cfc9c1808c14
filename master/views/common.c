// Functions that most views need.

#include <math.h>
#include <stdio.h>

#include "api/wire.h"
#include "base/clock.h"
#include "master/views/views.h"

int store_failed(struct error *e)
{
    return error_set(e, ERR_INTERNAL, "the store cannot be read; the master's log says more");
}

void write_time(struct json_writer *w, const char *key, int64_t wall_us)
{
    char text[CLOCK_RFC3339_MAX];
    jw_kv_string(w, key, wall_us ? clock_format(wall_us, text) : NULL);
}

void write_bytes(struct json_writer *w, const char *key, double bytes)
{
    char digits[32];
    snprintf(digits, sizeof digits, "%.0f", bytes > 0 ? fmin(bytes, 9e18) : 0);
    jw_kv_string(w, key, digits);
}

void write_pool_name(struct json_writer *w, const char *name)
{
    jw_kv_string(w, "resourcePool", name && *name ? name : DEFAULT_POOL);
}

int write_object_of_row(struct view *v, const char *key, struct db_rows *rows, list_writer *write,
                        struct error *e)
{
    int found = db_next(rows);
    if (found == 1) {
        jw_key(&v->w, key);
        write(&v->w, rows);
    }
    db_rows_close(rows);
    return found < 0    ? store_failed(e)
           : found == 0 ? error_not_found(e, key, "%lld", (long long)v->rq->id)
                        : 0;
}
