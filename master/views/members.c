// The members of a workspace, with their roles, weights and slot limits. Determined has no such
// call.

#include "base/log.h"
#include "master/views/views.h"

static void write_member(struct json_writer *w, struct db_rows *rows)
{
    jw_object(w);
    jw_kv_int(w, "userId", DB_GET(rows, WORKSPACE_MEMBERS, user_id));
    jw_kv_string(w, "username", DB_GET(rows, WORKSPACE_MEMBERS, username));
    jw_kv_string(w, "role",
                 DB_GET(rows, WORKSPACE_MEMBERS, role)); // "": the default role of the workspace
    jw_kv_double(w, "weight", DB_GET(rows, WORKSPACE_MEMBERS, weight));
    jw_kv_int(w, "maxSlots", DB_GET(rows, WORKSPACE_MEMBERS, max_slots));
    jw_object_end(w);
}

int view_members(struct view *v, struct error *e)
{
    int64_t id;
    int rc = request_param_int(v->rq, 0, &id, e), more;
    if (rc)
        return rc;
    struct db_rows *rows = DB_QUERY(v->db, WORKSPACE_MEMBERS, id);
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
