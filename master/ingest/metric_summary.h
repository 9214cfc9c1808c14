// What is kept of every metric of a trial beside its reports: count, sum, last, least and greatest.
// It is the wire's summaryMetrics when it is written. Core thread.
#ifndef MUSTER_MASTER_INGEST_METRIC_SUMMARY_H
#define MUSTER_MASTER_INGEST_METRIC_SUMMARY_H

#include "db/metrics/series.h"

struct summary; // opaque

struct summary *summary_new(const char *text); // as it was written; NULL, or no JSON: empty
void summary_free(struct summary *s);

// Takes in the finite numbers of a group's reports. What is not beyond the last step of a metric
// was counted before; of more than LIMIT_METRIC_NAMES metrics the later ones are left out.
void summary_add(struct summary *s, const char *group, const struct series_block *b);

// Calls each() with every metric of a group.
struct summary_value {
    const char *name;
    double last, low, high;
};
size_t summary_each(const struct summary *s, const char *group,
                    void (*each)(void *ctx, const struct summary_value *v), void *ctx); // how many

char *summary_text(const struct summary *s); // JSON, heap

// Calls each() with every group that has changed since the last call.
void summary_each_changed(struct summary *s, void (*each)(void *ctx, const char *group), void *ctx);

#endif
