#include "master/teams/authz.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "master/teams/roles.h"

static const struct {
    const char *name;
    enum stmt standing;
    bool by_number;
} things[THINGS] = {
    [THING_WORKSPACE] = {"workspace", STMT_STANDING_WORKSPACE, true},
    [THING_PROJECT] = {"project", STMT_STANDING_PROJECT, true},
    [THING_EXPERIMENT] = {"experiment", STMT_STANDING_EXPERIMENT, true},
    [THING_TRIAL] = {"trial", STMT_STANDING_TRIAL, true},
    [THING_TASK] = {"task", STMT_STANDING_TASK, false},
    [THING_CHECKPOINT] = {"checkpoint", STMT_STANDING_CHECKPOINT, false},
};

static struct db_rows *ask(struct db_reader *db, const struct principal *who, enum thing what,
                           const char *id, struct error *e)
{
    int64_t number;
    if (!things[what].by_number)
        return db_query(db, things[what].standing, "si", id, who->user_id);
    if (request_number(id, &number))
        return db_query(db, things[what].standing, "ii", number, who->user_id);
    error_set(e, ERR_INVALID, "the path: \"%.64s\" is not an integer of 64 bits", id);
    return NULL;
}

static bool started_from(struct db_reader *db, const struct principal *task, const char *uuid)
{
    struct db_rows *rows =
        db_query(db, STMT_EXPERIMENT_STARTED_FROM, "is", task->experiment_id, uuid);
    bool found = db_next(rows) == 1;
    db_rows_close(rows);
    return found;
}

// Of a row of the thing's standing.
static bool sees(const struct principal *who, struct db_rows *rows)
{
    switch (who->kind) {
    case PRINCIPAL_USER:
        return role_may(role_of(who->admin, db_int(rows, 0) == who->user_id, db_text(rows, 2),
                                db_text(rows, 1)),
                        ACT_SEE);
    case PRINCIPAL_TASK:
        return db_int(rows, 3) == who->experiment_id;
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
    return seen ? 0 : error_set(e, ERR_NOT_FOUND, "there is no %s %.128s", things[what].name, id);
}

size_t sight_count(struct db_reader *db, const struct principal *who, enum thing what,
                   struct db_rows *rows, int64_t *first)
{
    size_t count = 0;
    while (db_next(rows) == 1) {
        char id[24];
        snprintf(id, sizeof id, "%lld", (long long)db_int(rows, 0));
        if (sight_check(db, who, what, id, NULL))
            continue;
        if (!count++)
            *first = db_int(rows, 0);
    }
    db_rows_close(rows);
    return count;
}
