// The live teams: workspaces with their members and projects, as the store has them, and the teams
// of the scheduler that stand for them (cluster -> workspace -> user). Core thread alone; the core
// owns all of it. An experiment's team is that of its user in its project's workspace.
#ifndef MUSTER_MASTER_TEAMS_TEAMS_H
#define MUSTER_MASTER_TEAMS_TEAMS_H

#include "master/kernel/state.h"
#include "master/teams/roles.h"

// The scheduler's team of a user in a workspace; made when there is none yet.
int core_team(struct core *c, int64_t workspace, int64_t user);

// --- what a caller may ---------------------------------------------------------------------------

enum role core_role(const struct request *rq, const struct workspace *ws);

// Whether a queue, or a view of the cluster, may show the caller whose job this is and its name.
bool core_sees(struct core *c, const struct request *rq, const struct experiment *x);

// ERR_FORBIDDEN; ERR_NOT_FOUND where the caller must not even know of it.
int core_may_change(struct core *c, const struct request *rq, const struct experiment *x,
                    struct error *e);
// .. and submit into a project; ERR_CONFLICT: it is archived.
int core_may_submit(struct core *c, const struct request *rq, int64_t project, struct error *e);

// --- life ----------------------------------------------------------------------------------------

struct workspace *workspace_new(struct core *c, int64_t id, int64_t creator, const char *name);
struct project *project_new(struct core *c, int64_t id, struct workspace *ws, const char *name);
struct member *member_of(struct workspace *ws, int64_t user); // made when there is none
void workspace_changed(struct core *c, struct workspace *ws); // it is new, or its part is
void member_changed(struct core *c, const struct member *m);
void workspace_remove(struct core *c, struct workspace *ws); // no experiments are left in it
void project_remove(struct core *c, struct project *p);

#endif
