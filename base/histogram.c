#include "base/histogram.h"

const int64_t histogram_bounds_us[HISTOGRAM_BOUNDS] = {
    100, 250, 1000, 2500, 10000, 25000, 100000, 250000, 1000000, 2500000, 10000000, 30000000};

void histogram_add(struct histogram *h, int64_t us)
{
    int i = 0;
    if (us < 0)
        us = 0;
    while (i < HISTOGRAM_BOUNDS && us > histogram_bounds_us[i])
        i++;
    atomic_fetch_add_explicit(&h->buckets[i], 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&h->sum_us, (uint64_t)us, memory_order_relaxed);
}

void histogram_read(const struct histogram *h, struct histogram_figures *out)
{
    uint64_t count = 0;
    for (int i = 0; i <= HISTOGRAM_BOUNDS; i++) {
        count += atomic_load_explicit(&h->buckets[i], memory_order_relaxed);
        out->up_to[i] = count;
    }
    out->count = count;
    out->sum_us = atomic_load_explicit(&h->sum_us, memory_order_relaxed);
}
