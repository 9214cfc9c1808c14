// Changes single values of a YAML text and keeps everything else, including comments and layout.
#ifndef MUSTER_CLI_OVERLAY_H
#define MUSTER_CLI_OVERLAY_H

#include <jansson.h>
#include <stddef.h>

// Returns `text` (on the heap) with the values of `paths` ("trainer.steps") taken from `wanted`:
// scalars are replaced in place, new keys of the top level are appended. NULL if the result would
// not mean exactly `wanted`.
char *overlay_text(const char *text, const char *const *paths, size_t count, const json_t *wanted);

// A value as JSON (on the heap) whose numbers have the fewest digits, 15 to 17, that all read back
// equal. `flags` are jansson's.
char *overlay_value(const json_t *value, size_t flags);

#endif
