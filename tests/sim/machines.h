// Models of agents and of the tasks on their machines, which keep to the contract of agent/ (they
// decide as agent/tasks/reconcile.c and agent/agent.c do), and of the programs in these tasks,
// which behave as the character of their experiment says. World's thread.
#ifndef TESTS_SIM_MACHINES_H
#define TESTS_SIM_MACHINES_H

#include "tests/sim/net.h"

enum task_state { TASK_STARTING, TASK_RUNNING, TASK_EXITED };

struct model_part { // the part of an allocation on one machine
    struct machine *machine;
    struct model_run *run;
    struct model_part *next; // of the same machine
    enum task_state state;
    int slots[MACHINE_SLOTS_MAX], slot_count;
    int first_rank, rank_count;
    bool killed, gone; // ordered to end; not on the machine any more
    int exit_code, exit_signal;
    bool never_ran;
    const char *reason;
    char resources[40]; // DET_RESOURCES_ID

    bool met, left; // it has met its peers; it is leaving by itself
    int64_t resume, meet_until;
};

struct model_run { // an allocation, as its programs see it
    char id[80];
    int64_t experiment, trial, epoch;
    int world; // number of ranks
    struct model_part *tasks[MACHINES_MAX];
    int task_count, parts;
    struct model_run *next;
    const struct character *character;
    int64_t steps, saved; // steps done; steps in the newest checkpoint
    bool asked, leaving, ended, stuck;
    int code; // after its end: the exit code of all ranks
};

struct machine {
    char id[20];
    int number, slots, full; // full: slots that it had at first
    bool up;                 // its agent runs
    int life;                // number of its agent's life; events of earlier lives are ignored
    int64_t cut_until;       // no message passes until then
    int64_t frozen_until;
    int64_t seen, posted_at, post_at, backoff;
    struct sim_call *poll;
    bool changed;
    json_t *held; // an answer that came while it was frozen
    json_t *slots_json;
    struct model_part *tasks;
};

struct character { // how the programs of an experiment behave; derived from its id
    int64_t step_us, save_us, start_us, leave_us;
    int64_t steps; // steps to the end
    int save_every, report_every;
    uint32_t fails; // in 10,000 steps
    int fail_code;  // negative: a signal
    bool ignores_drain, ignores_sigterm;
    bool leaves_unsaved;       // leaves without a last checkpoint
    uint32_t hangs, straggles; // in 10,000 steps
};

// machines.c
struct machine *machine_add(struct world *w, int slots); // NULL: there are enough machines
void machine_up(struct world *w, struct machine *m);
void machine_down(struct world *w, struct machine *m); // only the agent
void machine_crash(struct world *w, struct machine *m, bool keeps_disk);
bool machine_is_cut(const struct world *w, const struct machine *m);
bool machine_stands(const struct world *w, const struct machine *m); // sends and receives messages
void machine_set_slots(struct machine *m, int slots);
void machine_wake(struct world *w, struct machine *m); // it has something to report
void task_exit(struct world *w, struct model_part *t, int code, int signal);

// programs.c
struct model_run *run_find(struct world *w, const char *id); // NULL: none
struct model_run *run_of(struct world *w, const json_t *task, const json_t *env);
void program_start(struct world *w, struct model_part *t); // the task runs now
void program_gone(struct world *w, struct model_part *t);  // a part of the run has ended

// invariants.c
void broken(struct world *w, const char *name, const char *fmt, ...)
    __attribute__((format(printf, 3, 4), noreturn));
struct known_trial *known_trial(struct world *w, int64_t id);
void check_slots(struct world *w, const struct machine *m);
void check_begin(struct world *w, const struct model_part *t, int64_t resume);
void check_answer(struct world *w, const struct sim_call *c, const struct request *rq);
void check_core(struct world *w);  // after a turn
void check_store(struct world *w); // after a write
void check_start(struct world *w); // after a start of the master
void check_end(struct world *w);
void check_replay(struct world *w); // the live state equals a state that is loaded from the store

#endif
