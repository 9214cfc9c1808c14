// Keys of configurations that are accepted and kept, but have no effect here: programs run as
// processes of a machine, not in containers. Pure; any thread.
#ifndef MUSTER_API_CONFIG_IGNORED_KEYS_H
#define MUSTER_API_CONFIG_IGNORED_KEYS_H

#include <jansson.h>

#include "base/buf.h"

// Appends the ignored keys that a user has set, "environment.image, resources.shm_size". `written`
// is the configuration without defaults.
void ignored_keys_list(const json_t *written, struct buf *out);

#endif
