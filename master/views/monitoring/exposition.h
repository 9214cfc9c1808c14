// Writes metrics in the text format 0.0.4 of Prometheus. Pure.
//
//   exposition_family(out, "muster_slots", EXPOSITION_GAUGE, "Slots by pool and state");
//   exposition_sample(out, "muster_slots", LABELS({"pool", name}, {"state", "free"}), 4);
#ifndef MUSTER_MASTER_VIEWS_MONITORING_EXPOSITION_H
#define MUSTER_MASTER_VIEWS_MONITORING_EXPOSITION_H

#include "base/buf.h"
#include "base/histogram.h"

enum exposition_type { EXPOSITION_COUNTER, EXPOSITION_GAUGE, EXPOSITION_HISTOGRAM };

// Opens a family; its samples follow. `help` is one line.
void exposition_family(struct buf *out, const char *name, enum exposition_type type,
                       const char *help);

struct exposition_label {
    const char *name, *value; // any text; it is escaped
};
enum { EXPOSITION_LABELS = 4 };
struct exposition_labels {
    struct exposition_label of[EXPOSITION_LABELS]; // name NULL ends them
};
#define LABELS(...) (&(const struct exposition_labels){{__VA_ARGS__}})

// `labels` NULL: none.
void exposition_sample(struct buf *out, const char *name, const struct exposition_labels *labels,
                       double value);

// The buckets, sum and count of a histogram, in seconds.
void exposition_histogram(struct buf *out, const char *name, const struct exposition_labels *labels,
                          const struct histogram *h);

// A family with one sample without labels.
void exposition_single(struct buf *out, const char *name, enum exposition_type type,
                       const char *help, double value);

#endif
