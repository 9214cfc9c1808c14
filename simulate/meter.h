// The measurements of a simulation: utilization, queue length, and the shares of teams. Private to
// this folder. One thread; the simulation owns it.
#ifndef MUSTER_SIMULATE_METER_H
#define MUSTER_SIMULATE_METER_H

#include "simulate/simulate.h"

enum {
    METER_STEP_S = 300,                // shares are sampled every this many seconds
    METER_STEPS = 86400 / METER_STEP_S // samples in a window
};

struct meter_team { // a team below the root
    double weight, guaranteed, maximum;
    int64_t held,
        demand;      // slots of its running gangs; the same plus the slots that waiting gangs want
    size_t waiting;  // waiting gangs
    double entitled; // slots, for the current demand
    // The window: a ring of consecutive samples during which the team always had waiting gangs.
    double step_held[METER_STEPS], step_entitled[METER_STEPS]; // slot-seconds
    double sum_held, sum_entitled;
    double now_held, now_entitled; // in the current, incomplete sample
    bool did_not_wait;      // the team had no waiting gang at some time of the current sample
    size_t steps;           // consecutive samples so far
    double worst, worst_at; // NaN: no complete window yet; seconds
};

struct simulate_meter {
    int64_t slots;  // of the cluster
    int64_t window; // time of the last submission, microseconds since the first
    struct meter_team *teams;
    size_t team_count;
    bool changed; // a demand changed after the entitlements were computed
    int64_t held, working, gangs, wanted;
    double work_window, work_all;            // slot-seconds
    struct simulate_bin bins[SIMULATE_BINS]; // sums over time until meter_bins()
    int64_t bin_width, at, step;             // at: the current time; step: the number of its sample
};

void meter_init(struct simulate_meter *m, int64_t slots, int64_t window, size_t team_count);
void meter_free(struct simulate_meter *m);
void meter_advance(struct simulate_meter *m, int64_t to); // nothing changes until then

// A gang of `team` starts to wait, gets slots, returns them.
void meter_wait(struct simulate_meter *m, size_t team, int max_slots);
void meter_hold(struct simulate_meter *m, size_t team, int max_slots, int slots);
void meter_release(struct simulate_meter *m, size_t team, int max_slots, int slots);

size_t meter_bins(struct simulate_meter *m,
                  struct simulate_bin *out); // averages; call it once, at the end

struct simulate_spread spread_of(double *values, size_t count); // sorts the values

#endif
