// The names that submitters give to what they submit (externalExperimentId, externalTaskId). Each
// is unique among those of one kind in one workspace, and says nothing of another workspace. Core
// thread alone; an experiment's name belongs to it until names_forget().
#ifndef MUSTER_MASTER_CORE_NAMES_H
#define MUSTER_MASTER_CORE_NAMES_H

#include "master/core/teams.h"

void names_set(struct core *c, struct experiment *x, const char *text); // it has none yet
void names_forget(struct core *c, struct experiment *x);

// The experiment of that name; NULL: none.
struct experiment *names_find(const struct core *c, const struct workspace *ws, enum kind kind,
                              const char *text);

// Whether it may go to a workspace: ERR_CONFLICT, another has its name there.
int names_check_move(struct core *c, const struct experiment *x, const struct workspace *to,
                     struct error *e);

int names_load(struct core *c, struct error *e); // after the experiments
void names_free(struct core *c);

#endif
