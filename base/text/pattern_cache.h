// A cache of compiled patterns, by their text. It keeps the LIMIT_PATTERNS_CACHED patterns that
// were used last, so that its memory is bounded. One thread at a time.
#ifndef MUSTER_BASE_TEXT_PATTERN_CACHE_H
#define MUSTER_BASE_TEXT_PATTERN_CACHE_H

#include "base/text/pattern.h"

struct pattern_cache; // opaque

struct pattern_cache *pattern_cache_new(void);
void pattern_cache_free(struct pattern_cache *c); // NULL is fine

// Returns the compiled pattern, valid until the next call. NULL: it does not compile, see *e.
const struct pattern *pattern_cache_get(struct pattern_cache *c, const char *text, struct error *e);

#endif
