#include "master/teams/authz.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "master/common/task_id.h"
#include "master/teams/roles.h"

static const char *const nouns[AUTHZ_OBJECTS] = {
    [AUTHZ_WORKSPACE] = "workspace", [AUTHZ_PROJECT] = "project", [AUTHZ_EXPERIMENT] = "experiment",
    [AUTHZ_TRIAL] = "trial",         [AUTHZ_TASK] = "task",       [AUTHZ_CHECKPOINT] = "checkpoint",
};

static struct db_rows *query_roles(struct db_reader *db, const struct principal *who,
                                   enum authz_object what, const char *id, struct error *e)
{
    int64_t number;
    char first[TASK_ID];
    if (what == AUTHZ_TASK)
        return DB_QUERY(db, AUTHZ_TASK, task_id_first(id, first), who->user_id, task_id_number(id));
    if (what == AUTHZ_CHECKPOINT)
        return DB_QUERY(db, AUTHZ_CHECKPOINT, id, who->user_id);
    if (!request_number(id, &number)) {
        error_set(e, ERR_INVALID, "the path: \"%.64s\" is not an integer of 64 bits", id);
        return NULL;
    }
    if (what == AUTHZ_WORKSPACE)
        return DB_QUERY(db, AUTHZ_WORKSPACE, number, who->user_id);
    if (what == AUTHZ_PROJECT)
        return DB_QUERY(db, AUTHZ_PROJECT, number, who->user_id);
    return what == AUTHZ_EXPERIMENT ? DB_QUERY(db, AUTHZ_EXPERIMENT, number, who->user_id)
                                    : DB_QUERY(db, AUTHZ_TRIAL, number, who->user_id);
}

static bool started_from(struct db_reader *db, const struct principal *task, const char *uuid)
{
    struct db_rows *rows = DB_QUERY(db, EXPERIMENT_STARTED_FROM, task->experiment_id, uuid);
    bool found = db_next(rows) == 1;
    db_rows_close(rows);
    return found;
}

// `rows` holds the caller's role in the workspace of the object.
static bool row_is_visible(const struct principal *who, struct db_rows *rows)
{
    switch (who->kind) {
    case PRINCIPAL_USER:
        return role_may(role_of(who->admin, DB_GET(rows, AUTHZ, creator_id) == who->user_id,
                                DB_GET(rows, AUTHZ, role), DB_GET(rows, AUTHZ, default_role)),
                        ACT_SEE);
    case PRINCIPAL_TASK:
        return DB_GET(rows, AUTHZ, experiment_id) == who->experiment_id;
    case PRINCIPAL_AGENT:
        return true;
    case PRINCIPAL_NONE:
        break;
    }
    return false;
}

int authz_check(struct db_reader *db, const struct principal *who, enum authz_object what,
                const char *id, struct error *e)
{
    struct db_rows *rows = query_roles(db, who, what, id, e);
    if (!rows)
        return ERR_INVALID;
    int found = db_next(rows);
    bool seen = found == 1 && row_is_visible(who, rows);
    db_rows_close(rows);
    if (found < 0)
        return error_set(e, ERR_INTERNAL, "the store cannot be read; the master's log says more");
    if (!seen && who->kind == PRINCIPAL_TASK && what == AUTHZ_CHECKPOINT)
        seen = started_from(db, who, id);
    return seen ? 0 : error_not_found(e, nouns[what], "%.128s", id);
}

size_t authz_count_visible(struct db_reader *db, const struct principal *who,
                           enum authz_object what, struct db_rows *rows, int64_t *first)
{
    size_t count = 0;
    while (db_next(rows) == 1) {
        char id[24];
        snprintf(id, sizeof id, "%lld", (long long)DB_GET(rows, ID, id));
        if (authz_check(db, who, what, id, NULL))
            continue;
        if (!count++)
            *first = DB_GET(rows, ID, id);
    }
    db_rows_close(rows);
    return count;
}
