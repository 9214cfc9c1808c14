// Runs the production scheduler under a virtual clock, with the jobs of a trace on any cluster, and
// reports how the jobs would have fared. Pure: no clock, no I/O, and the same figures for the same
// input on every machine. Any thread may run one simulation at a time on its own data. The caller
// frees the input, and the figures with simulate_figures_free().
//
// A gang's work takes `length` on `max_slots` slots and proportionally longer on fewer. A preempted
// gang stops working at once, keeps its slots for `drain`, and pays `preempt_cost` before it works
// again. Times are microseconds; the times of a trace may start on any day.
#ifndef MUSTER_SIMULATE_SIMULATE_H
#define MUSTER_SIMULATE_SIMULATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "master/sched/sched.h"

enum {
    SIMULATE_JOBS_MAX = 1000000,
    SIMULATE_NODES_MAX = 4096,
    SIMULATE_NODE_SLOTS_MAX = 1024,
    SIMULATE_GANG_MAX = 8192, // slots
    SIMULATE_TEAMS_MAX = 100000,
    SIMULATE_YEARS_MAX = 10, // limit for the span of submissions and for the length of a job
};
#define SIMULATE_SECOND   INT64_C(1000000)
#define SIMULATE_TIME_MAX (SIMULATE_YEARS_MAX * 366 * 86400 * SIMULATE_SECOND)

struct simulate_team {
    const char *name;
    int parent;     // SCHED_NONE: a team below the root, whose share is measured; otherwise the
                    // index of such a team, for a user
    int64_t weight; // thousandths
    int64_t guaranteed, maximum; // slots; maximum 0: no limit
};

struct simulate_job {
    int64_t submit;
    int64_t length; // of its work on `max_slots` slots; at least 1
    int min_slots, max_slots;
    int priority;
    int team; // index of a user
    bool one_node;
};

struct simulate_trace {
    const struct simulate_team *teams; // users stand after their team
    size_t team_count;
    const struct simulate_job *jobs; // by time of submission
    size_t job_count;
};

struct simulate_node {
    int slots;
    int rack; // SCHED_NONE: unknown
};

struct simulate_options {
    enum sched_policy policy;
    const struct sched_rules *rules; // NULL: the production rules
    int64_t preempt_cost, drain;
    int64_t (*clock_ns)(void); // measures the time of decisions; NULL: decisions are not timed
    // Called from time to time with the fraction of jobs that have ended; false stops the
    // simulation. May be NULL.
    bool (*progress)(void *ctx, double share);
    void *ctx;
};

struct simulate_spread { // of times in seconds; all 0 when count is
    size_t count;
    double mean, p50, p99, max;
};

// Jobs by slots: 1, 2-4, 5-8, 9 and more.
enum { SIMULATE_CLASSES = 4 };
extern const char *const simulate_class_names[SIMULATE_CLASSES];

struct simulate_team_figures { // a team below the root
    const char *name;          // owned by the caller
    size_t jobs;
    double slot_hours; // of work
    double mean_wait;  // seconds
    // The worst window of 24 hours in which the team always had waiting gangs: held slots /
    // entitled slots; and its end in seconds since the first submission. NaN: there was no such
    // window.
    double share, share_at;
};

struct simulate_bin { // averages over a span of time
    double held;      // slots of gangs
    double working;   // those that work rather than drain or pay for a preemption
    double gangs;     // waiting
    double wanted;    // slots that the waiting gangs want
};
enum { SIMULATE_BINS = 1024 }; // limit

struct simulate_figures {
    size_t jobs;      // that ended
    size_t too_large; // left out: they want more slots than the cluster, a node or their team's
                      // maximum has
    size_t stuck;     // that never started although they could have
    int64_t slots;    // of the cluster
    struct simulate_spread completion;             // from submission to end
    double slowdown;                               // mean of max(1, completion / max(length, 10 s))
    struct simulate_spread wait[SIMULATE_CLASSES]; // completion minus length
    double use_window;   // working slots / slots, from the first to the last submission
    double use_makespan; // the same until the end of the last job
    double makespan;     // seconds
    size_t preemptions, resizes, moves, starts;
    size_t events, decisions;
    struct simulate_team_figures *teams;
    size_t team_count;
    double share; // the worst of all teams; NaN: no team waited for 24 hours
    struct simulate_bin *bins;
    size_t bin_count;
    double bin_seconds;
    struct simulate_spread decision; // wall-clock seconds; count 0 without a clock
};

// ERR_INVALID: the input exceeds a limit. ERR_TIMEOUT: progress() returned false.
int simulate(const struct simulate_trace *trace, const struct simulate_node *nodes,
             size_t node_count, const struct simulate_options *options,
             struct simulate_figures *out, struct error *e);
void simulate_figures_free(struct simulate_figures *f);

#endif
