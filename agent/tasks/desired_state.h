// What the master wants on this machine: its answer to a sync, checked. Pure.
#ifndef MUSTER_AGENT_TASKS_DESIRED_STATE_H
#define MUSTER_AGENT_TASKS_DESIRED_STATE_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

enum { DESIRED_GRACE_S = 10 }; // SIGTERM to SIGKILL where the master names none

struct desired_task {
    const char *id; // allocation
    bool kill;      // else run
    int64_t grace_s;
    const json_t *json; // the whole entry, for spec_build()
};

struct desired {
    json_t *root; // owns every string here
    int64_t version;
    struct desired_task *tasks;
    size_t count;
    const char **forget; // allocations whose end the master has recorded
    size_t forget_count;
};

// Takes `answer` over, also when it fails. An answer with one fault is refused as a whole: read in
// part it would say that the rest is not wanted. ERR_PEER names the JSON path.
int desired_parse(json_t *answer, struct desired *out, struct error *e);
void desired_free(struct desired *d);

const struct desired_task *desired_find(const struct desired *d, const char *id); // NULL: not there
bool desired_forgets(const struct desired *d, const char *id);

#endif
