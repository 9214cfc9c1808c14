// The order of the work on several machines, as a state machine over a table of steps. Pure: the
// caller asks for work, does it in any number of threads, and reports the outcome; it locks the
// plan.
//
// Each machine goes through the steps of its roles in the order of the table and ends at its first
// failure, which does not stop the others. A gate makes a step wait for other machines.
#ifndef MUSTER_CLI_CLUSTER_PLAN_H
#define MUSTER_CLI_CLUSTER_PLAN_H

#include <stdbool.h>
#include <stddef.h>

enum { ROLE_MASTER = 1, ROLE_AGENT = 2, ROLE_BOTH = 3 };

enum plan_gate {
    GATE_NONE,
    GATE_ALL,      // every machine has done its earlier steps, or has failed
    GATE_ALL_GOOD, // every machine has done its earlier steps; after a failure nobody passes
    GATE_MASTER,   // the master has done its earlier steps; if it failed, nobody passes
};

struct plan_step {
    const char *name;  // "install"
    const char *doing; // "installing"
    int roles;
    enum plan_gate gate;
    bool one_by_one;         // at most plan.at_once machines at a time ..
    bool ends_after_failure; // .. and none begins the step once a machine has failed in it
};

enum plan_state { PLAN_IDLE, PLAN_BUSY, PLAN_DONE, PLAN_FAILED, PLAN_BARRED };

struct plan_machine {
    int roles;
    enum plan_state state;
    size_t step; // of the table: the next one, or the one that runs or has failed
    bool changed;
};

struct work_plan {
    const struct plan_step *steps; // ends with name == NULL
    struct plan_machine *machines; // the first is the master
    size_t count;
    size_t at_once; // of steps that go one by one; at least 1
};

// Sets the roles of a machine before the first call of plan_pick().
void plan_add(struct work_plan *p, size_t machine, int roles);

enum plan_answer { PLAN_RUN, PLAN_WAIT, PLAN_END };
// PLAN_RUN: do machines[*machine].step and report it with plan_report(). PLAN_WAIT: other machines
// must report first. PLAN_END: all are DONE, FAILED, or BARRED by the failure of another machine.
enum plan_answer plan_pick(struct work_plan *p, size_t *machine);
void plan_report(struct work_plan *p, size_t machine, bool failed, bool changed);

#endif
