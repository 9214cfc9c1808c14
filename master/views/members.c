// The members of a workspace, with what is theirs of it. Ours.

#include "base/log.h"
#include "master/views/views.h"

static void write_member(struct json_writer *w, struct db_rows *rows)
{
    jw_object(w);
    jw_kv_int(w, "userId", db_int(rows, 0));
    jw_kv_string(w, "username", db_text(rows, 1));
    jw_kv_string(w, "role", db_text(rows, 2)); // "": the workspace's default
    jw_kv_double(w, "weight", db_double(rows, 3));
    jw_kv_int(w, "maxSlots", db_int(rows, 4));
    jw_object_end(w);
}

int view_members(struct view *v, struct error *e)
{
    int64_t id;
    int rc = request_param_int(v->rq, 0, &id, e), more;
    if (rc)
        return rc;
    struct db_rows *rows = db_query(v->db, STMT_WORKSPACE_MEMBERS, "i", id);
    jw_object(&v->w);
    jw_key(&v->w, "members");
    jw_array(&v->w);
    while ((more = db_next(rows)) == 1)
        write_member(&v->w, rows);
    jw_array_end(&v->w);
    jw_object_end(&v->w);
    db_rows_close(rows);
    return more < 0 ? store_failed(e) : 0;
}
