// A cache of downsampled series. It holds at most SERIES_CACHE_BYTES; the least recently used
// entries are removed first. An entry is valid until new reports arrive. Any thread.
#ifndef MUSTER_MASTER_VIEWS_METRICS_SERIES_CACHE_H
#define MUSTER_MASTER_VIEWS_METRICS_SERIES_CACHE_H

#include "db/metrics/reports.h"

enum { SERIES_CACHE_ENTRIES = 256, SERIES_CACHE_BYTES = 8 << 20 };

struct series_cache;

struct series_cache *series_cache_new(void);
void series_cache_free(struct series_cache *c);

// `key` identifies the request. Returns a copy in the arena; NULL if there is no entry of this
// version.
const char *series_cache_get(struct series_cache *c, const char *key,
                             const struct reports_version *version, struct arena *a);
void series_cache_put(struct series_cache *c, const char *key,
                      const struct reports_version *version, const char *answer);

#endif
