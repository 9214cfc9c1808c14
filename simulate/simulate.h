// The production scheduler under a virtual clock: jobs that once came, a cluster that need not be,
// and what would have become of them. Pure: no clock, no input or output, the same figures for the
// same input on any machine. Any thread, one simulation at a time on its own data; the caller frees
// what it gave and, by simulate_figures_free(), what it got.
//
// A gang's work is `length` on `max_slots` slots; on fewer it takes proportionally longer. A gang
// that has to leave stops working at once, keeps its slots for `drain`, and pays `preempt_cost`
// before it goes on working. Times are microseconds; those of a trace may count from any day.
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
    SIMULATE_YEARS_MAX = 10, // from the first submission to the last, and a job's length
};
#define SIMULATE_SECOND   INT64_C(1000000)
#define SIMULATE_TIME_MAX (SIMULATE_YEARS_MAX * 366 * 86400 * SIMULATE_SECOND)

struct simulate_team {
    const char *name;
    int parent;     // SCHED_NONE: a team of the organisation, whose share is looked at; else the
                    // index of one of those: a user
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
    const struct simulate_team *teams; // a user after his team
    size_t team_count;
    const struct simulate_job *jobs; // in the order of submission
    size_t job_count;
};

struct simulate_node {
    int slots;
    int rack; // SCHED_NONE: not known
};

struct simulate_options {
    enum sched_policy policy;
    const struct sched_rules *rules; // NULL: those of production
    int64_t preempt_cost, drain;
    int64_t (*clock_ns)(void); // to time decisions; NULL: they are not timed
    // Called now and then with the share of jobs that have ended; false: stop. May be NULL.
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
int simulate_class_of(int slots);

struct simulate_team_figures { // of a team of the organisation
    const char *name;          // the caller's
    size_t jobs;
    double slot_hours; // of work
    double mean_wait;  // seconds
    // Over 24 hours throughout which it had gangs waiting: slots held / slots entitled to; the
    // worst such window, and its end in seconds since the first submission. NaN: there was none.
    double share, share_at;
};

struct simulate_bin { // averages over a span of time
    double held;      // slots of gangs
    double working;   // of these, doing work rather than paying for a preemption or draining
    double gangs;     // that wait
    double wanted;    // slots that those gangs would take
};
enum { SIMULATE_BINS = 1024 }; // at most

struct simulate_figures {
    size_t jobs;      // that ended
    size_t too_large; // left out: more slots than the cluster, one node or a team's maximum has
    size_t stuck;     // never started, though they could have been
    int64_t slots;    // of the cluster
    struct simulate_spread completion;             // from submission to end
    double slowdown;                               // mean of max(1, completion / max(length, 10 s))
    struct simulate_spread wait[SIMULATE_CLASSES]; // completion less length
    double use_window;   // slots working / slots, from the first submission to the last
    double use_makespan; // the same to the end of the last job
    double makespan;     // seconds
    size_t preemptions, resizes, moves, starts;
    size_t events, decisions;
    struct simulate_team_figures *teams;
    size_t team_count;
    double share; // the worst of all teams; NaN: no team waited for 24 hours
    struct simulate_bin *bins;
    size_t bin_count;
    double bin_seconds;
    struct simulate_spread decision; // seconds of real time; count 0 without a clock
};

// ERR_INVALID: the input breaks a limit; ERR_TIMEOUT: progress() said stop.
int simulate(const struct simulate_trace *trace, const struct simulate_node *nodes,
             size_t node_count, const struct simulate_options *options,
             struct simulate_figures *out, struct error *e);
void simulate_figures_free(struct simulate_figures *f);

#endif
