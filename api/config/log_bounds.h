// Warns about log hyperparameters whose bounds are probably values instead of exponents. Pure; any
// thread.
#ifndef MUSTER_API_LOG_BOUNDS_H
#define MUSTER_API_LOG_BOUNDS_H

#include <jansson.h>

// A sentence about the first such hyperparameter of a checked configuration, which names the
// exponents to write and the other ones; NULL: there is none. The caller frees it.
char *log_bounds_warning(const json_t *config);

#endif
