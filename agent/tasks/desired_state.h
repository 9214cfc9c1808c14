// The desired state: the tasks that the master wants on this machine, from its checked response.
// Pure.
#ifndef MUSTER_AGENT_TASKS_DESIRED_STATE_H
#define MUSTER_AGENT_TASKS_DESIRED_STATE_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

enum { DESIRED_DEFAULT_GRACE_S = 10 }; // from SIGTERM to SIGKILL if the master gives no time

struct desired_task {
    const char *id; // allocation
    bool kill;      // otherwise run it
    int64_t grace_s;
    const json_t *json; // the complete entry
};

struct desired_state {
    json_t *root; // owns every string here
    int64_t version;
    struct desired_task *tasks;
    size_t count;
    const char **forget; // allocations whose end the master has recorded
    size_t forget_count;
};

// Takes ownership of `answer`, also on failure. A fault makes the whole answer invalid, because a
// task that is missing in the desired state is ended. ERR_PEER names the JSON path.
int desired_state_parse(json_t *answer, struct desired_state *out, struct error *e);
void desired_state_free(struct desired_state *d);

// NULL: it has no such task.
const struct desired_task *desired_state_find(const struct desired_state *d, const char *id);
bool desired_state_forgets(const struct desired_state *d, const char *id);

#endif
