// The roles of a workspace and the actions that they allow. Pure, any thread: the http threads
// check reads with it, the core checks changes. Lists apply the same rule in SQL
// (SQL_SEEN_WORKSPACES in db/statements), and a test compares the two.
//
// Each role includes the rights of all lower roles. An administrator of the cluster has the highest
// role in every workspace, the creator of a workspace is ROLE_ADMIN in it, a member has the role of
// the membership, and everybody else has the workspace's default role.
#ifndef MUSTER_MASTER_TEAMS_ROLES_H
#define MUSTER_MASTER_TEAMS_ROLES_H

#include <stdbool.h>

#include "base/error.h"

// The id of the workspace, and of its project, for submissions that name none. Both are immutable.
enum { UNCATEGORIZED = 1 };

enum role { ROLE_NONE, ROLE_VIEWER, ROLE_EDITOR, ROLE_ADMIN, ROLE_CLUSTER_ADMIN, ROLES };

enum act {
    ACT_SEE,            // the workspace and everything in it
    ACT_SUBMIT,         // add experiments, models and templates
    ACT_CHANGE_OWN,     // change the caller's own objects
    ACT_CHANGE_OTHERS,  // change the objects of other users
    ACT_MANAGE,         // change name, default role, members with their weights, projects
    ACT_SET_AGENT_USER, // change agentUserGroup
    ACT_SET_QUOTA,      // change weights, guaranteed and maximum slots, also of a member
    ACTS
};

// The words of the store and the API: "none" "viewer" "editor" "admin"; the last is
// "administrator".
extern const char *const role_words[ROLES];

// Returns the word of the table that equals `text`, if its role is at most `highest`; else NULL.
const char *role_word(const char *text, enum role highest);

// `member`: the role word of the caller's membership; NULL or "": the caller is no member.
// `fallback`: the workspace's default role.
enum role role_of(bool cluster_admin, bool creator, const char *member, const char *fallback);

bool role_may(enum role role, enum act act);

// ERR_FORBIDDEN; the text names the workspace, the role that is needed, and who can grant it.
int role_check(enum role role, enum act act, const char *workspace, struct error *e);

#endif
