// Whether the store commits too slowly, from samples that are taken about once a second. Pure.
#ifndef MUSTER_MASTER_WATCH_STORE_PACE_H
#define MUSTER_MASTER_WATCH_STORE_PACE_H

#include <stdbool.h>
#include <stdint.h>

enum {
    PACE_SAMPLES = 60, // of which the mean commit time is taken
    PACE_STUCK = 5,    // a single commit that runs for so many times the limit is too slow, too
};

struct store_pace { // initialized by zeroing
    struct {
        uint64_t count, sum_us;
    } samples[PACE_SAMPLES]; // totals since the start; a ring
    int next;
    bool full;
};

// Adds the totals of all commits so far: their number, and their time in microseconds.
void store_pace_add(struct store_pace *p, uint64_t count, uint64_t sum_us);

// The mean time of the commits between the oldest and the newest sample; 0: there were none.
int64_t store_pace_mean(const struct store_pace *p);

// `running_us`: how long the running commit takes so far; 0: none runs. limit_us 0: never too slow.
bool store_pace_is_slow(const struct store_pace *p, int64_t running_us, int64_t limit_us);

#endif
