// The summary of a trial's metrics: count, sum, last, smallest and largest value of each. Its JSON
// is the summaryMetrics of the API. Core thread.
#ifndef MUSTER_MASTER_INGEST_METRIC_SUMMARY_H
#define MUSTER_MASTER_INGEST_METRIC_SUMMARY_H

#include "db/metrics/series.h"

struct summary; // opaque

struct summary *summary_new(const char *text); // from its JSON; NULL or no JSON: empty
void summary_free(struct summary *s);

// Adds the finite numbers of a group's reports. Steps up to the last step of a metric were counted
// before. Metrics beyond the first LIMIT_METRIC_NAMES are left out.
void summary_add(struct summary *s, const char *group, const struct series_block *b);

// Calls each() for every metric of a group; returns their number.
struct summary_value {
    const char *name;
    double last, low, high;
};
size_t summary_each(const struct summary *s, const char *group,
                    void (*each)(void *ctx, const struct summary_value *v), void *ctx);

char *summary_text(const struct summary *s); // JSON, heap

// Calls each() for every group that has changed since the last call.
void summary_each_changed(struct summary *s, void (*each)(void *ctx, const char *group), void *ctx);

#endif
