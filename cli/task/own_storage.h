// The checkpoint storage of the task in which the command runs, and the newest checkpoint in it.
// Outside of a task these functions fail with ERR_STATE. Texts are in the arena.
#ifndef MUSTER_CLI_TASK_OWN_STORAGE_H
#define MUSTER_CLI_TASK_OWN_STORAGE_H

#include "cli/cli.h"

// The folder of the trial's checkpoints, as the task sees it.
int own_task_storage(struct cli *c, const char **folder, struct error *e);

// The folder in the storage into which a checkpoint is written before it is complete. It belongs to
// this start of the task; folders that its earlier starts have left behind are removed.
int own_task_temporary(struct cli *c, const char *storage, const char *uuid, const char **folder,
                       struct error *e);

// The newest checkpoint: of this start, or else the one from which it started; NULL: none.
const char *own_task_latest(struct cli *c);
int own_task_set_latest(const char *uuid, struct error *e);

#endif
