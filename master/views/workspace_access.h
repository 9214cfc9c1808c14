// What a caller may do in a workspace, by the committed store: for handlers that change what the
// core does not keep (models, templates). Any thread that has a view.
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

// ERR_NOT_FOUND: there is no such workspace, for him.
int workspace_access_find(struct view *v, int64_t workspace, struct workspace_access *out,
                          struct error *e);

// That he may put something into it: ERR_NOT_FOUND, ERR_FORBIDDEN, ERR_CONFLICT (archived).
int workspace_access_check_add(struct view *v, int64_t workspace, struct error *e);

#endif
