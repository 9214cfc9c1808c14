#include "master/views/workspace_access.h"

#include <stdio.h>

#include "master/views/views.h"

int workspace_access_find(struct view *v, int64_t workspace, struct workspace_access *out,
                          struct error *e)
{
    const struct principal *me = &v->rq->principal;
    struct db_rows *rows = DB_QUERY(v->db, WORKSPACE_AUTHZ, workspace, me->user_id);
    int found = db_next(rows);
    out->role = ROLE_NONE;
    if (found == 1 && me->kind == PRINCIPAL_USER) {
        out->role = role_of(me->admin, DB_GET(rows, WORKSPACE_AUTHZ, creator_id) == me->user_id,
                            DB_GET(rows, WORKSPACE_AUTHZ, role),
                            DB_GET(rows, WORKSPACE_AUTHZ, default_role));
        out->archived = DB_GET(rows, WORKSPACE_AUTHZ, archived);
        snprintf(out->workspace, sizeof out->workspace, "%s", DB_GET(rows, WORKSPACE_AUTHZ, name));
    }
    db_rows_close(rows);
    if (found < 0)
        return store_failed(e);
    if (role_may(out->role, ACT_SEE))
        return 0;
    return error_not_found(e, "workspace", "%lld", (long long)workspace);
}

int workspace_access_check_add(struct view *v, int64_t workspace, struct error *e)
{
    struct workspace_access s;
    int rc = workspace_access_find(v, workspace, &s, e);
    if (!rc)
        rc = role_check(s.role, ACT_SUBMIT, s.workspace, e);
    if (!rc && s.archived)
        rc = error_set(e, ERR_CONFLICT,
                       "workspace \"%.64s\" is archived; unarchive it first, or choose another",
                       s.workspace);
    return rc;
}
