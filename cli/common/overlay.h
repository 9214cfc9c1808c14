// Changes single values of a YAML text and keeps the rest, comments and layout included.
#ifndef MUSTER_CLI_OVERLAY_H
#define MUSTER_CLI_OVERLAY_H

#include <jansson.h>
#include <stddef.h>

// `text` with the values of `paths` ("trainer.steps") as they are in `wanted`: a scalar is replaced
// where it stands, a new key of the top level goes to the end. A heap string that means exactly
// `wanted`; NULL where such a change does not give it.
char *overlay_text(const char *text, const char *const *paths, size_t count, const json_t *wanted);

#endif
