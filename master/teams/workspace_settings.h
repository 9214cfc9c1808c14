// Fields of a workspace that only the store keeps: agentUserGroup, checkpointStorageConfig and the
// default pools.
// Core thread only.
#ifndef MUSTER_MASTER_TEAMS_WORKSPACE_SETTINGS_H
#define MUSTER_MASTER_TEAMS_WORKSPACE_SETTINGS_H

#include "master/kernel/state.h"
#include "master/teams/roles.h"

struct workspace_settings { // JSON in the request's arena, names of pools; "": none; NULL: no
                            // change
    const char *agent_user, *storage, *compute_pool, *aux_pool;
};

// Reads the body; an empty object means none. `ws`: a new one has the id 0 and its name and
// creator. ERR_FORBIDDEN: only administrators of the cluster set agentUserGroup, and a folder must
// be one that the administrator allows. ERR_INVALID: there is no such pool, and `ws` had another.
int workspace_settings_read(struct core *c, struct request *rq, const struct workspace *ws,
                            struct workspace_settings *out, struct error *e);

void workspace_settings_store(struct core *c, const struct workspace_settings *s,
                              int64_t workspace);

#endif
