#include "master/teams/authz.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "master/teams/roles.h"

static const char *const nouns[THINGS] = {
    [THING_WORKSPACE] = "workspace", [THING_PROJECT] = "project", [THING_EXPERIMENT] = "experiment",
    [THING_TRIAL] = "trial",         [THING_TASK] = "task",       [THING_CHECKPOINT] = "checkpoint",
};

static struct db_rows *ask(struct db_reader *db, const struct principal *who, enum thing what,
                           const char *id, struct error *e)
{
    int64_t number;
    if (what == THING_TASK)
        return DB_QUERY(db, AUTHZ_TASK, id, who->user_id);
    if (what == THING_CHECKPOINT)
        return DB_QUERY(db, AUTHZ_CHECKPOINT, id, who->user_id);
    if (!request_number(id, &number)) {
        error_set(e, ERR_INVALID, "the path: \"%.64s\" is not an integer of 64 bits", id);
        return NULL;
    }
    if (what == THING_WORKSPACE)
        return DB_QUERY(db, AUTHZ_WORKSPACE, number, who->user_id);
    if (what == THING_PROJECT)
        return DB_QUERY(db, AUTHZ_PROJECT, number, who->user_id);
    return what == THING_EXPERIMENT ? DB_QUERY(db, AUTHZ_EXPERIMENT, number, who->user_id)
                                    : DB_QUERY(db, AUTHZ_TRIAL, number, who->user_id);
}

static bool started_from(struct db_reader *db, const struct principal *task, const char *uuid)
{
    struct db_rows *rows = DB_QUERY(db, EXPERIMENT_STARTED_FROM, task->experiment_id, uuid);
    bool found = db_next(rows) == 1;
    db_rows_close(rows);
    return found;
}

// Of a row of the thing's standing.
static bool sees(const struct principal *who, struct db_rows *rows)
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

int sight_check(struct db_reader *db, const struct principal *who, enum thing what, const char *id,
                struct error *e)
{
    struct db_rows *rows = ask(db, who, what, id, e);
    if (!rows)
        return ERR_INVALID;
    int found = db_next(rows);
    bool seen = found == 1 && sees(who, rows);
    db_rows_close(rows);
    if (found < 0)
        return error_set(e, ERR_INTERNAL, "the store cannot be read; the master's log says more");
    if (!seen && who->kind == PRINCIPAL_TASK && what == THING_CHECKPOINT)
        seen = started_from(db, who, id);
    return seen ? 0 : error_set(e, ERR_NOT_FOUND, "there is no %s %.128s", nouns[what], id);
}

size_t sight_count(struct db_reader *db, const struct principal *who, enum thing what,
                   struct db_rows *rows, int64_t *first)
{
    size_t count = 0;
    while (db_next(rows) == 1) {
        char id[24];
        snprintf(id, sizeof id, "%lld", (long long)DB_GET(rows, ID, id));
        if (sight_check(db, who, what, id, NULL))
            continue;
        if (!count++)
            *first = DB_GET(rows, ID, id);
    }
    db_rows_close(rows);
    return count;
}
