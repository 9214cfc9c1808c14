// Deletes workspaces and projects with all experiments and tasks that are in them: those that run
// are killed, then the experiments are deleted, newest first and a few at a time, and at last the
// workspace or project itself. A restart of the master continues the deletion. A failure leaves the
// state DELETE_FAILED and the reason; experiments that were deleted before stay deleted, and the
// caller may try again. Core thread only.
#ifndef MUSTER_MASTER_CALLS_BULK_WORKSPACE_REMOVAL_H
#define MUSTER_MASTER_CALLS_BULK_WORKSPACE_REMOVAL_H

#include "master/kernel/module.h"

extern const struct core_module workspace_removal_module;

#endif
