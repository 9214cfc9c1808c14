// Authorization of reads: decides from the committed store whether a caller may see an object, on
// any thread that has a reader. An object that the caller may not see is reported in the same words
// as one that does not exist.
//
// The same rule (roles.h) applies at every door: authz_check() for the object of a path, called by
// auth_check_object() before a handler runs; view_authorize() for objects of a query or body, which
// streams check again; list_filter_visible() and SQL_BRIEF_VISIBLE for lists; can_see_event() for
// events; core_sees() and core_may_change() on the core thread.
#ifndef MUSTER_MASTER_TEAMS_AUTHZ_H
#define MUSTER_MASTER_TEAMS_AUTHZ_H

#include "db/db.h"
#include "master/common/request.h"

enum authz_object {
    AUTHZ_WORKSPACE,
    AUTHZ_PROJECT,
    AUTHZ_EXPERIMENT,
    AUTHZ_TRIAL,
    AUTHZ_TASK,
    AUTHZ_CHECKPOINT,
    AUTHZ_OBJECTS
};

// `id` is the part of the path: a number, a task id or the UUID of a checkpoint. ERR_NOT_FOUND,
// ERR_INVALID (not a number), ERR_INTERNAL. A user sees what the user's roles allow, a task sees
// its own experiment and the checkpoint that it started from, and an agent sees everything.
int authz_check(struct db_reader *db, const struct principal *who, enum authz_object what,
                const char *id, struct error *e);

// Counts the ids in column 0 of `rows` that the caller may see, and closes `rows`. *first: the
// first of them. Several objects may have the same name, because a name is unique only among those
// that its creator may see.
size_t authz_count_visible(struct db_reader *db, const struct principal *who,
                           enum authz_object what, struct db_rows *rows, int64_t *first);

#endif
