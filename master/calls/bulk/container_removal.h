// Deletes workspaces and projects with all experiments and tasks that are in them: those that run
// are killed, then the experiments are deleted, newest first and a few at a time, and at last the
// container itself. A restart of the master goes on with it. A failure leaves DELETE_FAILED and the
// reason; what was deleted is gone, and the caller may try again. Core thread only.
#ifndef MUSTER_MASTER_CALLS_BULK_CONTAINER_REMOVAL_H
#define MUSTER_MASTER_CALLS_BULK_CONTAINER_REMOVAL_H

#include "master/kernel/module.h"

extern const struct core_module container_removal_module;

#endif
