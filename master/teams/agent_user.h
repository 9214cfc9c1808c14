// The agentUserGroup of users and workspaces: the account on the agents' machines as which tasks
// run. Agents that do not run as root, and users without an account, use that of the agent. Pure.
#ifndef MUSTER_MASTER_TEAMS_AGENT_USER_H
#define MUSTER_MASTER_TEAMS_AGENT_USER_H

#include <jansson.h>

#include "base/arena.h"
#include "base/error.h"

// A user has all of agentUid, agentUser, agentGid and agentGroup; a workspace may leave out the
// user or the group, or both.
enum agent_user_of { AGENT_USER_OF_USER, AGENT_USER_OF_WORKSPACE };

// Writes the four fields of `group` as JSON text into the arena; "{}": it has none of them.
// ERR_INVALID: it is no object, an id has no name or a name has no id, a name is empty, too long or
// not one of an account, or an id belongs to the system.
int agent_user_read(const json_t *group, enum agent_user_of owner, struct arena *arena,
                    const char **out, struct error *e);

// The account of a task as its agent gets it: {"uid", "gid", "user", "group"}; NULL: none. `user`
// and `workspace`: the texts that are stored for its user and its workspace; "": none. A
// workspace's user or group counts before the user's. A user without a group gets a group of the
// same name and number.
json_t *agent_user_account(const char *user, const char *workspace);

// Whether tasks may run as such an account. ERR_INVALID: it belongs to the system; the text names
// it. NULL: no account.
int agent_user_check_account(const json_t *account, struct error *e);

#endif
