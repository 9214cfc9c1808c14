// A cache of compiled patterns, by their text. It keeps the LIMIT_PATTERNS_KEPT patterns used last,
// so memory stays bounded however many patterns users write. One thread at a time.
#ifndef MUSTER_BASE_PATTERNS_H
#define MUSTER_BASE_PATTERNS_H

#include "base/pattern.h"

struct patterns; // opaque

struct patterns *patterns_new(void);
void patterns_free(struct patterns *k); // NULL is fine

// The pattern, valid until the next call; NULL: it does not compile, *e says why.
const struct pattern *patterns_find(struct patterns *k, const char *text, struct error *e);

#endif
