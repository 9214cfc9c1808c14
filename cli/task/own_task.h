// The task in which the command runs: its environment, its checkpoint storage, and the report
// socket of its supervisor (docs/wire.md, Environment of a task, Reports of programs). Outside of a
// task these functions fail with ERR_STATE. Texts are in the arena.
#ifndef MUSTER_CLI_TASK_OWN_TASK_H
#define MUSTER_CLI_TASK_OWN_TASK_H

#include "base/buf.h"
#include "cli/cli.h"

// The value of an environment variable that every trial has.
int own_task_variable(const char *name, const char **value, struct error *e);

// The folder of the trial's checkpoints, as the task sees it.
int own_task_storage(struct cli *c, const char **folder, struct error *e);

// Sends `count` report lines, which are complete and joined in `lines`, and waits until all are
// stored. Tries again for a while if the machine has no room for them. After ERR_INVALID, ERR_STATE
// and ERR_BUSY a line is not stored; after any other error all of them may be.
int own_task_report(const struct buf *lines, size_t count, struct error *e);

// The newest checkpoint: of this start, or else the one from which it started; NULL: none.
const char *own_task_latest(struct cli *c);
int own_task_set_latest(struct cli *c, const char *uuid, struct error *e);

#endif
