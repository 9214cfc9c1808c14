// One run in a process of its own, and the shortening of one that fails. Any run is told what of
// its plan to leave out. The parent's thread.
#ifndef TESTS_SIM_SHRINK_H
#define TESTS_SIM_SHRINK_H

#include <sys/types.h>

#include "tests/sim/world.h"

struct job {
    uint64_t seed;
    int trace;
    bool quiet;
    bool left_out[PLAN_MAX];
    struct verdict *verdict; // shared with the child
};

pid_t job_start(const struct job *j, struct db *template);
bool job_failed(const struct job *j, int status); // fills what the child could not say itself

// Leaves out as much as can be while the same thing breaks, for so long; how many are left.
int job_shrink(struct job *j, struct db *template, int64_t us);

#endif
