// The rights of a caller in a workspace, by the committed store, for handlers that change objects
// outside the core's memory (models, templates). Any thread that has a view.
#ifndef MUSTER_MASTER_VIEWS_WORKSPACE_ACCESS_H
#define MUSTER_MASTER_VIEWS_WORKSPACE_ACCESS_H

#include "base/limits.h"
#include "master/http/view.h"
#include "master/teams/roles.h"

struct workspace_access {
    enum role role;
    bool archived;
    char workspace[LIMIT_NAME + 1]; // its name
};

// ERR_NOT_FOUND: the caller can see no such workspace.
int workspace_access_find(struct view *v, int64_t workspace, struct workspace_access *out,
                          struct error *e);

// Checks that the caller may add an object: ERR_NOT_FOUND, ERR_FORBIDDEN, ERR_CONFLICT (archived).
int workspace_access_check_add(struct view *v, int64_t workspace, struct error *e);

#endif
