// The private /run/determined that programs written for Determined expect: a small file system in
// memory, mounted in the mount namespace of the task. It disappears with the last process. The
// task's first process calls these functions (isolation/task_view.h).
#ifndef MUSTER_AGENT_ISOLATION_SANDBOX_H
#define MUSTER_AGENT_ISOLATION_SANDBOX_H

#include <jansson.h>

#include "agent/isolation/account.h"
#include "base/error.h"

#define SANDBOX_RUN "/run/determined"

// Enters a user namespace if this process, which has one thread, is not root: only there it may
// make other namespaces. It keeps its user and group id.
int sandbox_enter_user_namespace(struct error *e);

// Moves this process to a mount namespace of its own. Programs see no change yet.
int sandbox_enter_mount_namespace(struct error *e);

// Mounts an empty SANDBOX_RUN, which belongs to `account` if that is switched.
int sandbox_mount_run(const struct task_account *account, struct error *e);

// Writes info/{cluster,trial,resources,rendezvous}.json to /run/determined, and links train/model
// to the working folder of the task in DIR. `spec` is the task's specification (task_spec.h), and
// `env` the environment of its first rank on this machine. Omits a file if `env` lacks its values.
// All of it belongs to `account`.
int sandbox_write_info(const char *dir, const json_t *spec, const json_t *env,
                       const struct task_account *account, struct error *e);

#endif
