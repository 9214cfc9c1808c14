// What the simulator reads off while time passes: use, the queue, and whether teams get their
// share. Inside of this folder. One thread; the simulation owns it.
#ifndef MUSTER_SIMULATE_METER_H
#define MUSTER_SIMULATE_METER_H

#include "simulate/simulate.h"

enum {
    METER_STEP_S = 300,                // shares are looked at in steps of so many seconds
    METER_STEPS = 86400 / METER_STEP_S // of a window
};

struct meter_team { // of the organisation
    double weight, guaranteed, maximum;
    int64_t held, demand; // slots: of its gangs; the same and what those that wait would take
    size_t waiting;       // gangs
    double entitled;      // slots, of today's demand
    // The window: a ring of steps throughout which it had gangs waiting, without a gap.
    double step_held[METER_STEPS], step_entitled[METER_STEPS]; // slot-seconds
    double sum_held, sum_entitled;
    double now_held, now_entitled; // of the step that is not yet complete
    bool was_fed;                  // in that step there was a time when it had nothing waiting
    size_t steps;                  // without a gap so far
    double worst, worst_at;        // NaN: no full window yet; seconds
};

struct meter {
    int64_t slots;  // of the cluster
    int64_t window; // end of the submissions, microseconds since the first
    struct meter_team *teams;
    size_t team_count;
    bool changed; // somebody's demand, since entitlements were worked out
    int64_t held, working, gangs, wanted;
    double work_window, work_all;            // slot-seconds
    struct simulate_bin bins[SIMULATE_BINS]; // sums over their time until meter_bins()
    int64_t bin_width, at, step; // at: the time, step: the number of the step that it is in
};

void meter_init(struct meter *m, int64_t slots, int64_t window, size_t team_count);
void meter_free(struct meter *m);
void meter_advance(struct meter *m, int64_t to); // all stayed as it is now until then

// Gang of `team`: comes to wait, gets slots, gives them back.
void meter_wait(struct meter *m, size_t team, int max_slots);
void meter_hold(struct meter *m, size_t team, int max_slots, int slots);
void meter_release(struct meter *m, size_t team, int max_slots, int slots);

size_t meter_bins(struct meter *m, struct simulate_bin *out); // averages; call once, at the end

struct simulate_spread spread_of(double *values, size_t count); // sorts them

#endif
