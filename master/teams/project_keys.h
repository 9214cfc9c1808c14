// Keys of projects: short names for web clients, such as CATS7, unique in the cluster. Core thread
// only.
#ifndef MUSTER_MASTER_TEAMS_PROJECT_KEYS_H
#define MUSTER_MASTER_TEAMS_PROJECT_KEYS_H

#include <jansson.h>

#include "base/limits.h"
#include "master/kernel/state.h"

struct project_key {
    char text[LIMIT_PROJECT_KEY + 1]; // ends with 0
};

// Reads `key` of the body in upper case; "" if there is none. ERR_CONFLICT: another project than
// `self` (NULL: a new one) has it.
int project_key_read(const struct core *c, const json_t *body, const struct project *self,
                     struct project_key *out, struct error *e);

// Draws a free key that begins like the name.
struct project_key project_key_make(const struct core *c, const char *name);

#endif
