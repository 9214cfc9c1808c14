// The private /run/determined that programs written for Determined expect: a small file system in
// memory, mounted in a mount namespace of the task. It disappears with the last process. The
// supervisor calls these functions before it starts the ranks.
#ifndef MUSTER_AGENT_SUPERVISOR_SANDBOX_H
#define MUSTER_AGENT_SUPERVISOR_SANDBOX_H

#include <jansson.h>

#include "base/error.h"

#define SANDBOX_RUN "/run/determined"

// Moves this process, which has one thread, to a mount namespace; a process that is not root also
// enters a user namespace. Programs see no change yet.
int sandbox_enter(struct error *e);

// Mounts an empty SANDBOX_RUN in that namespace. /tmp stays shared.
int sandbox_mount_run(struct error *e);

// Hides the folders of other tasks, with their tokens and files, and the agent's token
// (`token_file`; NULL: unknown) in that namespace. The folder DIR of the task itself stays visible.
// This does not protect against the same user, who can reach the files through /proc.
int sandbox_hide_others(const char *dir, const char *token_file, struct error *e);

// Writes info/{cluster,trial,resources,rendezvous}.json to /run/determined, and links train/model
// to the working folder of the task in DIR. `spec` is the task's specification (task_spec.h), and
// `env` the environment of its first rank on this machine. Omits a file if `env` lacks its values.
int sandbox_write_info(const char *dir, const json_t *spec, const json_t *env, struct error *e);

#endif
