// Deleting an experiment (removal.c). Core thread alone.
#ifndef MUSTER_MASTER_CALLS_REMOVAL_H
#define MUSTER_MASTER_CALLS_REMOVAL_H

#include "master/kernel/state.h"

// Begins to delete an experiment that has ended. ERR_CONFLICT: it has not ended; or a model, or an
// active experiment, needs one of its checkpoints.
int removal_begin(struct core *c, struct experiment *x, struct error *e);

#endif
