// A cluster in one thread under a virtual clock: the master's real core over a store in memory, and
// models of everything around it. One seed is one run, exact to the byte.
//
// The world owns everything; objects that models share live until the world ends. Outside events
// (people, faults) are a plan that is drawn from the seed before the run, so that a failing run can
// be shrunk by leaving some of them out. README.md says what is modelled and checked.
#ifndef TESTS_SIM_WORLD_H
#define TESTS_SIM_WORLD_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/rng.h"
#include "db/db.h"
#include "master/kernel/core.h"

enum { MS = 1000, SECOND = 1000 * MS, MINUTE = 60 * SECOND }; // in microseconds
enum { MACHINES_MAX = 10, MACHINE_SLOTS_MAX = 8, PLAN_MAX = 160, USERS = 3 };

struct world;
struct sim_call;
struct machine;
struct model_run;

typedef void event_fire(struct world *w, void *who, int64_t arg);

struct sim_event {
    int64_t at;
    uint64_t order; // order of events with the same time: by planning
    event_fire *fire;
    void *who;
    int64_t arg;
};

struct outside { // an event of the plan
    int64_t at;
    int kind;
    uint32_t a, b, c; // arguments, whose meaning depends on the kind
    bool left_out;
};

struct known_trial {   // the truth about a trial, by its id
    int64_t durable;   // most steps of a checkpoint whose report was answered
    int64_t epoch;     // newest epoch that was begun anywhere
    int64_t floor;     // a run must not begin below this step
    int64_t heard;     // newest epoch whose reports the master accepted
    int64_t placed;    // newest epoch that the master has placed
    int64_t validated; // most steps of a validation that one of its programs sent
    bool done;         // one of its programs has left at its end
    int drains;        // number of drains that the scheduler ordered in the calm
    int64_t drained;   // epoch of the last of these
    int64_t leaving; // since when its allocation is ending with all agents connected; 0: it is not
};

struct acknowledged { // a report that the master has answered
    int64_t trial, epoch, steps;
    char group;
    struct acknowledged *next;
};

struct verdict { // the broken invariant; shared with the parent process
    char name[48], text[400];
    int64_t now;
    int plan_count;
    uint64_t steps, checks;
};

struct world {
    uint64_t seed;
    struct verdict *verdict;
    struct arena arena;
    struct rng net, work, choice; // for messages; for programs; for everything else
    int64_t now, turn_at, calm_at;
    bool calm;                // the trouble is over
    struct sim_event *events; // heap, from 1
    size_t event_count, event_cap;
    uint64_t order;
    int trace; // 0: silent, 1: outside events, 2: all events
    uint64_t steps;

    // master.c
    struct db *db;
    struct db_reader *reader;
    struct core *core; // NULL: the master is down
    bool writing;      // a write of the store is planned
    int64_t slow_until;
    int kill_at_write; // the master dies at this write from now; 0: it does not
    bool kill_before;
    int lives;

    // net.c
    struct sim_call *calls, *all_calls; // in the master; all that were ever made
    uint32_t lost, doubled, late;       // in 10,000 messages

    struct machine *machines[MACHINES_MAX];
    int machine_count;
    struct model_run *runs; // newest first

    struct outside plan[PLAN_MAX];
    int plan_count;
    int64_t experiments; // highest id that a person has learned
    int pools, total_slots,
        largest;  // slots of the smallest pool; of the largest machine of each pool
    bool limited; // teams have had maxima: larger jobs are refused
    int pushes;

    // invariants.c
    struct known_trial *trials;
    size_t trial_cap;
    struct acknowledged *reports;
    uint64_t checks;
};

// world.c: keeps trace and verdict of *w.
void world_begin(struct world *w, struct db *template, uint64_t seed);
void world_run(struct world *w); // runs to the end; a broken invariant ends the process
void world_end(struct world *w);
void at(struct world *w, int64_t when, event_fire *fire, void *who, int64_t arg);
void note(struct world *w, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void note_outside(struct world *w, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
int64_t between(struct rng *r, int64_t low, int64_t high); // inclusive
bool chance(struct rng *r, uint32_t of_10000);

// master.c: the lives of the master
void master_begin(struct world *w, struct db *template);
void master_start(struct world *w);
void master_die(struct world *w);  // like kill -9; comes back later
void master_stop(struct world *w); // like SIGTERM; comes back later
int64_t master_due(struct world *w);
void master_turn(struct world *w);
void master_end(struct world *w);
const struct core_options *master_options(void); // of this run, drawn from its seed

// people.c and faults.c: the plan, and the actions of its events
struct outside_kind {
    const char *name;
    uint32_t weight;
    void (*happen)(struct world *w, const struct outside *o);
};
extern const struct outside_kind people_kinds[], fault_kinds[]; // end with a NULL name
void plan_make(struct world *w);                                // faults.c
void people_push_on(struct world *w); // in the calm: activates everything again
bool people_done(struct world *w);

#endif
