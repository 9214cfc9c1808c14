// The specification of a task on this machine (in task.json): what the master wants, completed with
// what this machine knows. Pure functions; any thread.
//
//   {allocationId, taskId, agentId, containerId, contextUrl, native, graceSeconds, tokenFile, argv,
//    env: {K: V of all ranks}, ranks: [{rank, env: {K: V}}]}
//
// A rank's environment is `env` with its own on top; nothing else is inherited. Later wins: HOME,
// PATH and LANG of the agent; the master's; what this machine knows (slots, devices, ranks).
#ifndef MUSTER_AGENT_TASKS_TASK_SPEC_H
#define MUSTER_AGENT_TASKS_TASK_SPEC_H

#include <jansson.h>

#include "agent/slots.h"
#include "agent/tasks/desired_state.h"
#include "base/error.h"

struct spec_place {
    const char *agent_id;
    const struct slots *slots;
    const char *dir;         // the task's folder
    const char *program_dir; // where programs of Muster itself lie
    const char *home, *path, *lang;
    const char *token_file; // to be hidden from the task; NULL: it is not known
};

// ERR_PEER: a slot that is not on this machine.
int spec_build(const struct desired_task *task, const struct spec_place *place, json_t **out,
               struct error *e);

// The environment of one of spec's ranks: {K: V}, the caller's.
json_t *spec_environment(const json_t *spec, const json_t *rank);

#endif
