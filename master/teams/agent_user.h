// The agentUserGroup of users and workspaces: the account that tasks would have on a machine. It is
// stored and shown because scripts set it; tasks run as the account of their agent. Pure.
#ifndef MUSTER_MASTER_TEAMS_AGENT_USER_H
#define MUSTER_MASTER_TEAMS_AGENT_USER_H

#include <jansson.h>

#include "base/arena.h"
#include "base/error.h"

// A user has all of agentUid, agentUser, agentGid and agentGroup; a workspace may leave out the
// user or the group, or both.
enum agent_user_of { AGENT_USER_OF_USER, AGENT_USER_OF_WORKSPACE };

// Writes the four fields of `group` as JSON text into the arena; "{}": it has none of them.
// ERR_INVALID: it is no object, an id has no name or a name has no id, or a name is empty or too
// long.
int agent_user_read(const json_t *group, enum agent_user_of owner, struct arena *arena,
                    const char **out, struct error *e);

#endif
