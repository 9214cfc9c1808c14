// The task in which the command runs: its environment, and the report socket of its supervisor
// (docs/wire.md, Environment of a task, Reports of programs). Outside of a task these functions
// fail with ERR_STATE.
#ifndef MUSTER_CLI_TASK_OWN_TASK_H
#define MUSTER_CLI_TASK_OWN_TASK_H

#include <stddef.h>

#include "base/buf.h"
#include "base/error.h"

// The value of an environment variable that every trial has.
int own_task_variable(const char *name, const char **value, struct error *e);

// Sends `count` report lines, which are complete and joined in `lines`, and waits until all are
// stored. Tries again for a while if the machine has no room for them. After ERR_INVALID, ERR_STATE
// and ERR_BUSY a line is not stored; after any other error all of them may be.
int own_task_report(const struct buf *lines, size_t count, struct error *e);

#endif
