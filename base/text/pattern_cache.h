// A cache of compiled patterns, by their text. It keeps the LIMIT_PATTERNS_KEPT patterns used last,
// so memory stays bounded however many patterns users write. One thread at a time.
#ifndef MUSTER_BASE_TEXT_PATTERN_CACHE_H
#define MUSTER_BASE_TEXT_PATTERN_CACHE_H

#include "base/text/pattern.h"

struct pattern_cache; // opaque

struct pattern_cache *pattern_cache_new(void);
void pattern_cache_free(struct pattern_cache *k); // NULL is fine

// The pattern, valid until the next call; NULL: it does not compile, *e says why.
const struct pattern *pattern_cache_get(struct pattern_cache *k, const char *text, struct error *e);

#endif
