// The private view of /run/determined that programs made for Determined expect: a small file system
// in memory over the machine's, in a mount namespace of the task; it goes with the last process.
// For the supervisor, before it starts the ranks.
#ifndef MUSTER_AGENT_SUPERVISOR_SANDBOX_H
#define MUSTER_AGENT_SUPERVISOR_SANDBOX_H

#include <jansson.h>

#include "base/error.h"

// Moves this process (one thread) to a mount namespace where /run/determined is empty; as root,
// else by a user namespace. /tmp stays shared. An error says what was not permitted; nothing has
// changed then for the programs.
int sandbox_enter(struct error *e);

// Hides the folders of other tasks (with their tokens and files) and the agent's token in that
// namespace. `token_file`: NULL: unknown. The task in DIR sees its own folder at its usual place.
// This is no wall: the same user can still reach the files by /proc.
int sandbox_hide_others(const char *dir, const char *token_file, struct error *e);

// Writes info/{cluster,trial,resources,rendezvous}.json there, and links train/model to the working
// folder of the task in DIR. `env` is the environment of the task's first rank here, `rank_count`
// the number of ranks here. Files for which the environment lacks something are left out.
int sandbox_write_info(const char *dir, const json_t *env, size_t rank_count, struct error *e);

#endif
