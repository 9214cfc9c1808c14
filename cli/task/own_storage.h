// The checkpoint storage of the task in which the command runs, and the newest checkpoint in it.
// Outside of a task these functions fail with ERR_STATE. Texts are in the arena.
#ifndef MUSTER_CLI_TASK_OWN_STORAGE_H
#define MUSTER_CLI_TASK_OWN_STORAGE_H

#include "cli/cli.h"

// The folder of the trial's checkpoints, as the task sees it.
int own_task_storage(struct cli *c, const char **folder, struct error *e);

// The newest checkpoint: of this start, or else the one from which it started; NULL: none.
const char *own_task_latest(struct cli *c);
int own_task_set_latest(struct cli *c, const char *uuid, struct error *e);

#endif
