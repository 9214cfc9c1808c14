// The free metadata of a run: facts that a program stores about its trial. Agents check them when
// the program reports them, the master when it stores them. Pure; any thread.
#ifndef MUSTER_API_RUN_METADATA_H
#define MUSTER_API_RUN_METADATA_H

#include <jansson.h>

#include "base/error.h"

// Checks the limits (LIMIT_METADATA_*): number of values, nesting, bytes of keys and texts, and
// elements of lists. ERR_INVALID names the key or the limit; also if it is no object, or NULL.
int run_metadata_check(const json_t *metadata, struct error *e);

#endif
