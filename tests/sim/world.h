// A cluster in one thread under a virtual clock: the master's real core over a store in memory, and
// models of everything around it. One seed is one run, exact to the byte.
//
// The world owns it all; what models keep of each other lives until the world ends. Outside events
// (people, faults) are a plan drawn from the seed before the run, so that a failing run can be
// shortened by leaving some of them out. README.md says what is modelled and checked.
#ifndef TESTS_SIM_WORLD_H
#define TESTS_SIM_WORLD_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/rng.h"
#include "db/db.h"
#include "master/kernel/core.h"

enum { MS = 1000, SECOND = 1000 * MS, MINUTE = 60 * SECOND }; // microseconds
enum { MACHINES_MAX = 10, MACHINE_SLOTS_MAX = 8, PLAN_MAX = 160, USERS = 3 };

struct world;
struct call;
struct machine;
struct run;

typedef void event_fire(struct world *w, void *who, int64_t arg);

struct event {
    int64_t at;
    uint64_t order; // of two at one instant the one planned first
    event_fire *fire;
    void *who;
    int64_t arg;
};

struct outside { // an event of the plan
    int64_t at;
    int kind;
    uint32_t a, b, c; // what it makes of them is its own
    bool left_out;
};

struct known_trial {   // what the models know to be true of a trial, by its id
    int64_t durable;   // most steps of a checkpoint whose report was answered
    int64_t epoch;     // newest that was begun anywhere
    int64_t floor;     // steps it must not begin below
    int64_t heard;     // newest epoch that the master has listened to
    int64_t placed;    // newest epoch that the master has placed
    int64_t validated; // most steps of a validation that a program of it sent
    bool done;         // a program of it has left as one does at its end
    int drains;        // that the scheduler asked of it in calm
    int64_t drained;   // epoch of the last
    int64_t leaving;   // since when its allocation ends with all its agents heard; 0: it does not
};

struct acknowledged { // a report that the master has answered
    int64_t trial, epoch, steps;
    char group;
    struct acknowledged *next;
};

struct verdict { // what broke; shared with the process that began the run
    char name[48], text[400];
    int64_t now;
    int plan_count;
    uint64_t steps, checks;
};

struct world {
    uint64_t seed;
    struct verdict *verdict;
    struct arena arena;
    struct rng net, work, choice; // messages; programs; whatever else
    int64_t now, turn_at, calm_at;
    bool calm;            // no more trouble
    struct event *events; // heap from 1
    size_t event_count, event_cap;
    uint64_t order;
    int trace; // 0: silent, 1: outside events, 2: all
    uint64_t steps;

    // master.c
    struct db *db;
    struct db_reader *reader;
    struct core *core; // NULL: down
    bool writing;      // a write of the store is planned
    int64_t slow_until;
    int kill_at_write; // 0: no; else in so many writes from now
    bool kill_before;
    int lives;

    // net.c
    struct call *calls, *all_calls; // in the master; ever
    uint32_t lost, doubled, late;   // of 10,000 messages

    struct machine *machines[MACHINES_MAX];
    int machine_count;
    struct run *runs; // newest first

    struct outside plan[PLAN_MAX];
    int plan_count;
    int64_t experiments;             // highest id that a person has heard of
    int pools, total_slots, largest; // slots of the smallest pool, of the largest machine in each
    bool limited;                    // teams have had maxima: what exceeds them is refused
    int pushes;

    // invariants.c
    struct known_trial *trials;
    size_t trial_cap;
    struct acknowledged *reports;
    uint64_t checks;
};

// world.c
// Keeps trace and verdict as they are in *w.
void world_begin(struct world *w, struct db *template, uint64_t seed);
void world_run(struct world *w); // to its end; a broken invariant ends the process
void world_end(struct world *w);
void at(struct world *w, int64_t when, event_fire *fire, void *who, int64_t arg);
void note(struct world *w, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void note_outside(struct world *w, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
int64_t between(struct rng *r, int64_t low, int64_t high); // both may come
bool chance(struct rng *r, uint32_t of_10000);

// master.c: its lives
void master_begin(struct world *w, struct db *template);
void master_start(struct world *w);
void master_die(struct world *w);  // as by kill -9; comes back later
void master_stop(struct world *w); // as by SIGTERM; comes back later
int64_t master_due(struct world *w);
void master_turn(struct world *w);
void master_end(struct world *w);
const struct core_options *master_options(void); // of this run, from its seed

// people.c and faults.c: the plan, and what each of its events does
struct outside_kind {
    const char *name;
    uint32_t weight;
    void (*happen)(struct world *w, const struct outside *o);
};
extern const struct outside_kind people_kinds[], fault_kinds[]; // end with a NULL name
void plan_make(struct world *w);                                // faults.c
void people_push_on(struct world *w); // in calm: everything is wanted again
bool people_done(struct world *w);

#endif
