// A histogram of durations. Any thread may add to it and read it; a counter is one atomic addition,
// so there is no lock. All histograms have the same bounds, from 0.1 ms to 30 s.
#ifndef MUSTER_BASE_HISTOGRAM_H
#define MUSTER_BASE_HISTOGRAM_H

#include <stdatomic.h>
#include <stdint.h>

enum { HISTOGRAM_BOUNDS = 12 };

// The upper bound of each bucket in microseconds, inclusive; one more bucket has no bound.
extern const int64_t histogram_bounds_us[HISTOGRAM_BOUNDS];

struct histogram { // initialized by zeroing
    atomic_uint_least64_t buckets[HISTOGRAM_BOUNDS + 1];
    atomic_uint_least64_t sum_us;
};

// Counts one duration in microseconds; a negative one counts as 0.
void histogram_add(struct histogram *h, int64_t us);

struct histogram_figures {
    uint64_t up_to[HISTOGRAM_BOUNDS + 1]; // durations up to each bound; the last one counts all
    uint64_t count;
    uint64_t sum_us;
};
// The sum may belong to a moment slightly later than the counts.
void histogram_read(const struct histogram *h, struct histogram_figures *out);

#endif
