// The script startup-hook.sh of a task's files. It runs once on each machine before the program,
// with the environment of the machine's first rank, as Determined's containers run it. Variables
// that it exports reach the ranks. The first command that fails ends it. Belongs to the
// supervisor's thread.
#ifndef MUSTER_AGENT_SUPERVISOR_STARTUP_HOOK_H
#define MUSTER_AGENT_SUPERVISOR_STARTUP_HOOK_H

#include <jansson.h>

#include "agent/supervisor/rank_process.h"

#define STARTUP_HOOK "startup-hook.sh"

bool startup_hook_exists(const char *dir); // among the files of the task in DIR

// Starts it as the process `hook`. At a success it leaves its environment in the file *env_fd,
// which the caller closes.
int startup_hook_start(struct rank_process *hook, const char *dir, const json_t *spec, int *env_fd,
                       struct error *e);

// Adds what the script has exported to the environment of all ranks in `spec`. An empty file
// changes nothing: the script has ended the shell by itself.
int startup_hook_apply(int env_fd, json_t *spec, struct error *e);

#endif
