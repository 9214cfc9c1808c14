// Commands and generic tasks by the hand of a person; see task_verbs.c. Core thread alone.
#ifndef MUSTER_MASTER_CALLS_TASK_VERBS_H
#define MUSTER_MASTER_CALLS_TASK_VERBS_H

#include "master/kernel/state.h"

// The task of that id, which the caller may change; ERR_NOT_FOUND: none of that kind.
int task_find(struct core *c, const struct request *rq, enum kind kind, const char *id,
              struct experiment **out, struct error *e);

#endif
