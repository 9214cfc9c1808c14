// Models of agents and of the tasks on their machines, which keep to the contract of agent/ (what
// is begun, ended and told is decided as in agent/tasks/reconcile.c and agent/agent.c), and of the
// programs in them, which behave as their experiment's character says. World's thread.
#ifndef TESTS_SIM_MACHINES_H
#define TESTS_SIM_MACHINES_H

#include "tests/sim/net.h"

enum task_state { TASK_STARTING, TASK_RUNNING, TASK_EXITED };

struct task { // a part of an allocation on one machine
    struct machine *machine;
    struct run *run;
    struct task *next; // of the machine
    enum task_state state;
    int slots[MACHINE_SLOTS_MAX], slot_count;
    int first_rank, rank_count;
    bool killed, gone; // told to end; not on the machine any more
    int exit_code, exit_signal;
    bool never_ran;
    const char *reason;
    char resources[40]; // DET_RESOURCES_ID

    bool met, left; // its peers; is leaving by itself
    int64_t resume, meet_until;
};

struct run { // an allocation, as its programs see it
    char id[80];
    int64_t experiment, trial, epoch;
    int world; // ranks
    struct task *tasks[MACHINES_MAX];
    int task_count, parts;
    struct run *next;
    const struct character *character;
    int64_t steps, saved; // done; in the newest checkpoint
    bool asked, leaving, acked, ended, stuck;
    int code; // ended: the exit code of all
    int said; // reports
};

struct machine {
    char id[20];
    int number, slots, full; // full: slots it came with
    bool up;                 // its agent runs
    int life;                // of its agent: events of an earlier one are void
    int64_t cut_until;       // no message comes through
    int64_t frozen_until;
    int64_t seen, posted_at, post_at, backoff;
    struct call *poll;
    bool changed;
    json_t *held; // an answer that came while it was frozen
    json_t *slots_json;
    struct task *tasks;
};

struct character { // how the programs of an experiment behave; made of its id
    int64_t step_us, save_us, start_us, leave_us;
    int64_t steps; // to the end
    int save_every, report_every;
    uint32_t fails;             // of 10,000 steps
    int fail_code;              // below 0: a signal
    bool deaf, stubborn, hasty; // to a drain; to SIGTERM; leaves without a last checkpoint
    uint32_t hangs, straggles;  // of 10,000 steps
};

// machines.c
struct machine *machine_add(struct world *w, int slots); // NULL: there are enough
void machine_up(struct world *w, struct machine *m);
void machine_down(struct world *w, struct machine *m); // the agent alone
void machine_crash(struct world *w, struct machine *m, bool keeps_disk);
bool machine_is_cut(const struct world *w, const struct machine *m);
bool machine_stands(const struct world *w, const struct machine *m); // hears and is heard
void machine_set_slots(struct machine *m, int slots);
void machine_wake(struct world *w, struct machine *m); // something to tell
void task_exit(struct world *w, struct task *t, int code, int signal);

// programs.c
struct run *run_find(struct world *w, const char *id); // NULL: none
struct run *run_of(struct world *w, const json_t *task, const json_t *env);
void program_start(struct world *w, struct task *t); // it runs
void program_gone(struct world *w, struct task *t);  // a part of it has ended

// invariants.c
void broken(struct world *w, const char *name, const char *fmt, ...)
    __attribute__((format(printf, 3, 4), noreturn));
struct known_trial *known_trial(struct world *w, int64_t id);
void check_slots(struct world *w, const struct machine *m);
void check_begin(struct world *w, const struct task *t, int64_t resume);
void check_answer(struct world *w, const struct call *c, const struct request *rq);
void check_core(struct world *w);  // after a turn
void check_store(struct world *w); // after a write
void check_start(struct world *w); // of a master
void check_end(struct world *w);
void check_replay(struct world *w); // live state = state replayed from the store

#endif
