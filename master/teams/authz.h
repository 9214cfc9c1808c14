// Whether a caller may know of a thing: by the committed store, so on any thread that has a reader.
// What he may not see is not there for him, with the same words.
#ifndef MUSTER_MASTER_TEAMS_AUTHZ_H
#define MUSTER_MASTER_TEAMS_AUTHZ_H

#include "db/db.h"
#include "master/common/request.h"

enum thing {
    THING_WORKSPACE,
    THING_PROJECT,
    THING_EXPERIMENT,
    THING_TRIAL,
    THING_TASK,
    THING_CHECKPOINT,
    THINGS
};

// `id` as it stands in a path: a number, or the name of a task or checkpoint. ERR_NOT_FOUND,
// ERR_INVALID (not a number), ERR_INTERNAL. Users see what their roles let them see, a running task
// its own experiment and the checkpoint it was started from, agents everything.
int sight_check(struct db_reader *db, const struct principal *who, enum thing what, const char *id,
                struct error *e);

// Counts the ids in column 0 of `rows` that the caller may see, and closes `rows`. *first: the
// first of them. Several things may have one name: a name is unique only among those its maker may
// see.
size_t sight_count(struct db_reader *db, const struct principal *who, enum thing what,
                   struct db_rows *rows, int64_t *first);

#endif
