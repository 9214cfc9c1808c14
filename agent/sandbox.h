// The private view of /run/determined that programs made for Determined expect: its folder is the
// task's own `run/`, bound over the machine's in a mount namespace of the task. For the supervisor,
// before it starts the ranks.
#ifndef MUSTER_AGENT_SANDBOX_H
#define MUSTER_AGENT_SANDBOX_H

#include <jansson.h>

#include "base/error.h"

// Writes info/{cluster,trial,resources,rendezvous}.json, and links train/model to the working
// folder, below DIR/run. `env` is the environment of the task's first rank here, `rank_count` the
// number of ranks here. Files for which the environment lacks something are left out.
int sandbox_write_info(const char *dir, const json_t *env, size_t rank_count, struct error *e);

// Moves this process (one thread) to a mount namespace where /run/determined is DIR/run; as root,
// else by a user namespace. /tmp stays shared. An error says what was not permitted; nothing has
// changed then for the programs.
int sandbox_enter(const char *dir, struct error *e);

#endif
