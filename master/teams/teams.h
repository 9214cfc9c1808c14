// Workspaces with their members and projects, as in the store, and the scheduler's teams that
// represent them (cluster -> workspace -> user). Core thread only; the core owns all of them. The
// team of an experiment is the team of its user in the workspace of its project.
#ifndef MUSTER_MASTER_TEAMS_TEAMS_H
#define MUSTER_MASTER_TEAMS_TEAMS_H

#include "master/kernel/state.h"
#include "master/teams/roles.h"

// Returns the scheduler's team of a user in a workspace; creates it if necessary.
int core_team(struct core *c, int64_t workspace, int64_t user);

// --- authorization ---------------------------------------------------------------------------

enum role core_role(const struct request *rq, const struct workspace *ws);

// Returns whether the queue and the cluster views may show the caller this job's owner and name.
bool core_sees(struct core *c, const struct request *rq, const struct experiment *x);

// ERR_FORBIDDEN; ERR_NOT_FOUND if the caller may not see the experiment.
int core_may_change(struct core *c, const struct request *rq, const struct experiment *x,
                    struct error *e);
// The same for a submission into a project; ERR_STATE: the project is archived.
int core_may_submit(struct core *c, const struct request *rq, int64_t project, struct error *e);

// --- life ----------------------------------------------------------------------------------------

struct workspace *workspace_new(struct core *c, int64_t id, int64_t creator, const char *name);
struct project *project_new(struct core *c, int64_t id, struct workspace *ws, const char *name);
struct member *member_of(struct workspace *ws, int64_t user); // creates it if necessary
void workspace_changed(struct core *c, struct workspace *ws); // new, or its share changed
void member_changed(struct core *c, const struct member *m);
void workspace_remove(struct core *c, struct workspace *ws); // it must have no experiments
void project_remove(struct core *c, struct project *p);

// --- deletion, with all that is in it ------------------------------------------------------------

enum deletion_state { DELETION_NONE, DELETION_RUNNING, DELETION_FAILED };
extern const char *const deletion_states[]; // their words in the store

// The experiments are gone. ERR_STATE: the workspace holds models.
int workspace_deletion_finish(struct core *c, struct workspace *ws, struct error *e);
void project_deletion_finish(struct core *c, struct project *p);
// Something cannot be deleted; the container stays, and shows why.
void workspace_deletion_failed(struct core *c, struct workspace *ws, const char *why);
void project_deletion_failed(struct core *c, struct project *p, const char *why);

#endif
