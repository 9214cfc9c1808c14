// Who may do what in a workspace. Pure, any thread; the http threads ask it for what is read, the
// core for what is changed. Lists ask the same of SQL (SQL_SEEN_WORKSPACES in db/statements), and a
// test sees to it that the two agree.
//
// The roles are a ladder: each may do what those before it may. An administrator of the cluster has
// the highest in every workspace, its creator ROLE_ADMIN, a member his own role, and everybody else
// the workspace's default.
#ifndef MUSTER_MASTER_TEAMS_ROLES_H
#define MUSTER_MASTER_TEAMS_ROLES_H

#include <stdbool.h>

#include "base/error.h"

// The workspace, and its project, of whatever names none. They stay as they are.
enum { UNCATEGORIZED = 1 };

enum role { ROLE_NONE, ROLE_VIEWER, ROLE_EDITOR, ROLE_ADMIN, ROLE_CLUSTER_ADMIN, ROLES };

enum act {
    ACT_SEE,           // the workspace, and all that belongs to it
    ACT_SUBMIT,        // experiments into its projects, models and templates into it
    ACT_CHANGE_OWN,    // what is the caller's own
    ACT_CHANGE_OTHERS, // what is anybody's
    ACT_MANAGE,        // name, default role, members and their weights, projects
    ACT_SET_QUOTA,     // its weight, and guaranteed and most slots, also of a member
    ACTS
};

// "none" "viewer" "editor" "admin", the words of store and wire; of the last one "administrator".
extern const char *const role_words[ROLES];

// The word of the table that equals `text` and is at most `most`; NULL: none is.
const char *role_word(const char *text, enum role most);

// `member`: the word of the caller's membership; NULL or "": he is no member. `fallback`: the
// workspace's default.
enum role role_of(bool cluster_admin, bool creator, const char *member, const char *fallback);

bool role_may(enum role role, enum act act);

// ERR_FORBIDDEN with a sentence that names the workspace, the role it takes and who can grant it.
int role_check(enum role role, enum act act, const char *workspace, struct error *e);

#endif
