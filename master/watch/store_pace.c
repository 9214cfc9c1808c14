#include "master/watch/store_pace.h"

void store_pace_add(struct store_pace *p, uint64_t count, uint64_t sum_us)
{
    p->samples[p->next].count = count;
    p->samples[p->next].sum_us = sum_us;
    p->next = (p->next + 1) % PACE_SAMPLES;
    p->full = p->full || !p->next;
}

int64_t store_pace_mean(const struct store_pace *p)
{
    int oldest = p->full ? p->next : 0, newest = (p->next + PACE_SAMPLES - 1) % PACE_SAMPLES;
    uint64_t count = p->samples[newest].count - p->samples[oldest].count;
    uint64_t sum = p->samples[newest].sum_us - p->samples[oldest].sum_us;
    return count ? (int64_t)(sum / count) : 0;
}

bool store_pace_is_slow(const struct store_pace *p, int64_t running_us, int64_t limit_us)
{
    return limit_us && (store_pace_mean(p) >= limit_us || running_us >= PACE_STUCK * limit_us);
}
