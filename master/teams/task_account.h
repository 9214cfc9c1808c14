// The account on the agents' machines as which the tasks of an experiment run, read from the store.
// The thread of the reader.
#ifndef MUSTER_MASTER_TEAMS_TASK_ACCOUNT_H
#define MUSTER_MASTER_TEAMS_TASK_ACCOUNT_H

#include <jansson.h>
#include <stdint.h>

#include "db/db.h"

// agent_user_account() of a user in the workspace of a project; the caller owns it. NULL: none.
json_t *task_account_read(struct db_reader *db, int64_t user, int64_t project);

#endif
