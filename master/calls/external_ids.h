// External ids (externalExperimentId, externalTaskId), which submitters give to experiments and
// tasks. An external id is unique among those of one kind in one workspace. Core thread alone; an
// experiment keeps its external id until external_id_forget().
#ifndef MUSTER_MASTER_CALLS_EXTERNAL_IDS_H
#define MUSTER_MASTER_CALLS_EXTERNAL_IDS_H

#include "master/teams/teams.h"

void external_id_set(struct core *c, struct experiment *x,
                     const char *text); // the experiment must have none
void external_id_forget(struct core *c, struct experiment *x);

// Returns the experiment with that external id; NULL: none.
struct experiment *external_id_find(const struct core *c, const struct workspace *ws,
                                    enum kind kind, const char *text);

// Checks that the experiment may move to a workspace. ERR_CONFLICT: another has its external id
// there.
int external_id_check_move(struct core *c, const struct experiment *x, const struct workspace *to,
                           struct error *e);

#endif
