// Path parameters and checks that the handlers of workspaces and projects share. Core thread only.
#ifndef MUSTER_MASTER_TEAMS_PARAMS_H
#define MUSTER_MASTER_TEAMS_PARAMS_H

#include "master/kernel/state.h"
#include "master/teams/roles.h"

// Finds the workspace of params[0] and sets rq->id. ERR_NOT_FOUND: the caller does not see it;
// ERR_FORBIDDEN: the caller's role does not allow `act`.
int teams_param_workspace(struct core *c, struct request *rq, enum act act, struct workspace **out,
                          struct error *e);
// The same for a project, and ACT_MANAGE in its workspace.
int teams_param_project(struct core *c, struct request *rq, struct project **out, struct error *e);

// ERR_CONFLICT for the workspace and the project of experiments that name none.
int teams_refuse_first(int64_t id, const char *what, const char *verb, struct error *e);

#endif
