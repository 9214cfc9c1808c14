// Runs a seed in a process of its own, and shrinks the plan of a seed that fails. A run gets the
// list of outside events to leave out. The parent's thread.
#ifndef TESTS_SIM_SHRINK_H
#define TESTS_SIM_SHRINK_H

#include <sys/types.h>

#include "tests/sim/world.h"

struct seed_job {
    uint64_t seed;
    int trace;
    bool quiet;
    bool left_out[PLAN_MAX];
    struct verdict *verdict; // shared with the child
};

pid_t job_start(const struct seed_job *j, struct db *template);
bool job_failed(const struct seed_job *j,
                int status); // fills in the verdict of a child that crashed

// Leaves out as many events as possible while the same invariant breaks, within the time limit;
// returns how many are left.
int job_shrink(struct seed_job *j, struct db *template, int64_t us);

#endif
