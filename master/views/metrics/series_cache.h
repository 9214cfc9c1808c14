// Answers of charts that were thinned before: the same question again, while there is nothing new
// to see, is a copy. At most SERIES_CACHE_BYTES; those that were not asked for longest go first.
// Any thread.
#ifndef MUSTER_MASTER_VIEWS_SERIES_CACHE_H
#define MUSTER_MASTER_VIEWS_SERIES_CACHE_H

#include "db/metrics/reports.h"

enum { SERIES_CACHE_ENTRIES = 256, SERIES_CACHE_BYTES = 8 << 20 };

struct series_cache; // opaque

struct series_cache *series_cache_new(void);
void series_cache_free(struct series_cache *c);

// `key` says what is asked. A copy in the arena; NULL: not there, or of another version.
const char *series_cache_get(struct series_cache *c, const char *key,
                             const struct reports_version *version, struct arena *a);
void series_cache_put(struct series_cache *c, const char *key,
                      const struct reports_version *version, const char *answer);

#endif
